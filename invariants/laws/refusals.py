"""Every refusal has a cause: for each code, what it says of the request and of the group before it.

A code without a row is no answer to such a request. That a request should have been refused, and
was not, is the matter of fences: ``coordinator.epoch_fence``, ``offsets.commit_fenced``,
``classic.commit_fenced``, ``classic.removed_member_refused``.
Sources: coordinator §2.11, §8.1-§8.6; classic §2.1-§2.8, §7.3-§7.6, §8.4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, NamedTuple

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.deleted_partitions import vanished_partition
from rebalance_sim.invariants.model.group_settings import takes_session
from rebalance_sim.invariants.model.heartbeat_case import HeartbeatCase
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.consumer.epochs import explains_lost_response
from rebalance_sim.invariants.properties.offsets.offsets import kept_since
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire import consumer_messages as consumer
from rebalance_sim.protocol.wire import offset_messages as offsets
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest, LeaveGroupRequest
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from rebalance_sim.protocol.wire.embedded import CONSUMER_PROTOCOL_TYPE, Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition

ORDER = 131


class _Asked(NamedTuple):
    """A request, or an entry of one, and the group as it was found: a consumer group if the ledger
    has one, else a classic one, if there is any."""

    model: ModelView
    step: Step
    ledger: GroupLedger
    classic: ClassicModel
    request: Any
    partition: TopicPartition | None = None

    @property
    def config(self) -> CoordinatorConfig:
        return self.step.shard.configs.broker

    @property
    def epoch(self) -> int:
        """Member epoch or generation; a JoinGroup has none."""
        names = ("member_epoch", "generation_id", "generation_id_or_member_epoch")
        return next((getattr(self.request, n) for n in names if hasattr(self.request, n)), 0)

    @property
    def member_id(self) -> str:
        return getattr(self.request, "member_id", None) or ""

    @property
    def instance_id(self) -> str | None:
        other = getattr(self.request, "instance_id", None)
        return getattr(self.request, "group_instance_id", other)

    @property
    def entry(self) -> MemberEntry | None:
        return self.ledger.members.get(self.member_id)

    @property
    def members(self) -> Collection[str]:
        return (self.ledger if self.ledger.has_group else self.classic).members.keys()

    @property
    def state(self) -> ClassicGroupState:
        """Of a classic group; one that is not there is Empty."""
        now = self.classic.snapshot
        return ClassicGroupState.EMPTY if now is None else now.state

    @property
    def holder(self) -> str | None:
        """Who has the instance id of the request."""
        instance_id = self.instance_id
        if self.ledger.has_group:
            return None if instance_id is None else self.ledger.instances.get(instance_id)
        notes = {} if instance_id is None else self.classic.members
        return next((m for m, n in notes.items() if n.group_instance_id == instance_id), None)

    @property
    def topic(self) -> Topic | None:
        """That of the partition, as this broker knows it."""
        called = "" if self.partition is None else self.partition.topic_id
        image, wire_topics = self.step.shard.coordinator.image, self.request.wire_topics
        has_ids = getattr(self.request, "api_version", 0) >= offsets.FIRST_VERSION_WITH_TOPIC_IDS
        topics = image.by_id if has_ids or not wire_topics else image.by_name
        return topics.get(wire_topics.get(called, called))

    def epoch_of(self, member_id: str | None) -> int | None:
        """The epoch or generation at which a member is."""
        if self.ledger.has_group:
            entry = self.ledger.members.get(member_id or "")
            return None if entry is None else entry.epoch
        return None if self.classic.snapshot is None else self.classic.snapshot.generation_id


_Causes = Mapping[ErrorCode, tuple[str, Callable[[_Asked], bool]]]


class _Refusals(Property):
    """``causes``: what each code says, and whether that is so."""

    causes: ClassVar[_Causes]
    judges_mixed = True

    def judge(self, code: ErrorCode, asked: _Asked) -> Finding | None:
        says, holds = self.causes.get(code, ("it is an answer to that", lambda _: False))
        if holds(asked):
            return None
        current = asked.entry.current if asked.entry else None
        what = type(asked.request).__name__.removesuffix("Request")
        at = "" if asked.partition is None else f" for {self.model.name_of(asked.partition)}"
        return Finding(
            f"{what} of {self.model.who(asked.member_id) or 'nobody'} at epoch {asked.epoch}{at} "
            f"was answered {code.name}, and it is not so that {says}",
            {
                "member": asked.member_id,
                "code": code.name,
                "epoch": asked.epoch,
                "request_epoch": asked.epoch,
                "stored_epoch": asked.epoch_of(asked.member_id),
                "previous_epoch": current.previous_member_epoch if current else None,
                "holder": asked.holder,
                "predecessor_epoch": asked.epoch_of(asked.holder) if asked.holder else None,
            },
        )


def _is_unknown(asked: _Asked) -> bool:
    is_unheld = asked.instance_id is not None and asked.holder is None
    return asked.member_id not in asked.members or is_unheld


def _is_held_by_other(asked: _Asked) -> bool:
    return asked.holder not in (None, asked.member_id)


def _is_full(asked: _Asked) -> bool:
    """A member has a seat, and so has the instance id of one; in a classic group, an instance id
    has none, and in a join phase only who has joined has one."""
    config, is_classic = asked.config, isinstance(asked.request, JoinGroupRequest)
    if is_classic and not asked.ledger.has_group:
        is_joining = asked.state is ClassicGroupState.PREPARING_REBALANCE
        is_seated, limit = (
            not is_joining and asked.member_id in asked.members,
            config.group_max_size,
        )
    else:
        is_seated = asked.member_id in asked.members or asked.holder is not None
        limit = config.group_consumer_max_size
    return not is_seated and len(asked.members) >= limit


_UNKNOWN = "no member has that id, or that instance id"
_FENCED = "another member has that instance id"
_FULL = "the group is full, and the sender has no seat in it"

# -- heartbeats --------------------------------------------------------------------------------


def _is_malformed(asked: _Asked) -> bool:
    """coordinator V1-V11; and whether a member comes with another instance id (coordinator D2)."""
    request, epoch, entry = asked.request, asked.epoch, asked.entry
    note = None if asked.ledger.has_group else asked.classic.members.get(asked.member_id)
    own = entry.instance_id if entry else note.group_instance_id if note else None
    subscription = request.subscribed_topic_names, request.subscribed_topic_regex
    is_incomplete = (
        request.rebalance_timeout_ms == consumer.UNCHANGED_TIMEOUT_MS
        or request.topic_partitions != frozenset()
        or subscription == (None, None)
    )
    is_unsigned = not request.member_id.strip() and (request.api_version > 0 or epoch != JOIN_EPOCH)
    texts = (request.group_id, request.instance_id, request.rack_id)
    return (
        any(text is not None and not text.strip() for text in texts)
        or is_unsigned
        or (is_incomplete and epoch == JOIN_EPOCH)
        or epoch < STATIC_LEAVE_EPOCH
        or (epoch == STATIC_LEAVE_EPOCH and request.instance_id is None)
        or (own is not None and request.instance_id not in (None, own))
    )


def _finds_no_group(asked: _Asked) -> bool:
    """Who joins makes one, unless there is a classic one that cannot be converted (classic §7.3):
    it is not to be, is too large, or has what a consumer group cannot read."""
    group = asked.classic.group
    if asked.ledger.has_group or asked.epoch != JOIN_EPOCH:
        return not asked.ledger.has_group
    if group is None or asked.state is ClassicGroupState.EMPTY:
        return False
    members = group.members.values()
    return (
        not asked.model.can_upgrade(asked.step.shard)
        or group.protocol_type != CONSUMER_PROTOCOL_TYPE
        or len(members) > asked.config.group_consumer_max_size
        or not all(isinstance(p.metadata, Subscription) for m in members for p in m.protocols)
        or any(
            m.assignment not in (None, b"")
            and getattr(m.assignment, "user_data", m.assignment) is not None
            for m in members
        )
    )


def _is_unreleased(asked: _Asked) -> bool:
    entry = asked.ledger.members.get(asked.holder or "")
    if asked.epoch != JOIN_EPOCH or not _is_held_by_other(asked) or entry is None:
        return False
    return entry.epoch != STATIC_LEAVE_EPOCH and not entry.is_classic


def _is_at_other_epoch(asked: _Asked) -> bool:
    """Who joins comes at none, unless it is converted to the generation of its group first."""
    entry, epoch = asked.entry, asked.epoch
    if entry is None:
        return not asked.ledger.has_group and asked.member_id in asked.members
    is_explained = explains_lost_response(asked.model, entry, asked.request)
    return epoch not in (JOIN_EPOCH, entry.epoch) and not is_explained


def _has_new_pattern(asked: _Asked) -> bool:
    pattern = asked.request.subscribed_topic_regex
    return bool(pattern) and pattern not in asked.ledger.pattern_count


class RefusalCause(_Refusals):
    """coordinator §2.11."""

    id = "refusal.cause"
    sentence = (
        "A heartbeat is refused only for what its code says of the member, its epoch, its "
        "instance, the group or the request: who joins again, or has missed an answer, is let in."
    )
    clauses = ("coordinator §2.11", "classic §7.3", "defects L1", "defects L4", "defects L7")
    violated_by = (
        "KAFKA-17228",
        "KAFKA-17733",
        "KAFKA-19233",
        "KAFKA-20601",
        "KIP-848-lost-response",
        "PR-23542",
        "test:refuses-without-cause",
    )
    causes: ClassVar[_Causes] = {
        ErrorCode.INVALID_REQUEST: ("the request lacks something, or is odd", _is_malformed),
        ErrorCode.UNSUPPORTED_ASSIGNOR: (
            "the broker has no such assignor",
            lambda a: a.request.server_assignor not in (None, *a.config.group_consumer_assignors),
        ),
        ErrorCode.INVALID_REGULAR_EXPRESSION: ("its pattern is new", _has_new_pattern),
        ErrorCode.GROUP_ID_NOT_FOUND: ("there is no group for it", _finds_no_group),
        ErrorCode.GROUP_MAX_SIZE_REACHED: (_FULL, _is_full),
        ErrorCode.UNKNOWN_MEMBER_ID: (_UNKNOWN, lambda a: a.epoch != 0 and _is_unknown(a)),
        ErrorCode.FENCED_INSTANCE_ID: (_FENCED, lambda a: a.epoch != 0 and _is_held_by_other(a)),
        ErrorCode.UNRELEASED_INSTANCE_ID: (f"{_FENCED}, and stays", _is_unreleased),
        ErrorCode.FENCED_MEMBER_EPOCH: (
            "it comes at another epoch than its own, and missed no answer",
            _is_at_other_epoch,
        ),
    }

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Look at refusals; of an instance id that was given up for another, nothing is said
        (coordinator D2)."""
        code, request = step.response.error_code, step.request
        if not code or code is ErrorCode.UNKNOWN_SERVER_ERROR:  # ``refusal.server_error``
            return None
        if request.instance_id is not None and self.model.former_instances:
            return None
        classic = self.model.classic.get(step.shard.name) or ClassicModel()
        return self.judge(code, _Asked(self.model, step, case.ledger, classic, request))


