"""What a run has visited, as far as only the checker can see it:
the counters of reachability goals."""

from __future__ import annotations

from collections import Counter

from rebalance_sim.invariants.laws.goals import COMPUTATION_NOTIFIED
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Interest
from rebalance_sim.invariants.step import Step, shard_of
from rebalance_sim.protocol.clients.common.effects import StateChanged
from rebalance_sim.protocol.clients.common.events import HeartbeatAnswered
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.consumer.reconciliation import Situation
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.assignment_messages import ConsumerGroupInstallAssignmentRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import CurrentAssignmentValue, MemberState

_STABLE = MemberState.STABLE
_UNREVOKED = MemberState.UNREVOKED_PARTITIONS
_UNRELEASED = MemberState.UNRELEASED_PARTITIONS
_UNCHANGED = {
    state: f"reconciliation.{state.name}.{row.name}"
    for state, row in (
        (_STABLE, Situation.RECONCILED),
        (_UNREVOKED, Situation.NOT_ACKNOWLEDGED),
        (_UNRELEASED, Situation.MUST_WAIT),
    )
}
"""What is counted where a heartbeat wrote nothing, by the state of its sender."""


class Visits:
    """Listens like an invariant, judges nothing, counts.

    ``reconciliation.UNREVOKED_PARTITIONS.CAN_COMPLETE``  rows of the reconciliation table
    ``situation.static_replacement``                      coincidences worth having seen
    ``refusal.FENCED_MEMBER_EPOCH``                       error codes of heartbeats
    """

    interest = Interest(effects=(StateChanged,))

    def __init__(self, model: ModelView) -> None:
        self.model = model
        self.counts: Counter[str] = Counter()

    # -- reconciliation --------------------------------------------------------------------

    def on_change(self, step: Step, change: Change) -> None:
        """Count rows of the table that wrote something, and what befell members."""
        for before, after in change.members.values():
            if after is None or after.current is None:
                continue
            old = before.current if before else None
            if old is after.current:
                continue
            row = _row(old, after.current, change.ledger)
            if row is not None:
                self.counts[f"reconciliation.{row[0].name}.{row[1].name}"] += 1
            if after.epoch == STATIC_LEAVE_EPOCH:
                self.counts["situation.static_leave"] += 1
        if change.is_new_target:
            self.counts["situation.new_target"] += 1
            if change.ledger.unrevoked_count:
                self.counts["situation.target_during_revocation"] += 1
            if change.target_epoch[1] - change.target_epoch[0] > 1:
                self.counts["situation.epochs_skipped"] += 1
        removed = change.removed()
        if removed and type(step.request) is ConsumerGroupHeartbeatRequest:
            is_leave = step.request.member_epoch < JOIN_EPOCH
            name = "leave" if is_leave else "static_replacement"
            self.counts[f"situation.{name}"] += 1
            if any(
                entry is not None and entry.state is _UNREVOKED
                for entry in (change.members[m][0] for m in removed)
            ):
                self.counts["situation.leave_during_revocation"] += 1

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> None:
        """Count rows that wrote nothing, and accepted epochs that are not the present one."""
        request = step.request
        if step.response.should_compute_assignment:
            self.counts[COMPUTATION_NOTIFIED] += 1
            sender = step.response.member_id
            chosen = self.model.computations.chosen.get(shard_of(step).name, sender)
            if chosen != sender:
                self.counts["computation.replaced"] += 1
        if before is None or before.current is None or request.member_epoch < JOIN_EPOCH:
            return
        if request.member_epoch == JOIN_EPOCH:
            self.counts["situation.rejoin_accepted"] += 1
        elif request.member_epoch < before.epoch:
            self.counts["situation.lost_response_accepted"] += 1
        entry = self.model.ledger_of(shard_of(step)).members.get(request.member_id)
        if entry is not None and entry.current is before.current:
            name = _UNCHANGED.get(before.state)
            if name is not None:
                self.counts[name] += 1

    def on_assignment_request(self, step: Step) -> None:
        """Count what becomes of computed targets."""
        request, code = step.request, step.response.error_code
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            self.counts["computation.stale_epoch"] += 1
        if type(request) is not ConsumerGroupInstallAssignmentRequest:
            return
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.counts["computation.refused_late"] += 1
        given = self.model.computations.prepared(shard_of(step).name, request)
        if code is not ErrorCode.NONE or given is None:
            return
        self.counts["computation.installed"] += 1
        if self.model.ledger_of(shard_of(step)).group_epoch > given.group_epoch:
            self.counts["computation.installed_late"] += 1

    def on_unloaded(self, step: Step) -> None:
        """Count coordinators that are lost while they wait for a member."""
        if shard_of(step).name in self.model.computations.chosen:
            self.counts["computation.failover"] += 1

    def on_read(self, step: Step) -> None:
        """Count reads, and those that had to leave something out."""
        self.counts["situation.read"] += 1
        shard = shard_of(step)
        if shard.log_end_offset > shard.high_watermark:
            self.counts["situation.read_beside_uncommitted"] += 1

    # -- faults ----------------------------------------------------------------------------

    def on_refused(self, step: Step, before: MemberEntry | None) -> None:
        """Count the codes."""
        code: ErrorCode = step.response.error_code
        self.counts[f"refusal.{code.name}"] += 1

    def on_timer_fired(self, step: Step, change: Change | None) -> None:
        """Count timers that did something."""
        key: TimerKey = step.event
        if change is not None:
            self.counts[f"timer.{key.kind}"] += 1

    def on_loaded(self, step: Step, ledger: GroupLedger) -> None:
        """Count loads by what they met."""
        self.counts["situation.load"] += 1
        states = {entry.state for entry in ledger.members.values()}
        if _UNREVOKED in states:
            self.counts["situation.failover_during_revocation"] += 1
        if _UNRELEASED in states:
            self.counts["situation.failover_while_waiting"] += 1
        if ledger.group_epoch > ledger.target_epoch:
            self.counts["situation.failover_before_target"] += 1
        shard = shard_of(step)
        if shard.log_end_offset > shard.high_watermark:
            self.counts["situation.load_beyond_high_watermark"] += 1

    def on_truncated(self, step: Step) -> None:
        """Count lost tails, and batches that could not be written."""
        is_leader = shard_of(step).is_active
        self.counts["situation.failed_write" if is_leader else "situation.truncation"] += 1

    def on_effects(self, step: Step, entry: ClientEntry) -> None:
        """Count fences that come while a client is leaving anyway."""
        if (
            entry.state is ClientState.PREPARE_LEAVING
            and type(step.event) is HeartbeatAnswered
            and step.event.response.error_code
            and entry.member.state is ClientState.UNSUBSCRIBED
        ):
            self.counts["situation.fenced_while_leaving"] += 1

    def on_client_gone(self, step: Step, entry: ClientEntry) -> None:
        """Count crashes by what they interrupted."""
        self.counts[f"situation.crash_in_{entry.state.value.lower()}"] += 1

    def on_ownership(self, step: Step) -> None:
        """Count steps in which a zombie shares a partition with its new owner."""
        self.counts["situation.zombie_fetches"] += 1


def _row(
    old: CurrentAssignmentValue | None, new: CurrentAssignmentValue, ledger: GroupLedger
) -> tuple[MemberState, Situation] | None:
    """The row of the reconciliation table that leads from one record 8 to the next."""
    before = _STABLE if old is None else old.state
    if new.member_epoch == STATIC_LEAVE_EPOCH or before is MemberState.UNKNOWN:
        return None
    kept_epoch = old is not None and old.member_epoch == new.member_epoch
    if new.state is _UNREVOKED:
        is_give_up = old is not None and (
            old.pending_revocation.keys() <= new.pending_revocation.keys()
            if before is _UNREVOKED
            else before is _STABLE and new.member_epoch == ledger.target_epoch
        )
        return before, Situation.UNSUBSCRIBED_HELD if is_give_up else Situation.MUST_REVOKE
    if new.state is _UNRELEASED:
        return before, Situation.MUST_WAIT
    if kept_epoch and before is _STABLE:
        return before, Situation.UNSUBSCRIBED_RELEASED
    return before, Situation.CAN_COMPLETE
