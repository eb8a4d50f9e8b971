"""Regression: scenarios and seeds that are to come out as they did, and fresh seeds beside them.

A case is a scenario's file or a profile with a seed. A lock file holds what each came to: its
outcome, the violated properties, and the digest of its steps. A case that is in no lock has to
pass. Another outcome is a failure; the same outcome by other steps is a change, which somebody may
want to know of. What a limit of the machine ends is a failure that no lock takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.metric_limits import MetricLimit
from rebalance_sim.scenarios.result import PASSING
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.pool import run_calls
from rebalance_sim.spark.supervised import MACHINE_OUTCOMES, Limits, supervised

if TYPE_CHECKING:
    from rebalance_sim.scenarios.scenario import Scenario

LOCK_LAYOUT = 1
FRESH_CHUNK = 50
"""So many fresh seeds are begun at a time, and the clock is looked at between."""

SAME, NEW, CHANGED, FAILED, SKIPPED = "same", "new", "changed", "failed", "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is run: a scenario's file, or a variant and a seed. ``id`` is its name in the lock."""

    id: str
    words: str
    file: Path | None = None
    variant: Variant | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a case came to when the lock was written."""

    outcome: str
    properties: tuple[str, ...] = ()
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a case has come to, and what that means: ``same``, ``new`` (in no lock, and it passed),
    ``changed`` (the outcome is the same, the steps are not), ``failed``, ``skipped`` (no time).
    ``screen``: of one that failed, what ``run`` prints of it."""

    case: Case
    verdict: str
    got: Expected
    expected: Expected | None
    reason: str
    wall_ms: float
    screen: tuple[str, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether it came to anything: it was run, and no limit of this machine ended it."""
        return self.verdict != SKIPPED and self.got.outcome not in MACHINE_OUTCOMES

    @property
    def replay(self) -> str:
        """What to type to see it again."""
        return f"rebalance-sim run {self.case.words}"


def cases_of(
    paths: Iterable[Path], seeds: Iterable[tuple[Variant, int]], *, beside: Path
) -> list[Case]:
    """The cases of these files and folders, and of these seeds, by id.

    Ids of files are relative to ``beside``, where the lock lies. Raises ScenarioError for a file
    that is no scenario, or is not there, and for a folder without scenarios.
    """
    from rebalance_sim.scenarios.scenario import load_scenario

    found: dict[str, Case] = {}
    for path in paths:
        files = _scenarios_in(path) if path.is_dir() else [path]
        if not files:
            raise ScenarioError("has no scenario (*.toml)", source=str(path))
        for file in files:
            load_scenario(file)
            name = _relative(file, beside)
            found[name] = Case(id=name, words=str(file), file=file)
    for variant, seed in seeds:
        words = f"{variant.options} --seed {seed}"
        found[words] = Case(id=words, words=words, variant=variant, seed=seed)
    return list(found.values())


def _scenarios_in(folder: Path) -> list[Path]:
    """All scenario files below a folder, but for those in hidden ones."""
    found = sorted(folder.rglob("*.toml"))
    return [f for f in found if not any(p.startswith(".") for p in f.relative_to(folder).parts)]


def fresh_seeds(variant: Variant, count: int, *, source: str) -> Iterator[tuple[Variant, int]]:
    """So many seeds that follow from a text, such as a date or a commit; another text gives others,
    as good as certainly."""
    digest = blake2b(f"{variant.profile}/{source}".encode(), digest_size=7).digest()
    first = int.from_bytes(digest, "big") % (2**53 - count)
    for seed in range(first, first + count):
        yield variant, seed


def check_cases(
    cases: Sequence[Case],
    lock: Mapping[str, Expected],
    *,
    limits: Limits,
    metric_limits: Sequence[MetricLimit] = (),
    processes: int | None = None,
    deadline_s: float | None = None,
    on_checked: Callable[[Checked], None] = lambda checked: None,
) -> list[Checked]:
    """Run the cases on the cores of this machine; what is left after the deadline is skipped. One
    that exceeds a limit of ``metric_limits`` fails, whatever the lock says."""
    done: list[Checked] = []

    def keep(checked: Checked) -> None:
        done.append(checked)
        on_checked(checked)

    for first in range(0, len(cases), FRESH_CHUNK):
        chunk = cases[first : first + FRESH_CHUNK]
        if deadline_s is not None and monotonic() > deadline_s:
            break
        calls = [partial(_check, case, lock.get(case.id), limits, metric_limits) for case in chunk]
        run_calls(calls, processes=processes, on_result=keep, report_progress=lambda: None)
    return in_order(cases, done)


def in_order(cases: Sequence[Case], done: Iterable[Checked]) -> list[Checked]:
    """What the cases have come to, in their order; those that are not done are skipped."""
    by_id = {checked.case.id: checked for checked in done}
    return [by_id.get(case.id) or _skipped(case) for case in cases]


def read_lock(file: Path) -> dict[str, Expected]:
    """What the cases came to when the lock was written; empty if there is no lock.

    Raises SweepError for a file that is none.
    """
    if not file.exists():
        return {}
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if values["layout"] != LOCK_LAYOUT:
            raise ValueError(f"layout {values['layout']}, not {LOCK_LAYOUT}")
        rows: dict[str, Any] = values["cases"]
        return {
            name: Expected(**{**row, "properties": tuple(row["properties"])})
            for name, row in rows.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise SweepError(
            f"{file} is no lock of regress ({problem}): renew it by --update"
        ) from None


def lock_text(checked: Iterable[Checked], before: Mapping[str, Expected]) -> str:
    """A lock with what these cases came to; those that came to nothing stay as they were."""
    rows = {**before, **{one.case.id: one.got for one in checked if one.is_judged}}
    values = {"layout": LOCK_LAYOUT, "cases": {name: asdict(rows[name]) for name in sorted(rows)}}
    return json.dumps(values, indent=2) + "\n"


def _check(
    case: Case,
    expected: Expected | None,
    limits: Limits,
    metric_limits: Sequence[MetricLimit],
) -> Checked:
    """In a process of the pool: run a case in a child of its own."""
    attempt = next(supervised(_body, [case], limits))
    exceeded: list[str] = []
    if attempt.failure:
        got, reason = Expected(outcome=attempt.failure), attempt.reason
    else:
        got, reason, metrics = attempt.result
        exceeded = [words for one in metric_limits if (words := one.objection(metrics))]
        reason = "; ".join(filter(None, [reason, *exceeded]))
    verdict = FAILED if exceeded else _verdict(got, expected)
    return Checked(
        case=case,
        verdict=verdict,
        got=got,
        expected=expected,
        reason=reason,
        wall_ms=attempt.wall_ms,
        screen=() if attempt.failure or verdict != FAILED else _screen_of(case, limits),
    )


def _screen_of(case: Case, limits: Limits) -> tuple[str, ...]:
    """What ``run`` prints of a case, by runs of their own, which leave its time as it is; nothing
    if a limit of the machine ends them."""
    attempt = next(supervised(_screen, [case], limits))
    return () if attempt.failure else tuple(attempt.result)


def _screen(case: Case) -> list[str]:
    from rebalance_sim.scenarios.failure_screen import describe, led_to, replay_command
    from rebalance_sim.scenarios.runner import run

    scenario = scenario_of(case)
    result = run(scenario)
    story = led_to(scenario, result)
    return describe(result, replay_command=replay_command(case.words), story=story)


def scenario_of(case: Case) -> Scenario:
    """What is run. Raises ScenarioError for a file that is none."""
    from rebalance_sim.scenarios.generate.generator import generate
    from rebalance_sim.scenarios.scenario import load_scenario

    if case.file is not None:
        return load_scenario(case.file)
    if case.variant is None:
        raise ValueError(f"case {case.id} has neither a file nor a variant")
    return generate(case.variant, case.seed)


def _body(case: Case) -> tuple[Expected, str, Mapping[str, float]]:
    from rebalance_sim.scenarios.runner import run

    result = run(scenario_of(case))
    properties = tuple(dict.fromkeys(row.property for row in result.violations))
    got = Expected(outcome=result.outcome, properties=properties, digest=result.digest)
    return got, result.reason, result.metrics


def _verdict(got: Expected, expected: Expected | None) -> str:
    if got.outcome in MACHINE_OUTCOMES:
        return FAILED
    if expected is None:
        return NEW if got.outcome in PASSING else FAILED
    if (got.outcome, got.properties) != (expected.outcome, expected.properties):
        return FAILED
    return SAME if got.digest == expected.digest else CHANGED


def _skipped(case: Case) -> Checked:
    return Checked(
        case=case,
        verdict=SKIPPED,
        got=Expected(outcome=SKIPPED),
        expected=None,
        reason="was not run",
        wall_ms=0.0,
    )


def _relative(file: Path, beside: Path) -> str:
    file, beside = file.resolve(), beside.resolve()
    try:
        return file.relative_to(beside).as_posix()
    except ValueError:
        return file.as_posix()
