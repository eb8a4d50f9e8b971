"""JoinGroup and SyncGroup of a member, and what its group's leader does in between.

Source: classic §3.4, §4.2, §4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from rebalance_sim.protocol.assignors.classic import EndlessAssignmentError
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.classic_topics import TopicCatalogue
from rebalance_sim.protocol.clients.common.effects import (
    RequestMetadata,
    SendJoinGroup,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.join_request import join_request
from rebalance_sim.protocol.clients.common.leading import assign_as_leader, topics_of_all
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import nobody_listens
from rebalance_sim.protocol.clients.java.classic.classic_core import ClassicCore, Generation
from rebalance_sim.protocol.clients.java.classic.classic_heartbeats import HeartbeatThread
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.java.classic.classic_search import ClassicCoordinatorSearch
from rebalance_sim.protocol.clients.java.classic.reactions import Api, Reset, Then, reaction_to
from rebalance_sim.protocol.wire.classic_messages import (
    NO_GENERATION,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.embedded import (
    CONSUMER_PROTOCOL_TYPE,
    Assignment,
    NamedPartitions,
    Subscription,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import ReplicaRacks

_WITH_ID = "need to re-join with the given member-id"


class Joining:
    """The request of a rebalance that is in flight, and what has come of the last one.

    ``assigned``: what the last SyncGroup has brought, until somebody takes it away. ``on_synced``
    is called when it has come. ``retry_due_ms``: before that no JoinGroup is to be sent again.
    ``joined_topics``: the subscription of the last JoinGroup. ``topics_changed``: this is the
    leader, and the group's topics are not as they were when it assigned them. ``is_stuck``: it
    assigns for ever. ``watched_topics``: those of the whole group, if this is its leader.
    """

    def __init__(
        self,
        core: ClassicCore,
        application: Application,
        search: ClassicCoordinatorSearch,
        heartbeats: HeartbeatThread,
        catalogue: TopicCatalogue,
    ) -> None:
        self._core = core
        self._application = application
        self._search = search
        self._heartbeats = heartbeats
        self._catalogue = catalogue
        self._awaiting_metadata: JoinGroupResponse | None = None  # the leader's
        self.watched_topics: frozenset[str] = frozenset()
        self._watched_counts: dict[str, int] = {}
        self._watched_racks: Mapping[str, ReplicaRacks] = {}
        self.assigned: tuple[NamedPartitions, ...] | None = None
        self.is_stuck = False
        self.joined_topics: frozenset[str] | None = None
        self.on_synced: Callable[[], None] = nobody_listens
        self.retry_due_ms: int | None = None
        self.topics_changed = False

    def is_in_flight(self) -> bool:
        """Whether an answer, or metadata for the next request, is waited for."""
        return (
            self._core.requests.count(SendJoinGroup, SendSyncGroup) > 0
            or self._awaiting_metadata is not None
        )

    def abandon(self) -> None:
        """The application unsubscribes or closes; an answer that still comes finds no one."""
        self._awaiting_metadata = None
        self.retry_due_ms = None
        self.assigned = None
        self.joined_topics = None
        self._unwatch()

    # --- JoinGroup --------------------------------------------------------------------------------

    def send_join(self) -> None:
        """Ask to be in the next generation."""
        core = self._core
        config = core.config
        self._heartbeats.disable()
        core.set_classic_state(ClassicState.PREPARING_REBALANCE)
        topics = core.subscription.topic_names
        self.joined_topics = topics
        generation = core.generation
        request = join_request(
            config,
            generation.member_id,
            Subscription(
                topics=tuple(sorted(topics)),
                owned_partitions=self._catalogue.by_name(core.subscription.assigned),
                generation_id=generation.generation_id,
                rack_id=config.client_rack or None,
            ),
            last_assigned=core.last_assigned,
            last_generation_id=core.last_assigned_generation_id,
        )
        core.requests.send(
            SendJoinGroup,
            request=replace(request, reason=core.rejoin_reason),
            timeout_ms=config.join_timeout_ms,
            on_answered=partial(self._on_join_answered, generation),
            on_lost=self._on_lost,
        )

    def _on_join_answered(self, sent_in: Generation, response: JoinGroupResponse) -> None:
        core = self._core
        if response.error_code is not ErrorCode.NONE:
            if reaction_to(Api.JOIN_GROUP, response.error_code).then is Then.ADOPT_MEMBER_ID:
                core.set_generation(Generation(NO_GENERATION, response.member_id))
                core.request_rejoin(f"{_WITH_ID}: {response.member_id}")
            self._fail(Api.JOIN_GROUP, response.error_code, sent_in)
            return
        if core.classic_state is not ClassicState.PREPARING_REBALANCE:
            self._back_off()  # the client has left the group meanwhile
            return
        core.set_classic_state(ClassicState.COMPLETING_REBALANCE)
        core.set_generation(
            Generation(response.generation_id, response.member_id, response.protocol_name)
        )
        self._heartbeats.enable()
        core.is_leader = response.leader == response.member_id
        self._unwatch()
        if (
            core.is_leader
            and not topics_of_all(response) <= core.subscription.topic_names
            and core.rules.asks_for_topics_of_others
        ):
            # No one but a leader needs to know what others are subscribed to.
            self._awaiting_metadata = response
            core.effects.append(RequestMetadata())
        else:
            self._go_on(response)

    def _go_on(self, response: JoinGroupResponse) -> None:
        """All that is needed for the SyncGroup is known."""
        core = self._core
        if (
            core.classic_state is not ClassicState.COMPLETING_REBALANCE
            or core.coordinator_id is None
        ):
            core.request_rejoin(_failed_by(ErrorCode.COORDINATOR_NOT_AVAILABLE.name))
            self._back_off()
            return
        assignments: dict[str, Assignment] = {}
        if core.is_leader:
            self._watch(response)
            if not response.skip_assignment:
                try:
                    assignments = self._assign(response)
                except EndlessAssignmentError:
                    # The client computes for ever, and does nothing else any more.
                    self.is_stuck = True
                    self._heartbeats.disable()
                    return
        self._send_sync(assignments)

    def _watch(self, response: JoinGroupResponse) -> None:
        """The leader watches the topics of the whole group from now on."""
        topics = topics_of_all(response) | self._core.subscription.topic_names
        self.watched_topics = topics
        self._watched_counts = self._catalogue.counts_of(topics)
        self._watched_racks = self._racks_of(topics)

    def _racks_of(self, topics: frozenset[str]) -> Mapping[str, ReplicaRacks]:
        """Only a leader that has a rack itself minds where replicas are."""
        return self._catalogue.racks_of(topics) if self._core.config.client_rack else {}

    def _unwatch(self) -> None:
        self.watched_topics = frozenset()
        self._watched_counts = {}
        self._watched_racks = {}
        self.topics_changed = False

    def on_metadata(self) -> None:
        """The client's metadata has been refreshed."""
        response, self._awaiting_metadata = self._awaiting_metadata, None
        if response is not None:
            self._go_on(response)
        watched = self.watched_topics
        self.topics_changed = (
            self._catalogue.counts_of(watched) != self._watched_counts
            or self._racks_of(watched) != self._watched_racks
        )

    def _assign(self, response: JoinGroupResponse) -> dict[str, Assignment]:
        assigned = assign_as_leader(
            response,
            self._core.config.assignors,
            self._watched_counts,
            self._catalogue.replica_racks,
        )
        return {member_id: Assignment(partitions=share) for member_id, share in assigned.items()}

    # --- SyncGroup --------------------------------------------------------------------------------

    def _send_sync(self, assignments: dict[str, Assignment]) -> None:
        core = self._core
        core.requests.send(
            SendSyncGroup,
            request=SyncGroupRequest(
                group_id=core.config.group_id,
                generation_id=core.generation.generation_id,
                member_id=core.generation.member_id,
                group_instance_id=core.config.group_instance_id,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocol_name=core.generation.protocol_name,
                assignments=assignments,
            ),
            on_answered=partial(self._on_sync_answered, core.generation),
            on_lost=self._on_lost,
        )

    def _on_sync_answered(self, sent_in: Generation, response: SyncGroupResponse) -> None:
        core = self._core
        if response.error_code is not ErrorCode.NONE:
            self._fail(Api.SYNC_GROUP, response.error_code, sent_in)
            return
        if core.classic_state is not ClassicState.COMPLETING_REBALANCE:
            return  # a heartbeat has reset the generation meanwhile: join again at once
        assignment = response.assignment
        self.assigned = assignment.partitions if isinstance(assignment, Assignment) else ()
        if not core.rules.compares_with_joined_topics:
            self.joined_topics = core.subscription.topic_names
        core.set_classic_state(ClassicState.STABLE)
        core.rejoin_needed = False
        core.rejoin_reason = ""
        self.on_synced()

    # --- failures ---------------------------------------------------------------------------------

    def _on_lost(self, loss: Loss) -> None:
        self._core.request_rejoin(_failed_by("DISCONNECT"))
        self._after_retriable_error()
        self._back_off()

    def _fail(self, api: Api, error_code: ErrorCode, sent_in: Generation) -> None:
        core = self._core
        reaction = reaction_to(api, error_code)
        if reaction.forgets_coordinator:
            self._search.mark_unknown()
        if reaction.then is not Then.ADOPT_MEMBER_ID:
            core.request_rejoin(_failed_by(error_code.name))
        if sent_in == core.generation:
            reset = reaction.reset
            if api is Api.SYNC_GROUP and not core.rules.keeps_generation_of_refused_sync:
                reset = Reset.GENERATION
            core.reset(reset, reason=core.rejoin_reason)
        if reaction.then is Then.RAISE:
            core.is_fatal = True
            self._heartbeats.disable()
            self._application.queue_error(error_code, f"{api.value} was refused")
        elif reaction.then is Then.BACK_OFF:
            self._after_retriable_error()
            self._back_off()

    def _after_retriable_error(self) -> None:
        core = self._core
        if not core.rules.keeps_member_id_on_retriable_error:
            core.reset(Reset.MEMBER_ID, reason=core.rejoin_reason)

    def _back_off(self) -> None:
        self.retry_due_ms = self._core.now_ms + self._core.config.retry_backoff_ms


def _failed_by(error_name: str) -> str:
    """As the Java client names its exceptions: ``RebalanceInProgressException``."""
    words = "".join(word.capitalize() for word in error_name.split("_"))
    return f"rebalance failed due to {words}Exception"
