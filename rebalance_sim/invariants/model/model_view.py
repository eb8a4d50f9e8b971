"""The shadow model as properties see it: to be read, never to be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.client_entry import ClientEntry, is_registered
from rebalance_sim.invariants.model.computations import Computations, is_fit
from rebalance_sim.invariants.model.group_settings import ConfigHistory
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.offset_model import OffsetKey, OffsetModel
from rebalance_sim.invariants.step import ShardView, Step, WorldView
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.member_states import ComputingState
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.runtime.coordinator_config import UPGRADE_POLICIES, CoordinatorConfig
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import FIRST_VERSION_WITH_TOPIC_IDS
from rebalance_sim.protocol.wire.topics import TopicPartition


class ModelView:
    """One ledger for each shard, one entry for each client process, and what depends on the
    simulated version.

    Of the version's rules only constants are read, never a decision: an oracle must not share the
    defect that it is to find.
    """

    view: WorldView
    group_id: str
    config: CoordinatorConfig
    rules: type[MigrationRules]
    ledgers: Mapping[str, GroupLedger]
    computations: Computations
    config_history: ConfigHistory
    classic: Mapping[str, ClassicModel]
    """Shard -> the classic group there, where there has been one in this term."""
    offset_models: Mapping[str, OffsetModel]
    """Shard -> the offsets in its log, where something has made that worth reading."""
    has_transactions: bool
    """Whether a transaction has written to any log."""
    entries: Mapping[str, ClientEntry]
    """Living clients of whatever kind, by name; those of the classic protocol apart from others:"""
    clients: Mapping[str, ClientEntry]
    classic_clients: Mapping[str, ClientEntry]
    by_member_id: Mapping[str, ClientEntry]
    """Member id -> the living client that uses it."""
    fetchers: Mapping[TopicPartition, Mapping[str, None]]
    """Partition -> names of the clients that may fetch it."""
    contested: Mapping[TopicPartition, None]
    """Partitions that more than one client may fetch."""
    went_back_at_step: int | None
    """The last step at which a new leader lacked what had been committed, and might: a fault that
    loses such records had begun. None: never."""
    _held_since: Mapping[str, Set[TopicPartition]]
    _open_then: Set[tuple[OffsetKey, int]]
    has_lost_topics: bool
    """Whether some topic was deleted, or recreated: commits may name what is gone."""
    topics_changed_ms: int
    """When some broker last had other topics, or partitions, than before; -1: never."""
    released_ms: int
    """When an application last came back from a ``commitSync`` or a rebalance callback that had
    taken longer than one request may; -1: never."""
    former_instances: Set[str]
    """Instance ids that a member has given up for another one, or for none."""
    _leader_epoch: int
    _recreated: Set[str]
    """Ids of topics that have had a name one after another, since when."""
    _switched: Mapping[str, int]
    """Members that went on with the other protocol under their id, or were removed or replaced as
    static members of a group with members of both, and the step in which they did so."""

    # -- shards ----------------------------------------------------------------------------

    def ledger_of(self, shard: ShardView) -> GroupLedger:
        """The ledger of this shard; of one that has none, its log is read for the purpose."""
        return self.ledgers.get(shard.name) or self._read(shard)

    def _read(self, shard: ShardView) -> GroupLedger:
        ledger = self.new_ledger()
        ledger.apply(tuple(shard.log_records()))
        return ledger

    def new_ledger(self) -> GroupLedger:
        """An empty ledger for this group."""
        return GroupLedger(group_id=self.group_id, initial_epoch=self.rules.initial_group_epoch)

    @staticmethod
    def wire_name_of(
        step: Step, topic_id: str, wire_topics: Mapping[str, str] | None = None
    ) -> str | None:
        """The name of the topic that the request of a step means, as its broker knows it; None:
        none. ``wire_topics``: what stands in the request, if not what it says."""
        known = step.request.wire_topics if wire_topics is None else wire_topics
        if known:
            topic_id = known.get(topic_id, topic_id)
            if getattr(step.request, "api_version", 0) < FIRST_VERSION_WITH_TOPIC_IDS:
                return topic_id
        topic = step.shard.coordinator.image.by_id.get(topic_id)
        return None if topic is None else topic.name

    def has_dropped_group(self, shard: ShardView) -> bool:
        """Whether the log has a consumer group without members that the coordinator lacks."""
        ledger = self.ledgers.get(shard.name)
        return (
            ledger is not None
            and ledger.has_group
            and not ledger.members
            and self.group_id not in shard.coordinator.groups_of(ConsumerGroup)
        )

    def is_from_lost_commit(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether a member can have a partition only by a record that was committed and lost: since
        the group went back in time, that was never held for it."""
        if self.went_back_at_step is None:
            return False
        return partition not in self._held_since.get(member_id, ())

    def is_recreated(self, partition: TopicPartition) -> bool:
        """Whether the name of its topic belongs, or has belonged, to another topic as well."""
        return partition.topic_id in self._recreated

    def is_held_by_name(
        self, shard: ShardView, ledger: GroupLedger, member_id: str, partition: TopicPartition
    ) -> bool:
        """Whether another member, a classic one, has a partition of that number of a topic which is
        gone, and which may have had this name (classic §7.5)."""
        by_id = shard.coordinator.image.by_id
        topic = by_id.get(partition.topic_id)
        if topic is None or not ledger.classic_count or not self.rules.outlives_topics:
            return False
        entry = ledger.members.get(member_id)
        own_instance = None if entry is None else entry.instance_id
        return any(
            held.partition == partition.partition and held.topic_id not in by_id
            for other_id, other in ledger.members.items()
            if other_id != member_id
            and (own_instance is None or other.instance_id != own_instance)
            and other.is_classic
            and topic.name in other.topic_names
            for held in other.held()
        )

    def acting_shard(self) -> ShardView | None:
        """The shard that serves the group. A deposed leader does not, even while no one else is
        active: it may hold what was never committed."""
        shard = self.view.acting_shard()
        if shard is None or shard.leader_epoch < self._leader_epoch:
            return None
        return shard

    def acting_ledger(self) -> GroupLedger | None:
        """The ledger of the shard that serves the group; None while no one does."""
        shard = self.acting_shard()
        return None if shard is None else self.ledger_of(shard)

    def group_in(self, shard: ShardView) -> ConsumerGroup | None:
        """The shard's own idea of the group; None if it has none."""
        return shard.coordinator.groups_of(ConsumerGroup).get(self.group_id)

    def classic_group_in(self, shard: ShardView) -> ClassicGroup | None:
        """The shard's classic group, one that is more than offsets; None if it has none."""
        group = shard.coordinator.groups_of(ClassicGroup).get(self.group_id)
        return None if group is None or group.is_simple else group

    def is_member_in(self, shard: ShardView, member: GroupMember) -> bool:
        """Whether the shard's group has this client, at exactly the epoch or generation that the
        client is at."""
        group = self.classic_group_in(shard)
        if group is None:
            return is_registered(member, self.ledger_of(shard))
        return member.member_id in group.members and 0 < member.member_epoch == group.generation_id

    @staticmethod
    def is_heartbeat_success(step: Step) -> bool:
        """Whether a heartbeat (no leave) was accepted in this step."""
        return (
            type(step.request) is ConsumerGroupHeartbeatRequest
            and step.request.member_epoch >= JOIN_EPOCH
            and type(step.response) is ConsumerGroupHeartbeatResponse
            and step.response.error_code is ErrorCode.NONE
        )

    def user_of(self, member_id: str) -> GroupMember | None:
        """The living client that uses a member id, of whatever kind."""
        entry = self.by_member_id.get(member_id)
        if entry is not None:
            return entry.member
        members = (entry.member for entry in self.classic_clients.values())
        return next((m for m in members if m.member_id == member_id), None)

    def is_used(self, member_id: str) -> bool:
        """Whether a living client uses a member id, and has not closed."""
        member = self.user_of(member_id)
        return member is not None and not member.is_closed

    def switches(self, member_id: str, step: Step) -> bool:
        """Whether a member continues with the other protocol by this very step."""
        return self._switched.get(member_id) == step.index

    def is_client(self, member_id: str) -> bool:
        """Whether a living client uses this id, of whichever protocol."""
        return self.user_of(member_id) is not None

    def producer_without_marker(self) -> int | None:
        """A producer whose transaction is pending since committed records were lost, and with them
        its marker, which its coordinator does not write again: the transaction hangs."""
        shard = self.acting_shard() if self._open_then else None
        known = None if shard is None else self.offset_models.get(shard.name)
        pending = known.open_since() if known else ()
        return next((one for key, one, _ in pending if (key, one) in self._open_then), None)

    def waits_for_one_assignor(self) -> bool:
        """Whether the only member that could compute a target runs its assignor. How long that
        takes is the application's own affair, and no one can take its place."""
        ledger, shard = self.acting_ledger(), self.acting_shard()
        chosen = self.computations.chosen.get(shard.name) if shard else None
        if ledger is None or chosen is None or ledger.group_epoch <= ledger.target_epoch:
            return False
        entry = self.by_member_id.get(chosen)
        state = entry.member.computing_state if entry else None
        return state is ComputingState.COMPUTING and not any(
            is_fit(ledger, member_id) for member_id in ledger.members if member_id != chosen
        )

    def can_upgrade(self, shard: ShardView) -> bool:
        """Whether a member of the consumer protocol would be admitted to the group as it is."""
        group = self.classic_group_in(shard)
        return (
            group is None
            or group.is_empty
            or shard.configs.broker.group_consumer_migration_policy in UPGRADE_POLICIES
        )

    def name_of(self, partition: TopicPartition) -> str:
        """``orders-7``; the topic id stands in for a topic that is unknown by now."""
        shard = self.view.acting_shard()
        topic = shard.coordinator.image.by_id.get(partition.topic_id) if shard else None
        name = topic.name if topic is not None else partition.topic_id
        return f"{name}-{partition.partition}"

    def names_of(self, partitions: Iterable[TopicPartition]) -> str:
        """``[orders-1, orders-7]``, in ascending order."""
        return f"[{', '.join(self.name_of(partition) for partition in sorted(partitions))}]"

    def target_and_current(self, member: GroupMember) -> str:
        """What a client was sent last, and what it has reconciled; two targets may be alike."""
        target, current = member.target, member.current
        if target.partitions == current.partitions:
            return (
                f"has reconciled {self.names_of(current.partitions)}, and not answered yet to the "
                "same target, which it was sent again"
            )
        return (
            f"has the target {self.names_of(target.partitions)} and has reconciled "
            f"{self.names_of(current.partitions)}"
        )

    def who(self, member_id: str) -> str:
        """The member id, with the client that uses it where one does."""
        entry = self.by_member_id.get(member_id)
        if entry is not None and entry.name != member_id:
            return f"{entry.name} ({member_id})"
        return member_id
