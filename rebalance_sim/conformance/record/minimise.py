"""The shortest script found that still shows a difference between a broker and the model.

Steps are left out in halves, then in quarters, and so on (delta debugging); whether the difference
is still there, the broker has to be asked each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """An answer of a step that the model gives in another way. ``fields``: in which fields."""

    op: str
    fields: frozenset[str]
    place: int
    """Index of the step. Two differences are the same if everything but the place is."""

    def is_same(self, other: Difference | None) -> bool:
        """The same fields of the answer to the same operation differ."""
        return other is not None and (self.op, self.fields) == (other.op, other.fields)


def difference_of(place: int, step: Step, expected: object, got: object) -> Difference:
    """What differs between an answer of the broker and one of the model."""
    fields = {"answer"}
    if isinstance(expected, dict) and isinstance(got, dict):
        fields = {
            name
            for name in expected.keys() | got.keys()
            if expected.get(name, ...) != got.get(name, ...)
        }
    return Difference(step["op"], frozenset(fields), place)


def minimise(
    steps: Sequence[Step],
    difference: Difference,
    ask: Callable[[tuple[Step, ...]], Difference | None],
    limit: int,
) -> tuple[Step, ...] | None:
    """Fewer steps that show the same difference; None if it does not show again.

    ``ask`` has the broker answer these steps, and says how the model differs first; it is called
    up to ``limit`` times.
    """
    shown = tuple(steps[: difference.place + 1])  # what comes later has no part in it
    if not difference.is_same(ask(shown)):
        return None
    chunk = max(1, len(shown) // 2)
    start = 0
    for _ in range(limit - 1):
        if start >= len(shown) - 1:  # the last step is the one that shows it
            if chunk == 1:
                break
            chunk, start = max(1, chunk // 2), 0
        candidate = _without(shown, start, min(start + chunk, len(shown) - 1))
        found = ask(candidate) if candidate else None
        if found is not None and difference.is_same(found):
            shown = candidate[: found.place + 1]
        else:
            start += chunk
    return shown


def _without(steps: Sequence[Step], start: int, end: int) -> tuple[Step, ...]:
    """The steps without some. A parked request and the step that waits for it go together."""
    kept = [*steps[:start], *steps[end:]]
    sent = {step["async"] for step in kept if "async" in step}
    awaited = {step["id"] for step in kept if step["op"] == "await"}
    return tuple(
        step
        for step in kept
        if (step["op"] != "await" or step["id"] in sent)
        and ("async" not in step or step["async"] in awaited or _is_awaited_nowhere(step, steps))
    )


def _is_awaited_nowhere(step: Step, steps: Sequence[Step]) -> bool:
    return all(other["op"] != "await" or other["id"] != step["async"] for other in steps)
