"""The page docs/properties.md, made from the properties."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from markdown_lines import table

from rebalance_sim.invariants.engine.discovery import GOALS, INVARIANTS, LIVENESS
from rebalance_sim.invariants.property import Property

_OF_ONE_MACHINE = (
    *(f"coordinator C{n}" for n in (2, 6, 7, 12, 14, 15, 25)),
    *("coordinator E3", "coordinator L5"),
    *(f"client C{n}" for n in (1, 2, 4, 6, 10, 17, 18, 19, 20, 26, 27)),
    *(f"classic C{n}" for n in (1, 2, 3, 4, 5, 6, 14)),
    *(f"classic H{n}" for n in (3, 4, 5, 8, 10, 13)),
    *("classic §4.4", "TLA+ ValidStableGroupState"),
)

COVERED_BY_OTHERS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            _OF_ONE_MACHINE, "how one machine steps: its tests in `tests/protocol` say so"
        ),
        "coordinator E2": (
            "a client gets only answers, and log.commit_before_response holds every answer back"
        ),
        "TLA+ TypeOK": "types are checked statically",
        "TLA+ EventuallyConverges": "bounded, as liveness.converges",
    }
)
"""Clause of a source -> why it has no property of its own."""


_ABOUT = """# Properties

Made from the modules of `invariants/laws/`; change these, then run `python docs/generate.py`.

A clause cites a document of [the reference](reference/README.md); `TLA+` the model of \
client §11.3, `KIP-848` a chapter of that text.
*Violated by* names defects and mutants that violate the property; `test:` ones exist in \
the tests only. (r): also judged of real clients that \
[report](gateway.md#clients-that-report) to a gateway.
"""


def as_markdown() -> str:
    """The page docs/properties.md."""
    judged = ("id", "property", "clauses", "violated by")
    return "\n".join(
        (
            _ABOUT,
            "## Invariants: always, after every step\n",
            table(judged, map(_judged, INVARIANTS)),
            "## Liveness properties: eventually, in the quiet period after the faults\n",
            table(judged, map(_judged, LIVENESS)),
            "## Reachability goals: sometimes, over a sweep\n",
            table(("id", "must have happened"), ((f"`{g.id}`", g.sentence) for g in GOALS)),
            "## Clauses without a property of their own\n",
            table(("clause", "why"), COVERED_BY_OTHERS.items()),
        )
    )


def _judged(item: type[Property]) -> tuple[str, ...]:
    named = f"`{item.id}`{' (r)' if item.is_seen_from_outside else ''}"
    return named, item.sentence, ", ".join(item.clauses), ", ".join(item.violated_by)
