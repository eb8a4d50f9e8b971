"""A kind of fault is one module: one that is defined here works everywhere without further ado."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from worlds import Watched, client, spec

import rebalance_sim
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate_from
from rebalance_sim.scenarios.profile import FaultRule, load_profile
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario, parse_scenario
from rebalance_sim.scenarios.shrinking.shrink import shrink
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults import fault as faults
from rebalance_sim.sim.faults.clients import ClientPause
from rebalance_sim.sim.faults.fault import End, Fault, Window, register, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.trace import Trace

BROKEN: list[bool] = []
"""What each reset found: whether there was a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFlaps(Window):
    """The switch port of a client goes down ``times`` times, a second apart."""

    client: str
    times: int = field(metadata=size(1))

    def begin(self, world: FaultWorld) -> End | bool:
        for count in range(self.times):
            world.later(1_000 * count, self._reset(world))
        return lambda: None

    def _reset(self, world: FaultWorld) -> End:
        def reset() -> None:
            BROKEN.append(world.network.break_coordinator_connection(self.client))

        return reset

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        yield cls(
            at_ms=at_ms,
            duration_ms=draw.between(rule.duration_ms),
            client=targets.client(draw).name,
            times=draw.between((2, 5)),
        )


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    BROKEN.clear()
    register(LinkFlaps)
    yield
    del faults._kinds()[LinkFlaps.kind]


class _FaultSteps(Trace):
    """Keeps the faults of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[object, str]] = []

    def on_step(self, step: Step) -> None:
        super().on_step(step)
        if step.kind is StepKind.FAULT:
            self.seen.append((step.fault, step.detail))


FLAPS = LinkFlaps(at_ms=20_000, duration_ms=7_000, client="a", times=3)


def test_it_begins_and_ends_and_steps_carry_it() -> None:
    trace = _FaultSteps()
    world = spec(client("a"), client("b"), faults=(FLAPS,), quiet_period_ms=450_000)
    result = run(Scenario(name="flaps", world=world), trace=trace)
    assert result.outcome == "ok"
    assert result.coverage["fault.link_flaps"] == 1
    assert trace.seen == [(FLAPS, "link_flaps begins of a"), (FLAPS, "link_flaps ends of a")]
    watched = Watched(world)
    watched.advance_to(25_000)
    assert watched.world.injector.open_at(watched.world.steps.count) == (
        "link_flaps(a) since 20000 ms",
    )
    assert len(BROKEN) == 2 * 3
    assert BROKEN[0] and BROKEN[3]


def test_it_checks_itself() -> None:
    with pytest.raises(ValueError, match="times must be >= 1, got 0"):
        replace(FLAPS, times=0)
    with pytest.raises(ValueError, match="client 'z' is not one of the clients"):
        spec(client("a"), faults=(replace(FLAPS, client="z"),))


def test_it_goes_through_toml_and_back() -> None:
    scenario = Scenario(name="flaps", world=spec(client("a"), faults=(FLAPS,)))
    text = dump_scenario(scenario)
    assert 'kind = "link_flaps"' in text
    assert parse_scenario(text) == scenario
    with pytest.raises(ScenarioError, match="did you mean 'link_flaps'"):
        parse_scenario(text.replace("link_flaps", "link_flap"))


def test_it_may_come_again_and_keeps_a_key_that_recurring_faults_have_too() -> None:
    text = dump_scenario(Scenario(name="flaps", world=spec(client("a"), faults=(FLAPS,))))
    every = 'kind = "link_flaps", every_ms = 9_000'
    again = parse_scenario(text.replace('kind = "link_flaps"', every))
    times = [fault.at_ms for fault in again.world.faults]
    assert times == list(range(20_000, again.world.duration_ms, 9_000))
    assert set(again.world.faults) == {replace(FLAPS, at_ms=at_ms) for at_ms in times}


def test_a_profile_draws_it_and_nothing_else_changes() -> None:
    profile = load_profile("calm")
    rule = FaultRule(kind="link_flaps", probability=1.0, count=(2, 2))
    for seed in range(5):
        before = generate_from(profile, seed).world
        world = generate_from(replace(profile, faults=(*profile.faults, rule)), seed).world
        drawn = [fault for fault in world.faults if isinstance(fault, LinkFlaps)]
        assert len(drawn) == 2
        assert tuple(f for f in world.faults if f not in drawn) == before.faults
        assert world.clients == before.clients


def test_it_is_made_simpler() -> None:
    """What fails here is any world in which the link of ``a`` flaps twice."""
    other = ClientPause(at_ms=30_000, duration_ms=500, client="b")
    world = spec(client("a"), client("b"), faults=(FLAPS, other))
    scenario = Scenario(name="flaps", world=world, max_steps=200)
    template = run(scenario)

    def fails(candidate: Scenario) -> RunResult:
        flaps = [f for f in candidate.world.faults if isinstance(f, LinkFlaps) and f.times >= 2]
        if not flaps:
            return replace(template, outcome="ok", reason="")
        return replace(template, outcome="error", reason="Flapped: it did")

    [fault] = shrink(scenario, run=fails).scenario.world.faults
    assert fault == replace(FLAPS, at_ms=0, times=2, duration_ms=1)


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="there is a kind of fault 'link_flaps' already"):
        register(LinkFlaps)


def test_kinds_are_found_in_a_zip(tmp_path: Path) -> None:
    """As a cluster ships the code."""
    package = Path(rebalance_sim.__file__).parent
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(package.rglob("*")):
            if path.suffix in (".py", ".toml", ".json"):
                file.write(path, Path("rebalance_sim") / path.relative_to(package))
    script = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from rebalance_sim.sim.faults.fault import Fault\n"
        "print(Fault.__module__, sys.modules[Fault.__module__].__file__, *Fault.kinds())"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    module, file_name, *kinds = ran.stdout.split()
    assert str(archive) in file_name and module == "rebalance_sim.sim.faults.fault"
    assert kinds == [kind for kind in Fault.kinds() if kind != LinkFlaps.kind]