# -- requests of the classic protocol ----------------------------------------------------------

_FIRST_JOIN_WITH_MEMBER_ID_REQUIRED = 4


def _lacks_id(asked: _Asked) -> bool:
    request = asked.request
    return (
        isinstance(request, JoinGroupRequest)
        and not (request.member_id or request.group_instance_id is not None)
        and request.api_version >= _FIRST_JOIN_WITH_MEMBER_ID_REQUIRED
    )


def _is_shut_out(asked: _Asked) -> bool:
    is_disabled = asked.config.group_consumer_migration_policy == "disabled"
    return asked.ledger.has_group and is_disabled


def _is_strange(asked: _Asked) -> bool:
    """A member of the consumer protocol is none of this one. Who joins with what it owns of an
    older generation has missed one (classic-reused-generation)."""
    request, now = asked.request, asked.classic.snapshot
    if not isinstance(request, JoinGroupRequest):
        return _is_unknown(asked) or (asked.entry is not None and not asked.entry.is_classic)
    generation = getattr(request.protocols[0].metadata, "generation_id", -1)
    has_missed = now is not None and 0 <= generation < now.generation_id
    if not asked.member_id or asked.member_id in asked.classic.pending:
        return False
    return _is_unknown(asked) or (has_missed and asked.model.rules.fences_joins)


