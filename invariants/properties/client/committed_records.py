"""Records that are given up in good order are committed, and the next consumer starts there.

Sources: client §7, §8, §12; defects S4, KAFKA-14196 and KAFKA-16460. Like ``client_records.py``, of
which this is the half about commits that are acknowledged, about worlds with a data plane.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry, is_registered
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.intake import intake_of, taken_positions
from rebalance_sim.invariants.properties.client.sent_commits import (
    OrderOfCommits,
    SentCommits,
    is_of_member,
    stored_by,
)
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    Call,
    CallbackKind,
    Close,
    CommitAnswered,
    PositionsKnown,
    RunCallback,
    SendCommit,
)
from rebalance_sim.protocol.clients.kinds import JAVA
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 250


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
        events=(CommitAnswered, PositionsKnown, Close),
        effects=(SendCommit, RunCallback),
    )
    needs_data_plane = True
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._close_until_ms: dict[str, int] = self.of_process({})

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Enter an answer, or where a partition starts."""
        if type(step.event) is CommitAnswered:
            self._of(entry).answer(step.event)
        elif type(step.event) is Close:
            self._close_until_ms[entry.name] = step.at_ms + step.event.timeout_ms
        elif type(step.event) is PositionsKnown:
            for partition in step.event.positions:
                self._of(entry).forget(partition)
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
        intake = intake_of(step)
        for partition in sorted(effect.partitions):
            committed = self._of(entry).acknowledged(partition)
            handed_out = intake.handed_out_offset(partition)
            if committed is not None and handed_out is not None and committed < handed_out:
                return Finding(
                    f"{entry.name} gives {self.model.name_of(partition)} up, committed up to "
                    f"{committed}, and has handed out up to {handed_out}",
                    client=entry.name,
                    partition=partition,
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
        self._order = OrderOfCommits()

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Enter an answer, or judge where a partition starts."""
        if type(step.event) is CommitAnswered:
            self._answer(step.event, entry)
        elif type(step.event) is PositionsKnown:
            for partition, position in taken_positions(step, entry):
                known = self._committed.get(partition)
                if known is not None and position < known[0] and self._counts(entry, partition):
                    return Finding(
                        f"{entry.name} starts {self.model.name_of(partition)} at {position}; "
                        f"{self.model.who(known[1])} was told that {known[0]} is committed",
                        client=entry.name,
                        partition=partition,
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
        return None
