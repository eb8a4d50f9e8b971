"""What clients of the classic protocol ask for: as whom, with which settings, when, and why.

Source: classic §3.2, §3.4, §4.2-§4.6.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property, first_among_living
from rebalance_sim.invariants.step import Step, WorldView
from rebalance_sim.protocol.clients import (
    CallbackCompleted,
    CallbackKind,
    ClassicHeartbeatAnswered,
    ClientState,
    Close,
    CloseConnection,
    CommitAnswered,
    CoordinatorConnectionClosed,
    Disconnected,
    EnforceRebalance,
    GroupMember,
    JoinGroupAnswered,
    MetadataKnown,
    PatternMatched,
    RequestExpired,
    RunCallback,
    SendClassicHeartbeat,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
    StateChanged,
    Subscribe,
    SyncGroupAnswered,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.kinds import CLASSIC, CLASSIC_KINDS
from rebalance_sim.protocol.wire.classic_messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.embedded import Subscription

ORDER = 185

_IN_GROUP = (ClientState.STABLE, ClientState.RECONCILING)
_SIGNED = (SendJoinGroup, SendSyncGroup, SendClassicHeartbeat)
_READS_JOIN = (CallbackCompleted, Close, JoinGroupAnswered, Unsubscribe)
"""What a join that was answered long ago may be read in, and left again: the end of a callback goes
on with the call that has waited for it."""


class RequestIdentity(Property):
    """classic §4.1, §4.5. A request is built somewhere inside the event, so both ends of it do."""

    id = "classic.client.identity"
    sentence = (
        "JoinGroup, SyncGroup, Heartbeat and LeaveGroup of a classic client carry the member id, "
        "the last two of them and SyncGroup the generation, and all but librdkafka's LeaveGroup "
        "the instance id, that the client has at that moment."
    )
    clauses = ("classic §4.1", "classic §4.5", "classic §4.6")
    violated_by = ("test:classic-signs-as-another",)
    client_kinds = CLASSIC_KINDS
    judges_mixed = True
    interest = Interest(events=(JoinGroupAnswered,), effects=(*_SIGNED, SendLeaveGroup))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._given: dict[str, tuple[str, int]] = self.of_process({})
        """Client -> member id and generation of its last join; a client that closes, unsubscribes,
        or stayed away from ``poll`` for too long, reads that answer, sends the SyncGroup and gives
        both up in one event."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Remember what a join was answered with."""
        response = step.event.response
        if not response.error_code:
            self._given[entry.name] = response.member_id, response.generation_id
        return None

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Compare the identity in each request."""
        member = entry.member
        ids = entry.member_id, member.member_id
        epochs = entry.member_epoch, member.member_epoch
        instance_id = member.config.group_instance_id
        for effect in step.effects:
            if type(effect) is SendLeaveGroup:
                identity = effect.request.members[0]
                if identity.member_id in ids and identity.group_instance_id in (None, instance_id):
                    continue
            elif type(effect) in _SIGNED:
                request = effect.request
                is_fine = request.member_id in ids
                if type(effect) is not SendJoinGroup:
                    is_fine = is_fine and request.generation_id in epochs
                if type(step.event) in _READS_JOIN and type(effect) is SendSyncGroup:
                    signature = request.member_id, request.generation_id
                    is_fine = is_fine or signature == self._given.get(entry.name)
                if is_fine and request.group_instance_id == instance_id:
                    continue
            else:
                continue
            return Finding(
                f"{entry.name} signs its {type(effect).__name__.removeprefix('Send')} as somebody "
                f"else than {member.member_id or 'nobody'} at generation {member.member_epoch}",
                {"client": entry.name},
            )
        return None


class JoinSettings(Property):
    """classic §3.4, §4.2."""

    id = "classic.client.join_settings"
    sentence = (
        "A JoinGroup carries the client's own timeouts, all its assignors in their order, and the "
        "topics that it subscribes to (librdkafka: those of them that exist); a cooperative member "
        "says what it owns, any other one that it owns nothing."
    )
    clauses = ("classic §3.2", "classic §3.4", "classic §4.2")
    violated_by = ("test:classic-joins-with-other-timeout",)
    client_kinds = CLASSIC_KINDS
    judges_mixed = True
    interest = Interest(events=(), effects=(SendJoinGroup,))

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Compare each field with the settings."""
        for effect in step.effects:
            if type(effect) is SendJoinGroup:
                wrong = self._wrong(entry, effect.request)
                if wrong is not None:
                    return Finding(f"{entry.name} joins with {wrong}", {"client": entry.name})
        return None

    def _wrong(self, entry: ClassicClientEntry, request: JoinGroupRequest) -> str | None:
        member = entry.member
        config = member.config
        assert isinstance(config, ClassicConsumerConfig)
        if request.session_timeout_ms != config.session_timeout_ms:
            return f"a session timeout of {request.session_timeout_ms} ms"
        if request.rebalance_timeout_ms != config.max_poll_interval_ms:
            return f"a rebalance timeout of {request.rebalance_timeout_ms} ms"
        names = [protocol.name for protocol in request.protocols]
        if names != [assignor.name for assignor in config.assignors]:
            return f"the assignors {', '.join(names)}"
        wanted = member.subscribed_topic_names
        for protocol in request.protocols:
            said = protocol.metadata
            assert isinstance(said, Subscription)
            topics = frozenset(said.topics)
            if topics != wanted if member.kind == CLASSIC else not topics <= wanted:
                return f"the topics {', '.join(sorted(topics)) or 'of nobody'}"
            owned = sum(len(row.partitions) for row in said.owned_partitions)
            if not config.is_cooperative:
                if owned:
                    return f"{owned} partitions of its own, though it is eager"
            elif owned != len(member.assigned) and self.model.topics_changed_ms < 0:
                return f"{owned} partitions of its own; it has {len(member.assigned)}"
        return None


