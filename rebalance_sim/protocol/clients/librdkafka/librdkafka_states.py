"""States of a librdkafka group member, as its log names them, and their legal changes.

Source: client §10 (row "States") and client §10.1. A member has two states at a time: how far it is
with its assignment, and how far with its coordinator. A member of the classic protocol has three
join states more, while it joins; traces of it show which.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from rebalance_sim.protocol.wire.errors import IllegalTransition


class JoinState(Enum):
    """How far a member is with its assignment. The value is the name that librdkafka logs.

    ``is_in_between``: an assignment is being taken over or given up. ``waits_for_application``: a
    rebalance callback is waiting to run, or runs.
    """

    INIT = ("init", False, False)  # nothing is assigned; joins, or has joined and got nothing yet
    WAIT_METADATA = ("wait-metadata", True, False)  # classic: to join, or to assign as the leader
    WAIT_JOIN = ("wait-join", True, False)  # classic: a JoinGroup is in flight
    WAIT_SYNC = ("wait-sync", True, False)  # classic: a SyncGroup is in flight
    WAIT_ASSIGN_CALL = ("wait-assign-call", True, True)
    WAIT_UNASSIGN_CALL = ("wait-unassign-call", True, True)
    WAIT_UNASSIGN_TO_COMPLETE = ("wait-unassign-to-complete", True, False)
    WAIT_INCR_UNASSIGN_TO_COMPLETE = ("wait-incr-unassign-to-complete", True, False)
    STEADY = ("steady", False, False)  # what is assigned is what was asked for, acknowledged or not

    is_in_between: bool
    waits_for_application: bool

    def __new__(cls, name: str, in_between: bool, waits: bool) -> JoinState:
        """Attach the columns to the member of the enumeration."""
        state = object.__new__(cls)
        state._value_ = name
        state.is_in_between = in_between
        state.waits_for_application = waits
        return state


class CoordinatorState(Enum):
    """How far a member is with its coordinator. The value is the name that librdkafka logs."""

    INIT = "init"
    QUERY_COORD = "query-coord"  # a search is due
    WAIT_COORD = "wait-coord"  # a search is under way
    WAIT_BROKER_TRANSPORT = "wait-broker-transport"  # the coordinator is known, not yet connected
    UP = "up"  # requests can be sent
    TERM = "term"  # closed, for good


_J = JoinState

LEGAL_JOIN_TRANSITIONS: Mapping[JoinState, frozenset[JoinState]] = MappingProxyType(
    {
        _J.INIT: frozenset({_J.WAIT_ASSIGN_CALL}),
        _J.STEADY: frozenset({_J.WAIT_ASSIGN_CALL, _J.WAIT_UNASSIGN_CALL, _J.INIT}),
        # An unsubscribe, or a close, may overtake a callback that has not returned yet.
        _J.WAIT_ASSIGN_CALL: frozenset({_J.STEADY, _J.WAIT_UNASSIGN_CALL, _J.INIT}),
        _J.WAIT_UNASSIGN_CALL: frozenset(
            {_J.WAIT_INCR_UNASSIGN_TO_COMPLETE, _J.WAIT_UNASSIGN_TO_COMPLETE, _J.INIT}
        ),
        _J.WAIT_INCR_UNASSIGN_TO_COMPLETE: frozenset(
            {_J.WAIT_ASSIGN_CALL, _J.WAIT_UNASSIGN_CALL, _J.STEADY, _J.INIT}
        ),
        _J.WAIT_UNASSIGN_TO_COMPLETE: frozenset({_J.INIT}),
        # No one joins by a request of its own.
        _J.WAIT_METADATA: frozenset(),
        _J.WAIT_JOIN: frozenset(),
        _J.WAIT_SYNC: frozenset(),
    }
)
"""State -> the states it may change to, of the consumer protocol."""

LEGAL_CLASSIC_JOIN_TRANSITIONS: Mapping[JoinState, frozenset[JoinState]] = MappingProxyType(
    {
        **LEGAL_JOIN_TRANSITIONS,
        # Who rebalances cooperatively joins with what it owns, and may have to give that up.
        _J.INIT: frozenset({_J.WAIT_METADATA, _J.WAIT_JOIN, _J.WAIT_UNASSIGN_CALL}),
        _J.WAIT_METADATA: frozenset({_J.INIT, _J.WAIT_SYNC, _J.WAIT_UNASSIGN_CALL}),
        _J.WAIT_JOIN: frozenset({_J.INIT, _J.WAIT_METADATA, _J.WAIT_SYNC, _J.WAIT_UNASSIGN_CALL}),
        _J.WAIT_SYNC: frozenset({_J.INIT, _J.WAIT_ASSIGN_CALL, _J.WAIT_UNASSIGN_CALL}),
    }
)
"""State -> the states it may change to, of the classic protocol."""


def check_join_transition(
    source: JoinState,
    target: JoinState,
    legal: Mapping[JoinState, frozenset[JoinState]] = LEGAL_JOIN_TRANSITIONS,
) -> None:
    """Raise IllegalTransition unless the table lists the change."""
    if target not in legal[source]:
        raise IllegalTransition(
            f"a librdkafka member cannot go from {source.value} to {target.value}"
        )
