"""Scenarios that a seed draws: clients come and go while requests are lost, late or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

from rebalance_sim.gateway.certify.scenarios import SESSION_S, Scenario
from rebalance_sim.gateway.certify.trial import PARTITIONS, Trial
from rebalance_sim.gateway.rules import ANY, DELAYED, Action, Rule
from rebalance_sim.scenarios.codec import decode

_Part = Callable[[Trial, Random], None]
_PARTS = (6, 10)
"""How many things happen, at least and at most."""
_BETWEEN_S = (0.2, 2.0)
_MAX_RULES = 4
_PROBABILITIES = (0.02, 0.05, 0.1, 0.2)
_DELAYS_MS = (300, 1_000, 3_000)
_REFUSALS: Mapping[str, tuple[str, ...]] = {
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    **dict.fromkeys(
        ("JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit"),
        ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    ),
}
"""Errors that a client has to get over without a word to its application."""


def drawn(seed: int) -> Scenario:
    """The scenario of a seed. What it does and in which order is the seed's; clients and the clock
    are real, so that no two runs are the same."""
    draws = Random(f"certify {seed}")
    rules = tuple(_rule(draws) for _ in range(draws.randint(1, _MAX_RULES)))
    parts = [draws.choice(_PARTS_OF_IT) for _ in range(draws.randint(*_PARTS))]
    about = ", ".join(map(_about, rules))
    script = partial(_script, parts=parts, rules=rules, seed=seed)
    return Scenario(f"seed.{seed}", f"clients come and go; {about}", script, seed=seed)


def _script(
    trial: Trial,
    *,
    parts: Sequence[_Part],
    rules: tuple[Rule, ...],
    seed: int,
) -> None:
    draws = Random(f"certify {seed} as it runs")
    for rule in rules:
        trial.broker.rules.add(rule)
    trial.start(2)
    for part in parts:
        trial.sleep(draws.uniform(*_BETWEEN_S))
        part(trial, draws)
    trial.broker.rules.clear()
    if not trial.running:
        trial.start()
    trial.settles(len(trial.running))


def _start(trial: Trial, draws: Random) -> None:
    if len(trial.running) < PARTITIONS:
        trial.start()


def _stop(trial: Trial, draws: Random) -> None:
    if trial.running:
        trial.stop(draws.choice(trial.running))


def _kill(trial: Trial, draws: Random) -> None:
    if trial.running:
        trial.kill(draws.choice(trial.running))


def _pause(trial: Trial, draws: Random) -> None:
    if trial.running:
        trial.pause(draws.choice(trial.running), draws.choice((0.5, 2.0, 1.5 * SESSION_S)))


def _add_records(trial: Trial, draws: Random) -> None:
    trial.add_records(draws.randint(1, 40))


def _move(trial: Trial, draws: Random) -> None:
    lost = draws.choice((0, 0, 0, 3))
    trial.broker.move_coordinator(load_ms=draws.choice((0, *_DELAYS_MS)), lost_records=lost)


def _close(trial: Trial, draws: Random) -> None:
    trial.broker.close_connections(ANY)


_PARTS_OF_IT: Sequence[_Part] = (
    _start,
    _start,
    _stop,
    _kill,
    _pause,
    _add_records,
    _add_records,
    _move,
    _close,
)


def _rule(draws: Random) -> Rule:
    """About requests that name a group: a client that finds no broker at its start may give up."""
    action = draws.choice(tuple(Action))
    keys: dict[str, object] = {"action": action.value, "times": 0}
    keys["probability"] = draws.choice(_PROBABILITIES)
    match action:
        case Action.ERROR:
            api = draws.choice(sorted(_REFUSALS))
            keys |= {"api": api, "error": draws.choice(_REFUSALS[api])}
        case Action.MOVE_COORDINATOR:
            keys |= {"api": "OffsetCommit", "times": 2}
        case _:
            keys["group"] = "?*"
    if action in DELAYED:
        keys["delay_ms"] = draws.choice(_DELAYS_MS)
    return decode(Rule, keys)


def _about(rule: Rule) -> str:
    words = (str(rule.action), rule.error, "" if rule.api == ANY else rule.api)
    return f"{' '.join(filter(None, words))} {rule.probability:.0%}"
