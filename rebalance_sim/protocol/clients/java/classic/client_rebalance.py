"""One rebalance as a member goes through it: prepare, JoinGroup, SyncGroup, completion.

Source: classic §3, §4.2. Whatever concerns the application (prepare, sending of a JoinGroup,
completion, callbacks) happens inside ``poll``; the answer to a JoinGroup is looked at by the
application while it polls, the answer to a SyncGroup by the heartbeat thread as well.
"""

from __future__ import annotations

from functools import partial

from rebalance_sim.protocol.clients.common.application import Application, nobody_waits
from rebalance_sim.protocol.clients.common.classic_topics import TopicCatalogue
from rebalance_sim.protocol.clients.common.effects import RequestMetadata
from rebalance_sim.protocol.clients.common.values import CallbackKind, FetchState, LocalAssignment
from rebalance_sim.protocol.clients.java.classic.classic_commits import ClassicCommits
from rebalance_sim.protocol.clients.java.classic.classic_core import ClassicCore
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.java.classic.joining import Joining
from rebalance_sim.protocol.clients.java.classic.prepare import Prepare, call_back
from rebalance_sim.protocol.clients.java.classic.reactions import Reset
from rebalance_sim.protocol.runtime.rebalance_causes import REASONS, RebalanceCause
from rebalance_sim.protocol.wire.embedded import NamedPartitions
from rebalance_sim.protocol.wire.topics import TopicPartition


class Rebalance:
    """Joining, over and over, as long as something asks for it."""

    def __init__(
        self,
        core: ClassicCore,
        application: Application,
        commits: ClassicCommits,
        catalogue: TopicCatalogue,
        joining: Joining,
    ) -> None:
        self._core = core
        self._application = application
        self._commits = commits
        self._catalogue = catalogue
        self._joining = joining
        self._prepare = Prepare(core, application, commits, catalogue)
        self._completing = False  # callbacks of the completion are to run, or run
        self._prepare.on_over = self._after_prepare
        joining.on_synced = self._on_synced

    # --- who wants what ---------------------------------------------------------------------------

    def is_done(self) -> bool:
        """Whether nothing of a rebalance is under way, or wanted."""
        joining = self._joining
        return not (
            self._core.rejoin_needed
            or joining.is_stuck
            or joining.is_in_flight()
            or joining.assigned is not None
            or self._completing
            or not self._prepare.is_idle()
        )

    @property
    def poll_due_ms(self) -> int | None:
        """From when on a ``poll`` continues with a rebalance; None: not before something
        happens."""
        core, joining = self._core, self._joining
        if joining.assigned is not None:
            return core.now_ms
        if not self.wants_join() or joining.is_in_flight() or core.coordinator_id is None:
            return None
        if not self._prepare.is_idle():
            return max(core.now_ms, self._prepare.poll_due_ms)
        return max(core.now_ms, joining.retry_due_ms or 0)

    def wants_join(self) -> bool:
        """The rejoin conditions of classic §4.2."""
        core, joining = self._core, self._joining
        if not core.subscription.exists or core.is_fatal or joining.is_stuck:
            return False
        return core.rejoin_needed or self._subscription_changed() or joining.topics_changed

    def _subscription_changed(self) -> bool:
        joined = self._joining.joined_topics
        return joined is not None and joined != self._core.subscription.topic_names

    # --- poll -------------------------------------------------------------------------------------

    def poll(self) -> bool:
        """The part of a ``poll`` that is about membership. Whether the member is in the group, and
        nothing is left to be done for that."""
        core = self._core
        core.poll_expired = False
        if core.is_fatal:
            return False
        assigned = self._joining.assigned
        if assigned is not None:
            self._complete(assigned)
        if self._completing:
            return False
        if self.wants_join():
            self._join()
        return self.is_done()

    def _join(self) -> None:
        """Prepare, if that is still to be done; then send the JoinGroup."""
        core, joining = self._core, self._joining
        if not core.rejoin_needed:
            core.request_rejoin(REASONS[self._own_cause])
        if joining.is_in_flight() or core.coordinator_id is None:
            return
        if joining.retry_due_ms is not None:
            if core.now_ms < joining.retry_due_ms:
                return
            joining.retry_due_ms = None
        if core.needs_prepare or not self._prepare.is_idle():
            self._prepare.run()
        else:
            joining.send_join()

    @property
    def _own_cause(self) -> RebalanceCause:
        """What the client has found out by itself, and says with its JoinGroup."""
        if not self._subscription_changed():
            return RebalanceCause.TOPICS_CHANGED
        if self._core.matches_pattern:
            return RebalanceCause.PATTERN_MATCHED
        return RebalanceCause.SUBSCRIPTION_CHANGED

    def _after_prepare(self, failed: bool) -> None:
        """The JoinGroup leaves in the same ``poll``, unless that raises what the callback has."""
        if not failed and self._core.coordinator_id is not None:
            self._joining.send_join()

    def abandon(self) -> None:
        """The application unsubscribes or closes: what is under way here is off."""
        self._prepare.abandon()
        self._joining.abandon()
        self._completing = False

    # --- completion (classic §3.2, last rows) -----------------------------------------------------

    def _on_synced(self) -> None:
        """The assignment has arrived."""
        core, named = self._core, self._joining.assigned or ()
        target = self._catalogue.by_id(named)
        core.target = LocalAssignment(core.generation.generation_id, target)
        if self._catalogue.without_id(target):
            core.effects.append(RequestMetadata())

    def _complete(self, named: tuple[NamedPartitions, ...]) -> None:
        """The assignment has arrived, and the application is in ``poll``: take it over."""
        core = self._core
        self._joining.assigned = None
        core.needs_prepare = True
        if core.classic_state is not ClassicState.STABLE or not core.has_generation:
            # The heartbeat thread has reset the generation meanwhile.
            core.reset(Reset.MEMBER_ID, reason=core.rejoin_reason)
            return
        if any(topic not in core.subscription.topic_names for topic, _ in named):
            core.request_rejoin("received assignment does not match the current subscription")
            return
        target = self._catalogue.by_id(named)
        core.target = LocalAssignment(core.generation.generation_id, target)
        owned = frozenset(core.subscription.assigned)
        self._completing = True
        if core.config.is_cooperative and owned - target:
            core.request_rejoin(REASONS[RebalanceCause.PARTITIONS_REVOKED])
            call_back(core, self._application, CallbackKind.REVOKED, owned - target, nobody_waits)
        call_back(
            core,
            self._application,
            CallbackKind.ASSIGNED,
            target - owned,
            self._after_completion,
            before=partial(self._take_over, named, target, owned),
        )

    def _take_over(
        self,
        named: tuple[NamedPartitions, ...],
        target: frozenset[TopicPartition],
        owned: frozenset[TopicPartition],
    ) -> None:
        """What was assigned is the member's from now on, as its application learns."""
        core = self._core
        core.last_assigned = named
        core.last_assigned_generation_id = core.generation.generation_id
        self._commits.restart_interval()
        core.subscription.assign(target, added_await_callback=False)
        self._catalogue.keep_names(target)
        for partition in sorted(self._catalogue.without_id(target - owned)):
            # No position before metadata say who leads the partition.
            core.subscription.set_fetch_state(partition, FetchState.AWAIT_VALIDATION)

    def _after_completion(self, failed: bool) -> None:
        core = self._core
        self._completing = False
        core.current = LocalAssignment(
            core.last_assigned_generation_id, frozenset(core.subscription.assigned)
        )
        if not failed and self.wants_join():
            self._join()