def _speaks_otherwise(asked: _Asked) -> bool:
    """Type and assignors; a JoinGroup needs one that every member offers."""
    request, ledger, classic = asked.request, asked.ledger, asked.classic
    of_group = CONSUMER_PROTOCOL_TYPE
    if ledger.has_group:
        values = [e.metadata.classic_member_metadata for e in ledger.members.values() if e.metadata]
        offers = [[name for name, _ in v.supported_protocols] for v in values if v is not None]
    else:
        offers = [list(note.protocol_names) for note in classic.members.values()]
        of_group = classic.group.protocol_type or "" if classic.group else ""
    if isinstance(request, JoinGroupRequest):
        if not ledger.has_group and asked.state is ClassicGroupState.EMPTY:
            return not request.protocol_type or not request.protocols
        names = [name for name, _ in request.protocols]
        has_common = any(all(name in offered for offered in offers) for name in names)
        return _is_shut_out(asked) or request.protocol_type != of_group or not has_common
    known = classic.protocols.get(asked.epoch)
    if asked.entry and asked.entry.metadata and asked.entry.metadata.classic_member_metadata:
        known = asked.entry.metadata.classic_member_metadata.supported_protocols[0].name
    name = getattr(request, "protocol_name", None)
    is_other = None not in (name, known) and name != known
    return is_other or getattr(request, "protocol_type", None) not in (None, of_group)


