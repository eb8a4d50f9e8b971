"""Drawing the faults of a scenario.

Each rule of a profile has a random stream of its own, and each kind of fault knows how it is drawn
(``Fault.drawn``). Times are drawn over the whole fault phase; where a seed clusters its faults,
some fall close to one of a few moments instead, because what breaks protocols is coincidence.
"""

from __future__ import annotations

from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.profile import FaultRule
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.streams import Streams

_WARM_UP_MS = 1_000
"""Nothing happens before the first members are there."""

_CLUSTER_COUNT = (1, 3)
_CLUSTER_SHARE = 0.7
_CLUSTER_WIDTH_MS = 2_000


def draw_faults(
    rules: tuple[FaultRule, ...], targets: Targets, streams: Streams, *, is_clustered: bool
) -> tuple[Fault, ...]:
    """The faults of a scenario, by time. Raises ScenarioError for an unknown kind."""
    clusters = Draw(streams.get("generate/clusters"))
    moments = [_moment(clusters, targets) for _ in range(clusters.between(_CLUSTER_COUNT))]
    kinds = Fault.kinds()
    faults: list[Fault] = []
    for index, rule in enumerate(rules):
        kind = kinds.get(rule.kind)
        if kind is None:
            raise ScenarioError(
                f"no such kind: {rule.kind!r}; {did_you_mean(rule.kind, kinds)}",
                place=f"faults[{index}].kind",
            )
        draw = Draw(streams.get(f"generate/fault/{rule.kind}"))
        if not draw.chance(rule.probability):
            continue
        for _ in range(draw.between(rule.count)):
            at_ms = _moment(draw, targets)
            if is_clustered and draw.chance(_CLUSTER_SHARE):
                at_ms = draw.pick(moments) + draw.between((0, _CLUSTER_WIDTH_MS))
            faults += _drawn(kind, draw, rule, targets, at_ms)
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


def _drawn(
    kind: type[Fault], draw: Draw, rule: FaultRule, targets: Targets, at_ms: int
) -> list[Fault]:
    """One occurrence. Raises ScenarioError for whatever a kind from elsewhere raises."""
    try:
        return list(kind.drawn(draw, rule, targets, targets.within(at_ms)))
    except Exception as problem:
        raise ScenarioError(
            f"cannot be drawn: {type(problem).__name__}: {problem}", place=f"faults.{rule.kind}"
        ) from problem


def _moment(draw: Draw, targets: Targets) -> int:
    return draw.between((targets.within(_WARM_UP_MS), targets.duration_ms - 1))
