"""``rebalance-sim regress``: what came out once comes out again, or somebody is told."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import Outcome

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.regress import fresh_seeds

Call = Callable[..., Outcome]
ROOT = Path(__file__).parents[2]
DEFECTS = ROOT / "scenarios" / "defects"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures are kept in the folder that a command is called in."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with a scenario that passes, and one that is known to fail."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    failing = (DEFECTS / "mut-early-grant.toml").read_text()
    (folder / "failing.toml").write_text(failing)
    (folder / "passing.toml").write_text(failing.replace('["mut-early-grant"]', "[]"))
    return folder


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "regress.lock.json"


def test_a_corpus_pins_failing_scenarios_for_good(call: Call, corpus: Path, lock: Path) -> None:
    first = call("regress", corpus, "--lock", lock)
    assert first.code == 1
    assert "2 cases: 1 failed, 1 new" in first.out
    assert "failed   corpus/failing.toml: violation (" in first.out
    assert f"rebalance-sim run {corpus}/failing.toml" in first.out
    assert not lock.exists()
    assert call("regress", corpus, "--lock", lock, "--update").code == 0
    again = call("regress", corpus, "--lock", lock)
    assert (again.code, again.out) == (0, "2 cases: 2 same\n")


def test_no_lock_takes_what_a_limit_of_the_machine_ended(
    call: Call, corpus: Path, lock: Path
) -> None:
    call("regress", corpus, "--lock", lock, "--update")
    right = lock.read_text()
    cut = call("regress", corpus, "--lock", lock, "--update", "--time-limit-s", 0.001)
    assert cut.code == 1
    assert re.search("failed   corpus/passing.toml: (timeout|hang), not ok", cut.out)
    assert "but for 2 that a limit of this machine ended: give a longer --time-limit-s" in cut.err
    assert lock.read_text() == right
    lock.write_text(right.replace('"outcome": "ok"', '"outcome": "timeout"'))
    again = call("regress", corpus, "--lock", lock, "--time-limit-s", 0.001)
    assert again.code == 1 and "2 cases: 2 failed" in again.out


def test_other_steps_are_told_apart_from_another_outcome(
    call: Call, corpus: Path, lock: Path
) -> None:
    call("regress", corpus, "--lock", lock, "--update")
    values = json.loads(lock.read_text())
    values["cases"]["corpus/passing.toml"]["digest"] = "other"
    lock.write_text(json.dumps(values))
    changed = call("regress", corpus, "--lock", lock)
    assert changed.code == 3
    assert "changed  corpus/passing.toml: ok" in changed.out
    values["cases"]["corpus/failing.toml"]["outcome"] = "ok"
    values["cases"]["corpus/failing.toml"]["properties"] = []
    lock.write_text(json.dumps(values))
    failed = call("regress", corpus, "--lock", lock)
    assert failed.code == 1
    assert "failing.toml: violation" in failed.out and ", not ok" in failed.out


def test_seeds_and_fresh_seeds_with_results_for_other_programs(
    call: Call, tmp_path: Path, corpus: Path, lock: Path
) -> None:
    files = {name: tmp_path / f"results.{name}" for name in ("junit", "json", "markdown")}
    options = [word for name, file in files.items() for word in (f"--{name}", file)]
    outcome = call(
        "regress", corpus / "failing.toml", "--lock", lock, "--profile", "calm",
        "--seeds", "3,7:9", "--fresh", 2, "--fresh-from", "2026-01-01", *options,
    )  # fmt: skip
    assert outcome.code == 1
    suite = ElementTree.fromstring(files["junit"].read_text())
    assert (suite.get("tests"), suite.get("failures")) == ("6", "1")
    names = [case.get("name") for case in suite]
    assert names[:4] == ["corpus/failing.toml"] + [
        f"--profile calm --seed {seed}" for seed in (3, 7, 8)
    ]
    [failure] = suite.iter("failure")
    assert "rebalance-sim run" in (failure.text or "")
    results = json.loads(files["json"].read_text())
    assert results["counts"] == {"failed": 1, "new": 5}
    assert results["cases"][0]["verdict"] == "failed"
    assert "1 failed, 5 new" in files["markdown"].read_text()


def test_what_no_time_is_left_for_is_skipped_and_said(call: Call, lock: Path) -> None:
    outcome = call(
        "regress", "--lock", lock, "--profile", "calm", "--fresh", 3, "--fresh-from", "x",
        "--time-budget-s", 0,
    )  # fmt: skip
    assert (outcome.code, outcome.out) == (0, "3 cases: 3 skipped\n")


def test_a_case_of_the_lock_that_is_gone_is_named(call: Call, corpus: Path, lock: Path) -> None:
    call("regress", corpus, "--lock", lock, "--update")
    (corpus / "failing.toml").unlink()
    outcome = call("regress", corpus, "--lock", lock)
    assert outcome.code == 0
    assert outcome.out == "1 cases: 1 same\nnot run  1 of the lock: corpus/failing.toml\n"


def test_an_interrupted_call_says_what_it_has(
    call: Call, corpus: Path, lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(calls: list[Callable[[], Any]], *, on_result: Any, **_: Any) -> None:
        on_result(calls[0]())
        raise KeyboardInterrupt

    monkeypatch.setattr("rebalance_sim.spark.regress.run_calls", interrupted)
    junit = tmp_path / "junit.xml"
    outcome = call("regress", corpus, "--lock", lock, "--junit", junit, "--update")
    assert outcome.code == 130
    assert "2 cases: 1 failed, 1 skipped" in outcome.out
    assert len(list(ElementTree.parse(junit).iter("skipped"))) == 1
    assert not lock.exists()


def test_fresh_seeds_follow_from_the_commit_alone() -> None:
    def seeds(source: str) -> set[int]:
        return {seed for _, seed in fresh_seeds(Variant("calm"), 500, source=source)}

    assert seeds("c9902a8") == seeds("c9902a8")
    assert len(seeds("c9902a8")) == 500
    assert not seeds("c9902a8") & seeds("a4015e1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give scenario files, or --profile"),
        (("none.toml",), "none.toml: cannot be read"),
        (("{lock}",), "regress.lock.json: is not valid TOML"),
        (("--seeds", "3"), "--seeds are those of a --profile"),
        (("--profile", "calm", "--seeds", "3-5"), "write numbers or ranges"),
        (("--profile", "calm", "--fresh", "3"), "--fresh needs --profile and --fresh-from"),
        (("--profile", "calm", "--seeds", "3", "--lock", "{lock}"), "is no lock of regress"),
        (
            (
                *("--profile", "calm", "--seeds", "3"),
                *("--lock", "none.json", "--junit", "no/where.xml"),
            ),
            "cannot write",
        ),
        (
            ("--profile", "calm", "--seeds", "3", "--lock", "none.json", "--database", "{lock}"),
            "regress.lock.json is a file: give a folder",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    call: Call, lock: Path, arguments: tuple[str, ...], said: str
) -> None:
    lock.write_text("{}")
    outcome = call("regress", *(word.format(lock=lock) for word in arguments))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err


@pytest.mark.parametrize(("profile", "code"), [("calm", 0), (DEFECTS / "mut-early-grant.toml", 1)])
def test_a_reader_that_has_gone_changes_no_verdict(profile: object, code: int) -> None:
    script = Path(sys.executable).parent / "rebalance-sim"
    command = f"{script} generate --profile {profile} --seed 1 | head -0; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
    command = f"{script} run --profile {profile} --seed 1 --json | head -0; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{code}\n", "")


def test_the_workflow_of_the_example_runs(call: Call, tmp_path: Path, corpus: Path) -> None:
    workflow = (ROOT / "examples" / "ci" / "regress.yml").read_text()
    assert len(workflow.splitlines()) <= 23
    assert workflow in (ROOT / "docs" / "ci.md").read_text()
    [line] = [row for row in workflow.splitlines() if "run: rebalance-sim" in row]
    places = {
        "$GITHUB_SHA": "c9902a8",
        "$GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "corpus": str(corpus),
        "junit.xml": str(tmp_path / "junit.xml"),
        "corpus/regress.lock.json": str(corpus / "regress.lock.json"),
        "0:20": "0:2",
        "500": "2",
    }
    words = [places.get(word, word) for word in shlex.split(line.partition("run: ")[2])]
    assert call(*words[1:], "--update").code == 0
    assert call(*words[1:]).code == 0
    assert "4 same" in (tmp_path / "summary.md").read_text()
    assert ElementTree.parse(tmp_path / "junit.xml").getroot().get("tests") == "6"


# --- failures that are kept -----------------------------------------------------------------------


def kept_in(folder: Path) -> list[Path]:
    return sorted(folder.glob(".rebalance-sim/*.toml"))


def test_what_failed_is_kept_run_first_and_dropped_when_it_passes(
    call: Call, corpus: Path, lock: Path, tmp_path: Path
) -> None:
    (corpus / "a-passing.toml").write_text((corpus / "passing.toml").read_text())
    first = call("regress", corpus, "--lock", lock)
    assert first.code == 1
    assert "kept     1 in .rebalance-sim, run first the next time" in first.out
    (file,) = kept_in(tmp_path)
    assert file.read_text().startswith("# regress: corpus/failing.toml\n# violation coordinator.")
    results = tmp_path / "results.json"
    assert call("regress", corpus, "--lock", lock, "--json", results).code == 1
    cases = [one["case"] for one in json.loads(results.read_text())["cases"]]
    assert cases == ["corpus/failing.toml", "corpus/a-passing.toml", "corpus/passing.toml"]
    (corpus / "failing.toml").write_text((corpus / "passing.toml").read_text())
    mended = call("regress", corpus, "--lock", lock)
    assert mended.code == 0
    assert (
        "dropped  corpus/failing.toml: passes, and is kept in .rebalance-sim no more" in mended.out
    )
    assert kept_in(tmp_path) == []


def test_a_fresh_seed_that_failed_is_run_again_from_its_file(
    call: Call, lock: Path, tmp_path: Path
) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text('extends = "calm"\n')
    failing = ("--profile", profile, "--seeds", "3", "--lock", lock, "--fail-on")
    first = call("regress", *failing, "unowned-partition-ms-max:1")
    assert first.code == 1, first
    (file,) = kept_in(tmp_path)
    stranger = call("regress", "--profile", "calm", "--seeds", "4", "--lock", lock)
    assert "--seed 3" not in stranger.out
    other = call("regress", "--profile", profile, "--seeds", "4", "--lock", lock,
                 "--fail-on", "unowned-partition-ms-max:1")  # fmt: skip
    assert f"failed   --profile {profile} --seed 3" in other.out
    assert f"rebalance-sim run {file.relative_to(tmp_path)}" in other.out
    again = call("regress", "--profile", profile, "--seeds", "4", "--lock", lock)
    assert again.code == 0
    assert f"dropped  --profile {profile} --seed 3: passes" in again.out
    assert kept_in(tmp_path) == []


def test_what_the_lock_accepts_is_dropped_and_what_is_kept_is_in_no_lock(
    call: Call, corpus: Path, lock: Path, tmp_path: Path
) -> None:
    call("regress", corpus, "--lock", lock)
    only = call("regress", corpus / "passing.toml", "--lock", lock, "--update")
    assert only.code == 0, "what is kept is another case's"
    assert len(kept_in(tmp_path)) == 1
    assert list(json.loads(lock.read_text())["cases"]) == ["corpus/passing.toml"]
    both = call("regress", corpus, "--lock", lock, "--update")
    assert "dropped  corpus/failing.toml: is in the lock" in both.out
    assert (both.code, kept_in(tmp_path)) == (0, [])


def test_what_a_limit_of_the_machine_ended_is_not_kept(
    call: Call, corpus: Path, lock: Path, tmp_path: Path
) -> None:
    assert call("regress", corpus, "--lock", lock, "--time-limit-s", 0.001).code == 1
    assert kept_in(tmp_path) == []


def test_nothing_is_kept_without_a_database(
    call: Call, corpus: Path, lock: Path, tmp_path: Path
) -> None:
    outcome = call("regress", corpus, "--lock", lock, "--no-database")
    assert (outcome.code, "kept " in outcome.out) == (1, False)
    assert not (tmp_path / ".rebalance-sim").exists()


def test_a_hidden_folder_of_a_corpus_holds_no_cases(call: Call, corpus: Path, lock: Path) -> None:
    inside = corpus / ".rebalance-sim"
    call("regress", corpus, "--lock", lock, "--database", inside)
    assert kept_in(corpus)
    again = call("regress", corpus, "--lock", lock, "--database", inside)
    assert "2 cases: 1 failed, 1 new" in again.out


@pytest.mark.parametrize(
    "text", ["", "# regress: mine\nno = scenario", "# regress: mine\n[", "\xff"]
)
def test_a_file_that_regress_has_not_kept_is_refused(
    call: Call, corpus: Path, lock: Path, tmp_path: Path, text: str
) -> None:
    folder = tmp_path / ".rebalance-sim"
    folder.mkdir()
    (folder / "mine.toml").write_bytes(text.encode("latin-1"))
    outcome = call("regress", corpus, "--lock", lock)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert ".rebalance-sim/mine.toml is no failure that regress has kept (" in outcome.err
    assert "delete it" in outcome.err


# --- what led to a failure ------------------------------------------------------------------------


def test_reports_carry_what_led_to_a_failure(
    call: Call, corpus: Path, lock: Path, tmp_path: Path
) -> None:
    call("regress", corpus, "--lock", lock, "--update")
    locked = json.loads(lock.read_text())
    locked["cases"]["corpus/failing.toml"] |= {"outcome": "ok", "properties": []}
    lock.write_text(json.dumps(locked))
    files = {name: tmp_path / f"results.{name}" for name in ("junit", "markdown", "json")}
    options = [word for name, file in files.items() for word in (f"--{name}", file)]
    assert call("regress", corpus, "--lock", lock, *options).code == 1
    screen = call("run", corpus / "failing.toml").out
    told = screen[screen.index("  what led to it") : screen.index("  run   ")].rstrip()
    assert len(told.splitlines()) > 5
    (failure,) = ElementTree.parse(files["junit"]).iter("failure")
    for text in (failure.text or "", files["markdown"].read_text()):
        assert "expected  ok\nfound     violation (coordinator.exclusive_ownership)" in text
        assert f"replay    rebalance-sim run {corpus}/failing.toml" in text
        assert told in text
    (row,) = [one for one in json.loads(files["json"].read_text())["cases"] if one["screen"]]
    assert told in "\n".join(row["screen"])


def test_a_case_in_no_lock_was_expected_to_pass(
    call: Call, corpus: Path, lock: Path, tmp_path: Path
) -> None:
    junit = tmp_path / "junit.xml"
    call("regress", corpus, "--lock", lock, "--junit", junit)
    (failure,) = ElementTree.parse(junit).iter("failure")
    assert (failure.text or "").startswith(
        "expected  an outcome that passes, as it is in no lock\nfound     violation ("
    )
