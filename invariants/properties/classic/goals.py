"""What a large sweep with classic groups must have visited."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.property import goal

ORDER = 430

CLASSIC_JOIN = "rebalance.classic.member_joined"
"""Coverage: a classic group began to rebalance for a new member."""

_OF_CLASSIC_GROUPS: Mapping[str, str] = {
    "rebalance.classic.member_left": "A classic member left.",
    "rebalance.classic.session_timeout": "A classic member sent no heartbeat for too long.",
    "rebalance.classic.sync_timeout": "A classic member joined, and did not sync in time.",
    "rebalance.classic.static_replacement": "A static member came back at a bad time.",
    "rebalance.classic.topics_changed": "A leader noticed that topics had changed.",
}
"""What must happen in a sweep with classic groups; the other causes are for special scenarios."""

GOALS = tuple(
    goal(f"sometimes.{name}", sentence, name, only_with=CLASSIC_JOIN)
    for name, sentence in _OF_CLASSIC_GROUPS.items()
)
