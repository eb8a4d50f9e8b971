"""A classic request to a consumer group is refused for one of the causes that there are.

What a request deserves is worked out from the records of the group before it. Where a known issue
decides between two answers, both pass here.
Sources: classic §7.2, §7.4-§7.6.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.group_settings import takes_session
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    names_of,
)
from rebalance_sim.protocol.wire.embedded import CONSUMER_PROTOCOL_TYPE
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import MemberState

ORDER = 133

Verdict = frozenset[ErrorCode]

_NONE = frozenset({ErrorCode.NONE})
_UNKNOWN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID})
_FENCED = frozenset({ErrorCode.FENCED_INSTANCE_ID})
_CALLED_BACK = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})
_INCONSISTENT = frozenset({ErrorCode.INCONSISTENT_GROUP_PROTOCOL})
_FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4


class HybridRefusalCause(Property):
    """classic §7.5, §7.6, the checks of each request, read both ways."""

    id = "hybrid.refusal_cause"
    sentence = (
        "A JoinGroup, SyncGroup, Heartbeat or LeaveGroup to a consumer group is refused with a "
        "code exactly when the sender, its generation, its assignors or the group are what the "
        "code says; a member is called back exactly when it is behind, revokes, or can be given "
        "all that it waits for."
    )
    clauses = ("classic §7.2", "classic §7.4", "classic §7.5", "classic §7.6")
    violated_by = (
        "KAFKA-20640",
        "test:hybrid-not-called-back",
        "test:hybrid-called-back-for-nothing",
        "test:hybrid-sync-refused",
    )
    judges_mixed = True

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """The KIP's text has no such requests in detail (classic §7.10)."""
        return semantics.coordinator.assigns_in_heartbeat

    def before_classic(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel
    ) -> Finding | None:
        """Compare the answer with what the request deserves."""
        if not ledger.members or step.response is None or self.model.former_instances:
            return None
        request, shard = step.request, step.shard
        if type(request) is LeaveGroupRequest:
            return self._judge_leave(step, request, ledger)
        deserved = self._deserved(request, ledger, shard)
        code: ErrorCode = step.response.error_code
        if code in deserved:
            return None
        name = type(request).__name__.removesuffix("Request")
        return Finding(
            f"a {name} of {request.member_id or 'a new member'} was answered {code.name}; it "
            f"deserves {' or '.join(sorted(c.name for c in deserved))}",
            member=request.member_id,
        )

    def _judge_leave(
        self, step: Step, request: LeaveGroupRequest, ledger: GroupLedger
    ) -> Finding | None:
        for identity, row in zip(request.members, step.response.members, strict=False):
            deserved = _of_leaving(identity, ledger)
            if row.error_code not in deserved:
                return Finding(
                    f"the leave of {identity.member_id or identity.group_instance_id} was answered "
                    f"{row.error_code.name}; it deserves {min(deserved).name}",
                    member=identity.member_id,
                )
        if len(step.response.members) == len(request.members):
            return None
        return Finding("a LeaveGroup was not answered for each of its members")

    def _deserved(
        self,
        request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest,
        ledger: GroupLedger,
        shard: ShardView,
    ) -> Verdict:
        if isinstance(request, JoinGroupRequest):
            return self._of_join(request, ledger, shard)
        verdict = _of_identity(MemberIdentity(request.member_id, request.group_instance_id), ledger)
        if verdict is not _NONE:
            return verdict
        entry = ledger.members[request.member_id]
        metadata = None if entry.metadata is None else entry.metadata.classic_member_metadata
        if metadata is None:
            return _UNKNOWN
        if request.generation_id != entry.epoch:
            return frozenset({ErrorCode.ILLEGAL_GENERATION})
        revokes = entry.state is MemberState.UNREVOKED_PARTITIONS
        is_behind = self._is_behind(entry, ledger)
        if isinstance(request, SyncGroupRequest):
            offered = names_of(metadata.supported_protocols)
            if not self.model.rules.takes_offered_assignors:
                offered = offered[:1]  # classic-forgotten-assignor
            if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
                request.protocol_name not in (None, *offered)
            ):
                return _INCONSISTENT
            return _NONE if revokes else is_behind
        if revokes or self._may_have_all(request.member_id, entry, ledger, shard):
            return _CALLED_BACK
        if self.model.rules.calls_back_for_target and ledger.classic_count == len(ledger.members):
            return is_behind | _CALLED_BACK  # classic-stranded-members: topics may have changed.
        return is_behind

    def _may_have_all(
        self, member_id: str, entry: MemberEntry, ledger: GroupLedger, shard: ShardView
    ) -> bool:
        """classic §7.4: it waits, and everything that it waits for is free."""
        if entry.state is not MemberState.UNRELEASED_PARTITIONS or entry.current is None:
            return False
        missing = (ledger.targets.get(member_id) or frozenset()) - entry.current.assigned.keys()
        return not any(
            partition in ledger.owner
            or self.model.is_held_by_name(shard, ledger, member_id, partition)
            for partition in missing
        )

    def _is_behind(self, entry: MemberEntry, ledger: GroupLedger) -> Verdict:
        """Whether it has to rejoin to catch up. Between the two epochs, 4.3 lets it be, even where
        nobody else will compute the target (classic §7.7)."""
        if entry.epoch < ledger.target_epoch:
            return _CALLED_BACK
        if entry.epoch >= ledger.group_epoch:
            return _NONE
        return _CALLED_BACK if self.model.rules.rejoins_at_group_epoch else _NONE | _CALLED_BACK

    def _of_join(self, request: JoinGroupRequest, ledger: GroupLedger, shard: ShardView) -> Verdict:
        config, members = shard.configs.broker, ledger.members
        if not request.group_id:
            return frozenset({ErrorCode.INVALID_GROUP_ID})
        if not takes_session(config, request.session_timeout_ms):
            return frozenset({ErrorCode.INVALID_SESSION_TIMEOUT})
        instance_id = request.group_instance_id
        holder = None if instance_id is None else ledger.instances.get(instance_id)
        also: Verdict = frozenset()
        if config.group_consumer_migration_policy == "disabled":
            if self.model.rules.has_assignment_interval:
                return _INCONSISTENT
            also = _INCONSISTENT  # KAFKA-20640
        if len(members) >= config.group_consumer_max_size and request.member_id not in members:
            full = frozenset({ErrorCode.GROUP_MAX_SIZE_REACHED})
            if holder is None:
                return full | also
            also |= full  # Whether an heir needs a seat of its own is coordinator D11.
        return also | self._of_joiner(request, ledger, holder)

    def _of_joiner(
        self, request: JoinGroupRequest, ledger: GroupLedger, holder: str | None
    ) -> Verdict:
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not _has_common(request, ledger):
            return _INCONSISTENT
        failure = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR})  # ``refusal.server_error``
        if request.group_instance_id is None:
            if request.member_id:
                if request.member_id in ledger.members:
                    return _NONE | failure
                # Whether who was removed may simply go on is classic-unheard-removal.
                return _NONE | _UNKNOWN | failure
            if request.api_version >= _FIRST_VERSION_WITH_MEMBER_ID_REQUIRED:
                return frozenset({ErrorCode.MEMBER_ID_REQUIRED})
            return _NONE | failure
        if request.member_id:
            if holder is None:
                return _UNKNOWN
            if holder != request.member_id:
                return _FENCED
        return _NONE | failure


def _of_identity(identity: MemberIdentity, ledger: GroupLedger) -> Verdict:
    """classic §7.6: who it is."""
    member_id, instance_id, _ = identity
    if instance_id is not None:
        holder = ledger.instances.get(instance_id)
        if holder is None:
            return _UNKNOWN
        return _NONE if holder == member_id else _FENCED
    return _NONE if member_id in ledger.members else _UNKNOWN


def _of_leaving(identity: MemberIdentity, ledger: GroupLedger) -> Verdict:
    """classic §7.6; an administrator names the instance alone."""
    member_id, instance_id, _ = identity
    if not member_id and instance_id is not None:
        return _NONE if instance_id in ledger.instances else _UNKNOWN
    return _of_identity(identity, ledger)


def _has_common(request: JoinGroupRequest, ledger: GroupLedger) -> bool:
    """Whether an assignor that is offered is offered by all classic members."""
    names = {name for name, _ in request.protocols}
    for entry in ledger.members.values():
        metadata = None if entry.metadata is None else entry.metadata.classic_member_metadata
        if metadata is not None:
            names &= {name for name, _ in metadata.supported_protocols}
    return bool(names)
