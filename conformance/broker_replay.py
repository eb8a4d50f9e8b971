"""Replaying a real broker's trace against the pure coordinator.

Responses must be equal field by field, and the group log record by record. What differs counts as
explained if one thing that the recording does not contain is its cause (``tolerances``), and the
replay with this thing changed agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rebalance_sim.conformance.broker_run import BrokerRun, Exchange
from rebalance_sim.conformance.broker_search import Explained, explain
from rebalance_sim.conformance.broker_trace import BrokerTrace

__all__ = ["BrokerReplayReport", "Exchange", "replay_broker_trace", "replay_steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReplayReport:
    """Outcome of one trace. ``needs`` names what the model lacks to replay it; then nothing ran.

    ``responses_ok`` and ``batches_ok`` are those that agree or are explained; of these,
    ``explained`` counts by tolerance what agrees only with it, and ``causes`` says so one by one.
    """

    name: str
    needs: str | None = None
    responses_ok: int = 0
    responses_total: int = 0
    batches_ok: int = 0
    batches_total: int = 0
    first_difference: str | None = None
    explained: Mapping[str, int] = field(default_factory=dict)
    explained_batches: Mapping[str, int] = field(default_factory=dict)
    causes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Everything was replayed, and nothing differed without an explanation."""
        return self.needs is None and self.first_difference is None

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {name: getattr(self, name) for name in self.__slots__}


def replay_broker_trace(trace: BrokerTrace) -> BrokerReplayReport:
    """Replay and compare."""
    found = explain(trace)
    final = found.final
    missed = Counter(place.kind for place in final.differences)
    kinds = {
        kind: Counter(
            sorted(cause for place, cause in found.causes.items() if place.kind == kind)
        )
        for kind in ("answer", "batch")
    }
    return BrokerReplayReport(
        name=trace.name,
        responses_ok=final.answers_total - missed["answer"],
        responses_total=final.answers_total,
        batches_ok=final.batches_total - missed["batch"],
        batches_total=final.batches_total,
        first_difference=_first_difference(found),
        explained=dict(kinds["answer"]),
        explained_batches=dict(kinds["batch"]),
        causes=tuple(_causes(trace, found)),
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


def _causes(trace: BrokerTrace, found: Explained) -> Iterator[str]:
    """Every answer that is explained, and by what."""
    for place, cause in found.causes.items():
        if place.kind == "answer":
            step = trace.steps[place.index]
            yield f"step {place.index + 1} at {place.at_ms} ms: {step['op']}: {cause}"
        else:
            yield f"log batch {place.index + 1} at {place.at_ms} ms: {cause}"
