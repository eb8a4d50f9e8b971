"""``rebalance-sim diff``: two sweeps side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import POOL, Outcome

Call = Callable[..., Outcome]
SWEEP = (*POOL, "--runner", "fake_scenarios:run_seed", "--no-metrics", "--out")


@pytest.fixture
def folder(call: Call, tmp_path: Path, runners: None) -> Callable[..., Path]:
    def sweep(profile: str, seeds: str = "0:20") -> Path:
        out = tmp_path / f"{profile}-{seeds.replace(':', '-')}"
        call("sweep", "--profile", profile, "--seeds", seeds, *SWEEP, out)
        return out

    return sweep


def test_what_one_sweep_shows_and_the_other_does_not(
    call: Call, folder: Callable[..., Path]
) -> None:
    plain, mixed = folder("plain"), folder("mixed", "10:40")
    outcome = call("diff", plain, mixed)
    assert outcome.code == 1
    lines = outcome.out.splitlines()
    assert lines[0] == "10 runs are in both; 10 took other steps, seed 10 first"
    assert "  variants: plain -> mixed" in lines
    assert "outcome violation: 0 -> 1" in lines
    assert "known issue KAFKA-16147: 0 -> 1" in lines
    assert "seed 13: ok -> violation" in outcome.out
    assert "seed 19: ok -> stuck  A waits for foo-1" in outcome.out
    found = json.loads(call("diff", plain, mixed, "--json").out)
    assert found["outcomes"] == {
        "ok": [10, 7],
        "violation": [0, 1],
        "known": [0, 1],
        "stuck": [0, 1],
    }
    assert [other[0] for other in found["others"]] == [13, 16, 19]


def test_the_same_sweep_twice_differs_in_nothing(call: Call, folder: Callable[..., Path]) -> None:
    one = folder("plain")
    outcome = call("diff", one, one)
    assert (outcome.code, outcome.out) == (0, "20 runs are in both; 0 took other steps\n")


def test_what_cannot_be_held_side_by_side_is_refused(
    call: Call, folder: Callable[..., Path], tmp_path: Path
) -> None:
    one = folder("plain")
    for other, said in (
        (tmp_path / "none", "is it a sweep"),
        (folder("plain", "30:40"), "no run in common"),
    ):
        outcome = call("diff", one, other)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert said in outcome.err


def test_the_difference_as_a_page(call: Call, folder: Callable[..., Path], tmp_path: Path) -> None:
    plain, mixed, page = folder("plain"), folder("mixed", "10:40"), tmp_path / "diff.html"
    assert call("diff", plain, mixed, "--html", page).code == 1
    text = page.read_text()
    order = [
        text.find(words)
        for words in (
            "side by side</h1>", "10 runs took other steps, that of seed 10 first",
            "Asked: what do two sweeps differ in, over the 10 runs", "<td>variants</td>",
            "Runs to look at", "ok → violation", "<td>KAFKA-16147</td>",
        )
    ]  # fmt: skip
    assert -1 not in order
    assert order == sorted(order)


def test_a_sweep_beside_itself_is_a_short_page(
    call: Call, folder: Callable[..., Path], tmp_path: Path
) -> None:
    plain, page = folder("plain"), tmp_path / "diff.html"
    assert call("diff", plain, plain, "--html", page).code == 0
    text = page.read_text()
    assert "Nothing: every run took the same steps." in text
    assert "Runs to look at" not in text
    assert "What rebalances cost" not in text


def between_two(call: Call, tmp_path: Path, setting: str, values: tuple[int, int]) -> Outcome:
    """Of two seeds with either value of a setting of clients."""
    for value in values:
        call(
            "sweep", "--profile", "calm", "--seeds", "0:2", *POOL, "--out",
            tmp_path / str(value), "--set", f"world.clients[*].{setting}={value}",
        )  # fmt: skip
    return call("diff", *(tmp_path / str(value) for value in values))


def test_two_sweeps_with_other_settings_are_told_apart(call: Call, tmp_path: Path) -> None:
    outcome = between_two(call, tmp_path, "processing_ms", (100, 200))
    shown = "calm world.clients[*].processing_ms"
    assert f"  variants: {shown}=100 -> {shown}=200\n" in outcome.out
    assert "(too few runs for an interval), less in" in outcome.out
    assert "nan" not in outcome.out


def test_runs_that_last_longer_have_no_more_of_what_grows_with_time(
    call: Call, tmp_path: Path
) -> None:
    outcome = between_two(call, tmp_path, "max_poll_interval_ms", (20_000, 60_000))
    assert "2 runs are in both; 2 took other steps" in outcome.out
    assert "heartbeats_sent" not in outcome.out and "commits_sent" not in outcome.out
