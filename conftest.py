"""Settings of the whole test suite.

Property tests draw the same examples in every run, so that a red build is red again on the next
machine. ``HYPOTHESIS_PROFILE=explore make test`` draws new ones, to look for what no one has seen.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# As the command line does (``rebalance_sim.cli.start``).
gc.set_threshold(100_000, *gc.get_threshold()[1:])


CLUSTERS = frozenset({"cluster_master", "connect_url", "hdfs"})
"""Fixtures of a whole session that start servers: what uses one runs in the same process."""

LONG_FIRST = (
    "cluster",
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

IN_PARTS = {"tests/pinned/test_pinned.py": 8}
"""Files whose tests share nothing, and that are too long for one process: into how many groups."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups that ``--dist loadgroup`` keeps together, the long ones first: one that begins last
    leaves the other cores without work. A file is a group, for what its tests share."""
    files = [item.nodeid.partition("::")[0] for item in items]
    fixtures = [CLUSTERS & {*getattr(item, "fixturenames", ())} for item in items]
    clustered = {file for file, used in zip(files, fixtures, strict=True) if used}
    places = {name: place for place, name in enumerate(LONG_FIRST)}
    ordered = []
    for number, (item, file) in enumerate(zip(items, files, strict=True)):
        name = "cluster" if file in clustered else file
        part = number % IN_PARTS.get(file, 1)
        item.add_marker(pytest.mark.xdist_group(f"{name}-{part}" if part else name))
        ordered.append((places.get(name, len(places)), part, number, item))
    items[:] = [item for *_, item in sorted(ordered, key=lambda row: row[:3])]


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
