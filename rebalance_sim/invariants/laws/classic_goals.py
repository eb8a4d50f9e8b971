"""What a large sweep with classic groups must have visited."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.property import goal

CLASSIC_JOIN = "rebalance.classic.member_joined"
"""Coverage: a classic group began to rebalance for a new member."""

_OF_CLASSIC_GROUPS: Mapping[str, str] = {
    "rebalance.classic.member_left": "A classic member left.",
    "rebalance.classic.session_timeout": "A classic member sent no heartbeat for too long.",
    "rebalance.classic.sync_timeout": "A classic member joined, and did not sync in time.",
    "rebalance.classic.static_replacement": "A static member came back at a bad time.",
    "rebalance.classic.topics_changed": "A leader noticed that topics had changed.",
    "rebalance.classic.enforced": "An application asked for a rebalance.",
    "rebalance.classic.subscription_changed": "A classic member subscribed to something else.",
    "rebalance.classic.write_failed": "An assignment of a classic group could not be written.",
    "error.ILLEGAL_GENERATION": "Somebody was answered ILLEGAL_GENERATION.",
    "error.INVALID_SESSION_TIMEOUT": "A classic member wanted too short a session.",
    "error.MEMBER_ID_REQUIRED": "A classic member was to come again with the id it was given.",
}
"""What must happen in a sweep with classic groups; the other causes are for special scenarios."""

GOALS = tuple(
    goal(f"sometimes.{name.lower()}", sentence, name, only_with=CLASSIC_JOIN)
    for name, sentence in _OF_CLASSIC_GROUPS.items()
)
