"""Nobody fails without a cause, or in silence: neither a client for good, nor a call of its
application.

Sources: client §2.3, §5, §7, §10.1; classic §4.2, §4.3. Whether a refusal itself is right is for
the properties of the coordinator to say; here it must fit what the clients are and do. A server
error is judged by ``refusal.server_error`` and ``coordinator.no_uncaught_exception``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.group_settings import takes_session
from rebalance_sim.invariants.model.ledger import MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Finding, Interest, Kind, Late, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CallbackCompleted,
    ClassicHeartbeatAnswered,
    ClientState,
    CommitAnswered,
    ConsumerConfig,
    CoordinatorSearchFailed,
    HeartbeatAnswered,
    JoinGroupAnswered,
    OffsetFetchAnswered,
    PollingStopped,
    RaiseError,
    SendJoinGroup,
    StateChanged,
    SyncGroupAnswered,
)
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.kinds import (
    CLASSIC_KINDS,
    CLIENT_KINDS,
    EVERY_KIND,
    JAVA_KINDS,
    LIBRDKAFKA_KINDS,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import ConsumerGroupMetadata, GroupMetadata

ORDER = 205

_ANSWERS = (
    HeartbeatAnswered,
    JoinGroupAnswered,
    SyncGroupAnswered,
    ClassicHeartbeatAnswered,
    CommitAnswered,
    OffsetFetchAnswered,
    CoordinatorSearchFailed,
)


def _codes(event: object) -> frozenset[ErrorCode]:
    """The errors in an answer."""
    if type(event) is CommitAnswered:
        return frozenset(filter(None, event.response.errors.values()))
    if type(event) is CoordinatorSearchFailed:
        return frozenset((event.error_code,))
    response = getattr(event, "response", None)
    if response is None:
        return frozenset()
    code = response.error_code
    return frozenset((code,)) if code else frozenset()


_TRIED_AGAIN = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
)
"""What a client joins anew for, or once more, without a word to its application (classic §4.2)."""

_PASSES = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)
"""What a Java client tries again without a word to its application (client §2.3, §2.5, §7)."""


def _assignors_of(entry: AnyClientEntry) -> frozenset[str]:
    config = entry.member.config
    if not isinstance(config, ClassicConsumerConfig):
        return frozenset()
    return frozenset(assignor.name for assignor in config.assignors)


class FatalCause(Property):
    """client §2.3, §5; classic §4.3."""

    id = "client.fatal.cause"
    sentence = (
        "A client of either protocol fails for good only by an answer whose error fits the group: "
        "its instance id is, or was, another process's, or its own under an earlier join; the "
        "clients offer different assignors, bring some of their own that not everybody has, or "
        "speak different protocols; the group was deleted, "
        "or is unknown to a coordinator that is deposed and has not heard of it; a setting is out "
        "of bounds."
    )
    clauses = ("client §2.3", "client §5", "client §10.1", "classic §4.3")
    violated_by = ("classic-forgotten-assignor",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(events=(JoinGroupAnswered,), effects=(StateChanged, SendJoinGroup))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._processes = 0
        """How many have been started: one that crashed stays a member for its session."""
        self._assignors: set[str] = set()
        """What classic clients have offered, dead or alive."""
        self._users: Counter[str] = Counter()
        """Instance id -> how many joins it has been used for."""
        self._kinds: set[str] = set()
        self._has_client_side = False
        """Whether a client has brought assignors of its own (coordinator §12.1)."""
        self._was_deleted = False
        self._strangers_to_deposed: set[str] = set()
        """Ids of members that a shard has refused, for want of the group, which serves no more."""
        self._unread: dict[str, frozenset[ErrorCode]] = self.of_process({})
        """Client -> errors in the answer to its JoinGroup, while nobody polls who would read it."""

    def on_client_started(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Remember who there is, and was."""
        self._processes += 1
        self._kinds.add(entry.kind)
        self._assignors |= _assignors_of(entry)
        config = entry.member.config
        if isinstance(config, ConsumerConfig) and config.group_local_assignors:
            self._has_client_side = True
        return None

    def on_joining(
        self, step: Step, entry: ClientEntry, request: ConsumerGroupHeartbeatRequest
    ) -> Finding | None:
        """Count joins of static members."""
        if request.instance_id is not None:
            self._users[request.instance_id] += 1
        return None

    def on_append(self, step: Step) -> Finding | None:
        """The group may have been deleted: its metadata go last, but for those of a classic group
        that was there before."""
        last = step.records[-1]
        if type(last) in (ConsumerGroupMetadata, GroupMetadata) and last.value is None:
            self._was_deleted = True
        return None

    def on_refused(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Remember what a deposed coordinator said."""
        if step.response.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            acting = self.model.acting_shard()
            if acting is None or acting.name != step.shard.name:
                self._strangers_to_deposed.add(step.request.member_id)
        return None

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A classic client looks at this answer only when its application polls (classic §4.2)."""
        if not entry.member.is_polling:
            self._unread[entry.name] = _codes(step.event)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Count joins, and judge failures."""
        for effect in step.effects:
            if type(effect) is SendJoinGroup:
                if effect.request.group_instance_id is not None:
                    self._users[effect.request.group_instance_id] += 1
            elif type(effect) is StateChanged and effect.to_state is ClientState.FATAL:
                return self._judge(step, entry)
        return None

    def _judge(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        codes = _codes(step.event)
        if type(step.event) not in _ANSWERS:
            codes = self._unread.pop(entry.name, codes)
        for code in sorted(codes):
            fits = _FITS.get(code)
            if fits is not None and fits(self, step, entry):
                return None
        told = " and ".join(code.name for code in sorted(codes)) or "no error"
        return Finding(
            f"{entry.name} failed for good, told {told} by {type(step.event).__name__}, and "
            "nothing in the group accounts for that",
            client=entry.name,
        )

    # -- what accounts for an error --------------------------------------------------------

    def shares_instance(self, step: Step, entry: AnyClientEntry) -> bool:
        instance_id = entry.member.config.group_instance_id
        if instance_id is None:
            return False
        # A commit that leaves before its JoinGroup is answered does not know the id of its own.
        is_own = type(step.event) is CommitAnswered and not entry.member_id
        return self._users[instance_id] > (0 if is_own else 1)

    def is_mixed_up(self, step: Step, entry: AnyClientEntry) -> bool:
        if type(step.event) is SyncGroupAnswered:
            return False  # It names what its own JoinGroup was answered with.
        # Of members that were loaded a coordinator knows the selected assignor alone.
        return not self._kinds.isdisjoint(CLIENT_KINDS) or self._assignors > _assignors_of(entry)

    def is_gone(self, step: Step, entry: AnyClientEntry) -> bool:
        return (
            self._was_deleted
            or self.model.went_back_at_step is not None
            or not self._kinds.isdisjoint(CLASSIC_KINDS)
            or entry.member.member_id in self._strangers_to_deposed
        )

    def is_full(self, step: Step, entry: AnyClientEntry) -> bool:
        config = self.model.config
        sizes = (config.group_max_size, config.group_consumer_max_size)
        return self._processes >= min(sizes)

    def is_out_of_bounds(self, step: Step, entry: AnyClientEntry) -> bool:
        own = entry.member.config
        return isinstance(own, ClassicConsumerConfig) and not takes_session(
            self.model.config, own.session_timeout_ms
        )

    def is_unknown_assignor(self, step: Step, entry: AnyClientEntry) -> bool:
        own = entry.member.config
        if not isinstance(own, ConsumerConfig) or own.group_local_assignors:
            # It may be that nobody would have an assignor that everybody has (coordinator §12.1).
            return self._has_client_side
        name = own.group_remote_assignor
        return name is not None and name not in self.model.config.group_consumer_assignors

    def is_judged_elsewhere(self, step: Step, entry: AnyClientEntry) -> bool:
        return True


_FITS: Mapping[ErrorCode, Callable[[FatalCause, Step, AnyClientEntry], bool]] = MappingProxyType(
    {
        ErrorCode.UNRELEASED_INSTANCE_ID: FatalCause.shares_instance,
        ErrorCode.FENCED_INSTANCE_ID: FatalCause.shares_instance,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: FatalCause.is_mixed_up,
        ErrorCode.GROUP_ID_NOT_FOUND: FatalCause.is_gone,
        ErrorCode.GROUP_MAX_SIZE_REACHED: FatalCause.is_full,
        ErrorCode.INVALID_SESSION_TIMEOUT: FatalCause.is_out_of_bounds,
        ErrorCode.UNSUPPORTED_ASSIGNOR: FatalCause.is_unknown_assignor,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: FatalCause.is_judged_elsewhere,
        ErrorCode.UNKNOWN_SERVER_ERROR: FatalCause.is_judged_elsewhere,
    }
)
"""Error -> whether something about the group, its clients and settings accounts for it."""


class ErrorCause(Property):
    """client §4.2, §5, §7."""

    id = "client.error.cause"
    sentence = (
        "A call of the application raises what the client of either protocol was answered, once "
        "for each answer, but nothing for which it joins anew by itself, and a Java client nothing "
        "that passes; or because a callback has failed, or because librdkafka's poll timer has run "
        "out."
    )
    clauses = ("client §5", "client §4.2", "client §7", "classic §4.2")
    violated_by = ("KAFKA-17294",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(
        events=(CallbackCompleted, PollingStopped), refusals=_ANSWERS, effects=(RaiseError,)
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._causes: dict[str, Counter[ErrorCode | None]] = self.of_process({})
        """Client -> error -> how often it may still be raised; None: no error of the protocol."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Remember what may be raised."""
        event = step.event
        codes: frozenset[ErrorCode | None] = _codes(event)
        if not codes and type(event) not in (CallbackCompleted, PollingStopped):
            return None
        if type(event) in (JoinGroupAnswered, SyncGroupAnswered):
            codes -= _TRIED_AGAIN
        elif entry.kind in JAVA_KINDS:
            codes -= _PASSES
        if type(event) is CallbackCompleted:
            codes = frozenset((None,)) if event.failed else frozenset()
        elif type(event) is PollingStopped and entry.kind in LIBRDKAFKA_KINDS:
            codes = frozenset((None,))
        if codes:
            self._causes.setdefault(entry.name, Counter()).update(codes)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Has something happened that may be raised?"""
        for effect in step.effects:
            if type(effect) is not RaiseError:
                continue
            causes = self._causes.get(entry.name)
            if causes is None or causes[effect.error_code] < 1:
                what = effect.error_code.name if effect.error_code else "an error"
                return Finding(
                    f"the application of {entry.name} is raised {what} ({effect.message}), which "
                    "nothing since the last one accounts for",
                    client=entry.name,
                )
            causes[effect.error_code] -= 1
        return None


class FatalIsTold(Property):
    """client §1.3, rows 22 to 24; classic §4.2. What an application makes of it is its own affair:
    most close the client, and begin anew."""

    id = "client.fatal.told"
    sentence = (
        "A client of either protocol that has failed for good, and whose application polls, has "
        "raised an error since."
    )
    clauses = ("client §1.3", "client §10.1", "classic §4.2")
    violated_by = ("test:fails-in-silence",)
    kind = Kind.EVENTUALLY
    deadline = Deadline.END

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Clients that are dead, and whose application does not know."""
        for name, entry in self.model.every_client():
            member = entry.member
            if (
                member.state is ClientState.FATAL
                and entry.raised_ms < entry.state_since_ms < at_ms - quiet.slack_ms
                and member.is_polling
                and not member.is_closed
                and member.blocked_in is None
                and member.running_callback is None
            ):
                what = "has failed for good, and has not raised an error"
                yield Late(name, what, entry.state_since_ms)
