"""What clients saw of who owned what, and the numbers that are made of it."""

from __future__ import annotations

import pytest

from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.ownership import OwnershipInterval, OwnershipTrace
from rebalance_sim.scenarios.plots import plot_ownership_of
from rebalance_sim.scenarios.quiet import quiet_period_ms
from rebalance_sim.scenarios.variant import DEFAULT_PROTOCOLS
from rebalance_sim.sim.faults.topics import TopicDelete, TopicRecreate
from rebalance_sim.sim.world import World


def a_run(profile: str, seed: int) -> tuple[World, list[OwnershipInterval]]:
    """A run to its end, and all that was owned of the partitions that ought to have an owner."""
    trace = OwnershipTrace()
    spec = generate(profile, seed).world
    world = World(spec, trace=trace, quiet_period_ms=quiet_period_ms(spec))
    world.run()
    group = world.groups["group"]
    return world, [
        interval
        for interval in trace.intervals(world.now_ms)
        if group.subscribes_to(interval.partition.topic_id.split(":")[0])
    ]


@pytest.mark.quick_one_of(2)
@pytest.mark.parametrize("protocol", DEFAULT_PROTOCOLS)
def test_intervals_add_up_to_what_the_metrics_say(protocol: str) -> None:
    """Time that is owned is all there is, but for what no member owned; twice where two did."""
    tried = 0
    for seed in range(12):
        profile = f"faulty+{protocol}"
        faults = generate(profile, seed).world.faults
        if any(isinstance(fault, TopicDelete | TopicRecreate) for fault in faults):
            continue
        world, intervals = a_run(profile, seed)
        owned_ms = sum(i.to_ms - i.from_ms for i in intervals)
        unowned_ms, all_ms = world.metrics.ownership["group"].areas()
        metrics = world.result().metrics
        assert owned_ms == all_ms - unowned_ms + metrics["overlap_partition_ms"], seed
        assert unowned_ms == metrics["unowned_partition_ms"]
        tried += 1
    assert tried >= 5


def test_a_plot_has_a_row_for_each_run_on_one_axis_of_time() -> None:
    runs = {name: a_run(f"calm+{name}", 3)[1] for name in ("eager", "consumer-range")}
    figure = plot_ownership_of(runs, until_ms=20_000, fault_times=[1_500, 9_000])
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(runs)
    for axes, intervals in zip(figure.axes, runs.values(), strict=True):
        assert len(axes.collections) == len(intervals)
        assert axes.get_xlim() == (0, 20)
        assert [line.get_xdata()[0] for line in axes.lines] == [1.5, 9.0]
