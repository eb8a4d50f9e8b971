"""Every refusal has a cause: for each code, what it says of the request and of the group before it.

A code without a row is no answer to such a request. What must be refused, fences say
(``coordinator.epoch_fence``, ``offsets.commit_fenced``).
Sources: coordinator §2.11, §8.1-§8.6; classic §2.1-§2.8, §7.3-§7.6, §8.4.
"""

from __future__ import annotations

from typing import ClassVar

from rebalance_sim.invariants.laws.asked import (
    EMPTY,
    FENCED,
    OTHER_GENERATION,
    UNKNOWN,
    Asked,
    Causes,
    Refusals,
)
from rebalance_sim.invariants.laws.epochs import explains_lost_response
from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.group_settings import takes_session
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.property import Finding, Interest, Property, notes
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire import consumer_messages as consumer
from rebalance_sim.protocol.wire.assignment_messages import ClientAssignor
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.embedded import CONSUMER_PROTOCOL_TYPE, Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import MemberState

_STABLE = ClassicGroupState.STABLE
_PREPARING = ClassicGroupState.PREPARING_REBALANCE
_COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
_FIRST_JOIN_WITH_ID = 4


def _is_full(a: Asked) -> bool:
    """A member has a place, and so has the instance id of who joins; in a classic group, that has
    none, and while generations change only members that have joined again have one."""
    is_classic = isinstance(a.request, JoinGroupRequest) and not a.is_consumer
    limit = a.config.group_max_size if is_classic else a.config.group_consumer_max_size
    is_member = a.member_id in a.members and a.state is not _PREPARING
    return len(a.members) >= limit and not (
        is_member or (a.holder and a.epoch == 0 and not is_classic)
    )


_FULL = "the group is full, and the sender does not count as a member"


def _is_malformed(a: Asked) -> bool:
    """coordinator V1-V11; and whether a member comes with another instance id (coordinator D2)."""
    request, note = a.request, None if a.is_consumer else a.classic.members.get(a.member_id)
    own = a.entry.instance_id if a.entry else note and note.group_instance_id
    joins, is_away = a.epoch == 0, a.epoch == consumer.STATIC_LEAVE_EPOCH
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    offered = request.client_assignors or ()
    texts = (request.group_id, a.instance_id, request.rack_id)
    return (
        any(text is not None and not text.strip() for text in texts)
        or (not a.member_id.strip() and (request.api_version > 0 or not joins))
        or (joins and request.rebalance_timeout_ms <= 0)
        or (joins and (request.topic_partitions != frozenset() or names is pattern is None))
        or a.epoch < consumer.STATIC_LEAVE_EPOCH
        or (is_away and a.instance_id is None)
        or (own is not None and a.instance_id not in (None, own))
        or any(map(_is_odd, offered))
        or (offered and request.server_assignor is not None)
        or len({one.name for one in offered}) < len(offered)
    )


def _is_odd(assignor: ClientAssignor) -> bool:
    """Its versions are none, or leave that of its metadata out."""
    low, high = assignor.minimum_version, assignor.maximum_version
    is_none = not assignor.name.strip() or low < -1 or high < max(low, 0)
    return is_none or not low <= assignor.metadata_version <= high or assignor.reason < 0


def _finds_no_group(a: Asked) -> bool:
    """Who joins makes one, unless there is a classic one that cannot be converted (classic §7.3):
    it is not to be, is too large, or has what a consumer group cannot read."""
    group = a.classic.group
    if a.is_consumer or a.epoch != 0 or group is None or a.state is EMPTY:
        return not a.is_consumer and a.epoch != 0
    members = group.members.values()
    given = [m.assignment for m in members if m.assignment not in (None, b"")]
    return (
        not a.model.can_upgrade(a.step.shard)
        or group.protocol_type != CONSUMER_PROTOCOL_TYPE
        or len(members) > a.config.group_consumer_max_size
        or not all(isinstance(p.metadata, Subscription) for m in members for p in m.protocols)
        or any(getattr(assignment, "user_data", assignment) is not None for assignment in given)
    )


