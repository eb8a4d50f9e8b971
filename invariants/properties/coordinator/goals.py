"""The errors that a large sweep must have seen somebody get."""

from __future__ import annotations

from rebalance_sim.invariants.property import goal
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 420

_ERRORS = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)

GOALS = tuple(
    goal(
        f"sometimes.error.{code.wire_name}",
        f"Somebody was answered {code.name}.",
        f"error.{code.name}",
        f"refusal.{code.name}",
    )
    for code in _ERRORS
)
