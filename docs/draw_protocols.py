"""Draw ``docs/protocols.svg`` and ``docs/protocols-narrow.svg``, for docs/experiments.md on a
screen and on a phone: one newcomer under three protocols.

make plot
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

from rebalance_sim.scenarios.compare import PROTOCOLS, with_protocol
from rebalance_sim.scenarios.ownership import OwnershipTrace
from rebalance_sim.scenarios.plots import plot_ownership_of
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.spec import ClientSpec, DelaySpec, TopicSpec, WorldSpec

FOLDER = Path(__file__).parent
DRAWN = ("eager", "cooperative", "consumer-uniform")
UNTIL_MS = 30_000


def a_newcomer() -> Scenario:
    """Three clients share twelve partitions; a fourth comes after twenty seconds."""
    starts_ms = {"a": 0, "b": 100, "c": 200, "d": 20_000}
    world = WorldSpec(
        seed=5,
        topics=(TopicSpec(name="orders", partition_count=12, records_per_second=50),),
        clients=tuple(
            ClientSpec(
                name=name, topics=("orders",), start_ms=at_ms, callback=DelaySpec(min_ms=200)
            )
            for name, at_ms in starts_ms.items()
        ),
        duration_ms=35_000,
    )
    return Scenario(name="a newcomer", world=world)


def main() -> None:
    owned = {}
    for name in DRAWN:
        trace = OwnershipTrace()
        run(with_protocol(a_newcomer(), name), trace=trace)
        owned[PROTOCOLS[name].title.replace("`", "")] = trace.intervals(UNTIL_MS)
    # Ids and date would differ from one drawing to the next.
    with matplotlib.rc_context({"svg.hashsalt": "protocols"}):
        for name, is_narrow in (("protocols", False), ("protocols-narrow", True)):
            figure = plot_ownership_of(
                owned,
                until_ms=UNTIL_MS,
                topic_names={"orders:1": "orders"},
                is_narrow=is_narrow,
            )
            figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
