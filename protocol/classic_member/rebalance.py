"""One rebalance as a member goes through it: prepare, JoinGroup, SyncGroup, completion.

Source: classic-group-and-migration.md, sections 3 and 4.2. Whatever concerns the application
(prepare, sending of a JoinGroup, completion, callbacks) happens inside ``poll``; the answer to a
JoinGroup is looked at by the application while it polls, the answer to a SyncGroup by the heartbeat
thread as well.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from protocol.assignors.classic import ClaimingMember, EndlessAssignmentError
from protocol.causes import REASONS, RebalanceCause
from protocol.classic_member.commits import ClassicCommits, CommitResult
from protocol.classic_member.core import ClassicCore, Generation
from protocol.classic_member.heartbeats import HeartbeatThread
from protocol.classic_member.reactions import Api, Reset, Then, reaction_to
from protocol.classic_member.search import ClassicCoordinatorSearch
from protocol.classic_member.states import ClassicState
from protocol.classic_member.topics import TopicCatalogue
from protocol.embedded import (
    CONSUMER_PROTOCOL_TYPE,
    Assignment,
    EmbeddedMetadata,
    NamedPartitions,
    Subscription,
)
from protocol.errors import ErrorCode, ProtocolBug
from protocol.member.application import Application, CallbackTask, nobody_waits
from protocol.member.effects import RequestMetadata, SendJoinGroup, SendSyncGroup
from protocol.member.values import CallbackKind, LocalAssignment
from protocol.messages_classic import (
    NO_GENERATION,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from protocol.topics import TopicPartition

__all__ = ["Rebalance"]

_WITH_ID = "need to re-join with the given member-id"
_NOTHING: frozenset[TopicPartition] = frozenset()


class _Prepare(Enum):
    """How far *prepare* has come."""

    IDLE = "idle"
    COMMITTING = "the commit is under way"
    WAITING = "the commit has failed, and waits for its next attempt"
    COMMITTED = "nothing is to be committed any more"
    CALLING_BACK = "the application gives up what it owns"


class Rebalance:
    """Joining, over and over, as long as something asks for it."""

    __slots__ = (
        "_application",
        "_assigned",
        "_catalogue",
        "_commits",
        "_completing",
        "_core",
        "_heartbeats",
        "_in_flight",
        "_in_flight_api",
        "_is_stuck",
        "_joined_topics",
        "_prepare",
        "_prepare_deadline_ms",
        "_retry_due_ms",
        "_search",
        "_sent_in",
        "_waits_for_names",
        "_watched_counts",
        "_watched_topics",
    )

    def __init__(
        self,
        core: ClassicCore,
        application: Application,
        search: ClassicCoordinatorSearch,
        heartbeats: HeartbeatThread,
        commits: ClassicCommits,
        catalogue: TopicCatalogue,
    ) -> None:
        self._core = core
        self._application = application
        self._search = search
        self._heartbeats = heartbeats
        self._commits = commits
        self._catalogue = catalogue
        self._prepare = _Prepare.IDLE
        self._prepare_deadline_ms = 0
        self._retry_due_ms: int | None = None
        self._in_flight: int | None = None  # a JoinGroup, or the SyncGroup that follows on it
        self._in_flight_api = Api.JOIN_GROUP
        self._sent_in = core.generation
        self._is_stuck = False  # in an assignor that never ends
        self._assigned: tuple[NamedPartitions, ...] | None = None  # synced, not completed yet
        self._waits_for_names = False
        self._completing = False  # callbacks of the completion are to run, or run
        self._joined_topics: frozenset[str] | None = None
        self._watched_topics: tuple[str, ...] | None = None  # of the group, if this is its leader
        self._watched_counts: dict[str, int] = {}

    # --- who wants what ---------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether nothing of a rebalance is under way, or wanted."""
        return not (
            self._core.rejoin_needed
            or self._is_stuck
            or self._in_flight is not None
            or self._assigned is not None
            or self._completing
            or self._prepare is not _Prepare.IDLE
        )

    @property
    def joins(self) -> bool:
        """Whether a JoinGroup is in flight, whose answer only the application looks at."""
        return self._in_flight is not None and self._in_flight_api is Api.JOIN_GROUP

    @property
    def poll_due_ms(self) -> int | None:
        """From when on a ``poll`` goes on with a rebalance; None: not before something happens."""
        core = self._core
        if self._assigned is not None:
            return None if self._waits_for_names else core.now_ms
        if not self.wants_join or self._in_flight is not None or core.coordinator_id is None:
            return None
        if self._prepare is _Prepare.COMMITTING:
            return self._prepare_deadline_ms
        return core.now_ms if self._retry_due_ms is None else max(core.now_ms, self._retry_due_ms)

    @property
    def wants_join(self) -> bool:
        """The rejoin conditions of section 4.2."""
        core = self._core
        if not core.subscription.exists or core.is_fatal or self._is_stuck:
            return False
        if core.rejoin_needed:
            return True
        if self._subscription_changed:
            return True
        watched = self._watched_topics
        return watched is not None and self._catalogue.counts_of(watched) != self._watched_counts

    # --- poll -------------------------------------------------------------------------------------

    def poll(self) -> bool:
        """The part of a ``poll`` that is about membership. Whether the member is in the group, and
        nothing is left to be done for that."""
        core = self._core
        core.poll_expired = False
        if core.is_fatal:
            return False
        if self._assigned is not None:
            if self._waits_for_names:
                return False
            self._complete(self._assigned)
        if self._completing:
            return False
        if self.wants_join:
            self._note_reason()
            self._join()
        return self.is_done

    def _note_reason(self) -> None:
        """What the client finds out by itself, and says with its next JoinGroup."""
        core = self._core
        if not core.rejoin_needed:
            cause = RebalanceCause.TOPICS_CHANGED
            if self._subscription_changed:
                cause = (
                    RebalanceCause.PATTERN_MATCHED
                    if core.matches_pattern
                    else RebalanceCause.SUBSCRIPTION_CHANGED
                )
            core.request_rejoin(REASONS[cause])

    @property
    def _subscription_changed(self) -> bool:
        joined = self._joined_topics
        return joined is not None and joined != self._core.subscription.topic_names

    def _join(self) -> None:
        """Prepare, if that is still to be done; then send the JoinGroup."""
        core = self._core
        if self._in_flight is not None or core.coordinator_id is None:
            return
        if self._retry_due_ms is not None:
            if core.now_ms < self._retry_due_ms:
                return
            self._retry_due_ms = None
        if core.needs_prepare or self._prepare is not _Prepare.IDLE:
            self._prepare_to_join()
        else:
            self._send_join()

    # --- prepare (section 3.2) --------------------------------------------------------------------

    def _prepare_to_join(self) -> None:
        """Go on with *prepare*; at its end the JoinGroup leaves."""
        core = self._core
        if self._prepare is _Prepare.IDLE:
            self._prepare_deadline_ms = core.now_ms + core.config.max_poll_interval_ms
            self._prepare = _Prepare.COMMITTED
            if core.config.enable_auto_commit:
                if (
                    not core.config.is_cooperative
                    and core.classic_rules.stops_fetching_before_commit()
                ):
                    owned = frozenset(core.subscription.assigned)
                    core.subscription.mark_pending_revocation(owned)
                self._commit()
        elif self._prepare is _Prepare.WAITING:
            self._commit()
        if self._prepare is _Prepare.COMMITTING and core.now_ms >= self._prepare_deadline_ms:
            self._prepare = _Prepare.COMMITTED
        if self._prepare is _Prepare.COMMITTED:
            self._prepare = _Prepare.CALLING_BACK
            # A reset during the callback asks for another one, which comes with the next JoinGroup:
            # the one in hand leaves as it is.
            core.needs_prepare = False
            self._give_up()

    def _commit(self) -> None:
        self._prepare = _Prepare.COMMITTING
        self._commits.commit_in_prepare(self._after_commit)

    def _after_commit(self, result: CommitResult, error_code: ErrorCode | None) -> None:
        core = self._core
        if self._prepare is not _Prepare.COMMITTING:
            return  # the time was over, or the application has left
        if result is CommitResult.RETRIABLE and core.now_ms < self._prepare_deadline_ms:
            self._prepare = _Prepare.WAITING
            self._retry_due_ms = core.now_ms + core.config.retry_backoff_ms
        else:
            self._prepare = _Prepare.COMMITTED

    def _give_up(self) -> None:
        """Revoke what the mode asks for, or lose all that a reset generation has left."""
        core = self._core
        owned = frozenset(core.subscription.assigned)
        if not core.has_generation:
            self._hand_back(CallbackKind.LOST, owned, kept=_NOTHING, if_any=True)
        elif not core.config.is_cooperative:
            self._hand_back(CallbackKind.REVOKED, owned, kept=_NOTHING, if_any=False)
        else:
            names = core.subscription.topic_names
            gone = frozenset(p for p in owned if self._catalogue.name_of(p) not in names)
            self._hand_back(CallbackKind.REVOKED, gone, kept=owned - gone, if_any=True)

    def _hand_back(
        self,
        kind: CallbackKind,
        partitions: frozenset[TopicPartition],
        *,
        kept: frozenset[TopicPartition],
        if_any: bool,
    ) -> None:
        def done(failed: bool) -> None:
            if partitions:
                self._core.subscription.assign(kept, added_await_callback=False)
            self._core.is_leader = False
            self._prepare = _Prepare.IDLE
            if not failed and self._core.coordinator_id is not None:
                self._send_join()

        if if_any and not partitions:
            done(False)
        else:
            self._call_back(kind, partitions, done)

    def _call_back(
        self,
        kind: CallbackKind,
        partitions: frozenset[TopicPartition],
        on_done: Callable[[bool], None],
        *,
        before: Callable[[], None] | None = None,
    ) -> None:
        """Let the application run a callback in this ``poll``; without a listener none runs."""
        if not self._core.subscription.has_listener:
            if before is not None:
                before()
            on_done(False)
            return

        def may_start() -> bool:
            if before is not None:
                before()
            return True

        task = CallbackTask(kind, partitions, on_done, may_start=may_start)
        self._application.queue_callback(task)

    def abandon(self) -> None:
        """The application unsubscribes or closes: what is under way here is off."""
        self._prepare = _Prepare.IDLE
        self._retry_due_ms = None
        self._assigned = None
        self._waits_for_names = False
        self._completing = False
        self._joined_topics = None
        self._watched_topics = None

    # --- JoinGroup --------------------------------------------------------------------------------

    def _send_join(self) -> None:
        core = self._core
        config = core.config
        self._heartbeats.disable()
        core.set_classic_state(ClassicState.PREPARING_REBALANCE)
        topics = core.subscription.topic_names
        self._joined_topics = topics
        owned = self._catalogue.by_name(core.subscription.assigned)
        generation = core.generation
        protocols = tuple(
            JoinGroupProtocol(
                assignor.name,
                Subscription(
                    topics=tuple(sorted(topics)),
                    owned_partitions=owned,
                    generation_id=generation.generation_id,
                    rack_id=config.client_rack or None,
                    user_data=assignor.user_data(
                        last_assigned=core.last_assigned,
                        last_generation_id=core.last_assigned_generation_id,
                    ),
                ),
            )
            for assignor in config.assignors
        )
        request = JoinGroupRequest(
            group_id=config.group_id,
            member_id=generation.member_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            group_instance_id=config.group_instance_id,
            protocols=protocols,
            reason=core.rejoin_reason,
        )
        correlation_id = self._begin_request(Api.JOIN_GROUP)
        core.effects.append(
            SendJoinGroup(
                correlation_id=correlation_id, request=request, timeout_ms=config.join_timeout_ms
            )
        )

    def _begin_request(self, api: Api) -> int:
        correlation_id = self._core.new_correlation_id()
        self._in_flight = correlation_id
        self._in_flight_api = api
        self._sent_in = self._core.generation
        return correlation_id

    def _end_request(self, api: Api, correlation_id: int) -> None:
        if correlation_id != self._in_flight or api is not self._in_flight_api:
            raise ProtocolBug(f"an answer to {api.value} {correlation_id}, not in flight")
        self._in_flight = None

    def on_join_answered(self, correlation_id: int, response: JoinGroupResponse) -> None:
        """The coordinator has answered a JoinGroup, well or badly."""
        core = self._core
        self._end_request(Api.JOIN_GROUP, correlation_id)
        if response.error_code is not ErrorCode.NONE:
            if reaction_to(Api.JOIN_GROUP, response.error_code).then is Then.ADOPT_MEMBER_ID:
                core.set_generation(Generation(NO_GENERATION, response.member_id))
                core.request_rejoin(f"{_WITH_ID}: {response.member_id}")
            self._fail(Api.JOIN_GROUP, response.error_code)
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
        self._watched_topics = None
        assignments: dict[str, Assignment] = {}
        if core.is_leader:
            self._watch(response)
            if not response.skip_assignment:
                try:
                    assignments = self._assign(response)
                except EndlessAssignmentError:
                    # The client computes for ever, and does nothing else any more.
                    self._is_stuck = True
                    self._heartbeats.disable()
                    return
        self._send_sync(assignments)

    def _watch(self, response: JoinGroupResponse) -> None:
        """The leader looks after the topics of the whole group from now on."""
        topics = {topic for member in response.members for topic in _topics_of(member.metadata)}
        topics |= self._core.subscription.topic_names
        self._watched_topics = tuple(sorted(topics))
        self._watched_counts = self._catalogue.counts_of(topics)

    def _assign(self, response: JoinGroupResponse) -> dict[str, Assignment]:
        by_name = {assignor.name: assignor for assignor in self._core.config.assignors}
        name = response.protocol_name or ""
        if name not in by_name:
            raise ProtocolBug(f"the coordinator chose {name!r}, which this member has not offered")
        members = [
            ClaimingMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                subscription=member.metadata,
            )
            for member in response.members
            if isinstance(member.metadata, Subscription)
        ]
        assigned = by_name[name].assign(partition_counts=self._watched_counts, members=members)
        return {member_id: Assignment(partitions=share) for member_id, share in assigned.items()}

    # --- SyncGroup --------------------------------------------------------------------------------

    def _send_sync(self, assignments: dict[str, Assignment]) -> None:
        core = self._core
        correlation_id = self._begin_request(Api.SYNC_GROUP)
        core.effects.append(
            SendSyncGroup(
                correlation_id=correlation_id,
                request=SyncGroupRequest(
                    group_id=core.config.group_id,
                    generation_id=core.generation.generation_id,
                    member_id=core.generation.member_id,
                    group_instance_id=core.config.group_instance_id,
                    protocol_type=CONSUMER_PROTOCOL_TYPE,
                    protocol_name=core.generation.protocol_name,
                    assignments=assignments,
                ),
            )
        )

    def on_sync_answered(self, correlation_id: int, response: SyncGroupResponse) -> None:
        """The coordinator has answered a SyncGroup, well or badly."""
        core = self._core
        self._end_request(Api.SYNC_GROUP, correlation_id)
        if response.error_code is not ErrorCode.NONE:
            self._fail(Api.SYNC_GROUP, response.error_code)
            return
        if core.classic_state is not ClassicState.COMPLETING_REBALANCE:
            return  # a heartbeat has reset the generation meanwhile: join again at once
        assignment = response.assignment
        self._assigned = assignment.partitions if isinstance(assignment, Assignment) else ()
        core.set_classic_state(ClassicState.STABLE)
        core.rejoin_needed = False
        core.rejoin_reason = ""
        core.target = LocalAssignment(
            core.generation.generation_id, self._catalogue.by_id(self._assigned)
        )
        if self._catalogue.missing(self._assigned):
            self._waits_for_names = True
            core.effects.append(RequestMetadata())

    def on_metadata(self) -> None:
        """The client's metadata has been refreshed; what has no id now does not exist."""
        self._waits_for_names = False

    # --- failures ---------------------------------------------------------------------------------

    def lose_all(self) -> None:
        """The client itself has closed the connection."""
        if self._in_flight is not None:
            self.on_lost(self._in_flight)

    def on_lost(self, correlation_id: int) -> bool:
        """A request was lost, or never sent. Whether it was a JoinGroup or a SyncGroup."""
        if correlation_id != self._in_flight:
            return False
        self._in_flight = None
        self._core.request_rejoin(_failed_by("DISCONNECT"))
        self._after_retriable_error()
        self._back_off()
        return True

    def _fail(self, api: Api, error_code: ErrorCode) -> None:
        core = self._core
        reaction = reaction_to(api, error_code)
        if reaction.forgets_coordinator:
            self._search.mark_unknown()
        if reaction.then is not Then.ADOPT_MEMBER_ID:
            core.request_rejoin(_failed_by(error_code.name))
        if self._sent_in == core.generation:
            core.reset(reaction.reset, reason=core.rejoin_reason)
        if reaction.then is Then.RAISE:
            core.is_fatal = True
            self._heartbeats.disable()
            self._application.queue_error(error_code, f"{api.value} was refused")
        elif reaction.then is Then.BACK_OFF:
            self._after_retriable_error()
            self._back_off()

    def _after_retriable_error(self) -> None:
        core = self._core
        if not core.classic_rules.keeps_member_id_on_retriable_error():
            core.reset(Reset.MEMBER_ID, reason=core.rejoin_reason)

    def _back_off(self) -> None:
        self._retry_due_ms = self._core.now_ms + self._core.config.retry_backoff_ms

    # --- completion (section 3.2, last rows) ------------------------------------------------------

    def _complete(self, named: tuple[NamedPartitions, ...]) -> None:
        """The assignment has arrived, and the application is in ``poll``: take it over."""
        core = self._core
        self._assigned = None
        core.needs_prepare = True
        if core.classic_state is not ClassicState.STABLE or not core.has_generation:
            # The heartbeat thread has reset the generation meanwhile.
            core.reset(Reset.MEMBER_ID, reason=core.rejoin_reason)
            return
        if any(topic not in core.subscription.topic_names for topic, _ in named):
            core.request_rejoin("received assignment does not match the current subscription")
            return
        target = self._catalogue.by_id(named)
        owned = frozenset(core.subscription.assigned)
        self._completing = True
        if core.config.is_cooperative and owned - target:
            core.request_rejoin(REASONS[RebalanceCause.PARTITIONS_REVOKED])
            self._call_back(CallbackKind.REVOKED, owned - target, nobody_waits)

        def take_over() -> None:
            core.last_assigned = named
            core.last_assigned_generation_id = core.generation.generation_id
            self._commits.restart_interval()
            core.subscription.assign(target, added_await_callback=False)

        self._call_back(
            CallbackKind.ASSIGNED, target - owned, self._after_completion, before=take_over
        )

    def _after_completion(self, failed: bool) -> None:
        core = self._core
        self._completing = False
        core.current = LocalAssignment(
            core.last_assigned_generation_id, frozenset(core.subscription.assigned)
        )
        if not failed and self.wants_join:
            self._note_reason()
            self._join()


def _failed_by(error_name: str) -> str:
    """As the Java client names its exceptions: ``RebalanceInProgressException``."""
    words = "".join(word.capitalize() for word in error_name.split("_"))
    return f"rebalance failed due to {words}Exception"


def _topics_of(metadata: EmbeddedMetadata) -> tuple[str, ...]:
    return metadata.topics if isinstance(metadata, Subscription) else ()
