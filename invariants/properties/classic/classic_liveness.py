"""What the classic members of a group must have come to after the last fault.

Source: classic §1.5, §6, §10, C13, H11.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from rebalance_sim.invariants.model.group_settings import takes_session
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.model.wanted_clients import (
    has_rivals,
    outlasts_a_join,
    wanted_classic,
)
from rebalance_sim.invariants.property import Kind, Late, Property
from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients import ClientState, GroupMember
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 320


class ClassicSettles(Property):
    """classic C13, H11."""

    id = "liveness.classic_settles"
    sentence = (
        "Once faults stop, and if no two clients have one instance id, a classic group becomes "
        "Stable with every subscribed, polling classic client in it that has an assignor in "
        "common with the others, and a session timeout that brokers take, but one of librdkafka "
        "for whose topics there are none; in a consumer group such a client reaches the target "
        "epoch, if the migration policy lets it in; join phase and sync phase are bounded by the "
        "rebalance timeouts. But join phases follow on each other as long as a static member is "
        "gone, its session is not shorter than the longest rebalance timeout, and one of "
        "librdkafka's waits no longer than that for an answer."
    )
    clauses = ("classic C13", "classic H11", "defects L1", "defects L5")
    violated_by = (
        "librdkafka-4783",
        "classic-stranded-members",
    )
    kind = Kind.EVENTUALLY

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """The group, if it is a classic one, and each classic client that should be in it."""
        model = self.model
        shard = model.acting_shard()
        if shard is None or has_rivals(model):
            return
        group, ledger = model.classic_group_in(shard), model.ledger_of(shard)
        if group is not None and outlasts_a_join(model, group):
            return
        wanted = _let_in(model, shard)
        if group is not None and group.members and group.state is not ClassicGroupState.STABLE:
            yield Late("the classic group", _why_unstable(group))
            return
        for name, member in wanted:
            reason = (
                _why_behind(member, ledger, is_open=_can_downgrade(shard))
                if ledger.members
                else _why_outside(member, group, shard.coordinator.config.group_max_size)
            )
            if reason is not None:
                state = member.classic.state if member.classic else member.state
                yield Late(name, f"({state.value}, generation {member.member_epoch}) {reason}")
        if group is not None:
            users = {member.member_id for _, member in _all(model)}
            for member_id in sorted(group.members.keys() - users):
                yield Late(f"member {member_id}", "is in the classic group, and no client uses it")


class ClassicPartitionsOwned(Property):
    """classic C13."""

    id = "liveness.classic_partitions_owned"
    sentence = (
        "Once faults stop, and if no two clients have one instance id, "
        "every partition that the members of a classic group subscribe to is "
        "worked on by one of them, unless one join phase follows on another (see "
        "liveness.classic_settles)."
    )
    clauses = ("classic C13", "classic §6", "defects L2")
    violated_by = (
        "KAFKA-9801",
        "classic-quiet-return",
        "librdkafka-4533",
    )
    kind = Kind.EVENTUALLY

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Partitions of what classic members subscribe to that nobody works on."""
        model = self.model
        shard = model.acting_shard()
        if shard is None or model.ledger_of(shard).members or has_rivals(model):
            return  # Of consumer groups, the ledger knows.
        group = model.classic_group_in(shard)
        if group is not None and outlasts_a_join(model, group):
            return
        names = {
            name for _, member in _let_in(model, shard) for name in member.subscribed_topic_names
        }
        for name in sorted(names):
            topic = shard.coordinator.image.by_name.get(name)
            count = topic.partition_count if topic else 0
            for number in range(count):
                partition = TopicPartition(topic.topic_id if topic else "", number)
                if not model.fetchers.get(partition):
                    yield Late(f"{name}-{number}", "is worked on by nobody")


def _can_downgrade(shard: ShardView) -> bool:
    """Whether a member of the classic protocol would be let into a consumer group. Java's gives up
    if it is not, librdkafka's asks again every second."""
    return shard.configs.broker.group_consumer_migration_policy != "disabled"


def _why_unstable(group: ClassicGroup) -> str:
    waits_for = sorted(
        m.member_id
        for m in group.members.values()
        if (
            m.awaiting_join is None
            if group.state is ClassicGroupState.PREPARING_REBALANCE
            else m.member_id in group.pending_sync
        )
    )
    waiting = ", ".join([*waits_for, *sorted(group.pending_join)]) or "its leader"
    return f"is {group.state.value} at generation {group.generation_id} and waits for {waiting}"


def _let_in(model: ModelView, shard: ShardView) -> list[tuple[str, GroupMember]]:
    """Classic clients that should be working members, and are not refused for their assignors, or
    for a session timeout that brokers do not take: Java's gives up, librdkafka's asks again."""
    classic, mixed = model.classic_group_in(shard), model.group_in(shard)
    return [
        (name, member)
        for name, member in wanted_classic(model)
        if _has_assignor_of_all(member, classic, mixed) and _has_valid_session(member, shard)
    ]


def _has_valid_session(member: GroupMember, shard: ShardView) -> bool:
    assert isinstance(member.config, ClassicConsumerConfig)
    return takes_session(shard.configs.broker, member.config.session_timeout_ms)


def _has_assignor_of_all(
    member: GroupMember, classic: ClassicGroup | None, mixed: ConsumerGroup | None
) -> bool:
    """Whether it has an assignor that all classic members have, or is one of them. Any other client
    is not let in: Java's gives up, librdkafka's asks again every second."""
    members: Collection[str]
    if mixed is not None and mixed.members:
        members, counts = mixed.members.keys(), mixed.classic_protocols
        wanted_by = mixed.classic_member_count
    elif classic is not None:
        members, counts = classic.members.keys(), classic.supported_protocols
        wanted_by = len(classic.members)
    else:
        return True
    if not wanted_by or member.member_id in members:
        return True
    offered = getattr(member.config, "assignors", ())
    return any(counts.get(assignor.name, 0) == wanted_by for assignor in offered)


def _why_outside(
    member: GroupMember, group: ClassicGroup | None, group_max_size: int
) -> str | None:
    if group is None or member.member_id not in group.members:
        if group is not None and len(group.members) >= group_max_size:
            return None
        return "is in no group"
    if member.member_epoch != group.generation_id:
        return f"is not at generation {group.generation_id} of its group"
    return None if member.state is ClientState.STABLE else f"is {member.state.value}"


def _why_behind(member: GroupMember, ledger: GroupLedger, *, is_open: bool) -> str | None:
    stored = ledger.members.get(member.member_id)
    if stored is None:
        return "is not registered with the coordinator" if is_open else None
    if stored.epoch != member.member_epoch:
        return f"is registered at epoch {stored.epoch}"
    if ledger.group_epoch > ledger.target_epoch:
        return (
            f"waits for a target: group epoch {ledger.group_epoch}, "
            f"target epoch {ledger.target_epoch}"
        )
    if stored.epoch != ledger.target_epoch or stored.state is not MemberState.STABLE:
        return f"is {stored.state.name} at epoch {stored.epoch} of {ledger.target_epoch}"
    return None if member.state is ClientState.STABLE else f"is {member.state.value}"


def _all(model: ModelView) -> Iterable[tuple[str, GroupMember]]:
    return [(name, entry.member) for name, entry in sorted(model.classic_clients.items())]