class SyncAsJoined(Property):
    """classic §2.6, §4.2. That the leader's assignment is a good one is
    ``classic.assignment_complete``."""

    id = "classic.client.sync_as_joined"
    sentence = (
        "A SyncGroup follows on a JoinGroup that was granted, once, with its generation, member id "
        "and assignor (librdkafka names none); the leader alone brings an assignment, unless it is "
        "told to skip that."
    )
    clauses = ("classic §2.6", "classic §4.2", "classic §4.6")
    violated_by = ("test:classic-syncs-without-assignment",)
    client_kinds = CLASSIC_KINDS
    judges_mixed = True
    interest = Interest(events=(JoinGroupAnswered,), effects=(SendSyncGroup, SendJoinGroup))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._granted: dict[str, JoinGroupResponse] = self.of_process({})

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """A JoinGroup may have been granted."""
        response = step.event.response
        if response.error_code:
            self._granted.pop(entry.name, None)
        else:
            self._granted[entry.name] = response
        return None

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Compare each SyncGroup with what was granted."""
        for effect in step.effects:
            if type(effect) is SendJoinGroup:
                self._granted.pop(entry.name, None)
            elif type(effect) is SendSyncGroup:
                wrong = self._wrong(self._granted.pop(entry.name, None), effect.request)
                if wrong is not None:
                    return Finding(f"{entry.name} sent a SyncGroup {wrong}", {"client": entry.name})
        return None

    @staticmethod
    def _wrong(granted: JoinGroupResponse | None, request: SyncGroupRequest) -> str | None:
        if granted is None:
            return "and had no JoinGroup granted since its last one"
        if (request.member_id, request.generation_id) != (
            granted.member_id,
            granted.generation_id,
        ):
            return (
                f"as {request.member_id} at generation {request.generation_id}; granted was "
                f"{granted.member_id} at {granted.generation_id}"
            )
        if request.protocol_name not in (None, granted.protocol_name):
            return f"for {request.protocol_name}; selected is {granted.protocol_name}"
        leads = granted.leader == granted.member_id and not granted.skip_assignment
        if bool(request.assignments) is not leads:
            return "without an assignment, as its leader" if leads else "with an assignment"
        return None


class ClassicHeartbeatPace(Property):
    """classic §4.4, §4.6. The Java client does not wait for an answer; librdkafka does."""

    id = "classic.client.heartbeat_pace"
    sentence = (
        "Two Heartbeats of a classic client are heartbeat.interval.ms apart, unless one has failed "
        "meanwhile, or the client has joined anew; the next one of a member at rest is due within "
        "that time, or a backoff."
    )
    clauses = ("classic §4.4", "classic §4.6")
    violated_by = ("test:classic-hasty-heartbeat",)
    client_kinds = CLASSIC_KINDS
    judges_mixed = True
    interest = Interest(
        events=(ClassicHeartbeatAnswered, Disconnected, RequestExpired),
        effects=(SendClassicHeartbeat, SendJoinGroup, CloseConnection),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._sent_ms: dict[str, int] = self.of_process({})

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """After a failure the next one may come sooner."""
        self._sent_ms.pop(entry.name, None)
        return None

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Compare the times of two heartbeats."""
        for effect in step.effects:
            if type(effect) is not SendClassicHeartbeat:
                self._sent_ms.pop(entry.name, None)
                continue
            gap_ms = step.at_ms - self._sent_ms.get(entry.name, -1 << 40)
            self._sent_ms[entry.name] = step.at_ms
            if gap_ms < entry.member.heartbeat_interval_ms:
                return Finding(
                    f"{entry.name} sent Heartbeats {gap_ms} ms apart; heartbeat.interval.ms is "
                    f"{entry.member.heartbeat_interval_ms}",
                    {"client": entry.name},
                )
        return None

    def full(self, view: WorldView) -> Finding | None:
        """Judge every living client."""
        return first_among_living(view, lambda name, member: _overdue(name, member, view.now_ms))


