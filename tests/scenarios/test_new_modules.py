"""What one more of each kind costs: a defect two new files, all others one. No other is touched."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_sim.scenarios.generate.generator import generate

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/research/research_plugins"

DEFECT = '''
"""A partition is given away while somebody has it."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects._shared import NoDoubleOwnershipAlarm
from rebalance_sim.protocol.defects.defect import defect


@defect("TICKET-1", "Given away too early", properties=("defects S1",))
class GivesAway(ConsumerGroupRules):
    ownership = NoDoubleOwnershipAlarm()

    def is_free(self, group, member, partition):
        return True
'''

VERSION = '''
"""A release that no one has made."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.versions.shared_defects import EVERY_BROKER, EVERY_VERSION
from rebalance_sim.protocol.versions.version import Version


class Mine(ConsumerGroupRules):
    initial_group_epoch = 7


VERSION = Version(
    name="kafka-4.5",
    about="what it will do",
    releases=("4.5",),
    changes=(Mine,),
    shipped_defects=(
        *EVERY_VERSION,
        *(one for one in EVERY_BROKER if one != "PR-23542"),
        "TICKET-1",
    ),
)
'''

CLIENT_VERSION = '''
"""A release of the Java client that no one has made."""

from rebalance_sim.protocol.clients.common.client_version import ClientVersion
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules


class AcknowledgesOnce(MemberRules):
    repeats_partial_acknowledgement = False


VERSION = ClientVersion(
    library="kafka-clients", name="4.5", about="what it will do", changes=(AcknowledgesOnce,)
)
'''

FAULT = '''
"""Somebody trips over a cable."""

from dataclasses import dataclass, field
from typing import Any

from rebalance_sim.sim.faults.fault import Window, drawn_from, size


@dataclass(frozen=True, slots=True, kw_only=True)
class CableTrip(Window):
    """Every client is cut off, again and again, each time after ``pause_ms``."""

    pause_ms: int = field(metadata=size(1) | drawn_from(1_000, 2_000))

    def begin(self, world):
        def trip():
            for name in world.network_names:
                world.network.break_coordinator_connection(name)

        for after_ms in range(0, self.duration_ms, self.pause_ms):
            world.later(after_ms, trip)
        return lambda: None

    @classmethod
    def drawn(cls, draw, rule: Any, targets, at_ms):
        duration_ms = draw.between(rule.duration_ms)
        yield cls(at_ms=at_ms, duration_ms=duration_ms, pause_ms=draw.between(rule.pause_ms))
'''

COINCIDENCE = '''
"""A client dies just when the topics have grown."""

from rebalance_sim.scenarios.generate.recipes._steps import grown
from rebalance_sim.sim.faults.clients import ClientCrash


def death_at_growth(draw, targets, at_ms):
    yield grown(targets.topics[0], at_ms, draw, 3)
    yield ClientCrash(at_ms=at_ms + 1, client=targets.client(draw).name, down_ms=500)
'''

PROFILE = """
name = "mine"
description = "Cables, and deaths when topics grow."
extends = "calm"
faults = [{ kind = "cable_trip", probability = 1.0, pause_ms = [700, 900] }]
coincidences = [{ kind = "death_at_growth", probability = 1.0 }]
"""

DEFECT_AND_VERSIONS = """
from dataclasses import replace

from rebalance_sim import defect_scenario, run
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS, RELEASES, SEMANTICS
from rebalance_sim.cli.main import invoke
from rebalance_sim.protocol.clients.kinds import KINDS
from rebalance_sim.protocol.clients.versions import client_rules, versions_of

