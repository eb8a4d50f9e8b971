"""Tests as judges of mutants: which of them reach a statement, and whether one of those fails.

A test that reaches a statement only through a fixture of its file counts as every other test of
that file. What runs in another process (an executor, a command by its name) has no mutant, and is
not seen to reach anything.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

__all__ = [
    "JUDGES",
    "Test",
    "chosen_tests",
    "decides_runs",
    "files_by_judge",
    "first_failure",
    "note_tests",
]

SIM = ("tests/sim/test_*.py",)
EXPERIMENTS = (
    *("tests/cli/test_experiment_command.py", "tests/spark/test_experiments.py"),
    "tests/spark/test_what_is_compared.py",
)
FIGURES = ("tests/sim/figures/test_figures.py", "tests/sim/laws/test_laws.py")
JUDGES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "protocol": {
        "tests": (
            *("tests/protocol/test_*.py", "tests/conformance/test_*traces.py"),
            *("tests/peer/**/test_*.py", "tests/hosting/test_*.py"),
            *FIGURES,  # of what only figures have, such as when a group is settled
        )
    },
    "sim/client": {"figures": FIGURES, "tests": SIM},
    "sim/data_plane": {"figures": FIGURES, "tests": SIM},
    "sim/observe": {
        "figures": FIGURES,
        "tests": (*SIM, "tests/scenarios/test_ownership_*.py", "tests/scenarios/test_timeline_*"),
    },
    "scenarios/experiment": {
        "tests": (
            *EXPERIMENTS,
            *("tests/scenarios/test_experiment.py", "tests/scenarios/test_protocol_settings.py"),
            *("tests/cli/test_bad_input_table.py", "tests/cli/test_values_at_the_door.py"),
        )
    },
    "spark/reports": {
        "tests": (
            *EXPERIMENTS,
            *("tests/spark/test_comparison.py", "tests/spark/test_pages.py"),
            *("tests/spark/test_intervals.py", "tests/spark/test_names_on_pages.py"),
            "tests/spark/test_report_parts.py",
            *("tests/cli/test_compare_command.py", "tests/cli/test_diff_command.py"),
            *("tests/cli/test_sweep_command.py", "tests/cli/test_regress_command.py"),
        )
    },
}
"""By folder, what judges its mutants beside runs: ``figures`` are the second computations of
figures and the laws of applications, ``tests`` the tests that concern the folder. Pinned digests
are none of them: they notice that something is different, not that it is wrong."""

_NO_RUNS = ("sim/observe", "scenarios/experiment", "spark/reports")
"""They look at runs, and decide nothing in one."""

TEST_CPU_S = 100
"""Processor time after which a test hangs: ten times what the longest takes."""
OPTIONS = ("-m", "not slow and not spark", "-p", "no:cacheprovider", "-n", "0")

Reach = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """A test without any mutant: its id, whether it passed, its processor time, what it reached."""

    __test__: ClassVar[bool] = False  # pytest: not one of yours

    id: str
    passed: bool
    cpu_s: float
    reached: Reach

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]


def decides_runs(path: str) -> bool:
    """Whether a mutant of this file can make a run another one."""
    return not path.startswith(_NO_RUNS)


def files_by_judge(checkout: Path, paths: Sequence[str]) -> dict[str, dict[str, str]]:
    """Each judge of files at these paths, and its test files, with a digest of each."""
    judges: dict[str, dict[str, str]] = {}
    for place, its in JUDGES.items():
        if any(path.startswith(place) for path in paths):
            for judge, patterns in its.items():
                for file in (one for pattern in patterns for one in sorted(checkout.glob(pattern))):
                    digest = hashlib.blake2b(file.read_bytes(), digest_size=6).hexdigest()
                    name = file.relative_to(checkout).as_posix()
                    judges.setdefault(judge, {})[name] = digest
    return judges


def chosen_tests(
    tests: Sequence[Test], statement: tuple[str, int], *, cpu_s: float
) -> tuple[list[str], int]:
    """The ids of those that reach a statement, cheap files first, as many as take this time; and
    how many more there would be."""
    by_file: dict[str, list[Test]] = {}
    for test in tests:
        if test.passed and statement in test.reached:
            by_file.setdefault(test.file, []).append(test)
    groups = [sorted(group, key=lambda test: test.cpu_s) for group in by_file.values()]
    groups.sort(key=lambda group: sum(test.cpu_s for test in group) / len(group))
    ids: list[str] = []
    spent_s = 0.0
    for test in (test for group in groups for test in group):
        if spent_s + test.cpu_s <= cpu_s or not ids:
            ids.append(test.id)
            spent_s += test.cpu_s
    return ids, sum(map(len, groups)) - len(ids)


# -- in the process that has the mutant, or notes ------------------------------------------------


def note_tests(
    files: Sequence[str], reached: set[tuple[str, int]], send: Callable[[Any], None]
) -> None:
    """Run these files, and send each test with what it reached; ``reached`` is what is noted."""
    noting = _Noting(reached)
    _run([*files], noting)
    for test_id, (passed, cpu_s, its) in noting.seen.items():
        shared = noting.shared[test_id.partition("::")[0]]
        send(Test(id=test_id, passed=passed, cpu_s=cpu_s, reached=frozenset(its | shared)))


def first_failure(ids: Sequence[str]) -> str:
    """Run these tests in this order until one fails: its id, or empty."""
    chosen = _Chosen(ids)
    status = _run([*dict.fromkeys(test.partition("::")[0] for test in ids), "-x"], chosen)
    if status == pytest.ExitCode.OK:
        return ""
    return chosen.failed or f"pytest ended with {status!r}"


def _run(arguments: Sequence[str], plugin: object) -> int | pytest.ExitCode:
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(quiet, stream)
    return pytest.main([*OPTIONS, *arguments], plugins=[plugin])


class _Noting:
    def __init__(self, reached: set[tuple[str, int]]) -> None:
        self.seen: dict[str, tuple[bool, float, Reach]] = {}
        self.shared: dict[str, set[tuple[str, int]]] = {}
        self._reached = reached
        self._is_setup = False
        self._began_s = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._reached.clear()
        self._began_s = time.process_time()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self.shared.setdefault(item.nodeid.partition("::")[0], set()).update(self._reached)
        self._reached.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            cpu_s = time.process_time() - self._began_s
            self.seen[report.nodeid] = report.passed, cpu_s, frozenset(self._reached)


class _Chosen:
    def __init__(self, ids: Sequence[str]) -> None:
        self.failed = ""
        self._order = {test: number for number, test in enumerate(ids)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._order]
        items.sort(key=lambda item: self._order[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, TEST_CPU_S)  # ends the process

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid
