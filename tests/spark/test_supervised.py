"""One bad scenario never takes the others with it."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path

import fake_scenarios
import pytest

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.supervised import Attempt, Limits, supervised

LIMITS = Limits(soft_s=1.5, hard_s=3.0, memory_mib=100)


def misbehave(seed: int) -> int:
    fake_scenarios.run_seed(Variant("hostile"), seed)
    return seed * 2


@pytest.fixture(scope="module")
def attempts() -> dict[int, Attempt]:
    return {attempt.unit: attempt for attempt in supervised(misbehave, range(10, 21), LIMITS)}


def test_every_seed_is_accounted_for_once_and_in_order() -> None:
    seeds = [attempt.unit for attempt in supervised(misbehave, [19, 16, 10, 17, 11, 20], LIMITS)]
    assert seeds == [19, 16, 10, 17, 11, 20]


def test_good_seeds_beside_bad_ones_keep_their_results(attempts: dict[int, Attempt]) -> None:
    good = [attempts[seed] for seed in (10, 19, 20)]
    assert [(a.result, a.failure, a.reason) for a in good] == [
        (20, "", ""),
        (38, "", ""),
        (40, "", ""),
    ]


@pytest.mark.parametrize(
    ("seed", "failure", "reason"),
    [
        (11, "error", "ValueError: no such member; in _misbehave (fake_scenarios.py:"),
        (12, "error", "SystemExit: 3"),
        (13, "timeout", "interrupted after 1.5 s"),
        (14, "hang", "no result within 3 s; in _misbehave (fake_scenarios.py:"),
        (15, "memory", "needed more than 100 MiB"),
        (16, "crash", "the process was killed by SIGKILL"),
        (17, "crash", "the process left with exit code 3"),
        (18, "error", "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_each_kind_of_failure_is_told_apart_and_named(
    attempts: dict[int, Attempt], seed: int, failure: str, reason: str
) -> None:
    assert attempts[seed].result is None
    assert attempts[seed].failure == failure
    assert attempts[seed].reason.startswith(reason)
    assert attempts[seed].wall_ms > 0


def test_a_body_that_closes_the_pipe_does_not_stop_the_others() -> None:
    def close_everything(seed: int) -> int:
        if seed == 1:
            os.closerange(3, 256)
        return seed

    results = list(supervised(close_everything, range(3), LIMITS))
    assert [(a.unit, a.failure) for a in results] == [(0, ""), (1, "crash"), (2, "")]


def test_a_result_that_cannot_be_sent_is_an_error_of_that_seed() -> None:
    results = list(supervised(lambda seed: (lambda: seed) if seed else seed, range(2), LIMITS))
    assert [a.failure for a in results] == ["", "error"]


def test_a_result_larger_than_the_pipe_arrives_whole() -> None:
    [attempt] = supervised(lambda seed: bytes([seed]) * 3_000_000, [7], LIMITS)
    assert attempt.result == b"\x07" * 3_000_000


def test_good_seeds_share_one_child() -> None:
    results = [
        attempt.result for attempt in supervised(lambda seed: os.getpid(), range(50), LIMITS)
    ]
    assert len(set(results)) == 1
    assert os.getpid() not in results


def test_a_consumer_that_stops_early_leaves_no_child_behind() -> None:
    attempts = supervised(lambda seed: os.getpid() if seed == 0 else time.sleep(60), [0, 1], LIMITS)
    child = next(attempts).result
    attempts.close()
    assert not Path(f"/proc/{child}").exists()


def test_a_child_destroys_nothing_that_it_has_inherited() -> None:
    """Such as a client whose threads are not there."""
    parent = os.getpid()

    class Client:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            if os.getpid() != parent:
                time.sleep(60)

    gc.disable()
    try:
        Client()
        [attempt] = supervised(lambda unit: gc.collect(), [0], LIMITS)
    finally:
        gc.enable()
    assert attempt.failure == ""


def test_what_a_child_has_loaded_the_next_one_is_born_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loaded_late.py").write_text("import os\nLOADED_BY = os.getpid()\n")
    (tmp_path / "only_there.py").write_text("import loaded_late\n1 / loaded_late.ONLY_THERE\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def loading(_unit: int) -> int:
        import loaded_late

        loaded_late.ONLY_THERE = 1
        import only_there  # noqa: F401 - it cannot be loaded elsewhere, which does no harm

        return int(loaded_late.LOADED_BY)

    try:
        [first, second] = [
            attempt.result for _ in range(2) for attempt in supervised(loading, [0], LIMITS)
        ]
        assert first != os.getpid()
        assert second == os.getpid()
        assert "only_there" not in sys.modules
    finally:
        sys.modules.pop("loaded_late", None)