def _is_unreleased(a: Asked) -> bool:
    entry = a.ledger.members.get(a.holder or "")
    has_left = entry is None or entry.epoch == consumer.STATIC_LEAVE_EPOCH or entry.is_classic
    return a.epoch == 0 and a.is_held_by_other and not has_left


def _is_at_other_epoch(a: Asked) -> bool:
    """Who joins comes at none, unless it is converted to the generation of its group first."""
    if a.entry is None:
        return not a.is_consumer and a.member_id in a.members
    is_explained = explains_lost_response(a.model, a.entry, a.request)
    return a.epoch > 0 and a.epoch != a.entry.epoch and not is_explained


class RefusalCause(Refusals):
    """coordinator §2.11."""

    id = "refusal.cause"
    sentence = (
        "A heartbeat is refused only for what its code says of member, epoch, instance, group or "
        "request: who joins again, or has missed an answer, is admitted."
    )
    clauses = ("coordinator §2.11", "classic §7.3", "defects L1", "defects L4", "defects L7")
    violated_by = (
        *("KAFKA-17228", "KAFKA-17733", "KAFKA-19233", "KAFKA-20601", "KIP-848-lost-response"),
        "PR-23542",
    )
    causes: ClassVar[Causes] = {
        ErrorCode.INVALID_REQUEST: ("the request lacks something, or is odd", _is_malformed),
        ErrorCode.UNSUPPORTED_ASSIGNOR: (
            "the broker, or a member, has no such assignor",
            lambda a: (
                a.request.client_assignors
                or a.request.server_assignor not in (None, *a.config.group_consumer_assignors)
            ),
        ),
        ErrorCode.INVALID_REGULAR_EXPRESSION: (
            "its pattern is new",
            lambda a: a.request.subscribed_topic_regex not in (None, "", *a.ledger.pattern_count),
        ),
        ErrorCode.GROUP_ID_NOT_FOUND: ("there is no group for it", _finds_no_group),
        ErrorCode.GROUP_MAX_SIZE_REACHED: (_FULL, _is_full),
        ErrorCode.UNKNOWN_MEMBER_ID: (UNKNOWN, lambda a: a.epoch != 0 and a.is_unknown),
        ErrorCode.FENCED_INSTANCE_ID: (FENCED, lambda a: a.epoch != 0 and a.is_held_by_other),
        ErrorCode.UNRELEASED_INSTANCE_ID: (f"{FENCED}, and stays", _is_unreleased),
        ErrorCode.FENCED_MEMBER_EPOCH: ("its epoch is a wrong one", _is_at_other_epoch),
    }

    interest = Interest(requests=(), refused_requests=(consumer.ConsumerGroupHeartbeatRequest,))

    def before_request(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """Of instance ids nothing is said, once one was given up for another (coordinator D2)."""
        code = step.response.error_code
        is_odd = step.request.instance_id is not None and bool(self.model.former_instances)
        if is_odd or code is ErrorCode.UNKNOWN_SERVER_ERROR:  # ``ServerNeverFails``
            return None
        return self.judge(code, Asked(self.model, step, ledger, classic_model))


def _lacks_id(a: Asked) -> bool:
    is_new = (
        isinstance(a.request, JoinGroupRequest) and a.request.api_version >= _FIRST_JOIN_WITH_ID
    )
    return is_new and not a.member_id and a.instance_id is None


def _has_odd_session(a: Asked) -> bool:
    request = a.request
    return isinstance(request, JoinGroupRequest) and not takes_session(
        a.config, request.session_timeout_ms
    )


def _must_name_itself(a: Asked) -> bool:
    return _lacks_id(a) and not (a.is_shut_out and a.model.rules.has_assignment_interval)


def _is_stranger(a: Asked) -> object:
    """So is a member of the other protocol, and who owns something of a generation before this one,
    in which it has not joined (classic-reused-generation)."""
    if not isinstance(a.request, JoinGroupRequest):
        return a.is_unknown or (a.entry is not None and not a.entry.is_classic)
    offered = a.request.protocols
    generation = getattr(offered[0].metadata, "generation_id", -1) if offered else -1
    has_missed = a.model.rules.fences_joins and 0 <= generation < (a.generation or 0)
    return a.member_id not in ("", *a.classic.pending) and (a.is_unknown or has_missed)


def _offered(entry: MemberEntry) -> list[str]:
    metadata = entry.metadata and entry.metadata.classic_member_metadata
    return [name for name, _ in metadata.supported_protocols] if metadata else []


def _speaks_otherwise(a: Asked) -> bool:
    """Type and assignors; a JoinGroup needs an assignor that every member offers."""
    request, group = a.request, a.classic.group
    type_of_group = group.protocol_type if group and not a.is_consumer else CONSUMER_PROTOCOL_TYPE
    if not isinstance(request, JoinGroupRequest):
        offered = _offered(a.entry) if a.entry else [a.classic.protocols.get(a.epoch)]
        generation, assignor = a.join_answer
        known = assignor if generation == a.epoch else next(iter(offered), None)
        name, kind = (getattr(request, f"protocol_{n}", None) for n in ("name", "type"))
        return kind not in (None, type_of_group) or (None not in (name, known) and name != known)
    if not a.is_consumer and a.state is EMPTY:
        return not request.protocol_type or not request.protocols
    offers = [{*_offered(entry)} for entry in a.ledger.members.values() if entry.is_classic]
    offers += ({*note.protocol_names} for note in a.classic.members.values())
    has_common = any(all(name in one for one in offers) for name, _ in request.protocols)
    return a.is_shut_out or request.protocol_type != type_of_group or not has_common


def _is_unreadable(a: Asked) -> bool:
    """classic §7.5: a consumer group reads the metadata of its members."""
    offered = a.request.protocols if isinstance(a.request, JoinGroupRequest) else ()
    return a.is_consumer and not all(isinstance(one.metadata, Subscription) for one in offered)


def _is_called_back(a: Asked) -> bool:
    """Its generation is over. In a consumer group, a member is behind, or gives up or waits for
    something; or all are of this protocol, and topics may have changed."""
    entry, ledger, rules = a.entry, a.ledger, a.model.rules
    if not a.has_epoch:
        return False
    if not a.is_consumer:
        return a.state not in (_COMPLETING, _STABLE) or a.epoch != a.generation
    is_alone = rules.calls_back_for_target and ledger.classic_count == len(ledger.members)
    is_behind = entry is not None and entry.epoch < ledger.group_epoch
    return is_alone or is_behind or (entry is not None and entry.state is not MemberState.STABLE)


class ClassicRefusalCause(Refusals):
    """classic §2.2-§2.8, §7.5, §7.6."""

    id = "classic.refusal_cause"
    sentence = (
        "A classic request is refused only for what its code says of sender or group, as it comes "
        "or while it waits; no one joins who has not received its member id."
    )
    clauses = ("classic §1.7", "classic §2.1", "classic §2.8", "classic §7.5", "classic §7.6")
    violated_by = ("KAFKA-20640", "KAFKA-7824", "classic-forgotten-assignor")
    causes: ClassVar[Causes] = {
        ErrorCode.NONE: ("it has received its member id", lambda a: not _lacks_id(a)),
        ErrorCode.INVALID_GROUP_ID: ("it names no group", lambda a: not a.step.request.group_id),
        ErrorCode.INVALID_SESSION_TIMEOUT: ("the broker has no such sessions", _has_odd_session),
        ErrorCode.GROUP_MAX_SIZE_REACHED: (_FULL, _is_full),
        ErrorCode.MEMBER_ID_REQUIRED: ("it lacks a member id, and may join", _must_name_itself),
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ("it speaks otherwise", _speaks_otherwise),
        ErrorCode.UNKNOWN_MEMBER_ID: (UNKNOWN, _is_stranger),
        ErrorCode.FENCED_INSTANCE_ID: (FENCED, lambda a: a.member_id and a.is_held_by_other),
        ErrorCode.ILLEGAL_GENERATION: OTHER_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS: ("there is a rebalance for it", _is_called_back),
        ErrorCode.UNKNOWN_SERVER_ERROR: ("no consumer group can read it", _is_unreadable),
    }
    _parked: dict[tuple[str, int], frozenset[ErrorCode] | None] = notes(dict)
    """Shard and operation of a request that waits -> all that was right when it came."""
    _answered_ms: dict[str, int] = notes(dict)
    _join_answers: dict[str, tuple[int, str | None]] = notes(dict)
    """Member -> generation and assignor in the answer to its last JoinGroup."""

    def on_released(self, step: Step) -> None:
        """What a JoinGroup was answered, a SyncGroup may name (classic-forgotten-assignor)."""
        answer = step.response
        if isinstance(step.request, JoinGroupRequest) and not answer.error_code:
            self._join_answers[answer.member_id] = answer.generation_id, answer.protocol_name

    interest = Interest(
        requests=(JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest),
        refused_requests=(HeartbeatRequest,),
    )

    def before_request(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """One that waits is judged once that is over; in a consumer group, for its record. NONE is
        always an answer to a SyncGroup; it is none to some that join."""
        is_granted = step.response is not None and not step.response.error_code
        if is_granted and type(step.request) is SyncGroupRequest:
            return None
        asked = self._asked(step, ledger, classic_model)
        if step.response is None:
            right = (code for code, (_, holds) in self.causes.items() if holds(asked))
            known = None if ledger.has_group else frozenset(right)
            self._parked[step.shard.name, step.operation] = known
            return None
        is_odd = self.model.former_instances or not self.model.rules.assigns_in_heartbeat
        if ledger.has_group and (is_odd or not ledger.members):
            return None
        is_leave = type(step.request) is LeaveGroupRequest
        return self._judge_leave(asked) if is_leave else self.judge(step.response.error_code, asked)

    def _judge_leave(self, asked: Asked) -> Finding | None:
        left = {""}
        for identity, row in zip(asked.request.members, asked.step.response.members, strict=False):
            asked.take(identity)
            if not identity.member_id:  # An administrator names the instance alone.
                asked.take(identity._replace(member_id=asked.holder or ""))
            if asked.member_id not in left and (found := self.judge(row.error_code, asked)):
                return found
            left.add(asked.member_id)
        return None

    def on_classic_answer(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Was it right when it came, or is by now, or is the sender gone? Other codes are of the
        broker: a write has failed, or the shard was given up (coordinator §9.6)."""
        right = self._parked.pop((step.shard.name, step.operation), None)
        code: ErrorCode = step.response.error_code
        is_gone = step.request.member_id not in classic_model.members
        has_failed = self._answered_ms.get(step.shard.name) == step.at_ms
        if right is None or code in right or code not in self.causes:
            return None
        if code and (is_gone or (has_failed and code is ErrorCode.REBALANCE_IN_PROGRESS)):
            return None
        return self.judge(code, self._asked(step, self.model.new_ledger(), classic_model))

    def _asked(self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None) -> Asked:
        asked = Asked(self.model, step, ledger, classic_model)
        asked.join_answer = self._join_answers.get(asked.member_id, asked.join_answer)
        return asked

    def on_refused(self, step: Step, before: MemberEntry | None) -> None:
        """A conversion that fails has answered what waited; so has one that is not written."""
        self._answered_ms[step.shard.name] = step.at_ms

    def on_truncated(self, step: Step) -> None:
        """See ``on_refused``."""
        self.on_refused(step, None)


class RefusalWritesNothing(Property):
    """coordinator §2.11. In the KIP's text a wrong epoch also removes the member
    (coordinator §13, row 7)."""

    id = "refusal.writes_nothing"
    sentence = "A refused request changes nothing."
    clauses = ("coordinator §2.11", "coordinator C17")
    violated_by = ("test:refusal-with-records",)
    judges_mixed = True
    interest = Interest(is_beyond_commits=True)  # A commit is refused by partition.

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
        request, why = step.request, step.response.error_message or "an error without a reason"
        return Finding(
            f"{self.model.who(request.member_id)} at epoch {request.member_epoch} met {why}",
            member=request.member_id,
        )
