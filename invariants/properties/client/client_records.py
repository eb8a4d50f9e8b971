"""Records: fetched before they are handed out, processed before they are committed, once if asked.

Sources: client §7, §8, §12; defects S4, KAFKA-14196, KAFKA-16460 and KAFKA-18641. These properties
are about worlds with a data plane; elsewhere nobody is asked.

When a record may be processed twice follows from these and two of ``committed_records.py``. What is
given up in good order has been committed as far as it was handed out, an acknowledged commit is
where the next consumer starts, or later, and nobody starts behind what is committed. So whoever
gets a record again has it from a consumer that was fenced, crashed or left by its poll timer, that
does not commit, or whose last commit was not acknowledged.

What is processed before it is committed, and committed before it is given up, is the Java client's:
librdkafka stores an offset as it hands the record out, and commits after its revoked callback
(client §10.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.intake import intake_of, taken_positions
from rebalance_sim.invariants.properties.client.sent_commits import (
    is_of_member,
    stored_by,
)
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CommitOffsets,
    PositionsKnown,
    RecordsReturned,
    ResetPositions,
    SendCommit,
)
from rebalance_sim.protocol.clients.kinds import JAVA, LIBRDKAFKA, LIBRDKAFKA_CLASSIC
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 250


class PositionFetched(Property):
    """client §8: the position moves over records that ``poll`` returns, and no others."""

    id = "client.position.fetched"
    sentence = "Records are handed out after they were fetched, and fetched after produced."
    clauses = ("client §8", "client C12")
    violated_by = ("test:hands-out-unfetched",)
    interest = Interest(events=(RecordsReturned,), effects=())
    needs_data_plane = True

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare new positions with what the client has, and that with the log."""
        intake = intake_of(step)
        for partition, position in step.event.positions.items():
            fetched = intake.fetched_offset(partition)
            end = intake.log_end_offset(partition)
            if fetched is not None and not position <= fetched <= end:
                return Finding(
                    f"{entry.name} handed out {self.model.name_of(partition)} up to {position}, "
                    f"has fetched up to {fetched}, and the log ends at {end}",
                    client=entry.name,
                    partition=partition,
                )
        return None


class CommitProcessed(Property):
    """defects S4. That it was handed out at all is ``client.commit.position``. An application may
    commit what it likes."""

    id = "client.commit.processed"
    sentence = "An automatic commit does not pass what the application has processed."
    clauses = ("defects S4", "client §7", "client §8")
    violated_by = ("KAFKA-18641", "mut-client-commits-undelivered")
    interest = Interest(effects=(SendCommit,))
    needs_data_plane = True

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare each offset with what is processed by now."""
        if entry.commits_itself or entry.member.kind != JAVA:
            return None
        for effect in step.effects:
            if type(effect) is not SendCommit:
                continue
            intake = intake_of(step)
            for partition, offset in effect.request.offsets.items():
                done = intake.processed_offset(partition)
                if done is not None and offset > done:
                    return Finding(
                        f"{entry.name} commits {self.model.name_of(partition)} at {offset}, and "
                        f"has processed up to {done}",
                        client=entry.name,
                        partition=partition,
                    )
        return None


class StartProcessed(Property):
    """defects S4: records are skipped by a reset to the latest, and in no other way."""

    id = "client.start.processed"
    sentence = (
        "A consumer starts no later than processing has come, unless nothing was committed, or "
        "librdkafka has committed what it had only handed out, or the offset was stored for a "
        "former topic of this name, and no coordinator was active when that was deleted."
    )
    clauses = ("defects S4", "client C25", "client §8", "coordinator §8.4")
    violated_by = (
        "KAFKA-18641",
        "mut-client-commits-undelivered",
    )
    interest = Interest(
        events=(PositionsKnown, CommitOffsets), effects=(ResetPositions, SendCommit)
    )
    needs_data_plane = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._reset: dict[str, set[TopicPartition]] = self.of_process({})
        self._let_off: dict[TopicPartition, int] = {}
        """Partition -> the highest offset that tells nothing about processing: a reset led to it,
        which is committed even by who never fetches from there, or librdkafka sent it, or somebody
        who is no member."""
        self._is_by_application = False

    def on_append(self, step: Step) -> Finding | None:
        """Remember which committed offsets are no member's."""
        if not is_of_member(step.request):
            altered = {p: offset for p, offset in stored_by(step) if offset is not None}
            self._let_off.update(_raised(self._let_off, altered))
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Remember for which partitions nothing was committed."""
        for effect in step.effects:
            if type(effect) is ResetPositions:
                self._reset.setdefault(entry.name, set()).update(effect.partitions)
            elif type(effect) is SendCommit and entry.member.kind == LIBRDKAFKA:
                self._let_off.update(_raised(self._let_off, effect.request.offsets))
        return None

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Judge where partitions start; once applications commit by themselves, no more."""
        if type(step.event) is CommitOffsets:
            self._is_by_application = True
        if type(step.event) is not PositionsKnown or self._is_by_application:
            return None
        intake = intake_of(step)
        reset = self._reset.setdefault(entry.name, set())
        for partition, position in taken_positions(step, entry):
            if partition in reset:
                reset.discard(partition)
                self._let_off[partition] = max(position, self._let_off.get(partition, 0))
                continue
            done = intake.group_processed_offset(partition)
            if done is not None and position > max(done, self._let_off.get(partition, 0)):
                if self._is_inherited(partition, position):
                    self._let_off[partition] = position
                    continue
                return Finding(
                    f"{entry.name} starts {self.model.name_of(partition)} at {position}; nobody "
                    f"has processed more than up to {done}",
                    client=entry.name,
                    partition=partition,
                )
        return None

    def on_classic_client(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """What a member of the classic protocol has reset, or librdkafka handed out, may be
        committed, and a member of this one starts there."""
        for effect in step.effects:
            if type(effect) is ResetPositions:
                self._reset.setdefault(entry.name, set()).update(effect.partitions)
            elif type(effect) is SendCommit and entry.kind == LIBRDKAFKA_CLASSIC:
                self._let_off.update(_raised(self._let_off, effect.request.offsets))
        if type(step.event) is PositionsKnown:
            reset = self._reset.get(entry.name, set())
            positions = {
                p: at
                for p, at in step.event.positions.items()
                if p in reset or self._is_inherited(p, at)
            }
            self._let_off.update(_raised(self._let_off, positions))
            reset.difference_update(positions)
        return None

    def _is_inherited(self, partition: TopicPartition, position: int) -> bool:
        """Whether this is what a former topic of the same name has left behind: deleted offsets are
        those of active shards alone (coordinator §8.4, D13)."""
        created_ms = self.model.recreated_ms(partition)
        shard = None if created_ms is None else self.model.acting_shard()
        if created_ms is None or shard is None:
            return False
        coordinator = shard.coordinator
        topic = coordinator.image.by_id.get(partition.topic_id)
        if topic is None:
            return False
        stored = coordinator.offsets.of_group(self.model.group_id)
        value = stored.get((topic.name, partition.partition))
        if value is None or value.offset != position:
            return False
        if value.topic_id is None:
            return value.commit_timestamp <= created_ms
        return value.topic_id != partition.topic_id


def _raised(
    highest: Mapping[TopicPartition, int], offsets: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, int]]:
    for partition, offset in offsets.items():
        yield partition, max(offset, highest.get(partition, 0))
