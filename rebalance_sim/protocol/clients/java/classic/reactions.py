"""How a classic member reacts to the errors of its coordinator: the one table.

Source: classic §4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from rebalance_sim.protocol.wire.errors import ErrorCode


class Api(Enum):
    """The requests whose answers the table is about."""

    JOIN_GROUP = "JoinGroup"
    SYNC_GROUP = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    OFFSET_COMMIT = "OffsetCommit"


class Reset(Enum):
    """What the client forgets, if its generation is still the one that the request was sent in."""

    NOTHING = "nothing"
    GENERATION = "generation"
    MEMBER_ID = "generation and member id"


class Then(Enum):
    """What follows."""

    RETRY = "join again at once"
    BACK_OFF = "try again after a backoff"
    ADOPT_MEMBER_ID = "take the member id over and join again at once"
    REJOIN = "nothing is wrong, but join again in the next poll"
    FAIL = "the request has failed for good, and the client continues"
    RAISE = "the application's next call raises, and nothing continues"


class Reaction(NamedTuple):
    """One cell of the table."""

    then: Then
    reset: Reset = Reset.NOTHING
    forgets_coordinator: bool = False


_E = ErrorCode
_LOST = Reaction(Then.BACK_OFF, forgets_coordinator=True)
_UNKNOWN = Reaction(Then.RETRY, Reset.MEMBER_ID)
_LATER = Reaction(Then.BACK_OFF)

REACTIONS: Mapping[Api, Mapping[ErrorCode, Reaction]] = MappingProxyType(
    {
        Api.JOIN_GROUP: MappingProxyType(
            {
                _E.COORDINATOR_NOT_AVAILABLE: _LOST,
                _E.NOT_COORDINATOR: _LOST,
                _E.COORDINATOR_LOAD_IN_PROGRESS: _LATER,
                _E.MEMBER_ID_REQUIRED: Reaction(Then.ADOPT_MEMBER_ID),
                _E.UNKNOWN_MEMBER_ID: _UNKNOWN,
                _E.REBALANCE_IN_PROGRESS: Reaction(Then.RETRY),
            }
        ),
        Api.SYNC_GROUP: MappingProxyType(
            {
                _E.COORDINATOR_NOT_AVAILABLE: _LOST,
                _E.NOT_COORDINATOR: _LOST,
                # COORDINATOR_LOAD_IN_PROGRESS is not in Kafka's list here, and therefore fatal.
                _E.UNKNOWN_MEMBER_ID: _UNKNOWN,
                _E.ILLEGAL_GENERATION: Reaction(Then.RETRY, Reset.GENERATION),
                _E.REBALANCE_IN_PROGRESS: Reaction(Then.RETRY),
            }
        ),
        Api.HEARTBEAT: MappingProxyType(
            {
                _E.COORDINATOR_NOT_AVAILABLE: _LOST,
                _E.NOT_COORDINATOR: _LOST,
                _E.UNKNOWN_MEMBER_ID: Reaction(Then.BACK_OFF, Reset.MEMBER_ID),
                _E.ILLEGAL_GENERATION: Reaction(Then.BACK_OFF, Reset.GENERATION),
                _E.REBALANCE_IN_PROGRESS: Reaction(Then.REJOIN),
                _E.FENCED_INSTANCE_ID: Reaction(Then.RAISE, Reset.MEMBER_ID),
            }
        ),
        Api.OFFSET_COMMIT: MappingProxyType(
            {
                _E.COORDINATOR_NOT_AVAILABLE: _LOST,
                _E.NOT_COORDINATOR: _LOST,
                _E.REQUEST_TIMED_OUT: _LOST,
                _E.COORDINATOR_LOAD_IN_PROGRESS: _LATER,
                _E.UNKNOWN_TOPIC_OR_PARTITION: _LATER,
                _E.UNKNOWN_TOPIC_ID: _LATER,
                _E.UNKNOWN_MEMBER_ID: Reaction(Then.FAIL, Reset.MEMBER_ID),
                _E.ILLEGAL_GENERATION: Reaction(Then.FAIL, Reset.GENERATION),
                _E.REBALANCE_IN_PROGRESS: Reaction(Then.REJOIN),
                _E.FENCED_INSTANCE_ID: Reaction(Then.RAISE),
            }
        ),
    }
)
"""Request -> error -> reaction, for every error that Kafka lists."""

UNLISTED: Mapping[Api, Reaction] = MappingProxyType(
    {
        Api.JOIN_GROUP: Reaction(Then.RAISE),
        Api.SYNC_GROUP: Reaction(Then.RAISE),
        Api.HEARTBEAT: _LATER,
        Api.OFFSET_COMMIT: Reaction(Then.FAIL),
    }
)
"""Request -> reaction to any error that Kafka does not list."""


def reaction_to(api: Api, error_code: ErrorCode) -> Reaction:
    """The cell of the table; any error that is not listed has the request's own reaction."""
    return REACTIONS[api].get(error_code, UNLISTED[api])
