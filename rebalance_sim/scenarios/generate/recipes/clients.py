"""Coincidences about applications that become others, and what a library is in the middle of."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.protocol.clients.kinds import (
    CLASSIC,
    FRANZ,
    FRANZ_CLASSIC,
    JAVA,
    LIBRDKAFKA,
    LIBRDKAFKA_CLASSIC,
    LIBRDKAFKA_KINDS,
)
from rebalance_sim.scenarios.generate.recipes._steps import grown
from rebalance_sim.sim.client.client_checks import takes_assignors
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.clients import ClientClose, SubscriptionChange
from rebalance_sim.sim.faults.connections import ClientPartition
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.deployments import ClientRedeploy
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.targets import Targets

_SOON_MS = (1, 3_000)
_STAYS_MS = (1_000, 8_000)
_DOWN_MS = (200, 3_000)
_LOOK_UPS = 3
_OTHER_LIBRARY = {
    JAVA: LIBRDKAFKA,
    LIBRDKAFKA: JAVA,
    CLASSIC: LIBRDKAFKA_CLASSIC,
    LIBRDKAFKA_CLASSIC: CLASSIC,
    FRANZ: JAVA,
    FRANZ_CLASSIC: CLASSIC,
}


def pattern_to_names(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """An application subscribes to a pattern, and then to the names that it has matched: the
    pattern goes, and the topics stay as they are."""
    client = targets.client(draw)
    names = targets.topic_names
    names_ms = targets.within(at_ms + draw.between(_STAYS_MS))
    yield SubscriptionChange(at_ms=at_ms, client=client.name, topic_regex="|".join(names))
    yield SubscriptionChange(at_ms=names_ms, client=client.name, topics=names)


def other_application(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """An application is deployed again, with the other library, and with other topics."""
    client = targets.client(draw)
    kind = _OTHER_LIBRARY[client.kind]
    names = targets.topic_names
    yield ClientRedeploy(
        at_ms=at_ms,
        client=client.name,
        down_ms=draw.between(_DOWN_MS),
        graceful=draw.chance(0.7),
        to_kind=kind if takes_assignors(kind, client.assignors) else None,
        topics=tuple(draw.some(names, 0.5)),
    )


def unsubscribed_in_rebalance(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A client comes back, and while the others make room for it one of them, of librdkafka if
    there is such a client, unsubscribes and subscribes again."""
    client = _of_librdkafka(draw, targets)
    names = targets.read_by(client)
    off_ms = targets.within(at_ms + draw.between(_SOON_MS))
    again_ms = targets.within(off_ms + draw.between(_STAYS_MS))
    yield from _comes_back(draw, targets, at_ms)
    yield SubscriptionChange(at_ms=off_ms, client=client.name)
    yield SubscriptionChange(at_ms=again_ms, client=client.name, topics=names)


def growth_in_rebalance(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A client comes back, and a topic of one of librdkafka, if there is such a client, grows in
    the middle of the rebalance."""
    client = _of_librdkafka(draw, targets)
    topics = [topic for topic in targets.topics if topic.name in client.topics]
    topic = draw.pick(topics or list(targets.topics))
    yield from _comes_back(draw, targets, at_ms)
    yield grown(topic, at_ms + draw.between(_SOON_MS), draw, 6)


def failed_look_ups(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """The coordinator moves, and a client can reach no broker for as long as several look-ups for
    it take to fail."""
    client = targets.client(draw)
    length_ms = _LOOK_UPS * client.request_timeout_ms + draw.between(_STAYS_MS)
    yield ClientPartition(at_ms=at_ms, duration_ms=length_ms, client=client.name)
    yield CoordinatorMove(at_ms=at_ms + draw.between(_SOON_MS))


def _of_librdkafka(draw: Draw, targets: Targets) -> ClientSpec:
    candidates = [client for client in targets.clients if client.kind in LIBRDKAFKA_KINDS]
    return draw.pick(candidates or list(targets.clients))


def _comes_back(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A client closes a moment before ``at_ms``, and is back then."""
    down_ms = draw.between(_DOWN_MS)
    client = targets.client(draw).name
    yield ClientClose(at_ms=max(0, at_ms - down_ms), client=client, down_ms=down_ms)
