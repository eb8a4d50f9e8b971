"""Replaying a real broker's trace against the pure coordinator.

Responses must be equal field by field, and the group log record by record. What differs counts as
explained if one thing that the recording does not contain is its cause (``tolerances``), and the
replay with this thing changed agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rebalance_sim.conformance.broker_run import BrokerRun, Exchange
from rebalance_sim.conformance.broker_search import Explained, explain
from rebalance_sim.conformance.broker_trace import BrokerTrace
from rebalance_sim.conformance.tolerances import spelled

__all__ = ["BrokerReplayReport", "Exchange", "Explanation", "replay_broker_trace", "replay_steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One thing that was changed for the replay to agree.

    ``name`` is that of the tolerance, ``detail`` says what was changed; ``responses`` and
    ``batches`` are the numbers of the steps and of the log batches that agree only so.
    """

    name: str
    detail: str
    responses: tuple[int, ...]
    batches: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReplayReport:
    """Outcome of one trace. ``needs`` names what the model lacks to replay it; then nothing ran.

    ``responses_ok`` and ``batches_ok`` are those that agree, or are explained: ``explanations``.
    """

    name: str
    needs: str | None = None
    responses_ok: int = 0
    responses_total: int = 0
    batches_ok: int = 0
    batches_total: int = 0
    first_difference: str | None = None
    explanations: tuple[Explanation, ...] = ()

    @property
    def passed(self) -> bool:
        """Everything was replayed, and nothing differed without an explanation."""
        return self.needs is None and self.first_difference is None

    def explained(self, what: str) -> dict[str, int]:
        """How many ``responses`` or ``batches`` each tolerance explains, by name."""
        counts: Counter[str] = Counter()
        for one in self.explanations:
            counts[one.name] += len(getattr(one, what))
        return {name: count for name, count in sorted(counts.items()) if count}

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "explanations": [asdict(one) for one in self.explanations],
        }


def replay_broker_trace(trace: BrokerTrace) -> BrokerReplayReport:
    """Replay and compare."""
    found = explain(trace)
    final = found.final
    missed = Counter(place.kind for place in final.differences)
    return BrokerReplayReport(
        name=trace.name,
        responses_ok=final.answers_total - missed["answer"],
        responses_total=final.answers_total,
        batches_ok=final.batches_total - missed["batch"],
        batches_total=final.batches_total,
        first_difference=_first_difference(found),
        explanations=tuple(_explanations(found)),
    )


def replay_steps(trace: BrokerTrace) -> Iterator[tuple[Exchange, Sequence[dict[str, Any]]]]:
    """The trace step by step with the records of each, for people who want to read along."""
    replay = BrokerRun(trace, explain(trace).answers)
    for exchange in replay.exchanges():
        yield exchange, replay.spelled(exchange.written)


def _first_difference(found: Explained) -> str | None:
    """Answers first: they say more than records."""
    places = sorted(found.final.differences, key=lambda place: (place.kind != "answer", place))
    return str(found.final.differences[places[0]]) if places else None


def _explanations(found: Explained) -> Iterator[Explanation]:
    for subject, answer in found.answers.items():
        places = [place for place, cause in found.causes.items() if cause == subject]
        numbers = {
            kind: tuple(place.position + 1 for place in places if place.kind == kind)
            for kind in ("answer", "batch")
        }
        yield Explanation(
            name=subject.tolerance,
            detail=spelled(subject, answer),
            responses=numbers["answer"],
            batches=numbers["batch"],
        )
