"""Runs scenarios against a client, several at a time, each with a gateway of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from rebalance_sim.gateway.broker import Gateway
from rebalance_sim.gateway.certify.scenarios import SESSION_S, Scenario
from rebalance_sim.gateway.certify.trial import (
    GROUP,
    PARTITIONS,
    TOPIC,
    Command,
    DidNotHold,
    NotConcerned,
    Trial,
)
from rebalance_sim.gateway.settings import GatewaySettings
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig

SETTINGS = GatewaySettings(
    topics={TOPIC: PARTITIONS},
    coordinator=CoordinatorConfig(
        group_consumer_session_timeout_ms=SESSION_S * 1_000,
        group_consumer_min_session_timeout_ms=1_000,
        group_consumer_heartbeat_interval_ms=500,
        group_consumer_min_heartbeat_interval_ms=100,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=1_000,
    ),
)
"""Sessions and intervals that are short, so that scenarios are."""


class Outcome(StrEnum):
    """What came of a scenario."""

    HELD = "held"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Result:
    """``detail`` says what did not hold, or why it was not run; ``not_judged`` what would not have
    been noticed, each in a line."""

    name: str
    about: str
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0
    not_judged: tuple[str, ...] = ()


def certify(
    command: Command,
    scenarios: Iterable[Scenario],
    *,
    out: Path,
    deadline_s: float,
    jobs: int,
    settings: GatewaySettings = SETTINGS,
    done: Callable[[Result], object] = lambda result: None,
) -> list[Result]:
    """The results in the order of the scenarios. ``out`` gets a folder for each scenario, with what
    its clients wrote, and the trace of the group. ``deadline_s``: how long is waited for each thing
    that has to happen."""

    def run(scenario: Scenario) -> Result:
        result = _run(command, scenario, out / scenario.name, deadline_s, settings)
        done(result)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run, scenarios))


def _run(
    command: Command, scenario: Scenario, out: Path, deadline_s: float, settings: GatewaySettings
) -> Result:
    if scenario.is_static and command.static is None:
        why = "it needs --static-command"
        return Result(scenario.name, scenario.about, Outcome.NOT_RUN, why)
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    outcome, problem = Outcome.FAILED, ""
    not_judged: tuple[str, ...] = ()
    with Gateway(replace(settings, rules=scenario.rules, seed=scenario.seed)) as broker:
        try:
            with Trial(broker, command, deadline_s=deadline_s, out=out) as trial:
                scenario.script(trial)
                if scenario.rules:
                    trial.meets_rules()
                not_judged = trial.not_judged()
        except NotConcerned:
            outcome, problem = Outcome.NOT_RUN, "the client sends no such request"
        except DidNotHold as found:
            problem = str(found)
        except OSError as found:
            problem = f"the client does not start: {found}"
        try:
            broker.assert_ok()
        except AssertionError as found:
            (out / "violation.txt").write_text(str(found), encoding="utf-8")
            problem = problem or str(found).partition("\n")[0]
        try:
            trace = broker.trace(GROUP)
        except KeyError:
            problem = problem or "no client has named the group"
        else:
            (out / "trace.json").write_text(json.dumps(trace), encoding="utf-8")
    seconds = round(time.monotonic() - began, 1)
    outcome = outcome if problem else Outcome.HELD
    return Result(scenario.name, scenario.about, outcome, problem, seconds, not_judged)
