"""The shadow model of one group, as the checker writes it."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.invariants.explanation import THE_GROUP, Seen, Subject
from rebalance_sim.invariants.model.classic_entry import AnyClientEntry, ClassicClientEntry
from rebalance_sim.invariants.model.classic_model import ClassicLook, ClassicModel, lacks_session
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.computations import Computations
from rebalance_sim.invariants.model.config_history import ConfigHistory
from rebalance_sim.invariants.model.failed_writes import FailedWrites
from rebalance_sim.invariants.model.group_settings import heartbeat_interval_ms, session_timeout_ms
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.offset_model import OffsetModel
from rebalance_sim.invariants.model.quiet_return import QuietReturn
from rebalance_sim.invariants.step import ShardView, Step, StepKind, WorldView
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_member import to_give_up
from rebalance_sim.protocol.clients.kinds import JAVA, LIBRDKAFKA
from rebalance_sim.protocol.wire.assignment_messages import ConsumerGroupInstallAssignmentRequest
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest, JoinGroupResponse
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchRequest
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    GroupMetadata,
    OffsetCommit,
    Record,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


class ShadowModel(ModelView):
    """What ``ModelView`` shows, and how it comes about: only the checker has this interface."""

    def __init__(self, view: WorldView) -> None:
        self.view = view
        self.group_id = view.group_id
        self.config = view.config
        released = view.semantics.as_released
        self.rules = released.coordinator
        self.ignores_former_answers = {
            JAVA: not released.member.takes_answers_of_former_memberships,
            LIBRDKAFKA: False,
        }
        self.ledgers: dict[str, GroupLedger] = {}
        self.computations = Computations()
        self.config_history = ConfigHistory(view.group_id)
        self.failed_writes = FailedWrites(view.group_id)
        self.classic: dict[str, ClassicModel] = {}
        self.offset_models: dict[str, OffsetModel] = {}
        self.clients: dict[str, ClientEntry] = {}
        self.classic_clients: dict[str, ClassicClientEntry] = {}
        self.by_member_id: dict[str, ClientEntry] = {}
        self.fetchers: dict[TopicPartition, dict[str, None]] = {}
        self.contested: dict[TopicPartition, None] = {}
        self.has_lost_topics = False
        self.topics_changed_ms = -1
        self.released_ms = -1
        self.step_index = 0
        self.expelled_unreported: Seen | None = None
        self.readmitted: dict[str, Seen] = {}
        self.unparked: dict[str, Seen] = {}
        self.quiet_returns: dict[int, list[QuietReturn]] = {}
        self.restored: dict[int, Seen] = {}
        self.switched: dict[str, Seen] = {}
        self.upgrade: Seen | None = None
        self._converted: tuple[int, int | None] = -1, None
        """Epoch and timestamp of the target that the last conversion took over."""
        self.former_instances: dict[str, Seen] = {}
        self._forgotten: dict[str, tuple[frozenset[TopicPartition], Seen]] = {}
        self._leader_epoch = -1
        self.may_lose_committed = False
        """A fault has begun that may lose what was committed."""
        self.went_back_at_step: int | None = None
        self._held_since: dict[str, set[TopicPartition]] = {}
        """Member -> all that was ever held for it since the group went back in time."""
        self._committed_to = 0
        self._lost_unrevoked: dict[str, dict[TopicPartition, Seen]] = {}
        """Member -> what it lost straight from its assigned partitions, without a revocation."""
        self._topic_ids: dict[str, str] = {}
        self._partition_counts: dict[str, int] | None = None
        self._recreated: dict[str, Seen] = {}
        """Ids of topics that have had a name one after another: classic members, which know topics
        by name, take them for the same."""
        self._answered_in_term: dict[tuple[str, int], int] = {}
        """Member id and generation that a JoinGroup was answered with -> leader epoch of the shard
        that did so last."""

    # -- shards ----------------------------------------------------------------------------

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

    def note_configs(self, shard: ShardView, ledger: GroupLedger) -> None:
        """Other settings are in force at a shard, or its ledger is new."""
        self.config_history.note(shard, self.view.now_ms)
        ledger.heartbeat_interval_ms = heartbeat_interval_ms(shard.configs, self.group_id)
        ledger.session_timeout_ms = session_timeout_ms(shard.configs, self.group_id)

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
                seen = self.seen(THE_GROUP, f"topic {topic.name} was created anew")
                for topic_id in (former, topic.topic_id):
                    self._recreated.setdefault(topic_id, seen)

    def note_commit_returned(self, entry: AnyClientEntry, commit_id: int) -> None:
        """A commit of an application has come to its end."""
        commit = entry.open_commits.pop(commit_id, None)
        if commit is not None and commit.is_sync:
            now_ms = self.view.now_ms
            if now_ms - commit.since_ms > entry.member.config.request_timeout_ms:
                self.released_ms = now_ms

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
                self._lost_unrevoked.setdefault(member_id, {})[partition] = self.seen(
                    Subject(member=member_id, partition=partition),
                    f"an owned list of {self.who(member_id)} left out {self.name_of(partition)}, "
                    "which was released without a revocation",
                )
        if self._lost_unrevoked:
            for member_id, partition in change.gained:
                if member_id in self._lost_unrevoked:
                    self._lost_unrevoked[member_id].pop(partition, None)

    def note_expulsions(self, change: Change) -> None:
        """A timer has removed members."""
        for member_id in change.removed():
            if self.is_unreported(member_id, change.members[member_id][0]):
                self.expelled_unreported = self.seen(
                    THE_GROUP,
                    f"{self.who(member_id)} was removed for keeping what it was never told of",
                )

    def note_append(self, step: Step, shard: ShardView) -> None:
        """A shard wrote records. Its offsets matter as soon as some are deleted."""
        count = len(step.records)
        offset_model = self.offset_models.get(shard.name)
        if offset_model is None:
            for record in step.records:
                if record.value is None and self._deletes_offsets(record):
                    break
            else:
                return
            offset_model = self.open_offset_model(shard, without_last=count)
        offset_model.apply(step.records, first_offset=shard.log_end_offset - count)

    def _deletes_offsets(self, record: Record) -> bool:
        """Of a record that takes something back."""
        return (
            type(record) in (OffsetCommit, ConsumerGroupMetadata)
            and record.group_id == self.group_id
        )

    def note_fetch(self, shard: ShardView, request: OffsetFetchRequest) -> None:
        """A shard is asked for offsets; those of a fetch that does not wait can be judged."""
        if not request.require_stable and shard.name not in self.offset_models:
            self.open_offset_model(shard)

    def note_committed(self, shard: ShardView) -> None:
        """The high watermark of a leader advanced."""
        self._committed_to = max(self._committed_to, shard.high_watermark)
        offset_model = self.offset_models.get(shard.name)
        if offset_model is not None:
            offset_model.prune(shard.high_watermark)

    def note_truncated(self, shard: ShardView, at_ms: int) -> None:
        """A log has lost its tail; if the shard is active, memory goes back to where it ends."""
        offset_model = self.offset_models.get(shard.name)
        if offset_model is not None:
            offset_model.truncate_to(shard.log_end_offset)
        old = self.ledgers.pop(shard.name, None)
        if old is None or not shard.is_active:
            return
        ledger = self.open_ledger(shard)
        heard_ms = {**old.last_heard_ms, **old.heard_ms}
        for member_id in ledger.members:
            ledger.heard_ms[member_id] = heard_ms.get(member_id, at_ms)
            ledger.state_since_ms[member_id] = old.state_since_ms.get(member_id, at_ms)
        self.failed_writes.note(shard, ledger, self.step_index, at_ms)
        self.computations.note_failed_write(shard.name)

    def note_loaded(self, shard: ShardView, at_ms: int) -> GroupLedger:
        """A shard became active: it knows what its log has, and all clocks start anew."""
        self._leader_epoch = max(self._leader_epoch, shard.leader_epoch)
        is_newest = shard.leader_epoch == self._leader_epoch
        lacks_some = shard.log_end_offset < self._committed_to
        if is_newest and lacks_some and self.may_lose_committed:
            self._committed_to = shard.log_end_offset
            self.went_back_at_step = self.step_index
        self._committed_to = max(self._committed_to, shard.high_watermark)
        self.note_topics(shard)
        self.computations.forget(shard.name)
        self.failed_writes.forget(shard.name)
        ledger = self.open_ledger(shard)
        if self.went_back_at_step == self.step_index:
            self._held_since = {name: set(entry.held()) for name, entry in ledger.members.items()}
        if (ledger.target_epoch, ledger.target_timestamp) == self._converted:
            # Compaction may have removed the tombstone that tells so.
            ledger.converted_epoch = ledger.target_epoch
        ledger.heard_ms = dict.fromkeys(ledger.members, at_ms)
        ledger.state_since_ms = dict.fromkeys(ledger.members, at_ms)
        return ledger

    def note_unloaded(self, shard: ShardView) -> None:
        """A shard gave up; the next time this replica leads, its log may be another one."""
        self.classic.pop(shard.name, None)
        self.ledgers.pop(shard.name, None)
        self.offset_models.pop(shard.name, None)
        self.computations.forget(shard.name)

    def note_change(self, step: Step, shard: ShardView, change: Change) -> None:
        """A batch was entered into a ledger."""
        request = step.request
        change.group = self.group_in(shard)
        change.is_by_client = type(request) is ConsumerGroupInstallAssignmentRequest
        change.ledger.note_states(change, step.at_ms)
        if self.went_back_at_step is not None:
            for member_id, (_, after) in change.members.items():
                if after is not None:
                    self._held_since.setdefault(member_id, set()).update(after.held())
        if change.moved:
            is_full = type(request) is ConsumerGroupHeartbeatRequest and request.is_full
            self.note_releases(change, by_full_request=is_full)
            if isinstance(request, ConsumerGroupHeartbeatRequest):
                self._note_unheard_grant(request)
        if (
            isinstance(request, JoinGroupRequest)
            and request.member_id
            and change.members.get(request.member_id, (MemberEntry(), None))[0] is None
        ):
            metadata = request.protocols[0].metadata
            if isinstance(metadata, Subscription) and metadata.owned_partitions:
                self.readmitted[request.member_id] = self.seen(
                    Subject(member=request.member_id),
                    f"{request.member_id}, which was removed, was let in again under its id",
                )
        if change.ledger.instances or self.former_instances:
            self._note_instances(change)
        if change.is_mixed:
            self._note_upgrade(shard, change, step.at_ms)
            for member_id, (before, after) in change.members.items():
                is_replaced = before and after is None and before.instance_id is not None
                if is_replaced or (before and after and before.is_classic is not after.is_classic):
                    self.switched[member_id] = self.seen(
                        Subject(member=member_id),
                        f"{member_id} went on with the other protocol, or another took its place",
                    )

    def _note_unheard_grant(self, request: ConsumerGroupHeartbeatRequest) -> None:
        entry = self.by_member_id.get(request.member_id)
        if entry is not None and entry.last_request is not request:
            entry.unheard_grant = self.seen(
                Subject(client=entry.name),
                f"a heartbeat that {entry.name} had given up was handled, and granted something",
            )

    def _note_instances(self, change: Change) -> None:
        for member_id, (before, after) in change.members.items():
            if (
                before is not None
                and after is not None
                and before.instance_id is not None
                and before.instance_id != after.instance_id
            ):
                self.former_instances[before.instance_id] = self.seen(
                    Subject(instance_id=before.instance_id),
                    f"{self.who(member_id)} gave up the instance id {before.instance_id}",
                )

    def _note_upgrade(self, shard: ShardView, change: Change, at_ms: int) -> None:
        """A batch may turn a classic group into a consumer group, which then does not know what
        clients own, or are on the point of giving up."""
        mine = [r for r in change.records if r.group_id == self.group_id]
        classic = [r for r in mine if isinstance(r, GroupMetadata)]
        classic_model = self.classic.get(shard.name)
        if (
            not classic
            or classic[-1].value is not None
            or not any(isinstance(r, ConsumerGroupMetadata) and r.value for r in mine)
            or classic_model is None
            or classic_model.group is None
            or not classic_model.group.members
        ):
            return
        change.upgraded = classic_model.group
        for member_id, converted in change.upgraded.members.items():
            change.ledger.classic_ms[member_id] = at_ms
            instance_id = converted.group_instance_id
            after = change.ledger.members.get(member_id)
            if instance_id is not None and after and after.instance_id != instance_id:
                self.former_instances[instance_id] = self.seen(
                    Subject(instance_id=instance_id),
                    f"{self.who(member_id)} gave up the instance id {instance_id}",
                )
        self.upgrade = self.seen(THE_GROUP, "the classic group was converted")
        self._converted = change.ledger.converted_epoch, change.ledger.target_timestamp
        for entry in self.classic_clients.values():
            member = entry.member
            if member.member_id in change.upgraded.members:
                stored = change.ledger.members.get(member.member_id, MemberEntry())
                self._forgotten[member.member_id] = (
                    frozenset(member.assigned) - stored.held(),
                    self.seen(
                        Subject(member=member.member_id),
                        f"{entry.name} was converted with partitions that the coordinator did "
                        "not know of",
                    ),
                )

    def note_classic(self, look: ClassicLook) -> None:
        """A shard did something to a classic group."""
        step, group = look.step, look.group
        if step.kind is StepKind.LOG_TRUNCATED:
            look.undone = look.classic_model.undone_by(look.shard.log_end_offset)
            if look.undone is not None:
                self.restored[look.undone.generation_id] = self.seen(
                    THE_GROUP, "a conversion could not be written, and the classic group is back"
                )
            elif group is not None and any(
                lacks_session(group, look.shard, member_id) for member_id in look.touched
            ):
                self.restored[group.generation_id] = self.seen(
                    THE_GROUP, "a conversion that could not be written has answered parked requests"
                )
        if group is None:
            return
        if (
            step.kind is StepKind.COORDINATOR_REQUEST
            and isinstance(step.request, ConsumerGroupHeartbeatRequest)
            and step.response is not None
            and step.response.error_code is not ErrorCode.NONE
        ):
            for member_id in look.touched:
                if lacks_session(group, look.shard, member_id):
                    self.unparked[member_id] = self.seen(
                        Subject(member=member_id),
                        f"a refused conversion answered the parked request of {member_id}",
                    )

    def note_quiet_return(
        self,
        request: JoinGroupRequest,
        group: ClassicGroup,
        before: ClassicModel,
        records: Iterable[Record],
    ) -> None:
        """A static member came back to a Stable group, and nothing followed from that; ``before``:
        the group with its predecessor."""
        subscriptions = (protocol.metadata for protocol in request.protocols)
        topics = {n for s in subscriptions if isinstance(s, Subscription) for n in s.topics}
        leader = group.members.get(group.leader_id or "")
        instance_id = request.group_instance_id
        heir = group.members.get(group.static_members.get(instance_id or "", ""))
        withheld: frozenset[tuple[str, int]] = frozenset().union(
            *(
                to_give_up(note.protocols, heir.assignment)
                for note in before.members.values()
                if heir is not None and note.group_instance_id == instance_id
            )
        )
        epochs = [r.value for r in records if isinstance(r, ConsumerGroupMetadata)]
        self.quiet_returns.setdefault(group.generation_id, []).append(
            QuietReturn(
                topics=frozenset(topics),
                withheld=withheld,
                is_leader=leader is not None and leader.group_instance_id == instance_id,
                is_conversion=None in epochs,
                is_due=any(value is not None for value in epochs),
                seen=self.seen(
                    THE_GROUP,
                    f"the static member {instance_id} came back to generation "
                    f"{group.generation_id} without a rebalance",
                ),
            )
        )

    def note_classic_answer(self, step: Step, shard: ShardView) -> None:
        """An answer to a JoinGroup was let go."""
        response = step.response
        if isinstance(response, JoinGroupResponse) and response.generation_id >= 0:
            reported = (response.member_id, response.generation_id)
            self._answered_in_term[reported] = shard.leader_epoch

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
