"""JoinGroup, SyncGroup and LeaveGroup, and what the leader of a group does in between.

Sources: the five traces with classic members of librdkafka; classic §2, §3.4. The versions are
librdkafka's: JoinGroup 5, SyncGroup 3, LeaveGroup 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rebalance_sim.protocol.assignors.classic import EndlessAssignmentError
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.classic_topics import TopicCatalogue
from rebalance_sim.protocol.clients.common.effects import (
    RequestMetadata,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.join_request import join_request
from rebalance_sim.protocol.clients.common.leading import (
    assign_as_leader,
    claiming_members,
    topics_of_all,
)
from rebalance_sim.protocol.clients.common.requests import COORDINATOR_LOST, Loss
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_core import (
    LibrdkafkaClassicCore,
)
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_rebalance import (
    ClassicRebalance,
)
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.clients.librdkafka.poll_timer import PollWatch
from rebalance_sim.protocol.wire.classic_messages import (
    NO_GENERATION,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode

_J = JoinState

_JOIN_VERSION = 5
_JOIN_INTERVAL_MS = 1_000
"""A JoinGroup follows on another at the earliest after so long."""

_JOIN_BACKOFF_MS = 1_000
"""What comes on top if the coordinator has refused it, unless for the lack of an id."""

_GRACE_MS = 3_000
"""What JoinGroup and SyncGroup get on top of the time that the coordinator may keep them
(inferred)."""

_LEAVE_TIMEOUT_MS = 5_000

_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_GENERATION_LOST = frozenset({ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.ILLEGAL_GENERATION})
_PASSING = COORDINATOR_LOST | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
}


class Joining:
    """How a member comes into the next generation. ``is_stuck``: this leader assigns for ever."""

    def __init__(
        self,
        core: LibrdkafkaClassicCore,
        application: Application,
        link: CoordinatorLink,
        rebalance: ClassicRebalance,
        polls: PollWatch,
        catalogue: TopicCatalogue,
    ) -> None:
        self._core = core
        self._application = application
        self._link = link
        self._rebalance = rebalance
        self._polls = polls
        self._catalogue = catalogue
        self._asked_for: frozenset[str] = frozenset()  # topics that were unknown, and may stay so
        self._awaiting: JoinGroupResponse | None = None  # the leader's, until it has metadata
        self._is_leader = False  # of the generation that the last JoinGroup has led to
        self._joined_counts: Mapping[str, int] = {}  # of the topics that were applied last
        self._assigned_counts: Mapping[str, int] | None = None  # what this leader has gone by
        self._group_topics: frozenset[str] = frozenset()  # which it has assigned, if they exist
        self._topics_changed = False
        self.is_stuck = False

    # --- when -------------------------------------------------------------------------------------

    @property
    def _may_join(self) -> bool:
        """Whether a member in INIT may join."""
        core = self._core
        return (
            self._rebalance.has_subscription
            and self._link.is_up()
            and not self._link.is_reconnecting
            and not core.is_fatal
            and not core.is_terminating
            and not core.will_leave
            and not (core.has_missed_polls and self._polls.is_overdue)
        )

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do; without topics it has not."""
        core = self._core
        if core.join_state is not _J.INIT or not self._may_join or not self._topics_to_join():
            return None
        return core.join_due_ms

    def run(self) -> None:
        """Join if it is time to, or because topics are not as they were at the last time."""
        core = self._core
        if self._topics_changed and core.join_state in (_J.STEADY, _J.INIT):
            self._apply_topics()
        if core.join_state is not _J.INIT or core.now_ms < core.join_due_ms or not self._may_join:
            return
        self._rebalance.apply_next_subscription()
        core.has_missed_polls = core.poll_expired = False
        unknown = core.subscription.topic_names - self._catalogue.counts.keys() - self._asked_for
        if unknown:
            self._asked_for |= unknown
            self._awaiting = None
            core.set_join_state(_J.WAIT_METADATA)
            core.effects.append(RequestMetadata())
        elif self._topics_to_join():
            self._send_join()

    def _apply_topics(self) -> None:
        """Topics have come, gone or grown. Where partitions are kept through a rebalance, those of
        topics that are gone are lost at once, and then only the leader joins again, unless they are
        gone from the subscription: that everybody has to learn (read in the source of librdkafka).
        """
        core = self._core
        topics = self._topics_to_join()
        self._topics_changed = False
        self._joined_counts = topics
        self._assigned_counts = None
        if core.config.is_cooperative:
            name_of = self._catalogue.name_of
            gone = frozenset(p for p in self._rebalance.owned if name_of(p) not in topics)
            if gone:
                wanted = core.subscription.topic_names
                is_unwanted = any(name_of(partition) not in wanted for partition in gone)
                self._rebalance.lose(gone, rejoins=self._is_leader or is_unwanted)
                return
        self._rebalance.join_next_generation()

    def _topics_to_join(self) -> Mapping[str, int]:
        """Topics of the subscription that exist; without any nothing is joined."""
        return self._catalogue.counts_of(self._core.subscription.topic_names)

    def on_metadata(self) -> None:
        """The client's metadata has been refreshed."""
        core = self._core
        response, self._awaiting = self._awaiting, None
        if core.join_state is _J.WAIT_METADATA:
            # Who unsubscribes, or leaves, is no leader any more.
            if response is None or not self._is_of_present(response):
                core.set_join_state(_J.INIT)
            else:
                self._assign(response)
        self._asked_for -= self._topics_to_join().keys()
        self._topics_changed = self._are_topics_others()

    def _are_topics_others(self) -> bool:
        """Whether topics are not what they were when the member joined, or assigned them."""
        if self._topics_to_join() != self._joined_counts:
            return True
        counts = self._assigned_counts
        return counts is not None and self._catalogue.counts_of(self._group_topics) != counts

    def _is_of_present(self, response: JoinGroupResponse) -> bool:
        core = self._core
        return (
            core.subscription.exists
            and core.member_id == response.member_id
            and core.generation_id in (response.generation_id, NO_GENERATION)
        )

    def on_subscription_changed(self) -> None:
        """Other topics are wanted than those of the last JoinGroup, perhaps."""
        self._topics_changed = self._are_topics_others()
        unknown = self._core.subscription.topic_names - self._catalogue.counts.keys()
        if unknown and self._core.join_state is _J.STEADY:
            self._core.effects.append(RequestMetadata())

    # --- JoinGroup --------------------------------------------------------------------------------

    def _send_join(self) -> None:
        core = self._core
        config = core.config
        core.set_join_state(_J.WAIT_JOIN)
        core.join_due_ms = core.now_ms + _JOIN_INTERVAL_MS
        self._awaiting = None
        self._is_leader = False
        self._joined_counts = self._topics_to_join()
        self._assigned_counts = None
        self._topics_changed = False
        is_cooperative = config.is_cooperative
        request = join_request(
            config,
            core.member_id,
            Subscription(
                topics=tuple(self._joined_counts),
                owned_partitions=(
                    self._catalogue.by_name(self._rebalance.owned) if is_cooperative else ()
                ),
                generation_id=core.generation_id if is_cooperative else NO_GENERATION,
                rack_id=config.client_rack or "",
            ),
            last_assigned=core.last_assigned,
            last_generation_id=core.last_assigned_generation_id,
        )
        timeout_ms = config.max_poll_interval_ms + _GRACE_MS
        core.requests.send(
            SendJoinGroup,
            request=replace(request, api_version=_JOIN_VERSION),
            timeout_ms=timeout_ms,
            on_answered=self._on_join_answered,
            on_lost=self._on_join_lost,
            late_ms=core.now_ms + timeout_ms,
        )

    def _on_join_lost(self, loss: Loss) -> None:
        if loss is Loss.TRANSPORT:
            self._link.search()
        if self._core.join_state is _J.WAIT_JOIN:
            self._core.set_join_state(_J.INIT)

    def _on_join_answered(self, response: JoinGroupResponse) -> None:
        core = self._core
        if core.join_state is not _J.WAIT_JOIN or core.will_leave:
            return  # the application does not want it any more
        error_code = response.error_code
        if error_code is not ErrorCode.NONE:
            self._on_join_refused(error_code, response.member_id)
            return
        core.adopt_generation(response.member_id, response.generation_id)
        core.note_alive()
        self._is_leader = response.leader == response.member_id
        if self._is_leader:
            self._awaiting = response
            core.set_join_state(_J.WAIT_METADATA)
            core.effects.append(RequestMetadata())
        else:
            self._send_sync({})

    def _on_join_refused(self, error_code: ErrorCode, member_id: str) -> None:
        core = self._core
        if error_code is ErrorCode.MEMBER_ID_REQUIRED:
            core.adopt_generation(member_id, NO_GENERATION)
            core.join_due_ms = core.now_ms
        else:
            core.join_due_ms += _JOIN_BACKOFF_MS
        if error_code in _LOST:
            core.forget_identity(error_code)
        elif error_code in COORDINATOR_LOST:
            self._link.search()
        elif error_code is ErrorCode.FENCED_INSTANCE_ID:
            self._rebalance.fail(error_code, "JoinGroup failed")
            return
        elif error_code not in _PASSING and error_code is not ErrorCode.MEMBER_ID_REQUIRED:
            self._application.queue_error(error_code, "JoinGroup failed")
        is_lost = error_code in _GENERATION_LOST or (
            error_code is ErrorCode.UNKNOWN_MEMBER_ID
            and core.rules.loses_partitions_of_unknown_member
        )
        if self._rebalance.owned and is_lost:
            self._rebalance.lose_and_join_again()
        else:
            core.set_join_state(_J.INIT)

    # --- SyncGroup --------------------------------------------------------------------------------

    def _assign(self, response: JoinGroupResponse) -> None:
        """The leader's part. What a member has said to the assignor it gets back with its
        partitions."""
        self._group_topics = frozenset(topics_of_all(response))
        counts = self._catalogue.counts_of(self._group_topics)
        if self._core.rules.leader_watches_topics_of_all:
            self._assigned_counts = counts
        try:
            shares = assign_as_leader(
                response, self._core.config.assignors, counts, self._catalogue.replica_racks
            )
        except EndlessAssignmentError:
            self.is_stuck = True  # the main thread computes for ever: heartbeats end as well
            self._core.session_due_ms = None
            return
        said = {
            member.member_id: member.subscription.user_data for member in claiming_members(response)
        }
        self._send_sync(
            {
                member_id: Assignment(partitions=share, user_data=said[member_id])
                for member_id, share in shares.items()
            }
        )

    def _send_sync(self, assignments: Mapping[str, Assignment]) -> None:
        core = self._core
        config = core.config
        if not self._link.is_up():
            self._rebalance.join_again()
            return
        core.set_join_state(_J.WAIT_SYNC)
        core.requests.send(
            SendSyncGroup,
            request=SyncGroupRequest(
                group_id=config.group_id,
                generation_id=core.generation_id,
                member_id=core.member_id,
                group_instance_id=config.group_instance_id,
                assignments=assignments,
            ),
            on_answered=self._on_sync_answered,
            on_lost=self._on_sync_lost,
            late_ms=core.now_ms + config.session_timeout_ms + _GRACE_MS,
        )

    def _on_sync_lost(self, loss: Loss) -> None:
        if loss is Loss.TRANSPORT:
            self._link.search()
        if self._core.join_state is _J.WAIT_SYNC:
            self._rebalance.join_again()

    def _on_sync_answered(self, response: SyncGroupResponse) -> None:
        core = self._core
        error_code = response.error_code
        if core.join_state is not _J.WAIT_SYNC or core.will_leave:
            return
        if error_code is ErrorCode.NONE:
            core.note_alive()
            self._take_over(response)
        elif error_code is ErrorCode.FENCED_INSTANCE_ID:
            self._rebalance.fail(error_code, "SyncGroup failed")
        elif error_code in _LOST:
            core.forget_identity(error_code)
            self._rebalance.lose_and_join_again()
        else:
            if error_code in COORDINATOR_LOST:
                self._link.search()
            elif error_code not in _PASSING:
                self._application.queue_error(error_code, "SyncGroup failed")
            self._rebalance.join_again()

    def _take_over(self, response: SyncGroupResponse) -> None:
        core = self._core
        given = response.assignment
        named: tuple[NamedPartitions, ...] = ()
        if isinstance(given, Assignment):
            named = given.partitions
        core.last_assigned = named
        core.last_assigned_generation_id = core.generation_id
        target = self._catalogue.by_id(named)
        if self._catalogue.without_id(target):
            core.effects.append(RequestMetadata())
        self._rebalance.take_over(target)

    # --- LeaveGroup -------------------------------------------------------------------------------

    def send_leave(self) -> None:
        """Leave; whatever comes of that, the membership is over."""
        core = self._core
        if not self._link.is_up():
            core.later.append(self._rebalance.on_left)
            return
        core.requests.send(
            SendLeaveGroup,
            request=LeaveGroupRequest(
                group_id=core.config.group_id, members=(MemberIdentity(core.member_id),)
            ),
            on_answered=self._on_left,
            on_lost=self._on_left,
            late_ms=core.now_ms + _LEAVE_TIMEOUT_MS,
        )
        core.forget_identity()

    def _on_left(self, end: LeaveGroupResponse | Loss) -> None:
        """The LeaveGroup was answered, well or badly, or lost."""
        self._rebalance.on_left()
