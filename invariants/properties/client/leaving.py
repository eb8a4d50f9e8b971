"""The end of a membership: it is told, and the application goes on.

Sources: client C28, §6.2, §10.1; classic §4.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Finding, Interest, Kind, Late, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CallReturned,
    ClassicHeartbeatAnswered,
    Close,
    CloseConnection,
    CommitAnswered,
    CoordinatorConnectionClosed,
    Disconnected,
    HeartbeatAnswered,
    JoinGroupAnswered,
    MembershipOperation,
    OffsetFetchAnswered,
    OwnStateChanged,
    PollingResumed,
    SendHeartbeat,
    SendLeaveGroup,
    SyncGroupAnswered,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.kinds import (
    CLASSIC,
    CLASSIC_KINDS,
    EVERY_KIND,
    LIBRDKAFKA_KINDS,
)
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import COORDINATOR_STATE
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 330

_REFUSALS = (
    HeartbeatAnswered,
    JoinGroupAnswered,
    SyncGroupAnswered,
    ClassicHeartbeatAnswered,
    CommitAnswered,
)
"""Answers by which a client may learn that it is no member any more."""

_NOBODY_TO_TELL = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
"""Errors of a JoinGroup after which a classic client has no member id, or no coordinator."""


class LeaveCompletes(Property):
    """client C28."""

    id = "client.leave.completes"
    sentence = "unsubscribe and close of clients of either protocol return within their timeouts."
    clauses = ("client C28", "classic §4.5")
    violated_by = ("mut-client-leave-needs-success",)
    kind = Kind.EVENTUALLY
    deadline = Deadline.END

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Clients that still wait."""
        for name, entry in self.model.every_client():
            member = entry.member
            if (
                member.leave_is_pending
                and member.blocked_in is not None
                and member.running_callback is None
            ):
                yield Late(name, f"still waits for its leave in {member.state.value}")


class LeaveSent(Property):
    """client §6.2, classic §4.5: a member that goes in good order says so. Without a coordinator
    there is nobody to tell; a static member of the classic protocol says nothing."""

    id = "client.leave.sent"
    sentence = (
        "unsubscribe and close of a member of either protocol that knows its coordinator, and is "
        "refused nothing meanwhile, do not return before a leave was sent, unless it is a classic "
        "member that stays; but unsubscribe of librdkafka returns at once, and its close sends no "
        "leave where the connection to the coordinator was lost. A classic Java client that nobody "
        "polls reads the answer to its JoinGroup when it closes."
    )
    clauses = ("client §6.2", "client §1.3", "client §10.1", "classic §4.2", "classic §4.5")
    violated_by = ("test:goes-without-a-word",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(
        events=(
            Close,
            Unsubscribe,
            Disconnected,
            CoordinatorConnectionClosed,
            OffsetFetchAnswered,
            PollingResumed,
            *_REFUSALS,
        ),
        effects=(SendHeartbeat, SendLeaveGroup, CallReturned, CloseConnection),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._owes: set[str] = self.of_process(set())
        """Clients that have to send a leave before a call returns."""
        self._unread: set[str] = self.of_process(set())
        """Classic Java clients that are to learn from a JoinGroup that they have nobody to tell."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is there somebody to tell, and something?"""
        member = entry.member
        kind = type(step.event)
        if kind is OffsetFetchAnswered and member.coordinator_id is not None:
            return None
        if kind is JoinGroupAnswered or kind is PollingResumed:
            self._note_unread(step.event, entry)
        if kind is PollingResumed:
            return None
        is_told = (
            (kind is Close or (kind is Unsubscribe and entry.kind not in LIBRDKAFKA_KINDS))
            and entry.state.is_in_group
            and entry.member_epoch > 0
            and member.coordinator_id is not None
            and entry.name not in self._unread
            and not (entry.kind in CLASSIC_KINDS and self._goes_silently(step.event, entry))
        )
        if is_told:
            self._owes.add(entry.name)
        else:
            self._owes.discard(entry.name)
        return None

    def _note_unread(
        self, event: JoinGroupAnswered | PollingResumed, entry: AnyClientEntry
    ) -> None:
        if (
            type(event) is JoinGroupAnswered
            and event.response.error_code in _NOBODY_TO_TELL
            and entry.kind == CLASSIC
            and not entry.member.is_polling
        ):
            self._unread.add(entry.name)
        else:
            self._unread.discard(entry.name)

    @staticmethod
    def _goes_silently(event: Close | Unsubscribe, entry: AnyClientEntry) -> bool:
        if (
            type(event) is Close
            and event.operation is not MembershipOperation.DEFAULT
            and entry.kind not in LIBRDKAFKA_KINDS  # It knows no such option.
        ):
            return event.operation is MembershipOperation.REMAIN_IN_GROUP
        return entry.member.config.group_instance_id is not None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Has it been told when the call returns?"""
        if entry.name not in self._owes:
            return None
        for effect in step.effects:
            if type(effect) is CallReturned:
                self._owes.discard(entry.name)
                if _ends_without_connection(step):
                    return None
                return Finding(
                    f"{effect.call.value} of {entry.name} returns, and no leave was sent",
                    client=entry.name,
                )
            if type(effect) in (SendLeaveGroup, CloseConnection) or (
                type(effect) is SendHeartbeat and effect.request.member_epoch < 0
            ):
                self._owes.discard(entry.name)
                return None
        if entry.member.coordinator_id is None:
            self._owes.discard(entry.name)
        return None


def _ends_without_connection(step: Step) -> bool:
    """Whether librdkafka's close ends in any state of the coordinator but ``up``: it had closed the
    connection itself, maybe before the call, and none has come about since."""
    return any(
        type(effect) is OwnStateChanged
        and effect.what == COORDINATOR_STATE
        and effect.to_state == CoordinatorState.TERM.value
        and effect.from_state != CoordinatorState.UP.value
        for effect in step.effects
    )
