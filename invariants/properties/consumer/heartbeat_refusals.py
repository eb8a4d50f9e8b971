"""A heartbeat is refused for one of the causes that there are, with the code of the first of them.

What a heartbeat deserves is worked out from the request and the shadow model, in the order of the
reference; no rule of the coordinator is asked. Where a known issue decides between two answers, the
property that names the issue judges, and not this one (``responses.py``).
Sources: coordinator §2.2-§2.8, §4.4, §4.5; classic §7.3.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.heartbeat_case import HeartbeatCase
from rebalance_sim.invariants.model.ledger import MemberEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.protocol.classic.classic_member import ClassicMember
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.embedded import (
    CONSUMER_PROTOCOL_TYPE,
    Assignment,
    Subscription,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 131

Verdict = frozenset[ErrorCode]
"""The codes that a request may be answered with."""

_NONE = frozenset({ErrorCode.NONE})
_JUDGED_ELSEWHERE = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR})
"""``refusal.server_error`` says when a heartbeat may fail that way: never."""


class RefusalCause(Property):
    """coordinator §2.11, the table of errors, read both ways."""

    id = "refusal.cause"
    sentence = (
        "A heartbeat is refused with a code exactly when the member, its epoch, its instance, the "
        "group or the request itself is what the code says."
    )
    clauses = (
        "coordinator §2.2",
        "coordinator §2.5",
        "coordinator §2.6",
        "coordinator §2.7",
        "coordinator §2.8",
        "coordinator §2.11",
        "coordinator §4.4",
        "classic §7.3",
    )
    violated_by = (
        "KAFKA-17228",
        "KAFKA-17733",
        "test:refuses-without-cause",
        "test:accepts-unknown-assignor",
    )
    judges_mixed = True

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """The KIP's text has causes of its own (coordinator §12.1, §13)."""
        return semantics.coordinator.assigns_in_heartbeat

    def before_heartbeat(self, step: object, case: HeartbeatCase) -> Finding | None:
        """Compare the code with those that the request deserves."""
        code = case.response.error_code
        names_instance = case.request.instance_id is not None
        if code in _JUDGED_ELSEWHERE or (names_instance and case.has_ambiguous_instances):
            return None
        deserved = self._deserved(case)
        if code in deserved:
            return None
        request = case.request
        return Finding(
            f"a heartbeat of {self.model.who(request.member_id)} at epoch {request.member_epoch} "
            f"was answered {code.name}; it deserves "
            f"{' or '.join(sorted(c.name for c in deserved))}",
            member=request.member_id,
        )

    def _deserved(self, case: HeartbeatCase) -> Verdict:
        request = case.request
        code = _of_request(request, case)
        if code is not ErrorCode.NONE:
            return frozenset({code})
        if request.member_epoch < JOIN_EPOCH:
            return frozenset({_of_leave(request, case)})
        if not case.ledger.has_group:
            return self._without_group(case)
        return _of_pattern(case, _of_member(request, case))

    def _without_group(self, case: HeartbeatCase) -> Verdict:
        if case.request.member_epoch > JOIN_EPOCH:
            return frozenset({ErrorCode.GROUP_ID_NOT_FOUND})
        if not case.had_classic_group:
            return _of_pattern(case, _NONE)
        group = self.model.classic.get(case.shard.name, ClassicModel()).group
        limit = case.shard.configs.broker.group_consumer_max_size
        if (
            not self.model.can_upgrade(case.shard)
            or group is None
            or group.protocol_type != CONSUMER_PROTOCOL_TYPE
            or len(group.members) > limit
            or any(_is_custom(member, group.protocol_name) for member in group.members.values())
        ):
            return frozenset({ErrorCode.GROUP_ID_NOT_FOUND})
        verdict = _of_pattern(case, _NONE)
        if len(group.members) == limit:
            # Who takes the place of a classic member needs no seat of its own.
            verdict |= {ErrorCode.GROUP_MAX_SIZE_REACHED}
        member = group.members.get(case.request.member_id)
        if member is None:
            return verdict
        if _is_other_instance(case.request, member.group_instance_id):
            verdict |= {ErrorCode.INVALID_REQUEST}
        elif group.generation_id > JOIN_EPOCH:
            # It is converted to that epoch first, to which this one is old (KAFKA-19233).
            verdict |= {ErrorCode.FENCED_MEMBER_EPOCH}
        return verdict


def _is_other_instance(request: ConsumerGroupHeartbeatRequest, own: str | None) -> bool:
    """Whether a member comes with another instance id; if it may do so is coordinator D2."""
    return request.instance_id is not None and own is not None and request.instance_id != own


def _is_custom(member: ClassicMember, protocol_name: str | None) -> bool:
    """classic §7.3: a subscription or an assignment that a consumer group cannot read; no
    assignment at all is none."""
    names, given = member.protocol_names(), member.assignment
    name = protocol_name if protocol_name in names else names[0]
    if not isinstance(member.metadata_for(name or ""), Subscription):
        return True
    if given in (None, b""):
        return False
    return not isinstance(given, Assignment) or given.user_data is not None


