"""Coincidences: a few faults of one client, timed so that one falls into the other.

Faults that are drawn one by one meet like this too, but hardly ever on the same client. Each has a
random stream of its own, so that a recipe (``recipes/``) shifts no other draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from inspect import isfunction

from rebalance_sim.protocol.runtime.discovery import modules_in
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.generate import recipes
from rebalance_sim.scenarios.profile import CoincidenceRule
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.clients import ClientPause
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.streams import Streams

_WARM_UP_MS = 2_000
_SHORT_PAUSES = (3, 12)
_SHORT_PAUSE_MS = (50, 500)
_DOWN_MS = (200, 8_000)


Recipe = Callable[[Draw, Targets, int], Iterable[Fault]]


def draw_coincidences(
    rules: tuple[CoincidenceRule, ...], targets: Targets, streams: Streams
) -> tuple[Fault, ...]:
    """The faults of all coincidences of a scenario. Raises ScenarioError for an unknown kind."""
    faults: list[Fault] = []
    for index, rule in enumerate(rules):
        recipe = COINCIDENCES.get(rule.kind)
        if recipe is None:
            raise ScenarioError(
                f"no such kind: {rule.kind!r}; {did_you_mean(rule.kind, COINCIDENCES)}",
                place=f"coincidences[{index}].kind",
            )
        draw = Draw(streams.get(f"generate/coincidence/{rule.kind}"))
        if draw.chance(rule.probability):
            last_ms = targets.duration_ms - 1
            at_ms = draw.between((min(_WARM_UP_MS, last_ms), last_ms))
            faults += (fault for fault in recipe(draw, targets, at_ms) if fault.at_ms <= last_ms)
    return tuple(faults)


def draw_takeovers(targets: Targets, streams: Streams) -> tuple[Fault, ...]:
    """Where two clients share an instance id by mistake, each stands still now and then until it
    has been expelled: the other may have taken its place when it continues."""
    shared = Counter(client.instance_id for client in targets.clients if client.instance_id)
    faults: list[Fault] = []
    for client in targets.clients:
        if client.instance_id is None or shared[client.instance_id] == 1:
            continue
        draw = Draw(streams.get(f"generate/takeover/{client.name}"))
        last_ms = targets.duration_ms - 1
        faults.append(
            ClientPause(
                at_ms=draw.between((min(_WARM_UP_MS, last_ms), last_ms)),
                duration_ms=targets.config.group_consumer_max_session_timeout_ms
                + draw.between(_DOWN_MS),
                client=client.name,
            )
        )
    return tuple(faults)


def draw_short_pauses(targets: Targets, streams: Streams) -> tuple[Fault, ...]:
    """Processes that stand still for a moment, as for garbage collection."""
    draw = Draw(streams.get("generate/short-pauses"))
    return tuple(
        ClientPause(
            at_ms=draw.between((0, targets.duration_ms - 1)),
            duration_ms=draw.between(_SHORT_PAUSE_MS),
            client=targets.client(draw).name,
        )
        for _ in range(draw.between(_SHORT_PAUSES))
    )


COINCIDENCES: Mapping[str, Recipe] = {
    name: value
    for module in modules_in(recipes.__name__)
    for name, value in vars(module).items()
    if isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
}
"""Every coincidence that a profile may ask for."""
