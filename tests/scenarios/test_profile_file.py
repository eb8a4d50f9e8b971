"""Profiles and scenarios of one's own: files anywhere, that extend others and stand for
themselves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.profile import load_profile, parse_profile
from rebalance_sim.scenarios.profile_file import text_of
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import dump_scenario
from rebalance_sim.scenarios.variant import Variant

QUIET = """
extends = "faulty"
faults = [
    { kind = "broker_crash", probability = 1.0 }, { kind = "rebalance_enforce", probability = 0.5 },
]

[sizes]
clients = [2, 2]
"""


@pytest.fixture
def quiet(tmp_path: Path) -> Path:
    file = tmp_path / "a+b@c~d" / "quiet.toml"
    file.parent.mkdir()
    file.write_text(QUIET)
    return file


def test_a_profile_says_what_differs_from_the_one_that_it_extends(quiet: Path) -> None:
    profile, faulty = parse_profile(text_of(str(quiet))), load_profile("faulty")
    assert profile.name == "quiet"
    assert profile.sizes.clients == (2, 2)
    assert profile.sizes.topics == faulty.sizes.topics
    assert profile.timings == faulty.timings
    crash = next(rule for rule in faulty.faults if rule.kind == "broker_crash")
    by_kind = {rule.kind: rule for rule in profile.faults}
    assert by_kind["broker_crash"].probability == 1.0
    assert by_kind["broker_crash"].duration_ms == crash.duration_ms
    assert [*by_kind] == [*(rule.kind for rule in faulty.faults), "rebalance_enforce"]


def test_an_empty_list_takes_all_faults_away(tmp_path: Path) -> None:
    file = tmp_path / "none.toml"
    file.write_text('extends = "faulty"\nfaults = []\ncoincidences = []\n')
    profile = parse_profile(text_of(str(file)))
    assert profile.faults == profile.coincidences == ()


def test_a_file_extends_a_file_beside_it(quiet: Path) -> None:
    file = quiet.parent / "quieter.toml"
    file.write_text('extends = "quiet.toml"\n[sizes]\ntopics = [1, 1]\n')
    sizes = parse_profile(text_of(str(file))).sizes
    assert (sizes.clients, sizes.topics) == ((2, 2), (1, 1))


def test_a_variant_holds_what_its_file_said(quiet: Path) -> None:
    variant = Variant.of(f"{quiet}@kafka-4.1+eager")
    assert (variant.profile, variant.semantics, variant.protocol) == (
        str(quiet),
        "kafka-4.1",
        "eager",
    )
    before = generate(variant, 3)
    digest = variant.digest
    quiet.unlink()
    assert generate(variant, 3) == before
    assert len(before.world.clients) == 2
    quiet.write_text('extends = "calm"\n')
    assert Variant.of(str(quiet)).digest != digest


def test_a_scenario_in_place_of_a_profile_differs_by_seed_alone(tmp_path: Path) -> None:
    scenario = generate("calm", 5)
    file = tmp_path / "scenario.toml"
    file.write_text(dump_scenario(scenario))
    other = generate(str(file), 9)
    assert other.seed == 9
    assert other.world.clients == scenario.world.clients
    assert generate(str(file), 5).hash == scenario.hash
    assert generate(f"{file}@kafka-4.1", 5).world.semantics == "kafka-4.1"
    assert run(generate(f"{file}+eager", 5)).outcome == "ok"


BAD = {
    "a circle": ('extends = "bad.toml"', "extends itself"),
    "no such base": ('extends = "fault"', "did you mean 'faulty'?"),
    "no such file": ('extends = "none.toml"', "none.toml: cannot be read"),
    "not a name": ("extends = 3", "extends: must be a profile's name or a file"),
    "a scenario": ('extends = "calm"\n[world]', "is for profiles"),
    "not TOML": ("[sizes", "is not valid TOML"),
    "unknown key": ('extends = "calm"\n[sizes]\nclient = [1, 2]', "did you mean 'clients'?"),
    "unknown version": ('extends = "calm"\nsemantics = ["kafka-4.2"]', "no semantics 'kafka-4.2'"),
    "every missing key": (
        "[sizes]\nclients = [1, 2]\n[[faults]]\nprobability = 1.0",
        "13 keys are missing: sizes.topics, sizes.partitions, sizes.brokers, timings.duration_ms, ",
    ),
    "the last missing key": (
        "[sizes]\n[[faults]]\nkind = 'client_crash'",
        ", faults[0].probability",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_is_told_in_one_line_with_its_name(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text + "\n")
    with pytest.raises(ScenarioError) as caught:
        generate(str(file), 1)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


HUGE = 1_000_000_000_000


@pytest.mark.parametrize(
    "sizes",
    [
        f"partitions = [1, {HUGE}]",
        f"clients = [{HUGE}, {HUGE}]",
        f"topics = [1, {HUGE}]",
        f"brokers = [{HUGE}]",
        f"offsets_partitions = [{HUGE}]",
        f"records_per_second = [{HUGE}]",
        f"large_partitions = [1, {HUGE}]",
    ],
)
def test_a_profile_that_fits_no_memory_is_refused_at_once(tmp_path: Path, sizes: str) -> None:
    file = tmp_path / "huge.toml"
    file.write_text(f'extends = "calm"\n[sizes]\n{sizes}\n')
    started_s = time.monotonic()
    with pytest.raises(ScenarioError, match=sizes.split()[0]):
        generate(str(file), 1)
    assert time.monotonic() - started_s < 0.5
