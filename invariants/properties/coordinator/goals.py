"""The errors that a large sweep must have seen somebody get, and what administrators achieved."""

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
    ErrorCode.UNSUPPORTED_ASSIGNOR,
)

_OF_ADMINISTRATORS = {
    "members_remove.NONE": "An administrator removed members.",
    "members_remove.UNKNOWN_MEMBER_ID": "An administrator removed a member that was none.",
    "group_delete.NONE": "An administrator deleted a group.",
    "group_delete.NON_EMPTY_GROUP": "An administrator was not to delete a group with members.",
    "offsets_alter.NONE": "An administrator set offsets.",
    "offsets_alter.UNKNOWN_MEMBER_ID": "An administrator was not to set offsets of a group.",
    "offsets_delete.NONE": "An administrator deleted offsets.",
    "offsets_delete.GROUP_SUBSCRIBED_TO_TOPIC": "Offsets of a subscribed topic were not deleted.",
}

GOALS = (
    *(
        goal(
            f"sometimes.error.{code.name.lower()}",
            f"Somebody was answered {code.name}.",
            f"error.{code.name}",
            f"refusal.{code.name}",
        )
        for code in _ERRORS
    ),
    goal(
        "sometimes.settings_altered",
        "An administrator altered the settings of a group.",
        "fault.group_config_change",
    ),
    goal("sometimes.write_failed", "A coordinator could not write.", "situation.failed_write"),
    *(
        goal(f"sometimes.admin.{counter.lower()}", sentence, f"admin.{counter}")
        for counter, sentence in _OF_ADMINISTRATORS.items()
    ),
)
