"""Settings of the whole test suite.

Property tests draw the same examples in every run, so that a red build is red again on the next
machine. ``HYPOTHESIS_PROFILE=explore make test`` draws new ones, to look for what no one has seen.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# As the command line does (``rebalance_sim.cli.start``).
gc.set_threshold(100_000, *gc.get_threshold()[1:])


SHARE_SERVERS = {
    "tests/spark/test_hdfs.py": "clusters",
    "tests/spark/test_on_spark.py": "clusters",
}
"""Files that start the same servers, and so run in one process: their group."""

SLOW_FIXTURES = {"hdfs"}
"""Servers whose start takes long: tests that need one are slow."""

LONG_FIRST = (
    "clusters",
    "tests/notebooks/test_notebooks.py",
    "tests/docs/test_commands.py",
    "tests/cli/test_regress_command.py",
    "tests/cli/test_sweep_command.py",
    "tests/spark/test_sweep.py",
    "tests/spark/test_observability.py",
    "tests/spark/test_long_sweeps.py",
    "tests/gateway/test_certify.py",
    "tests/gateway/test_real_clients.py",
    "tests/cli/test_hunt_command.py",
    "tests/cli/test_branch_command.py",
    "tests/cli/test_plugins.py",
    "tests/cli/test_experiment_command.py",
    "tests/spark/test_experiments.py",
    "tests/spark/test_comparison.py",
    "tests/spark/test_hunts.py",
    "tests/pinned/test_pinned.py",
    "tests/scenarios/test_corrected_verdicts.py",
    "tests/sim/test_random_worlds.py",
    "tests/scenarios/explore/test_merged_states.py",
    "tests/scenarios/explore/test_explorer.py",
    "tests/conformance/test_tolerances.py",
    "tests/conformance/test_broker_traces.py",
    "tests/sim/figures/test_phases.py",
    "tests/sim/figures/test_figures.py",
    "tests/sim/laws/test_laws.py",
    "tests/scenarios/test_generate.py",
    "tests/scenarios/test_defects.py",
    "tests/sim/test_recorded_polls.py",
    "tests/sim/test_admin_client.py",
)
"""Groups of tests that take ten seconds and more. First those that fork: a process that has run
many tests is large, and slow to fork."""


def _group(nodeid: str) -> str:
    """A file is a group, for what its tests share; those that share servers are one."""
    file = nodeid.partition("::")[0]
    return SHARE_SERVERS.get(file, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For ``--dist loadfile``: groups are kept together; of slow tests only those on Spark, which
    share its sessions: the others take long one by one, and are dealt out so.

    By their names, as controllers know no more. Marks of ``--dist loadgroup`` do not reach them:
    pytest 9 computes the id of a test to which pytest-xdist 3.8 adds its group."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    are_slow = config.getoption("markexpr") == "slow"

    class Groups(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            is_alone = are_slow and not nodeid.startswith("tests/spark/")
            return nodeid if is_alone else _group(nodeid)

    return Groups(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For ``-n auto``: one more than cores, since a third of the time servers are waited for."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Which tests are slow; and the long groups first: one that begins last leaves the other cores
    without work."""
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        quick = item.get_closest_marker("quick_one_of")
        if (quick and seen[test] % quick.args[0]) or SLOW_FIXTURES & {*item.fixturenames}:  # type: ignore[attr-defined]
            item.add_marker("slow")
        seen[test] += 1
    places = {name: place for place, name in enumerate(LONG_FIRST)}
    items.sort(key=lambda item: places.get(_group(item.nodeid), len(places)))


def pytest_collection_finish() -> None:
    """Modules and tests stay: neither a collection nor a fork of this process has to visit them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def blank_plots(request: pytest.FixtureRequest) -> Iterator[None]:
    """The figures of reports are made, as always, but drawn only in modules marked ``plots``:
    Matplotlib takes two seconds for those of a sweep, which is more than a small sweep does."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.get_closest_marker("plots"):
            patch.setattr(
                "rebalance_sim.spark.reports.markdown.png_of", lambda figure: b"not drawn"
            )
        yield
