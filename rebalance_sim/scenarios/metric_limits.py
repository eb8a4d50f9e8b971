"""Limits of metrics that make a run a failure, whatever its outcome: dead clients, and clients or
partitions that were left waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.units import shown_in_unit, unit_of

LIMITED = (
    "fatal_clients",
    "never_stable_clients",
    "idle_clients",
    "unowned_partition_ms",
    "unowned_partition_ms_max",
)
"""Metrics that can be limited: docs/results.md says what they are."""


def limit_word(metric: str) -> str:
    """The metric as an option names it: ``fatal-clients``."""
    return metric.replace("_", "-")


LIMIT_WORDS = ", ".join(f"{limit_word(name)}[:N]" for name in LIMITED)
"""What ``--fail-on`` takes of them, for its help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLimit:
    """No run may have more than ``most`` of this metric, in its own unit."""

    metric: str
    most: float = 0

    @classmethod
    def parse(cls, text: str) -> MetricLimit:
        """``fatal-clients``, or ``unowned-partition-ms-max:60000`` with the most that is taken.

        Raises ScenarioError for another metric, and for what is no number from 0 on.
        """
        word, colon, most = text.partition(":")
        words = {limit_word(name): name for name in LIMITED}
        if word not in words:
            raise ScenarioError(f"{text!r}: no such thing; {did_you_mean(word, words)}")
        if colon and not most.isdecimal():
            raise ScenarioError(f"{text!r}: after the colon write a whole number, as in {word}:5")
        return cls(metric=words[word], most=int(most) if colon else 0)

    def is_exceeded_by(self, value: float | None) -> bool:
        """Whether this value of the metric is too much. A run without it has not shown that it
        keeps the limit."""
        return value is None or value > self.most

    def objection(self, metrics: Mapping[str, float]) -> str:
        """A line on a run that has too much; empty if it has not."""
        value = metrics.get(self.metric)
        if not self.is_exceeded_by(value):
            return ""
        had = "the run has no such metric" if value is None else f"{value:,g}"
        return f"failed on {limit_word(self.metric)}: {had}, at most {self.most:,g}"


def client_words(metrics: Mapping[str, float]) -> str:
    """What became of the clients of a run, and for how long partitions had no owner; empty for a
    run that has not measured it."""
    names = ("clients_started", *LIMITED[:4])
    if not all(name in metrics for name in names):
        return ""
    started, fatal, unstable, idle, unowned = (metrics[name] for name in names)
    time = f"{shown_in_unit(names[-1], unowned)} {unit_of(names[-1])[0]}"
    return (
        f"of {started:g} clients {fatal:g} ended fatal, {unstable:g} never stable, {idle:g} idle; "
        f"unowned {time}"
    )
