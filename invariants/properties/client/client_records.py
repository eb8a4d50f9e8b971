"""Records: fetched before they are handed out, processed before they are committed, once if asked.

Sources: client §7, §8, §12; defects S4, KAFKA-14196, KAFKA-16460 and KAFKA-18641. These properties
are about worlds with a data plane; elsewhere nobody is asked.

When a record may be processed twice follows from three of them together. A partition that is given
up in good order has been committed as far as it was handed out, a commit that was acknowledged is
where the next consumer starts, or later, and nobody starts behind what is committed. So whoever
gets a record again has it from a consumer that was fenced, crashed or left by its poll timer, that
does not commit, or whose last commit was not acknowledged.

Two of them are the Java client's own: librdkafka stores an offset as it hands the record out, and
commits after its revoked callback (client §10.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rebalance_sim.invariants.explanation import Seen, Subject
from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry, is_registered
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.sent_commits import (
    OrderOfCommits,
    SentCommits,
    is_of_member,
    stored_by,
)
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import IntakeView, Step
from rebalance_sim.protocol.clients import (
    Call,
    CallbackKind,
    Close,
    CommitAnswered,
    CommitOffsets,
    Disconnected,
    PositionsKnown,
    RecordsReturned,
    RequestExpired,
    ResetPositions,
    RunCallback,
    SendCommit,
)
from rebalance_sim.protocol.clients.kinds import JAVA, LIBRDKAFKA, LIBRDKAFKA_CLASSIC
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 250


_LOSSES = (Disconnected, RequestExpired)


class PositionFetched(Property):
    """client §8: the position moves over records that ``poll`` returns, and no others."""

    id = "client.position.fetched"
    sentence = "Records are handed out after they were fetched, and fetched after produced."
    clauses = ("client §8", "client C12")
    violated_by = ("test:hands-out-unfetched", "test:fetches-unproduced")
    interest = Interest(events=(RecordsReturned,), effects=())
    needs_data_plane = True

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare new positions with what the client has, and that with the log."""
        intake = _intake_of(step)
        for partition, position in step.event.positions.items():
            fetched = intake.fetched_offset(partition)
            end = intake.log_end_offset(partition)
            if fetched is not None and not position <= fetched <= end:
                return Finding(
                    f"{entry.name} handed out {self.model.name_of(partition)} up to {position}, "
                    f"has fetched up to {fetched}, and the log ends at {end}",
                    {"client": entry.name, "partition": partition},
                )
        return None


class _WithRetries(Property):
    """Keeps which clients may have a commit to repeat: one was refused, or got lost.

    A commit before a revocation is repeated for as long as max.poll.interval.ms, and each time with
    the positions of that moment (client §7), so it passes what the application has in hand:
    ``sim-retried-commit`` in ``known/known_issues.py``.
    """

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._failed: dict[str, Seen] = self.of_process({})

    def _note(self, step: Step, entry: ClientEntry) -> None:
        if type(step.event) is CommitAnswered or type(step.event) in _LOSSES:
            what = f"a commit of {entry.name} was refused, or got lost"
            self._failed[entry.name] = self.model.seen(Subject(client=entry.name), what)

    def _repeats(self, step: Step, entry: ClientEntry) -> Seen | None:
        """The failure after which a commit of this step may be a repeated one."""
        failed = self._failed.get(entry.name)
        limit_ms = entry.member.config.max_poll_interval_ms
        return failed if failed is not None and step.at_ms - failed.at_ms <= limit_ms else None


class CommitProcessed(_WithRetries):
    """defects S4. That it was handed out at all is ``client.commit.position``. An application may
    commit what it likes."""

    id = "client.commit.processed"
    sentence = "An automatic commit does not pass what the application has processed."
    clauses = ("defects S4", "client §7", "client §8")
    violated_by = ("KAFKA-18641", "mut-client-commits-undelivered")
    interest = Interest(events=_LOSSES, refusals=(CommitAnswered,), effects=(SendCommit,))
    needs_data_plane = True

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Remember who may have to repeat a commit."""
        self._note(step, entry)
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare each offset with what is processed by now."""
        if entry.commits_itself or entry.member.kind != JAVA:
            return None
        for effect in step.effects:
            if type(effect) is not SendCommit:
                continue
            intake = _intake_of(step)
            for partition, offset in effect.request.offsets.items():
                done = intake.processed_offset(partition)
                if done is not None and offset > done:
                    return Finding(
                        f"{entry.name} commits {self.model.name_of(partition)} at {offset}, and "
                        f"has processed up to {done}",
                        {
                            "client": entry.name,
                            "partition": partition,
                            "is_repeated": self._repeats(step, entry),
                        },
                    )
        return None


