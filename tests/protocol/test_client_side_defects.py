"""Each mutant of client-side assignors changes what it says, in a short history made by hand.

Without the switch the rules of the KIP's text do it right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from assignment_builders import REBALANCE_TIMEOUT_MS, ComputingBench, assigned, computing, offer

from rebalance_sim.protocol.versions.semantics import SEMANTICS, Semantics

CLEAN = SEMANTICS["kip-848"]

History = Callable[[Semantics], Any]


def someone_else_sends_a_heartbeat(semantics: Semantics) -> bool:
    """A is chosen; is B told?"""
    bench = ComputingBench(semantics)
    bench.join_with("A")
    bench.join_with("B")
    return bench.asks_to_compute("B")


def late_result(semantics: Semantics) -> str:
    """A was replaced while it computed."""
    bench = computing("B", semantics=semantics)
    bench.wait(REBALANCE_TIMEOUT_MS)
    return bench.install("A", 2, {"A": "foo[0-2]", "B": ""}).error_code.name


def group_moves_on(semantics: Semantics) -> ComputingBench:
    """B joins while A computes."""
    bench = computing(semantics=semantics)
    bench.join_with("B")
    bench.install("A", 1, {"A": "foo[0-2]"})
    return bench


def epochs_after_the_group_moved_on(semantics: Semantics) -> tuple[int, int]:
    return group_moves_on(semantics).epochs


def next_to_compute_after_the_group_moved_on(semantics: Semantics) -> str | None:
    return group_moves_on(semantics).chosen


def result_with_a_leaver(semantics: Semantics) -> tuple[str, list[str]]:
    """B leaves while A computes for both: the answer, and who has a target."""
    bench = computing("B", semantics=semantics)
    bench.leave("B")
    code = bench.install("A", 2, {"A": "foo[0]", "B": "foo[1,2]"}).error_code.name
    return code, sorted(bench.group.target_assignment)


def static_member_returns(semantics: Semantics) -> str:
    """The target of a static member that restarts while A computes."""
    bench = ComputingBench(semantics)
    bench.join_with("A")
    bench.join_with("B", instance_id="i-b")
    assert bench.asks_to_compute("A")
    bench.prepare("A")
    bench.go_away("B", "i-b")
    bench.join_with("B2", instance_id="i-b")
    bench.install("A", 2, {"A": "foo[0]", "B": "foo[1,2]"})
    return bench.target("B2")


def error_reported_before_the_revocation(semantics: Semantics) -> tuple[int, int]:
    """A has still to revoke; (its epoch, the assignor's error that it is told)."""
    bench = assigned(semantics=semantics)
    bench.join_with("B")
    bench.prepare("A")
    bench.install("A", 2, {"A": "foo[0]", "B": "foo[1,2]"}, error=1)
    response = bench.beat("A", owned="foo[0-2]")
    assert response.assignment_metadata is not None
    return response.member_epoch, response.assignment_metadata.error


def reason(semantics: Semantics) -> tuple[int, int]:
    """A member has a reason for another assignment."""
    bench = assigned(semantics=semantics)
    bench.beat("A", client_assignors=(offer(reason=1),))
    return bench.epochs


def silence_of_the_computing_member(semantics: Semantics) -> str | None:
    """Who computes when A has had its time."""
    bench = computing("B", semantics=semantics)
    bench.wait(REBALANCE_TIMEOUT_MS)
    return bench.chosen


HISTORIES: dict[str, tuple[History, Any, Any]] = {
    "mut-asks-everybody": (someone_else_sends_a_heartbeat, False, True),
    "mut-install-at-present-epoch": (epochs_after_the_group_moved_on, (2, 1), (2, 2)),
    "mut-install-checks-present": (
        result_with_a_leaver,
        ("NONE", ["A"]),
        ("INVALID_ASSIGNMENT", []),
    ),
    "mut-install-forgets-heirs": (static_member_returns, "foo-1 foo-2", ""),
    "mut-install-from-anybody": (late_result, "UNKNOWN_MEMBER_ID", "NONE"),
    "mut-install-keeps-leavers": (result_with_a_leaver, ("NONE", ["A"]), ("NONE", ["A", "B"])),
    "mut-metadata-ahead": (error_reported_before_the_revocation, (1, 0), (1, 1)),
    "mut-no-bump-on-reason": (reason, (2, 1), (1, 1)),
    "mut-no-computation-timer": (silence_of_the_computing_member, "B", "A"),
    "mut-no-recompute": (next_to_compute_after_the_group_moved_on, "A", None),
}
"""Name -> history, what comes of it by the clean rules, what comes of it with the mutant."""


@pytest.mark.parametrize("name", HISTORIES)
def test_the_mutant_shows_with_its_switch_and_not_without(name: str) -> None:
    history, right, wrong = HISTORIES[name]
    assert history(CLEAN) == right
    assert history(CLEAN.with_defects(name)) == wrong