def _is_called_back(asked: _Asked) -> bool:
    """In a consumer group, a member is behind, or gives up or waits for something; or all are of
    this protocol, and topics may have changed. A conversion that fails has answered who waited."""
    entry, ledger, now, model = asked.entry, asked.ledger, asked.classic.snapshot, asked.model
    if asked.member_id in model.unparked or (now and now.generation_id in model.restored):
        return True
    if isinstance(asked.request, JoinGroupRequest):
        return False
    if ledger.has_group:
        is_alone = ledger.classic_count == len(ledger.members) and model.rules.calls_back_for_target
        is_behind = entry is not None and entry.epoch < ledger.group_epoch
        return is_alone or is_behind or bool(entry and entry.state is not MemberState.STABLE)
    has_generation = (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE)
    return now is None or now.state not in has_generation or now.generation_id != asked.epoch


_OF_WHO_IS_GONE = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
_OF_THE_BROKER = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""A write that failed, or a shard that was given up, while somebody waited (coordinator §9.6)."""


class ClassicRefusalCause(_Refusals):
    """classic §2.2-§2.8, §7.5, §7.6."""

    id = "classic.refusal_cause"
    sentence = (
        "A JoinGroup, SyncGroup, Heartbeat or LeaveGroup is refused only for what its code says of "
        "the sender, its generation, its assignors or the group, when it comes or while it waits; "
        "nobody joins who was not told its member id."
    )
    clauses = ("classic §1.7", "classic §2.1", "classic §2.8", "classic §7.5", "classic §7.6")
    violated_by = (
        "KAFKA-20640",
        "KAFKA-7824",
        "test:classic-refuses-right-protocol",
        "test:classic-refuses-present-generation",
        "test:classic-parked-for-nothing",
        "test:classic-leave-refused",
        "test:hybrid-called-back-for-nothing",
        "test:hybrid-sync-refused",
    )
    causes: ClassVar[_Causes] = {
        ErrorCode.NONE: ("it was told its member id", lambda a: not _lacks_id(a)),
        ErrorCode.INVALID_GROUP_ID: ("it names no group", lambda a: not a.request.group_id),
        ErrorCode.INVALID_SESSION_TIMEOUT: (
            "the broker has no sessions of that length",
            lambda a: not takes_session(a.config, getattr(a.request, "session_timeout_ms", 0)),
        ),
        ErrorCode.GROUP_MAX_SIZE_REACHED: (_FULL, _is_full),
        ErrorCode.MEMBER_ID_REQUIRED: (
            "it lacks a member id, and may join",
            lambda a: (
                _lacks_id(a) and not (_is_shut_out(a) and a.model.rules.has_assignment_interval)
            ),
        ),
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ("it speaks otherwise", _speaks_otherwise),
        ErrorCode.UNKNOWN_MEMBER_ID: (_UNKNOWN, _is_strange),
        ErrorCode.FENCED_INSTANCE_ID: (
            _FENCED,
            lambda a: bool(a.member_id) and _is_held_by_other(a),
        ),
        ErrorCode.ILLEGAL_GENERATION: (
            "the generation is another one",
            lambda a: a.epoch != a.epoch_of(a.member_id),
        ),
        ErrorCode.REBALANCE_IN_PROGRESS: ("there is a rebalance for it", _is_called_back),
    }

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._parked: dict[tuple[str, int], frozenset[ErrorCode]] = {}
        """Shard and operation of a request that waits -> all that was right when it came."""

    def before_classic(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel
    ) -> Finding | None:
        """Look at the answer; whoever waits has been let in so far."""
        asked = _Asked(self.model, step, ledger, classic_model, step.request)
        if ledger.has_group and (
            not ledger.members
            or self.model.former_instances
            or not self.model.rules.assigns_in_heartbeat
        ):
            return None
        if type(step.request) is LeaveGroupRequest:
            return self._judge_leave(asked)
        if step.response is not None:
            return self.judge(step.response.error_code, asked)
        if not ledger.has_group:
            right = (code for code, (_, holds) in self.causes.items() if holds(asked))
            self._parked[step.shard.name, step.operation] = frozenset(right)
        return None

    def _judge_leave(self, asked: _Asked) -> Finding | None:
        left: set[str] = set()
        for identity, row in zip(asked.request.members, asked.step.response.members, strict=False):
            one = asked._replace(request=identity)
            member_id = identity.member_id or one.holder or ""  # An administrator names no id.
            one = one._replace(request=identity._replace(member_id=member_id))
            if row.error_code and member_id not in left:
                finding = self.judge(row.error_code, one)
                if finding is not None:
                    return finding
            left.add(member_id)
        return None

    def on_classic_answer(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """A parked request is answered: what was right when it came, or has become so."""
        right = self._parked.pop((step.shard.name, step.operation), None)
        code: ErrorCode = step.response.error_code
        if right is None or code in right or code in _OF_THE_BROKER:
            return None
        is_gone = step.request.member_id not in classic_model.members
        if code in _OF_WHO_IS_GONE and (is_gone or classic_model.snapshot is None):
            return None
        nothing = self.model.new_ledger()
        return self.judge(code, _Asked(self.model, step, nothing, classic_model, step.request))

    def on_unloaded(self, step: Step) -> Finding | None:
        """Nobody waits at this shard any more."""
        name = step.shard.name
        self._parked = {key: codes for key, codes in self._parked.items() if key[0] != name}
        return None


# -- offsets -----------------------------------------------------------------------------------

_FIRST_COMMIT_WITH_MEMBER_EPOCH = 9


def _is_missing(asked: _Asked) -> bool:
    topic, partition = asked.topic, asked.partition
    if topic is None or partition is None:
        return True
    return not 0 <= partition.partition < topic.partition_count


def _has_no_group(asked: _Asked) -> bool:
    return not asked.ledger.has_group and asked.classic.snapshot is None


def _is_foreign(asked: _Asked) -> bool:
    """Who comes at no epoch needs not be a member, unless somebody is."""
    is_in_use = bool(asked.members) or asked.state is not ClassicGroupState.EMPTY
    return (asked.epoch >= 0 or is_in_use) and _is_unknown(asked)


def _is_stale(asked: _Asked) -> bool:
    """A commit of an older epoch is good for partitions that were kept since."""
    entry, epoch = asked.entry, asked.epoch
    if entry is None or entry.is_classic or epoch == entry.epoch:
        return False
    if not isinstance(asked.request, offsets.OffsetCommitRequest) or not 0 < epoch < entry.epoch:
        return True
    errors = asked.step.response.errors.items()
    refused = [p for p, code in errors if code is ErrorCode.STALE_MEMBER_EPOCH]
    return not asked.model.rules.tolerates_older_commits or not kept_since(entry, epoch, refused)


def _is_of_other_generation(asked: _Asked) -> bool:
    """Of a member of the classic protocol, or where there is no group."""
    if asked.ledger.has_group and not (asked.entry and asked.entry.is_classic):
        return False
    return asked.epoch != asked.epoch_of(asked.member_id)


def _has_members(asked: _Asked) -> bool:
    """To offsets, these matter only if nobody can say what they subscribe to."""
    group = None if asked.ledger.has_group else asked.classic.group
    if isinstance(asked.request, consumer.DeleteGroupsRequest):
        return bool(asked.members) or (
            not asked.ledger.has_group and asked.state is not ClassicGroupState.EMPTY
        )
    return group is not None and group.protocol_type != CONSUMER_PROTOCOL_TYPE


_OFFSET_CAUSES: _Causes = {
    ErrorCode.UNKNOWN_TOPIC_ID: ("there is no such topic", lambda a: a.topic is None),
    ErrorCode.UNKNOWN_MEMBER_ID: (_UNKNOWN, _is_foreign),
    ErrorCode.STALE_MEMBER_EPOCH: ("its epoch is another one, and partitions lost", _is_stale),
    ErrorCode.ILLEGAL_GENERATION: ("its generation is another one", _is_of_other_generation),
}


class _OfOffsets(_Refusals):
    """A request as a whole has a code, or each of its partitions."""

    def before_offsets(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """Look at what is refused."""
        errors: dict[TopicPartition | None, ErrorCode] = {**getattr(step.response, "errors", {})}
        errors[None] = getattr(step.response, "error_code", ErrorCode.NONE)
        classic = classic_model or ClassicModel()
        asked = _Asked(self.model, step, ledger, classic, step.request)
        refused = (pair for pair in errors.items() if pair[1])
        findings = (self.judge(code, asked._replace(partition=p)) for p, code in refused)
        return next(filter(None, findings), None)


class CommitRefusalCause(_OfOffsets):
    """coordinator §8.1, classic §8.4."""

    id = "offsets.commit_refusal_cause"
    sentence = (
        "A commit is refused only for what its code says of the committer, its epoch or "
        "generation, the group, the partition or the text beside the offset; not at an older "
        "epoch, if the member has kept its partitions since."
    )
    clauses = ("coordinator §8.1", "coordinator §8.4", "classic §8.4", "defects L4")
    violated_by = (
        "KAFKA-20066",
        "PR-16145",
        "test:commit-refused-for-nothing",
        "test:classic-commit-refused-for-nothing",
    )
    interest = Interest(requests=(offsets.OffsetCommitRequest,))
    causes: ClassVar[_Causes] = {
        **_OFFSET_CAUSES,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ("there is no such partition", _is_missing),
        ErrorCode.OFFSET_METADATA_TOO_LARGE: (
            "the text is longer than the broker takes",
            lambda a: (
                len(a.request.metadata.get(a.partition, "").encode("utf-16-le"))
                > 2 * a.config.offset_metadata_max_bytes
            ),
        ),
        ErrorCode.GROUP_ID_NOT_FOUND: ("there is no group", _has_no_group),
        ErrorCode.FENCED_INSTANCE_ID: (_FENCED, _is_held_by_other),
        ErrorCode.UNSUPPORTED_VERSION: (
            "this version has no member epochs",
            lambda a: a.request.api_version < _FIRST_COMMIT_WITH_MEMBER_EPOCH,
        ),
        ErrorCode.REBALANCE_IN_PROGRESS: (
            "nobody knows yet who owns what",
            lambda a: a.state is ClassicGroupState.COMPLETING_REBALANCE,
        ),
    }


class FetchRefusalCause(_OfOffsets):
    """coordinator §8.2."""

    id = "offsets.fetch_refusal_cause"
    sentence = (
        "An offset fetch is refused only if it is signed by somebody who is no member, or not at "
        "the member's epoch; only a topic id that is gone is an error of its own."
    )
    clauses = ("coordinator §8.2", "coordinator §8.4")
    violated_by = ("test:fetch-refused-for-nothing",)
    interest = Interest(requests=(offsets.OffsetFetchRequest,))
    causes: ClassVar[_Causes] = _OFFSET_CAUSES

    def before_offsets(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """A fetch that does not wait is checked against what is committed."""
        shard = step.shard
        is_newest = shard.high_watermark >= shard.log_end_offset
        if step.request.require_stable or (is_newest and not self.model.shows_dropped_group(shard)):
            return super().before_offsets(step, ledger, classic_model)
        return None


class DeletionRefusalCause(_OfOffsets):
    """coordinator §8.3, §8.6."""

    id = "offsets.deletion_refusal_cause"
    sentence = (
        "Offsets are deleted on request unless the group, the partition or a subscription stands "
        "against it, and a group unless it has members."
    )
    clauses = ("coordinator §8.3", "coordinator §8.6", "classic §8.5")
    violated_by = ("test:empty-group-stays", "test:consumers-keep-offsets")
    interest = Interest(requests=(consumer.DeleteGroupsRequest, offsets.OffsetDeleteRequest))
    causes: ClassVar[_Causes] = {
        ErrorCode.NON_EMPTY_GROUP: ("the group has members", _has_members),
        ErrorCode.GROUP_ID_NOT_FOUND: ("there is no group", _has_no_group),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ("there is no such partition", _is_missing),
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
            "somebody subscribes to the topic",  # Of a classic group, only its leader knows.
            lambda a: (
                not a.ledger.has_group
                or (a.topic is not None and a.topic.name in a.ledger.all_names())
            ),
        ),
    }


# -- any request -------------------------------------------------------------------------------


class RefusalWritesNothing(Property):
    """coordinator §2.11. In the KIP's text a wrong epoch also removes the member
    (coordinator §13, row 7)."""

    id = "refusal.writes_nothing"
    sentence = "A refused request changes nothing."
    clauses = ("coordinator §2.11", "coordinator C17")
    violated_by = ("test:refusal-with-records",)
    judges_mixed = True

    def on_append(self, step: Step) -> Finding | None:
        """Was it refused?"""
        code = getattr(step.response, "error_code", None)
        is_fenced = code is ErrorCode.FENCED_MEMBER_EPOCH and self.model.rules.removes_fenced_member
        if not code or is_fenced:
            return None
        return Finding(f"a request was refused with {code.name} and wrote records")


class ServerNeverFails(Property):
    """coordinator §5.6: a target that cannot be computed blocks the whole group."""

    id = "refusal.server_error"
    sentence = "No heartbeat fails with an unexpected server error."
    clauses = ("coordinator §5.6", "defects L1", "defects L2")
    violated_by = ("KAFKA-16930", "classic-early-conversion", "classic-vanished-partition")
    judges_mixed = True

    def on_refused(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Did the coordinator itself fail?"""
        if step.response.error_code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            return None
        request, why = step.request, step.response.error_message or "no reason given"
        converts = self.model.classic_group_in(step.shard) is not None
        return Finding(
            f"{self.model.who(request.member_id)} at epoch {request.member_epoch} met {why}",
            {
                "member": request.member_id,
                "converts_classic_group": converts and request.member_epoch == JOIN_EPOCH,
                "has_vanished_partition": vanished_partition(self.model, step.shard),
            },
        )