class _WithCommits(Property):
    """Keeps ``SentCommits`` for each client process."""

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._commits: dict[str, SentCommits] = self.of_process({})

    def _of(self, entry: ClientEntry) -> SentCommits:
        if entry.name not in self._commits:
            self._commits[entry.name] = SentCommits()
        return self._commits[entry.name]


class RevocationCommitted(_WithCommits):
    """KAFKA-14196 and KAFKA-16460: between the position that is committed before a revocation and
    the revocation itself nothing more is handed out. A commit that failed is another matter."""

    id = "client.revocation.committed"
    sentence = (
        "When onPartitionsRevoked of a Java client runs and the commit before it was "
        "acknowledged, that commit covers everything that was handed out."
    )
    clauses = ("defects S4", "client §8", "client §4.1")
    violated_by = ("KAFKA-16460",)
    client_kinds = (JAVA,)
    interest = Interest(
        events=(CommitAnswered, PositionsKnown, RecordsReturned, Close),
        effects=(SendCommit, RunCallback),
    )
    needs_data_plane = True
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._close_until_ms: dict[str, int] = self.of_process({})
        self._late: dict[str, dict[TopicPartition, Seen]] = self.of_process({})
        """Client -> partitions of which it handed records out while they were to be revoked."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Enter an answer, where a partition starts, or what is handed out too late."""
        if type(step.event) is CommitAnswered:
            self._of(entry).answer(step.event)
        elif type(step.event) is Close:
            self._close_until_ms[entry.name] = step.at_ms + step.event.timeout_ms
        elif type(step.event) is PositionsKnown:
            late = self._late.get(entry.name, {})
            for partition in step.event.positions:
                self._of(entry).forget(partition)
                late.pop(partition, None)
        elif type(step.event) is RecordsReturned:
            for partition in step.event.positions:
                state = entry.member.assigned.get(partition)
                if state is not None and state.pending_revocation:
                    self._late.setdefault(entry.name, {})[partition] = self.model.seen(
                        Subject(client=entry.name, partition=partition),
                        f"{entry.name} handed out records of {self.model.name_of(partition)}, "
                        "which was marked to be revoked",
                    )
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Enter commits, and judge callbacks."""
        for effect in step.effects:
            if type(effect) is SendCommit:
                self._of(entry).send(effect)
            elif type(effect) is RunCallback and effect.kind is CallbackKind.REVOKED:
                finding = self._judge(step, entry, effect)
                if finding is not None:
                    return finding
        return None

    def _judge(self, step: Step, entry: ClientEntry, effect: RunCallback) -> Finding | None:
        member = entry.member
        is_let_off = effect.is_obsolete or not member.config.enable_auto_commit
        if is_let_off or entry.commits_itself or member.kind != JAVA:
            return None
        if member.blocked_in is Call.UNSUBSCRIBE:
            return None  # It commits nothing (client §6.2).
        if step.at_ms >= self._close_until_ms.get(entry.name, step.at_ms + 1):
            return None  # There was no time left for the commit of close (client §6.2).
        intake = _intake_of(step)
        for partition in sorted(effect.partitions):
            committed = self._of(entry).acknowledged(partition)
            handed_out = intake.handed_out_offset(partition)
            if committed is not None and handed_out is not None and committed < handed_out:
                return Finding(
                    f"{entry.name} gives {self.model.name_of(partition)} up, committed up to "
                    f"{committed}, and has handed out up to {handed_out}",
                    {
                        "client": entry.name,
                        "partition": partition,
                        "was_late": self._late.get(entry.name, {}).get(partition),
                    },
                )
        return None


class StartCommitted(_WithCommits):
    """defects S4, from the consumers' side: what they were told is committed stays so, unless
    somebody who is no member takes it away or sets it anew. Commits of the application may go back;
    and clients send an older commit after a newer one: ``sim-overtaken-commit`` in
    ``known/known_issues.py``.

    A coordinator stores commits of a member in the order in which they arrive. That is the order of
    sending on one connection alone: what was sent on a former one may come later, and takes back
    what was committed since (client §2.4).
    """

    id = "client.start.committed"
    outlives_lost_commits = False
    sentence = (
        "A record is handed out again only if no commit that covers it was acknowledged, or an "
        "older one of the same member arrived after that one."
    )
    clauses = ("defects S4", "defects S5", "client C25", "client §2.4")
    violated_by = ("test:forgets-commit",)
    interest = Interest(events=(CommitAnswered, PositionsKnown), effects=(SendCommit,))
    needs_data_plane = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._committed: dict[TopicPartition, tuple[int, str]] = {}
        """Partition -> the highest offset that was acknowledged, and to whom."""
        self._sent_up_to: dict[str, dict[TopicPartition, int]] = self.of_process({})
        """Client -> partition -> the highest offset that it has sent since it began there."""
        self._overtaken: dict[TopicPartition, Seen] = {}
        """Partitions of which a client has sent a lower offset after that."""
        self._order = OrderOfCommits()

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Enter an answer, or judge where a partition starts."""
        if type(step.event) is CommitAnswered:
            self._answer(step.event, entry)
        elif type(step.event) is PositionsKnown:
            sent_up_to = self._sent_up_to.get(entry.name, {})
            for partition in step.event.positions:
                sent_up_to.pop(partition, None)
            for partition, position in _starts(step, entry):
                known = self._committed.get(partition)
                if known is not None and position < known[0] and self._counts(entry, partition):
                    return Finding(
                        f"{entry.name} starts {self.model.name_of(partition)} at {position}; "
                        f"{self.model.who(known[1])} was told that {known[0]} is committed",
                        {
                            "client": entry.name,
                            "partition": partition,
                            "was_overtaken": self._overtaken.get(partition),
                        },
                    )
        return None

    def _answer(self, event: CommitAnswered, entry: ClientEntry) -> None:
        commits = self._of(entry)
        request = commits.request(event.correlation_id)
        for partition, acknowledged in commits.answer(event).items():
            offset = self._order.left_of(partition, acknowledged)
            known = self._committed.get(partition)
            if known is None or offset >= known[0] or entry.commits_itself:
                self._committed[partition] = offset, entry.member.member_id
                if commits.acknowledged(partition) == acknowledged:
                    self._overtaken.pop(partition, None)  # nothing was sent after this one
        if request is not None and not commits.awaits_answer(request):
            self._order.forget(request)

    def on_append(self, step: Step) -> Finding | None:
        """What others do to committed offsets is theirs to answer for; and an older commit takes a
        younger one back."""
        request = step.request
        if type(request) is not OffsetCommitRequest or not is_of_member(request):
            for partition, offset in stored_by(step):
                self._committed.pop(partition, None)
                self._order.alter(partition, offset)
            return None
        for partition, offset in self._order.set_back(request, stored_by(step)):
            known = self._committed.get(partition)
            if known is not None and offset < known[0]:
                self._committed[partition] = offset, known[1]
        return None

    def _counts(self, entry: ClientEntry, partition: TopicPartition) -> bool:
        """With a topic that is deleted go its committed offsets; and a member that was removed, and
        has not heard of it, may start from an answer that was long under way."""
        shard = self.model.acting_shard()
        return (
            shard is not None
            and partition.topic_id in shard.coordinator.image.by_id
            and is_registered(entry.member, self.model.ledger_of(shard))
        )

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Enter commits."""
        for effect in step.effects:
            if type(effect) is SendCommit:
                self._of(entry).send(effect)
                self._order.send(effect.request)
                self._note_order(entry.name, effect)
        return None

    def _note_order(self, name: str, effect: SendCommit) -> None:
        sent_up_to = self._sent_up_to.setdefault(name, {})
        for partition, offset in effect.request.offsets.items():
            if offset < sent_up_to.get(partition, 0):
                self._overtaken[partition] = self.model.seen(
                    Subject(partition=partition),
                    f"{name} sent a commit of {offset} for {self.model.name_of(partition)}, "
                    "after a higher one",
                )
            else:
                sent_up_to[partition] = offset


class StartProcessed(_WithRetries):
    """defects S4: records are skipped by a reset to the latest, and in no other way."""

    id = "client.start.processed"
    sentence = (
        "A consumer starts no later than processing has come, unless nothing was committed, or "
        "librdkafka has committed what it had only handed out, or the offset was stored for a "
        "former topic of this name, and no coordinator was active when that was deleted."
    )
    clauses = ("defects S4", "client C25", "client §8", "coordinator §8.4")
    violated_by = ("KAFKA-18641", "mut-client-commits-undelivered")
    interest = Interest(
        events=(*_LOSSES, PositionsKnown, CommitOffsets),
        refusals=(CommitAnswered,),
        effects=(ResetPositions, SendCommit),
    )
    needs_data_plane = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._reset: dict[str, set[TopicPartition]] = self.of_process({})
        self._repeated: dict[TopicPartition, tuple[int, Seen]] = {}
        """Partition -> the highest offset in a commit that was repeated."""
        self._let_off: dict[TopicPartition, int] = {}
        """Partition -> the highest offset that tells nothing about processing: a reset led to it,
        which is committed even by who never fetches from there, or librdkafka sent it, or somebody
        who is no member."""
        self._misplaced: dict[TopicPartition, tuple[int, Seen]] = {}
        """Partition -> the offset last stored for it, if that was reached in a former topic."""
        self._is_by_application = False

    def on_append(self, step: Step) -> Finding | None:
        """Remember which committed offsets are no member's, and which a former topic's."""
        if not is_of_member(step.request):
            altered = {p: offset for p, offset in stored_by(step) if offset is not None}
            self._let_off.update(_raised(self._let_off, altered))
        elif self.model.has_recreated_topics:
            self._note_misplaced(step)
        return None

    def _note_misplaced(self, step: Step) -> None:
        request = step.request
        for partition, offset in stored_by(step):
            self._misplaced.pop(partition, None)
            topic = step.shard.coordinator.image.by_id[partition.topic_id]
            by_name = TopicPartition(topic.name, partition.partition)
            if offset is not None and not {partition, by_name} & request.offsets.keys():
                self._misplaced[partition] = (
                    offset,
                    self.model.seen(
                        Subject(partition=partition),
                        f"{offset} was stored for {self.model.name_of(partition)}, and was reached "
                        "in a former topic of its name",
                    ),
                )

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Remember for which partitions nothing was committed, and what was repeated."""
        for effect in step.effects:
            if type(effect) is ResetPositions:
                self._reset.setdefault(entry.name, set()).update(effect.partitions)
            elif type(effect) is SendCommit:
                if entry.member.kind == LIBRDKAFKA:
                    self._let_off.update(_raised(self._let_off, effect.request.offsets))
                elif (failed := self._repeats(step, entry)) is not None:
                    self._note_repeated(effect.request.offsets, failed)
        return None

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Judge where partitions start; once applications commit by themselves, no more."""
        self._note(step, entry)
        if type(step.event) is CommitOffsets:
            self._is_by_application = True
        if type(step.event) is not PositionsKnown or self._is_by_application:
            return None
        intake = _intake_of(step)
        reset = self._reset.setdefault(entry.name, set())
        for partition, position in _starts(step, entry):
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
                    {
                        "client": entry.name,
                        "partition": partition,
                        "is_repeated": self._repeated_up_to(partition, position),
                        "is_misplaced": self._misplaced_at(partition, position),
                    },
                )
        return None

    def _misplaced_at(self, partition: TopicPartition, position: int) -> Seen | None:
        offset, seen = self._misplaced.get(partition, (-1, None))
        return seen if offset == position else None

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
        created = self.model.recreation(partition)
        shard = None if created is None else self.model.acting_shard()
        if created is None or shard is None:
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
            return value.commit_timestamp <= created.at_ms
        return value.topic_id != partition.topic_id

    def _note_repeated(self, offsets: Mapping[TopicPartition, int], failed: Seen) -> None:
        for partition, offset in offsets.items():
            if offset > self._repeated.get(partition, (-1, failed))[0]:
                seen = replace(failed, subject=Subject(partition=partition))
                self._repeated[partition] = offset, seen

    def _repeated_up_to(self, partition: TopicPartition, position: int) -> Seen | None:
        """The failure after which a commit was repeated that reaches this position."""
        repeated = self._repeated.get(partition)
        return repeated[1] if repeated is not None and position <= repeated[0] else None


def _raised(
    highest: Mapping[TopicPartition, int], offsets: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, int]]:
    for partition, offset in offsets.items():
        yield partition, max(offset, highest.get(partition, 0))


def _starts(step: Step, entry: ClientEntry) -> Iterator[tuple[TopicPartition, int]]:
    """Positions of a ``PositionsKnown`` that the client has taken: not of what it has no more."""
    for partition, position in step.event.positions.items():
        state = entry.member.assigned.get(partition)
        if state is not None and state.has_valid_position and state.position == position:
            yield partition, position


def _intake_of(step: Step) -> IntakeView:
    client = step.client
    if client is None or client.intake is None:
        raise ValueError("a client of a world with a data plane must show what it takes in")
    return client.intake
