"""A kind of client of one's own: a Java client all of whose backoffs have their nominal length."""

from dataclasses import replace

from rebalance_sim.protocol.clients.kinds import JAVA, KINDS


def without_jitter(new):
    return KINDS[JAVA].make(replace(new, jitter=lambda: 0.0))


PUNCTUAL = replace(KINDS[JAVA], name="research-punctual", make=without_jitter)
