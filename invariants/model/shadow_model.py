"""What all invariants share: one ledger for each shard, one entry for each client process.

The shadow model is written by the checker (``checker.py``) and only read by properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.computations import Computations, is_fit
from rebalance_sim.invariants.model.config_history import ConfigHistory
from rebalance_sim.invariants.model.failed_writes import FailedWrites
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.offset_model import OffsetModel
from rebalance_sim.invariants.step import ShardView, Step, WorldView
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients import ClientState, ComputingState, GroupMember
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import FIRST_VERSION_WITH_TOPIC_IDS
from rebalance_sim.protocol.wire.topics import TopicPartition

_UPGRADE_POLICIES = ("bidirectional", "upgrade")


class ShadowModel:
    """Ledgers by shard name, entries by client name, and what depends on the simulated version.

    Of the version's rules only constants are read, never a decision: an oracle must not share the
    defect that it is to find.
    """

    def __init__(self, view: WorldView) -> None:
        self.view = view
        self.group_id = view.group_id
        self.config = view.config
        self.rules: type[MigrationRules] = view.semantics.as_released.coordinator
        self.ledgers: dict[str, GroupLedger] = {}
        self.computations = Computations()
        self.config_history = ConfigHistory(view.group_id)
        self.failed_writes = FailedWrites(view.group_id)
        self.classic: dict[str, ClassicModel] = {}
        """Shard -> the classic group there, where there has been one in this term."""
        self.offset_models: dict[str, OffsetModel] = {}
        """Shard -> the offsets in its log, where somebody has asked for them."""
        self._leader_epoch = -1
        self._lost_unrevoked: dict[str, set[TopicPartition]] = {}
        """Member -> what it lost straight from its assigned partitions, without a revocation."""
        self.expelled_unreported_ms = -1
        """When a member was last removed for keeping what its client had never heard of."""
        self.clients: dict[str, ClientEntry] = {}
        self.classic_clients: dict[str, ClassicClientEntry] = {}
        """Clients of the classic protocol, apart from the others."""
        self._topic_ids: dict[str, str] = {}
        self.has_lost_topics = False
        """Whether some topic was deleted, or created anew: commits may name what is gone."""
        self.topics_changed_ms = -1
        """When some broker last heard of other topics, or partitions, than before; -1: never."""
        self._partition_counts: dict[str, int] | None = None
        self._recreated: set[str] = set()
        """Ids of topics that have had a name one after another: classic members, which know topics
        by name, take them for the same."""
        self.forgotten: dict[str, frozenset[TopicPartition]] = {}
        """Member -> what its client owned while it was converted in the middle of a rebalance, and
        the coordinator did not know of (classic §7.3)."""
        self.readmitted: set[str] = set()
        """Classic members that a consumer group had removed and let in again under their id,
        without a word, so that they went on with what they had (classic §7.5)."""
        self.answered_in_term: dict[tuple[str, int], int] = {}
        """Member id and generation that a JoinGroup was answered with -> leader epoch of the shard
        that did so last."""
        self.unparked: set[str] = set()
        """Members of a classic group whose parked requests were answered by a conversion that was
        refused in the end, so that nobody has armed their sessions (classic §7.3)."""
        self.quiet_returns: set[int] = set()
        """Generations in which a static member came back, and no rebalance followed: whatever had
        changed meanwhile goes unnoticed (classic §2.5)."""
        self.by_member_id: dict[str, ClientEntry] = {}
        """Member id -> the living client that uses it."""
        self.fetchers: dict[TopicPartition, dict[str, None]] = {}
        """Partition -> names of the clients that may fetch it."""
        self.contested: dict[TopicPartition, None] = {}
        """Partitions that more than one client may fetch."""

    # -- shards ----------------------------------------------------------------------------

    def new_ledger(self) -> GroupLedger:
        """An empty ledger for this group."""
        return GroupLedger(group_id=self.group_id, initial_epoch=self.rules.initial_group_epoch)

    def open_ledger(self, shard: ShardView, *, without_last: int = 0) -> GroupLedger:
        """Read a replica's log anew; ``without_last`` leaves out records still to be entered."""
        records = tuple(shard.log_records())
        ledger = self.ledgers[shard.name] = self.new_ledger()
        ledger.apply(records[: len(records) - without_last])
        self.note_configs(shard, ledger)
        return ledger

    def open_offset_model(self, shard: ShardView, *, without_last: int = 0) -> OffsetModel:
        """Read the offsets in a replica's log; ``without_last`` as with ledgers."""
        records = shard.log_records()
        offset_model = self.offset_models[shard.name] = OffsetModel(self.group_id)
        # What is not committed has one record for each offset, and comes last.
        offset_model.apply(
            records[: len(records) - without_last],
            first_offset=shard.log_end_offset - len(records),
        )
        return offset_model

    @staticmethod
    def wire_name_of(
        shard: ShardView,
        wire_topics: Mapping[str, str],
        api_version: int,
        partition: TopicPartition,
    ) -> str | None:
        """The name of the topic that a request means, as this broker knows it; None: none."""
        stands_as = wire_topics.get(partition.topic_id, partition.topic_id)
        if wire_topics and api_version < FIRST_VERSION_WITH_TOPIC_IDS:
            return stands_as
        topic = shard.coordinator.image.by_id.get(stands_as)
        return None if topic is None else topic.name

    def note_configs(self, shard: ShardView, ledger: GroupLedger) -> None:
        """Other settings are in force at a shard, or its ledger is new."""
        self.config_history.note(shard, self.view.now_ms)
        ledger.heartbeat_interval_ms = shard.configs.heartbeat_interval_ms(self.group_id)
        ledger.session_timeout_ms = shard.configs.session_timeout_ms(self.group_id)

    def ledger_of(self, shard: ShardView) -> GroupLedger:
        """The ledger of this shard, opened if need be."""
        ledger = self.ledgers.get(shard.name)
        return self.open_ledger(shard) if ledger is None else ledger

    def note_topics(self, shard: ShardView) -> None:
        """A shard has a metadata image that may be new."""
        by_id = shard.coordinator.image.by_id
        counts = {topic.topic_id: topic.partition_count for topic in by_id.values()}
        if self._partition_counts not in (None, counts):
            self.topics_changed_ms = self.view.now_ms
        self._partition_counts = counts
        if any(topic_id not in by_id for topic_id in self._topic_ids.values()):
            self.has_lost_topics = True
        for topic in by_id.values():
            former = self._topic_ids.setdefault(topic.name, topic.topic_id)
            if former != topic.topic_id:
                self._topic_ids[topic.name] = topic.topic_id
                self._recreated |= {former, topic.topic_id}

    def is_recreated(self, partition: TopicPartition) -> bool:
        """Whether the name of its topic belongs, or has belonged, to another topic as well."""
        return partition.topic_id in self._recreated

    def note_leader(self, shard: ShardView) -> None:
        """A shard became active."""
        self._leader_epoch = max(self._leader_epoch, shard.leader_epoch)

    def acting_shard(self) -> ShardView | None:
        """The shard that serves the group. A deposed leader does not, even while nobody else is
        active: it may hold what was never committed."""
        shard = self.view.acting_shard()
        if shard is None or shard.leader_epoch < self._leader_epoch:
            return None
        return shard

    def acting_ledger(self) -> GroupLedger | None:
        """The ledger of the shard that serves the group; None while nobody does."""
        shard = self.acting_shard()
        return None if shard is None else self.ledger_of(shard)

    def acting_group(self) -> ConsumerGroup | None:
        """The group as the shard that serves it has it; None if there is none."""
        shard = self.acting_shard()
        return None if shard is None else self.group_in(shard)

    def group_in(self, shard: ShardView) -> ConsumerGroup | None:
        """The shard's own idea of the group; None if it has none."""
        return shard.coordinator.groups_of(ConsumerGroup).get(self.group_id)

    def classic_group_in(self, shard: ShardView) -> ClassicGroup | None:
        """The shard's classic group, one that is more than offsets; None if it has none."""
        group = shard.coordinator.groups_of(ClassicGroup).get(self.group_id)
        return None if group is None or group.is_simple else group

    def note_releases(self, change: Change, *, by_full_request: bool = False) -> None:
        """Remember what an owned list gave away by not naming it (coordinator D12).

        A request that repeats everything after a failure counts as the acknowledgement of a
        revocation too, though the client has not come to what it was given, let alone given it up.
        """
        for member_id, partition in change.lost:
            before, after = change.members[member_id]
            if after is None:
                self._lost_unrevoked.pop(member_id, None)
            elif (
                before
                and before.current
                and (by_full_request or partition in before.current.assigned)
            ):
                self._lost_unrevoked.setdefault(member_id, set()).add(partition)
        if self._lost_unrevoked:
            for member_id, partition in change.gained:
                if member_id in self._lost_unrevoked:
                    self._lost_unrevoked[member_id].discard(partition)

    def has_lost_unrevoked(self, member_id: str, partitions: set[TopicPartition]) -> bool:
        """Whether the member lost all of these that way, and has got none of them back."""
        return partitions <= self._lost_unrevoked.get(member_id, set())

    def note_expulsions(self, change: Change, at_ms: int) -> None:
        """A timer has removed members."""
        for member_id in change.removed():
            if self.is_unreported(member_id, change.members[member_id][0]):
                self.expelled_unreported_ms = at_ms

    def is_unreported(self, member_id: str, stored: MemberEntry | None) -> bool:
        """Whether a member is to give up what its client has not been told of, and so has nothing
        to acknowledge: it was granted in the step of another, and taken away before its own."""
        entry = self.by_member_id.get(member_id)
        if entry is None or stored is None or stored.current is None:
            return False
        member, pending = entry.member, stored.current.pending_revocation.keys()
        return (
            bool(pending)
            and member.state is ClientState.STABLE
            and pending.isdisjoint(member.assigned)
            and pending.isdisjoint(member.target.partitions)
        )

    @staticmethod
    def is_heartbeat_success(step: Step) -> bool:
        """Whether a heartbeat (no leave) was accepted in this step."""
        return (
            type(step.request) is ConsumerGroupHeartbeatRequest
            and step.request.member_epoch >= JOIN_EPOCH
            and type(step.response) is ConsumerGroupHeartbeatResponse
            and step.response.error_code is ErrorCode.NONE
        )

    # -- clients ---------------------------------------------------------------------------

    def member_of(self, client_name: str) -> GroupMember | None:
        """The machine of a living client, of whatever kind."""
        entry = self.clients.get(client_name) or self.classic_clients.get(client_name)
        return None if entry is None else entry.member

    def user_of(self, member_id: str) -> GroupMember | None:
        """The living client that uses a member id, of whatever kind."""
        entry = self.by_member_id.get(member_id)
        if entry is not None:
            return entry.member
        members = (entry.member for entry in self.classic_clients.values())
        return next((m for m in members if m.member_id == member_id), None)

    def has_reused_generation(self, member: GroupMember) -> bool:
        """Whether a former coordinator gave a classic client the generation it is at, and the
        acting one has used the number again (classic §8.2)."""
        shard = self.acting_shard()
        classic_model = None if shard is None else self.classic.get(shard.name)
        reported = self.answered_in_term.get((member.member_id, member.member_epoch))
        if (
            shard is None
            or classic_model is None
            or classic_model.group is None
            or reported is None
        ):
            return False
        written = classic_model.written.get(member.member_epoch)
        was_loaded = written is not None and written.end_offset == 0
        return reported < shard.leader_epoch and not was_loaded

    def has_outlived(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether a classic client goes on with what it had under an id before this one."""
        entries = self.classic_clients.values()
        return any(e.member.member_id == member_id and partition in e.outlived for e in entries)

    def refresh_fetchers(
        self, entry: ClientEntry | ClassicClientEntry, fetchable: frozenset[TopicPartition]
    ) -> None:
        """Enter what a client may fetch now; ``entry.fetchable`` is what it was before."""
        fetchers = self.fetchers
        for partition in entry.fetchable - fetchable:
            names = fetchers[partition]
            del names[entry.name]
            if not names:
                del fetchers[partition]
            elif len(names) == 1:
                self.contested.pop(partition, None)
        for partition in fetchable - entry.fetchable:
            names = fetchers.setdefault(partition, {})
            names[entry.name] = None
            if len(names) > 1:
                self.contested[partition] = None
        entry.fetchable = fetchable

    def waits_for_one_assignor(self) -> bool:
        """Whether the only member that could compute a target runs its assignor. How long that
        takes is the application's own affair, and nobody can take its place."""
        ledger, shard = self.acting_ledger(), self.acting_shard()
        chosen = None if shard is None else self.computations.chosen(shard.name)
        if ledger is None or chosen is None or ledger.group_epoch <= ledger.target_epoch:
            return False
        entry = self.by_member_id.get(chosen.member_id)
        state = entry.member.computing_state if entry else None
        return state is ComputingState.COMPUTING and not any(
            is_fit(ledger, member_id)
            for member_id in ledger.members
            if member_id != chosen.member_id
        )

    def can_upgrade(self, shard: ShardView) -> bool:
        """Whether a member of the consumer protocol would be let into the group as it is."""
        group = self.classic_group_in(shard)
        return (
            group is None
            or not group.members
            or shard.configs.broker.group_consumer_migration_policy in _UPGRADE_POLICIES
        )

    # -- words -----------------------------------------------------------------------------

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
        """What a client was told last, and what it has reconciled; two targets may be alike."""
        target, current = member.target, member.current
        if target.partitions == current.partitions:
            return (
                f"has reconciled {self.names_of(current.partitions)}, and not answered yet to the "
                "same target, which it was told again"
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
