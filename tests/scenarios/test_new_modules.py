"""A defect is two new files and a version is one: nothing else is touched to make them known."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

DEFECT = '''
"""A partition is given away while somebody has it."""

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects._shared import NoDoubleOwnershipAlarm
from rebalance_sim.protocol.defects.defect import Defect


class GivesAway(ConsumerGroupRules):
    ownership = NoDoubleOwnershipAlarm()

    def is_free(self, group, member, partition):
        return True


DEFECT = Defect(
    id="TICKET-1",
    title="Given away too early",
    rules=(GivesAway,),
    properties=("defects S1",),
)
'''

VERSION = '''
"""A release that nobody has made."""

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

PROGRAM = """
from rebalance_sim import defect_scenario, run
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS, RELEASES, SEMANTICS
from rebalance_sim.cli.main import invoke

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


def test_a_defect_and_a_version_are_found_by_being_there(tmp_path: Path) -> None:
    package = tmp_path / "rebalance_sim"
    shutil.copytree(
        ROOT / "rebalance_sim", package, ignore=shutil.ignore_patterns("__pycache__", "traces")
    )
    (package / "protocol/defects/ticket_1.py").write_text(DEFECT)
    (package / "protocol/versions/kafka_4_5.py").write_text(VERSION)
    scenarios = package / "scenarios/defects"
    known = (scenarios / "mut-early-grant.toml").read_text()
    (scenarios / "TICKET-1.toml").write_text(known.replace("mut-early-grant", "TICKET-1"))
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.stderr == ""
    outcomes, scenario = done.stdout.split("\n", 2)[:2], done.stdout.split("\n", 2)[2]
    assert outcomes == ["violation", "ok"]
    assert 'semantics = "kafka-4.5"' in scenario
