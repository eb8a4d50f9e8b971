"""What ``run`` and ``sweep`` say of known issues, and which of them make the exit code 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import POOL, Outcome

from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.scenario import dump_scenario
from rebalance_sim.spark import read_table

Call = Callable[..., Outcome]


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """A scenario file in which the client of 4.1 does what it is known for."""
    scenario = defect_scenario("KAFKA-20332", with_defect=False)
    scenario = replace(scenario, world=replace(scenario.world, semantics="kafka-4.1"))
    file = tmp_path / "shipped.toml"
    file.write_text(dump_scenario(scenario))
    return file


def test_a_known_issue_is_told_with_all_that_one_needs_to_judge_it(
    call: Call, shipped: Path
) -> None:
    code, out, err = call("run", shipped)
    assert (code, err) == (0, "")
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0].startswith("known: ") and "known issues: KAFKA-20332 x 2; " in lines[0]
    assert "KAFKA-20332: Records delivered for a partition under revocation" in lines
    facts = {line.split(maxsplit=1)[0]: line for line in lines[2:] if line}
    assert {"violates", "whose", "seen", "since", "repaired", "see"} <= facts.keys()
    assert "client.deliver.owned at step " in facts["violates"]
    assert "client a, partition " in facts["whose"]
    assert "docs/reference/defects.md#kafka-20332-" in facts["see"]


def test_json_has_the_same_and_both_verdicts(call: Call, shipped: Path) -> None:
    code, out, _ = call("run", shipped, "--json")
    result = json.loads(out)
    [row] = result["known_issues"]
    assert (code, result["outcome"], result["unexpected"]) == (0, "known", [])
    assert (row["issue"], row["verdict"]) == ("KAFKA-20332", "repaired")
    assert row["title"] and row["page"] and row["detail"] and row["subject"]
    assert result["repaired"]["outcome"] == "ok"
    assert result["repaired"]["repairs"] == ["KAFKA-20332"]


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        ((), 0, ""),
        (("--fail-on", "known"), 1, "failed on known: KAFKA-20332"),
        (("--fail-on", "unproven"), 0, ""),
        (("--expect", "known:KAFKA-20332"), 0, ""),
        (("--expect", "known:PR-23542,KAFKA-20332"), 0, ""),
        (
            ("--expect", "known:PR-23542"),
            1,
            "unexpected: KAFKA-20332 (expected: PR-23542)",
        ),
        (
            ("--expect", "known:KAFKA-20332", "--fail-on", "known"),
            1,
            "failed on known: KAFKA-20332",
        ),
    ],
)
def test_exit_codes(
    call: Call, shipped: Path, options: tuple[str, ...], code: int, line: str
) -> None:
    outcome = call("run", shipped, *options)
    assert outcome.code == code
    last = outcome.out.splitlines()[-1]
    assert last == line if line else last.strip().startswith("see ")


def test_without_the_issue_the_run_is_ok(call: Call, shipped: Path) -> None:
    outcome = call("run", shipped, "--repair", "KAFKA-20332", "--fail-on", "known")
    assert (outcome.code, outcome.out[:3]) == (0, "ok:")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--expect", "known:KAFKA-2033"),
            "no known issue 'KAFKA-2033'; did you mean 'KAFKA-20332'?",
        ),
        (("--expect", "KAFKA-20332"), "write known:ISSUE,ISSUE"),
        (("--expect", "known:"), "write known:ISSUE,ISSUE"),
        (("--fail-on", "knwon"), "--fail-on 'knwon': no such thing; did you mean 'known'?"),
        (("--repair", "KAFKA-2033"), "no issue 'KAFKA-2033' to repair; did you mean"),
    ],
)
def test_a_typo_is_one_line_with_a_suggestion(
    call: Call, shipped: Path, options: tuple[str, ...], message: str
) -> None:
    code, out, err = call("run", shipped, *options)
    assert (code, out) == (2, "")
    assert message in err and err.count("\n") == 1


@pytest.mark.usefixtures("runners")
def test_a_sweep_tells_and_keeps_the_same(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    sweep = (
        "sweep", "--profile", "mixed", "--seeds", "0:6", "--out", folder,
        "--runner", "fake_scenarios:run_shipped", *POOL,
    )  # fmt: skip
    code, out, _ = call(*sweep)
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    title = "Records delivered for a partition under revocation"
    assert f"known    KAFKA-20332 in 3 runs  {title}" in lines
    assert any(
        line.startswith("3 gone without it; docs/reference/defects.md#kafka-20332")
        for line in lines
    )
    rows = read_table(folder, "known_issues").to_pylist()
    assert [(row["seed"], row["issue"], row["verdict"]) for row in rows] == [
        (seed, "KAFKA-20332", "repaired") for seed in (1, 3, 5)
    ]
    runs = read_table(folder, "runs").to_pylist()
    assert [row["repaired_outcome"] for row in runs] == [None, "ok"] * 3
    assert runs[1]["repaired"] == ["KAFKA-20332"]
    report = (folder / "report.md").read_text()
    assert "| `KAFKA-20332`" in report and "3 gone without it" in report
    assert call(*sweep, "--expect", "known:KAFKA-20332").code == 0
    unexpected = call(*sweep, "--expect", "known:PR-23542")
    assert unexpected.code == 1
    assert unexpected.out.splitlines()[-1] == "unexpected: KAFKA-20332 (expected: PR-23542)"
    assert call(*sweep, "--fail-on", "known").code == 1
    typo = call(*sweep, "--expect", "known:KAFKA-2033")
    assert typo.code == 2 and "did you mean 'KAFKA-20332'?" in typo.err