def _overdue(name: str, member: GroupMember, now_ms: int) -> Finding | None:
    if (
        member.state is not ClientState.STABLE
        or member.coordinator_id is None
        or member.heartbeats_in_flight
        or not member.is_polling
    ):
        return None
    return late_heartbeat(name, "at rest", member, now_ms)


def late_heartbeat(name: str, state: str, member: GroupMember, now_ms: int) -> Finding | None:
    """A client that is ``state`` beats within an interval or a backoff, whichever is longer."""
    due_ms = member.next_heartbeat_due_ms
    limit_ms = now_ms + max(member.heartbeat_interval_ms, member.config.retry_backoff_max_ms)
    if due_ms is not None and due_ms <= limit_ms:
        return None
    return Finding(
        f"{name} is {state}, and its next Heartbeat is due "
        f"{'never' if due_ms is None else f'in {due_ms - now_ms} ms'}",
        {"client": name},
    )


class JoinCause(Property):
    """classic §4.2, §4.3, "Rejoin conditions". What metadata have changed matters to a leader, and
    to librdkafka."""

    id = "classic.client.join_cause"
    sentence = (
        "A classic client sends a JoinGroup only for a reason: it is not in the group, was "
        "refused something or told that the group rebalances, lost a request, gave partitions up, "
        "has heard nothing for its session timeout (librdkafka), "
        "or topics have changed; and one JoinGroup for each."
    )
    clauses = ("classic §4.2", "classic §4.3", "classic §3.5")
    violated_by = ("test:classic-joins-again",)
    client_kinds = CLASSIC_KINDS
    judges_mixed = True
    interest = Interest(
        events=(
            Subscribe,
            Unsubscribe,
            PatternMatched,
            EnforceRebalance,
            MetadataKnown,
            JoinGroupAnswered,
            SyncGroupAnswered,
            ClassicHeartbeatAnswered,
            Disconnected,
            RequestExpired,
            CoordinatorConnectionClosed,
        ),
        refusals=(CommitAnswered,),
        effects=(SendJoinGroup, RunCallback, CloseConnection, StateChanged),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._idle: set[str] = self.of_process(set())
        """Clients that have no reason to join."""
        self._joined_ms: dict[str, int] = self.of_process({})
        """Client -> when it sent its last JoinGroup; its session began later."""
        self._seen: dict[str, object] = self.of_process({})
        """Client -> topics as this process last saw them."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Is this a reason?"""
        event, name = step.event, entry.name
        if type(event) is MetadataKnown:
            counts = dict(event.partition_counts)
            if counts != self._seen.get(name):
                self._seen[name] = counts
                self._idle.discard(name)
        elif type(event) is JoinGroupAnswered:
            if event.response.error_code:
                self._idle.discard(name)
        elif type(event) is SyncGroupAnswered:
            wanted = entry.member.subscribed_topic_names
            given = getattr(event.response.assignment, "partitions", ())
            # What it does not subscribe to (any more) it does not take over (classic §3.3).
            if event.response.error_code or any(row.topic not in wanted for row in given):
                self._idle.discard(name)
        elif type(event) is CoordinatorConnectionClosed:
            # librdkafka's leader has no SyncGroup in flight yet, and cannot send it any more.
            if entry.kind != CLASSIC and entry.member.state is ClientState.RECONCILING:
                self._idle.discard(name)
        else:
            self._idle.discard(name)
        return None

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Was there one?"""
        name = entry.name
        config = entry.member.config
        assert isinstance(config, ClassicConsumerConfig)
        for effect in step.effects:
            if type(effect) is SendJoinGroup:
                # librdkafka watches its session itself, and forgets its id when that is over: at
                # whatever it handles first, if it stood still.
                has_expired = (
                    entry.kind != CLASSIC
                    and bool(entry.member_id)
                    and not effect.request.member_id
                    and step.at_ms - self._joined_ms.get(name, step.at_ms)
                    >= config.session_timeout_ms
                )
                if name in self._idle and not has_expired:
                    return Finding(
                        f"{name} sent a JoinGroup at generation {entry.member_epoch}, and nothing "
                        "has happened since its last one that calls for it",
                        {"client": name},
                    )
                self._idle.add(name)
                self._joined_ms[name] = step.at_ms
            elif type(effect) is CloseConnection:
                self._idle.discard(name)
            elif type(effect) is RunCallback:
                if effect.partitions and effect.kind is not CallbackKind.ASSIGNED:
                    self._idle.discard(name)
            elif type(effect) is StateChanged and effect.to_state not in _IN_GROUP:
                self._idle.discard(name)
        return None
