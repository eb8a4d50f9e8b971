"""When librdkafka's timer for interval commits runs: on a grid that begins with the client.

Source: client §10.1, row "interval commit".
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import CommitAnswered, RecordsReturned, SendCommit, Tick
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_KINDS
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 249


class _Own:
    """What one process has committed."""

    __slots__ = ("ran_before_ms", "ran_ms", "sent", "started_ms")

    def __init__(self, at_ms: int) -> None:
        self.started_ms = at_ms
        self.ran_ms = at_ms
        """When it was last seen to run."""
        self.ran_before_ms = at_ms
        """The same, in an earlier millisecond than that."""
        self.sent: dict[TopicPartition, int] = {}
        """The furthest offset of each partition."""

    def note_run(self, at_ms: int) -> None:
        """It runs."""
        if at_ms > self.ran_ms:
            self.ran_before_ms, self.ran_ms = self.ran_ms, at_ms

    def has_run(self, since_ms: int, now_ms: int, interval_ms: int) -> bool:
        """Whether it was seen to run since then. What it gets in this very millisecond tells
        nothing if nothing was seen of it for an interval: one that goes on after it stood still may
        get records before it looks at its timers."""
        if self.ran_ms < now_ms or now_ms - self.ran_before_ms <= interval_ms:
            return self.ran_ms >= since_ms
        return self.ran_before_ms >= since_ms

    def moves_on(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Whether these are past what was sent before: then nothing is repeated."""
        sent = self.sent
        is_news = False
        for partition, offset in offsets.items():
            if offset > sent.get(partition, -1):
                sent[partition] = offset
                is_news = True
        return is_news


class IntervalGrid(Property):
    """client §10.1, row "interval commit". Whatever else has a client commit is an event. A process
    that stood still looks at its timers late, so it must have been seen to run since."""

    id = "client.commit.commit_timer_librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, that commits by itself something new, and has "
        "no other cause, does so a whole number of auto.commit.interval.ms after it was created."
    )
    clauses = ("client §10.1",)
    violated_by = ("test:librdkafka-leaves-the-grid",)
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(events=(RecordsReturned, CommitAnswered), effects=(SendCommit,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._of: dict[str, _Own] = self.of_process({})

    def on_client_started(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """The grid begins, if this is the beginning of the process."""
        if step.event is None:
            self._of[entry.name] = _Own(step.at_ms)
        return None

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """It runs."""
        own = self._of.get(entry.name)
        if own is not None:
            own.note_run(step.at_ms)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A commit leaves: by which cause?"""
        own = self._of.get(entry.name)
        if own is None:
            return None
        finding = None
        for effect in step.effects:
            if type(effect) is SendCommit and own.moves_on(effect.request.offsets):
                interval_ms = entry.member.config.auto_commit_interval_ms
                past_ms = (step.at_ms - own.started_ms) % interval_ms
                due_ms = step.at_ms - past_ms
                is_late = type(step.event) is Tick and past_ms
                if is_late and own.has_run(due_ms, step.at_ms, interval_ms):
                    finding = Finding(
                        f"{entry.name} commits by itself {past_ms} ms after its interval of "
                        f"{interval_ms} ms was over, and has run meanwhile",
                        {"client": entry.name},
                    )
        return finding