assert versions_of("java")[-1] == "4.5"
mine = client_rules(KINDS["java"], "4.5", DEFAULT_SEMANTICS)
assert not mine.repeats_partial_acknowledgement
scenario = defect_scenario("mut-early-grant", with_defect=False)
clients = tuple(replace(one, version="4.5") for one in scenario.world.clients)
assert run(replace(scenario, world=replace(scenario.world, clients=clients))).outcome == "ok"
new = RELEASES["4.5"]
assert "mut-early-grant" in new.with_defects("mut-early-grant").defects
assert set(DEFAULT_SEMANTICS.shipped_defects) - set(new.shipped_defects) == {
    "PR-23542", "tied-assignor-votes"
}
assert SEMANTICS["kafka-4.5-clean"].coordinator.initial_group_epoch == 7
for with_defect in (True, False):
    print(run(defect_scenario("TICKET-1", with_defect=with_defect)).outcome)
invoke(["generate", "--profile", "calm@kafka-4.5", "--seed", "1"])
"""

THE_OTHERS = """
from rebalance_sim import generate, parse_scenario, run
from rebalance_sim.cli.main import invoke
from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.scenarios.scenario import dump_scenario
from rebalance_sim.scenarios.shrinking.shrink import shrink

invoke(["profiles"])
scenario = generate("mine", 1)
trips = [fault for fault in scenario.world.faults if fault.kind == "cable_trip"]
assert trips and all(700 <= trip.pause_ms <= 900 for trip in trips)
assert {"client_crash", "topic_grow"} <= {fault.kind for fault in scenario.world.faults}
assert parse_scenario(dump_scenario(scenario)) == scenario
result = run(scenario, properties=())
assert result.coverage["fault.cable_trip"] == len(trips)
assert 0 < result.metrics["research_members_max"] <= len(scenario.world.clients)
assert "research.few_epochs" in {item.id for item in PROPERTIES}
[violated] = run(scenario).violations
print(violated.property)
print(len(shrink(scenario, max_runs=60).scenario.world.faults) < len(scenario.world.faults))
print(generate("calm", 1).hash)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, to put something into."""
    package = tmp_path / "rebalance_sim"
    left_out = shutil.ignore_patterns("__pycache__", "kafka-*")
    shutil.copytree(ROOT / "rebalance_sim", package, ignore=left_out)
    return package


def printed_by(program: str, package: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        cwd=package.parent,
        env={"PYTHONPATH": str(package.parent)},
    )
    assert done.stderr == ""
    return done.stdout


def test_a_defect_and_versions_of_broker_and_client_are_discovered(package: Path) -> None:
    (package / "protocol/defects/ticket_1.py").write_text(DEFECT)
    (package / "protocol/versions/kafka_4_5.py").write_text(VERSION)
    (package / "protocol/clients/versions/kafka_clients_4_5.py").write_text(CLIENT_VERSION)
    scenarios = package / "scenarios/defects"
    known = (scenarios / "mut-early-grant.toml").read_text()
    (scenarios / "TICKET-1.toml").write_text(known.replace("mut-early-grant", "TICKET-1"))
    first, second, scenario = printed_by(DEFECT_AND_VERSIONS, package).split("\n", 2)
    assert [first, second] == ["violation", "ok"]
    assert 'semantics = "kafka-4.5"' in scenario


def test_so_is_one_file_of_each_other_kind_and_no_seed_moves(package: Path) -> None:
    """A fault, a coincidence, a profile that draws them, a property and a metric; the last two are
    those of the example plug-in."""
    (package / "sim/faults/cable_trip.py").write_text(FAULT)
    (package / "scenarios/generate/recipes/deaths.py").write_text(COINCIDENCE)
    (package / "scenarios/profiles/mine.toml").write_text(PROFILE)
    few_epochs = (EXAMPLES / "invariant.py").read_text().replace("500", "1")
    (package / "invariants/laws/few_epochs.py").write_text(few_epochs)
    shutil.copy(EXAMPLES / "metric.py", package / "sim/observe/largest_group.py")
    *listed, violated, is_smaller, of_calm = printed_by(THE_OTHERS, package).splitlines()
    assert "mine" in {line.split()[0] for line in listed}
    assert (violated, is_smaller) == ("research.few_epochs", "True")
    assert of_calm == generate("calm", 1).hash
