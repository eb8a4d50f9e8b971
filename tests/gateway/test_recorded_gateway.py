"""The recorder of real brokers asks the gateway random requests: what comes back over the wire is
what the model answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import rebalance_sim as rs
from rebalance_sim.cli.main import invoke
from rebalance_sim.conformance.record.broker import DEFAULTS
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig

_FIELDS = {name.replace(".", "_"): value for name, value in DEFAULTS.items()}
COORDINATOR = {
    "group_consumer_assignment_interval_ms": 0,
    **{name: value for name, value in _FIELDS.items() if name in CoordinatorConfig.__slots__},
}
"""What the recorder supposes of a broker."""


def _asks_as_of_a_broker(folder: Path, seeds: str, steps: int, version: str) -> None:
    """The clock is a real one: what differs on a busy machine is recorded again, as docs/record.md
    says, and has to differ each time."""
    wide = ["--wide", "--seed", seeds, "--steps", str(steps), "--jobs", "2"]
    for attempt in range(3):
        with rs.Gateway(semantics=f"kafka-{version}", coordinator=COORDINATOR) as broker:
            options = ["--version", f"{version}.0", "--bootstrap", broker.bootstrap, *wide]
            out = folder / f"recorded-{attempt}"
            code = invoke(["record", *options, "--out", str(out), "--check", "--minimise", "0"])
            assert list(out.iterdir())
            broker.assert_ok()
        if code == 0:
            return
    assert code == 0


def test_random_requests_over_the_wire_are_answered_as_by_the_model(tmp_path):
    _asks_as_of_a_broker(tmp_path, "3", 40, "4.4")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.1", "4.3", "4.4"])
def test_so_are_many_of_every_version(tmp_path, version):
    _asks_as_of_a_broker(tmp_path, "0:6", 150, version)