def _of_request(request: ConsumerGroupHeartbeatRequest, case: HeartbeatCase) -> ErrorCode:
    """coordinator V1-V11: what is wrong whatever the group."""
    epoch = request.member_epoch
    blank = [
        text is not None and not text.strip()
        for text in (request.group_id, request.instance_id, request.rack_id)
    ]
    must_name_itself = request.api_version > 0 or epoch in (-1, STATIC_LEAVE_EPOCH) or epoch > 0
    lacks_join_field = epoch == JOIN_EPOCH and (
        request.rebalance_timeout_ms == UNCHANGED_TIMEOUT_MS
        or request.topic_partitions != frozenset()
        or (request.subscribed_topic_names is None and request.subscribed_topic_regex is None)
    )
    if (
        any(blank)
        or (must_name_itself and not request.member_id.strip())
        or lacks_join_field
        or epoch < STATIC_LEAVE_EPOCH
        or (epoch == STATIC_LEAVE_EPOCH and request.instance_id is None)
    ):
        return ErrorCode.INVALID_REQUEST
    known = case.shard.configs.broker.group_consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in known:
        return ErrorCode.UNSUPPORTED_ASSIGNOR
    return ErrorCode.NONE


def _of_leave(request: ConsumerGroupHeartbeatRequest, case: HeartbeatCase) -> ErrorCode:
    """coordinator §4.4, §4.5."""
    ledger = case.ledger
    if not ledger.has_group:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if request.instance_id is None:
        is_known = request.member_id in ledger.members
        return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_MEMBER_ID
    holder = ledger.instances.get(request.instance_id)
    if holder is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_holder = holder == request.member_id
    return ErrorCode.NONE if is_holder else ErrorCode.FENCED_INSTANCE_ID


def _of_member(request: ConsumerGroupHeartbeatRequest, case: HeartbeatCase) -> Verdict:
    """coordinator H2, H4, H5."""
    ledger = case.ledger
    holder = None if request.instance_id is None else ledger.instances.get(request.instance_id)
    is_full = len(ledger.members) >= case.shard.configs.broker.group_consumer_max_size
    if is_full and request.member_id not in ledger.members:
        if holder is None:
            return frozenset({ErrorCode.GROUP_MAX_SIZE_REACHED})
        # Whether an heir needs a seat of its own is coordinator D11.
        return _of_identity(request, case, holder) | {ErrorCode.GROUP_MAX_SIZE_REACHED}
    return _of_identity(request, case, holder)


def _of_identity(
    request: ConsumerGroupHeartbeatRequest, case: HeartbeatCase, holder: str | None
) -> Verdict:
    members = case.ledger.members
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        entry = members.get(request.member_id)
        if entry is None:
            return _NONE if joins else frozenset({ErrorCode.UNKNOWN_MEMBER_ID})
        return _of_epoch(request, entry)
    if holder is None:
        if not joins:
            return frozenset({ErrorCode.UNKNOWN_MEMBER_ID})
        entry = members.get(request.member_id)
        if entry is not None and _is_other_instance(request, entry.instance_id):
            return _NONE | {ErrorCode.INVALID_REQUEST}
        return _NONE
    if not joins:
        if holder != request.member_id:
            return frozenset({ErrorCode.FENCED_INSTANCE_ID})
        return _of_epoch(request, members[holder])
    if case.predecessor is not None:
        return _NONE
    if holder == request.member_id:
        # Whether a static member may be refused by its own instance id is coordinator D2; and
        # whether as one that is registered, ``refusal.rejoin`` says.
        return _of_epoch(request, members[holder]) | {ErrorCode.UNRELEASED_INSTANCE_ID}
    return frozenset({ErrorCode.UNRELEASED_INSTANCE_ID})


def _of_epoch(request: ConsumerGroupHeartbeatRequest, entry: MemberEntry) -> Verdict:
    """coordinator §2.8; ``coordinator.epoch_fence`` and ``refusal.lost_response`` say what an
    older epoch deserves."""
    received, stored = request.member_epoch, entry.epoch
    fenced = frozenset({ErrorCode.FENCED_MEMBER_EPOCH})
    if received == stored:
        return _NONE
    # One that has left for a while, and joins without its instance id: ``refusal.rejoin`` judges.
    if received > stored and received != JOIN_EPOCH:
        return fenced
    return _NONE | fenced


def _of_pattern(case: HeartbeatCase, otherwise: Verdict) -> Verdict:
    """coordinator V12: a pattern that nobody has yet must compile, which its engine says."""
    pattern = case.request.subscribed_topic_regex
    if ErrorCode.NONE in otherwise and pattern and pattern not in case.ledger.pattern_count:
        return otherwise | {ErrorCode.INVALID_REGULAR_EXPRESSION}
    return otherwise
