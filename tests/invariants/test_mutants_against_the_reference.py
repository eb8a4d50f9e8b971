"""Mutants of running scenarios decide differently from a frozen copy of what they change."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from falsified_librdkafka import AT_WORK

from rebalance_sim.invariants.reference.tree import Tree, frozen_tree
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.rule_differences import watched_by

STEPS_MOST = 20_000


OUT_OF_SIGHT = {
    "test:counts-failures-for-ever": "client.hb.backoff_bound notices it",
    "test:timeout-denies-coordinator": "log.commit_before_response notices it",
    "test:writes-at-once": "log.linger notices it",
    "test:lists-only-while-it-loads": "reads.list_refused notices it",
    "test:ignores-own-interval": "tests/protocol/test_heartbeat_timers.py notices it",
    "test:settings-are-replaced": "tests/protocol/test_group_states.py notices it",
}
"""Changes of what hosts do beside the machines, and of settings, which are an input of both."""


@pytest.fixture(scope="module")
def frozen() -> Tree:
    return frozen_tree(Path(__file__).parents[2] / "protocol")


@pytest.mark.parametrize("name", [name for name in AT_WORK if name not in OUT_OF_SIGHT])
def test_a_mutant_decides_differently_from_the_reference(name: str, frozen: Tree) -> None:
    mutant = AT_WORK[name]
    scenario = replace(generate(mutant.profile, mutant.seed), max_steps=STEPS_MOST)
    with ExitStack() as patches:
        for place, attribute, value in mutant.patches:
            patches.enter_context(patch.object(place, attribute, value))
        lock_step = watched_by(scenario, None, frozen)
    assert lock_step.count
