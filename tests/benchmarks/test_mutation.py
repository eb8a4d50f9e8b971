"""Mutants: how they are found and put in, and that what is explained is still there."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks.mutants import Mutant, find_mutants
from benchmarks.mutation import Run, is_worse_than
from benchmarks.mutation_tests import JUDGES, Test, chosen_tests, files_by_judge

ROOT = Path(__file__).parents[2]
EXPLAINED = ROOT / "benchmarks" / "mutation_explained.toml"

SOURCE = '''
class Group:
    """Not a < b."""

    limit: int = max(1, 2)

    def join(self, member, at_ms):
        """A member joins."""
        if member in self.members and at_ms < 5:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.members[member] = at_ms
        self.epoch += 1
        return self.order(key=lambda one: one.age == at_ms - 1)

    def __len__(self):
        return len(self.members) + 1
'''


@pytest.fixture
def mutants(tmp_path: Path) -> list[Mutant]:
    (tmp_path / "group.py").write_text(SOURCE)
    (tmp_path / "messages.py").write_text(SOURCE)
    return find_mutants(tmp_path, ["."], random.Random(1))


def test_each_change_is_found_once_and_named_by_function_and_statement(
    mutants: list[Mutant],
) -> None:
    changes = {mutant.change.partition(" ->")[0] for mutant in mutants}
    assert changes == {
        "guard off: if member in self.members and at_ms < 5",
        "bool: member in self.members and at_ms < 5: and",
        "compare: member in self.members: in",
        "compare: at_ms < 5: <",
        "error code: UNKNOWN_MEMBER_ID",
        "drop: self.members[member] = at_ms",
        "drop: self.epoch += 1",
        "compare: one.age == at_ms - 1: ==",
        "off by one: at_ms - 1: 1",
    }
    assert len(mutants) == len(changes)
    assert {mutant.place for mutant in mutants} == {"group.py:Group.join"}
    [compare] = [mutant for mutant in mutants if "at_ms < 5: <" in mutant.change]
    assert compare.code == "if member in self.members and at_ms < 5:"


def test_a_mutant_changes_one_place(mutants: list[Mutant]) -> None:
    for mutant in mutants:
        changed = mutant.mutate(SOURCE.encode()).decode()
        different = [
            (old, new)
            for old, new in zip(SOURCE.split("\n"), changed.split("\n"), strict=True)
            if old != new
        ]
        assert len(different) == 1, mutant.change


def test_every_explained_mutant_is_still_there() -> None:
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["mutant"]
    files = {entry["place"].partition(":")[0] for entry in entries}
    there = {
        (mutant.place, mutant.code, mutant.change)
        for mutant in find_mutants(ROOT, files, random.Random(1))
    }
    for entry in entries:
        assert len(entry["reason"].split()) > 5
        for change in entry["changes"]:
            # Which error code replaces another is drawn by lot.
            if not change.startswith("error code"):
                assert (entry["place"], entry["code"], change) in there


@pytest.mark.slow
def test_mutants_get_verdicts_and_the_same_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "mutants.jsonl"
    command = [
        *(sys.executable, str(ROOT / "benchmarks" / "mutation.py"), "--count", "4", "--seed", "3"),
        *(
            "--plan",
            "faulty:3",
            "--within",
            "protocol/consumer/target.py,protocol/consumer/removal.py",
        ),
        *("--out", str(out)),
    ]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    assert len(rows) == 4
    assert {row["verdict"] for row in rows} <= {"detected", "unnoticed", "unreached"}
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
    assert again.stdout.splitlines()[-1].endswith("of 4")


def test_a_path_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"sim/clint"):
        find_mutants(tmp_path, ["sim/clint"], random.Random(1))


def test_only_tests_that_pass_and_reach_the_statement_judge_and_cheap_files_come_first() -> None:
    def test(id: str, cpu_s: float, *, line: int = 7, passed: bool = True) -> Test:
        return Test(id=id, passed=passed, cpu_s=cpu_s, reached=frozenset({("a.py", line)}))

    tests = [
        test("slow.py::one", 4.0),
        test("fast.py::two", 2.0),
        test("fast.py::three", 1.0),
        test("fast.py::elsewhere", 0.1, line=8),
        test("fast.py::fails", 0.1, passed=False),
    ]
    every = ["fast.py::three", "fast.py::two", "slow.py::one"]
    assert chosen_tests(tests, ("a.py", 7), cpu_s=10.0) == (every, 0)
    assert chosen_tests(tests, ("a.py", 7), cpu_s=3.0) == (every[:2], 1)
    assert chosen_tests(tests, ("a.py", 9), cpu_s=3.0) == ([], 0)


@pytest.mark.parametrize("folder", JUDGES)
def test_every_pattern_of_a_judge_names_tests(folder: str) -> None:
    for patterns in JUDGES[folder].values():
        assert all(any(ROOT.glob(pattern)) for pattern in patterns)
    assert files_by_judge(ROOT, [folder]).keys() == JUDGES[folder].keys()


@pytest.mark.slow
def test_a_mutant_of_a_report_is_judged_by_the_tests_that_reach_it(tmp_path: Path) -> None:
    out = tmp_path / "mutants.jsonl"
    path = "spark/reports/intervals.py"
    command = [
        *(sys.executable, str(ROOT / "benchmarks" / "mutation.py"), "--within", path),
        *("--plan", "calm:1", "--tests", "tests/spark/test_intervals.py"),
    ]
    subprocess.run([*command, "--count", "8", "--out", str(out)], check=True)
    rows = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    found = [row for row in rows if row["verdict"] == "detected"]
    assert {row["by"] for row in found} == {"tests"}
    assert all("tests/spark/test_intervals.py" in row["why"] for row in found)


@pytest.mark.parametrize(
    ("before", "after", "is_worse"),
    [
        ("ok", "stuck", True),
        ("known", "violation", True),
        ("violation", "error", False),
        ("ok", "known", False),
        ("ok", "vacuous", True),
        ("known", "vacuous", True),
        ("vacuous", "vacuous", False),
        ("stuck", "vacuous", False),
    ],
)
def test_a_run_is_worse_if_it_fails_or_judges_no_one_and_did_not_before(
    before: str, after: str, is_worse: bool
) -> None:
    def run(outcome: str) -> Run:
        return Run(profile="calm", seed=1, outcome=outcome, digest=outcome, reason="")

    assert is_worse_than(run(before), run(after)) is is_worse
