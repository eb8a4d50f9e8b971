"""The registry of peer tests, and small helpers that all row files share.

A case is a fact from one of Apache Kafka's own unit tests: inputs, and what must come out. It is
named by the Java test class and method (and a variant, where the method is parameterized or checks
several things), and runs against one named semantics of the model.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rebalance_sim.protocol.wire.topics import TopicPartition


@dataclass
class Case:
    cls: str
    method: str
    variant: str
    run: Callable[[], None]
    version: str = "kafka-4.3"

    @property
    def name(self) -> str:
        tail = f"[{self.variant}]" if self.variant else ""
        return f"{self.cls}.{self.method}{tail}@{self.version}"


@dataclass
class Book:
    """What all row files bring: cases, tests that the model cannot express, explained differences."""

    cases: list[Case] = field(default_factory=list)
    not_expressible: list[tuple[str, str, str]] = field(default_factory=list)
    explained: dict[str, str] = field(default_factory=dict)

    def case(self, cls: str, method: str, variant: str = "", version: str = "kafka-4.3"):
        def register(function: Callable[[], None]) -> Callable[[], None]:
            self.cases.append(Case(cls, method, variant, function, version))
            return function

        return register

    def add(self, cls, method, run, variant="", version="kafka-4.3") -> None:
        self.cases.append(Case(cls, method, variant, run, version))

    def cannot(self, cls: str, method: str, why: str) -> None:
        self.not_expressible.append((cls, method, why))

    def explain(self, name: str, why: str) -> None:
        """A difference that is understood: the case may fail without failing the run."""
        self.explained[name] = why


def row_files() -> list[str]:
    """Modules that hold rows: everything beside this one that is no driver, runner or test."""
    stems = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(s for s in stems if s not in {"peer", "run"} and not s.startswith(("_", "test_")))


BOOK = Book()
case, add, cannot, explain = BOOK.case, BOOK.add, BOOK.cannot, BOOK.explain


def tps(text: str) -> frozenset[TopicPartition]:
    """``"t1:0,1 t2:3"`` as partitions; topic ids are what stands before the colon."""
    found = set()
    for word in text.split():
        topic, _, numbers = word.partition(":")
        for piece in numbers.split(","):
            low, _, high = piece.partition("-")
            found |= {TopicPartition(topic, n) for n in range(int(low), int(high or low) + 1)}
    return frozenset(found)


def show(partitions: Iterable[TopicPartition]) -> str:
    grouped: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return " ".join(f"{t}:{','.join(map(str, ns))}" for t, ns in grouped.items())


def same(obtained, expected, what: str = "") -> None:
    if obtained != expected:
        raise AssertionError(
            f"{what + ': ' if what else ''}expected {expected!r}, got {obtained!r}"
        )


def brief(error: BaseException) -> str:
    if isinstance(error, AssertionError) and str(error):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"


__all__ = [
    "BOOK",
    "Case",
    "add",
    "brief",
    "cannot",
    "case",
    "explain",
    "row_files",
    "same",
    "show",
    "tps",
]
