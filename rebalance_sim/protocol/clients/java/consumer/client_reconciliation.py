"""Reconciliation: from the target that was received to partitions that the application owns.

Source: client §4, R0-R9, which stand here in their order: stop fetching what goes, commit,
onPartitionsRevoked, take over the new set, onPartitionsAssigned, acknowledge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rebalance_sim.protocol.clients.common.application import (
    Application,
    CallbackTask,
    nobody_waits,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import (
    NO_ASSIGNMENT,
    CallbackKind,
    LocalAssignment,
)
from rebalance_sim.protocol.clients.java.consumer.consumer_commits import Commits
from rebalance_sim.protocol.clients.java.consumer.consumer_core import ConsumerCore
from rebalance_sim.protocol.clients.java.topic_names import TopicNames
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition


@dataclass(slots=True, eq=False)
class Reconciliation:
    """One run from client R3-R9, with the sets as they were when it began.

    ``is_obsolete`` says that the member has rejoined since: the run ends without effect.
    """

    resolved: LocalAssignment
    added: frozenset[TopicPartition]
    revoked: frozenset[TopicPartition]
    is_obsolete: bool = False


class Reconciler:
    """Starts reconciliations, one at a time, and leads each through its steps.

    ``may_revoke_outside_poll``: whether a revocation need not wait for the next ``poll``.
    """

    def __init__(
        self,
        core: ConsumerCore,
        application: Application,
        commits: Commits,
        topic_names: TopicNames,
    ) -> None:
        self._core = core
        self._application = application
        self._commits = commits
        self._running: list[Reconciliation] = []
        self._waits_for_names = False  # and therefore not for a poll; never so before 4.4
        self._has_overtaken_current = False  # what is assigned was taken over, and never finished
        self.topic_names = topic_names
        rules = core.rules
        self.may_revoke_outside_poll = rules.acts_outside_poll or (
            rules.revokes_outside_poll and not core.config.enable_auto_commit
        )

    @property
    def running_count(self) -> int:
        """Reconciliations in client R3-R9; more than one only with a defect."""
        return len(self._running)

    @property
    def being_taken_over(self) -> frozenset[TopicPartition]:
        """What the member will have when the reconciliation that runs is done."""
        return frozenset().union(*(one.resolved.partitions for one in self._running))

    @property
    def waits_for_poll(self) -> bool:
        """Whether the next ``poll`` would start a reconciliation."""
        return self._is_pending and not self._waits_for_names

    @property
    def deadline_ms(self) -> int | None:
        """When metadata may be asked for again, while a target waits for names."""
        if self.topic_names.is_missing and self._is_pending:
            return self.topic_names.deadline_ms
        return None

    @property
    def _is_pending(self) -> bool:
        core = self._core
        return (
            core.state is ClientState.RECONCILING
            and not self._running
            and core.target != core.current
        )

    def on_rejoin(self) -> None:
        """The member joins again: what runs is obsolete, and what was known is forgotten."""
        for reconciliation in self._running:
            reconciliation.is_obsolete = True
        self._has_overtaken_current = False
        self.topic_names.forget()

    # --- client R0-R3 -----------------------------------------------------------------------------

    def run(self, *, in_poll: bool) -> None:
        """client R0-R2, and client R3 if it may begin now."""
        core = self._core
        if core.state is not ClientState.RECONCILING or core.target == core.current:
            return
        if self._running and not self._may_begin_another():
            return
        resolved = LocalAssignment(core.target.local_epoch, self._resolve_target())
        if (
            core.current != NO_ASSIGNMENT
            and resolved.partitions == core.current.partitions
            and not self._has_overtaken_current
        ):
            self._waits_for_names = (
                resolved.local_epoch == core.current.local_epoch
                and not core.rules.repeats_partial_acknowledgement
            )
            if not self._waits_for_names:
                if self._application.blocked_in is None:  # What close revokes stays revoked.
                    core.subscription.call_off_revocation()
                core.current = resolved
                core.change_state(ClientState.ACKNOWLEDGING)
            return
        self._waits_for_names = False
        if in_poll or core.rules.acts_outside_poll or self._may_begin_outside_poll(resolved):
            self._begin(resolved)

    def _may_begin_outside_poll(self, resolved: LocalAssignment) -> bool:
        """Nothing is committed, and no partition is taken away of which the application may be
        about to get records (KAFKA-20332)."""
        return not self._core.config.enable_auto_commit and (
            self.may_revoke_outside_poll
            or resolved.partitions.issuperset(self._core.subscription.assigned)
        )

    def _may_begin_another(self) -> bool:
        """Never, but for a mutant, which does so for each newer target."""
        is_newer = self._running[-1].resolved.local_epoch != self._core.target.local_epoch
        return is_newer and self._core.rules.starts_second_reconciliation

    def _resolve_target(self) -> frozenset[TopicPartition]:
        core = self._core
        partitions = core.target.partitions
        resolved = self.topic_names.resolve(partitions)
        late = self.topic_names.take_late(partitions, resolved)
        if late:
            core.target = core.rules.target_after_late_names(core.target, late)
            resolved = core.target.partitions & resolved
        self.topic_names.request_if_missing()
        return resolved

    def _begin(self, resolved: LocalAssignment) -> None:
        core = self._core
        owned = frozenset(core.subscription.assigned)
        reconciliation = Reconciliation(
            resolved, resolved.partitions - owned, owned - resolved.partitions
        )
        self._running.append(reconciliation)
        if reconciliation.revoked and core.rules.stops_fetching_before_commit:
            core.subscription.mark_pending_revocation(reconciliation.revoked)
        if core.rules.acknowledges_on_receipt:
            core.current = resolved
            core.change_state(ClientState.ACKNOWLEDGING)
        on_done = partial(self._after_commit, reconciliation)
        if not (core.config.enable_auto_commit and self._commits.commit_before_revocation(on_done)):
            self._after_commit(reconciliation)

    # --- client R5-R9 -----------------------------------------------------------------------------

    def _is_aborted(self, reconciliation: Reconciliation) -> bool:
        """The abort check of client R5, R7."""
        if reconciliation.is_obsolete:
            return True
        if self._core.rules.acknowledges_on_receipt:
            return not self._core.state.takes_assignments
        return self._core.state is not ClientState.RECONCILING

    def _after_commit(
        self, reconciliation: Reconciliation, error_code: ErrorCode | None = None
    ) -> None:
        """client R5, R6, however the commit has ended."""
        core = self._core
        if self._is_aborted(reconciliation):
            self._running.remove(reconciliation)
            return
        revoked = reconciliation.revoked.intersection(core.subscription.assigned)
        if not revoked:
            self._before_assigned(reconciliation)
            return
        if not core.rules.stops_fetching_before_commit:
            core.subscription.mark_pending_revocation(revoked)
        if not core.subscription.has_listener:
            self._before_assigned(reconciliation)
            return
        for times_left in reversed(range(core.rules.revoked_callback_count)):
            done = partial(self._after_revoked, reconciliation)
            self._application.queue_callback(
                CallbackTask(
                    CallbackKind.REVOKED,
                    revoked,
                    done if times_left == 0 else nobody_waits,
                    is_obsolete=partial(self._is_aborted, reconciliation),
                )
            )

    def _after_revoked(self, reconciliation: Reconciliation, failed: bool) -> None:
        """client R7, or client R9' after a failure."""
        if failed or self._is_aborted(reconciliation):
            self._running.remove(reconciliation)
            return
        self._before_assigned(reconciliation)

    def _before_assigned(self, reconciliation: Reconciliation) -> None:
        """client R8: the new set is taken over when the assigned callback begins."""
        core = self._core
        if not core.subscription.has_listener:
            core.subscription.assign(reconciliation.resolved.partitions, added_await_callback=False)
            self._finish(reconciliation)
            return
        if core.rules.acknowledges_before_assigned_callback:
            core.current = reconciliation.resolved
            core.change_state(ClientState.ACKNOWLEDGING)
        self._application.queue_callback(
            CallbackTask(
                CallbackKind.ASSIGNED,
                reconciliation.added,
                partial(self._after_assigned, reconciliation),
                may_start=partial(self._take_over, reconciliation),
            )
        )

    def _take_over(self, reconciliation: Reconciliation) -> bool:
        """client R8, as the callback begins; False if the reconciliation has been given up
        meanwhile."""
        core = self._core
        if self._is_aborted(reconciliation) and not (
            core.rules.acknowledges_before_assigned_callback and core.state.takes_assignments
        ):
            self._running.remove(reconciliation)
            return False
        core.subscription.assign(
            reconciliation.resolved.partitions,
            added_await_callback=core.rules.waits_for_assigned_callback,
        )
        return True

    def _after_assigned(self, reconciliation: Reconciliation, failed: bool) -> None:
        """End of client R8, or client R9' after a failure."""
        core = self._core
        if failed:
            self._running.remove(reconciliation)
            self._has_overtaken_current = not core.rules.trusts_current_after_failed_callback
            return
        core.subscription.on_assigned_callback_done(
            None if core.rules.clears_flag_of_all_assigned else reconciliation.added
        )
        self.topic_names.prune()
        self._finish(reconciliation)

    def _finish(self, reconciliation: Reconciliation) -> None:
        """client R9."""
        core = self._core
        self._running.remove(reconciliation)
        if not self._is_aborted(reconciliation):
            core.current = reconciliation.resolved
            self._has_overtaken_current = False
            self._commits.restart_interval()
            if core.state is ClientState.RECONCILING:
                core.change_state(ClientState.ACKNOWLEDGING)
