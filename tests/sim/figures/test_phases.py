"""What is measured of a phase, computed a second time from recordings that end where it does."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from episodes import episodes
from owners import ownership, partitions_of, processes, spans
from record_flow import lag_line
from recording import Recording, record
from test_figures import SECOND_COMPUTATIONS

from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, load_scenario
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash
from rebalance_sim.sim.phases import OF_THE_RUN, Phase, PhaseEnd

PROFILES = ("faulty", "cooperative", "groups", "production", "whole", "classic")
FROM, UNTIL = 0.3, 0.7
"""Where in the time of faults the phase lies: in the middle of everything."""


def in_the_middle(scenario: Scenario) -> Phase:
    duration_ms = scenario.world.duration_ms
    return Phase(name="middle", from_ms=int(FROM * duration_ms), until_ms=int(UNTIL * duration_ms))


def figures(recording: Recording) -> dict[str, float]:
    found: dict[str, float] = {}
    for compute in SECOND_COMPUTATIONS:
        found |= compute(recording)
    return found


def of_phase(metrics: dict[str, float], name: str) -> dict[str, float]:
    start = f"{name}."
    return {key.removeprefix(start): v for key, v in metrics.items() if key.startswith(start)}


@pytest.mark.quick_one_of(5)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", (200, 201))
def test_a_phase_has_what_a_run_has_more_at_its_end_than_at_its_beginning(
    profile: str, seed: int
) -> None:
    scenario = generate(profile, seed)
    phase = in_the_middle(scenario)
    assert phase.until_ms is not None
    before = record(scenario.world, until_ms=phase.from_ms)
    after = record(scenario.world, until_ms=phase.until_ms)
    found = of_phase(dict(run(replace(scenario, phases=(phase,)), properties=()).metrics), "middle")
    first, last = figures(before), figures(after)
    sums = {
        name: last[name] - first[name]
        for name in last
        if not name.endswith(("_max", "_mean", "_percent", "_at_end", "_open"))
        and name != "settling_ms"
        and name not in OF_THE_RUN
    }
    differing = {
        name: (found.get(name), value)
        for name, value in sums.items()
        if found.get(name) != pytest.approx(value)
    }
    assert differing == {}
    for name in ("lag_records_at_end", "rebalance_episodes_open"):
        assert found.get(name) == last.get(name)
    longest = longest_in(after, phase.from_ms)
    assert {name: found.get(name) for name in longest} == longest
    assert not OF_THE_RUN & found.keys()


def longest_in(recording: Recording, from_ms: int) -> dict[str, float]:
    """The longest of each of what happened from then on; what has begun before is cut off there."""
    unowned = rebalance = 0
    lag = 0.0
    first: list[int] = []
    for group_id in recording.spec.group_ids:
        changes = ownership(recording, group_id)
        for life in partitions_of(recording, group_id):
            for span in spans(life, changes):
                if not span.owners:
                    unowned = max(unowned, span.to_ms - max(span.from_ms, from_ms))
        for one in episodes(recording, group_id):
            if one.end is not None and one.to_ms >= from_ms:
                rebalance = max(rebalance, one.to_ms - one.from_ms)
        for own in processes(changes):
            got = [change.at_ms for change in own if change.partitions][:1]
            first += [at_ms - own[0].at_ms for at_ms in got if at_ms >= from_ms]
        for life in recording.partitions:
            about = (group_id, life.partition)
            told = [one for one in recording.flowed if (one.group_id, one.partition) == about]
            line = lag_line(recording, told, life.topic, life.from_ms, life.to_ms)
            lag = max([lag, *cut_off(line, from_ms)])
    found: dict[str, float] = {"unowned_partition_ms_max": unowned, "rebalance_ms_max": rebalance}
    if first:
        found["first_assignment_ms_max"] = max(first)
        found["first_assignment_ms_mean"] = sum(first) / len(first)
    if recording.spec.data_plane:
        found["lag_records_max"] = int(lag)
    return found


def cut_off(line: list[tuple[int, float]], from_ms: int) -> list[float]:
    """The lags from then on, with the one at that moment."""
    found = [lag for at_ms, lag in line if at_ms >= from_ms]
    for (left_ms, left), (right_ms, right) in pairwise(line):
        if left_ms < from_ms < right_ms:
            found.append(left + (right - left) * (from_ms - left_ms) / (right_ms - left_ms))
    return found


@pytest.mark.quick_one_of(5)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", (210, 211))
def test_phases_change_nothing_of_a_run(profile: str, seed: int) -> None:
    plain = generate(profile, seed)
    duration_ms = plain.world.duration_ms
    phases = (
        Phase(name="start", until=PhaseEnd.REST),
        Phase(name="middle", from_ms=duration_ms // 3, until_ms=duration_ms // 2),
        Phase(name="late", from_ms=duration_ms // 2 + 1, until=PhaseEnd.REST),
    )
    phased = replace(plain, phases=phases)
    assert phased.hash == plain.hash
    found, expected = (run(one, properties=()) for one in (phased, plain))
    of_run = {name: value for name, value in found.metrics.items() if "." not in name}
    assert of_run == expected.metrics
    assert [one.name for one in found.phases] == ["start", "middle", "late"]
    cleared = replace(found, metrics={}, phases=())
    assert cleared == replace(expected, metrics={}, phases=())


DEPLOY = load_scenario("experiments/scenarios/deploy.toml")


@pytest.mark.parametrize("seed", (1, 2, 3))
def test_a_phase_until_rest_ends_with_the_last_thing_that_the_deployment_brings_about(
    seed: int,
) -> None:
    phase = Phase(name="deploy", from_ms=60_000, until=PhaseEnd.REST)
    scenario = replace(DEPLOY, world=replace(DEPLOY.world, seed=seed), phases=(phase,))
    recording = record(scenario.world, until_ms=400_000)
    changes = ownership(recording, "group")
    owned = [
        span.to_ms
        for life in partitions_of(recording, "group")
        for span in spans(life, changes)
        if not span.owners
    ]
    last_ms = max(one.to_ms for one in episodes(recording, "group"))
    [span] = run(scenario).phases
    assert span.at_rest
    assert span.until_ms == max(last_ms, *owned) + 1


def test_a_group_with_a_member_that_is_gone_is_not_at_rest_until_it_is_removed() -> None:
    crash = ClientCrash(at_ms=60_000, client="app-03")
    world = replace(DEPLOY.world, faults=(crash,), duration_ms=200_000)
    phases = (Phase(name="crash", from_ms=60_000, until=PhaseEnd.REST),)
    [span] = run(replace(DEPLOY, world=world, phases=phases)).phases
    assert span.at_rest
    session_timeout_ms = world.config.group_consumer_session_timeout_ms
    heartbeat_ms = world.config.group_consumer_heartbeat_interval_ms
    removed_ms = span.until_ms - span.from_ms
    assert removed_ms > session_timeout_ms - heartbeat_ms


def test_a_phase_that_finds_no_rest_ends_where_the_next_one_begins_and_says_so() -> None:
    phases = (
        Phase(name="deploy", from_ms=60_000, until=PhaseEnd.REST),
        Phase(name="after", from_ms=80_000),
    )
    result = run(replace(DEPLOY, phases=phases))
    deploy, after = result.phases
    assert (deploy.until_ms, deploy.at_rest) == (80_000, False)
    assert result.metrics["deploy.at_rest"] == 0
    assert (after.from_ms, after.until_ms, after.at_rest) == (80_000, result.simulated_ms, None)
    assert result.metrics["after.duration_ms"] == result.simulated_ms - 80_000


def test_a_client_that_is_asked_to_close_for_good_is_waited_for() -> None:
    """Until its application is back at ``poll`` it does not know, and nothing else shows it."""
    close = ClientClose(at_ms=60_000, client="app-03")
    clients = tuple(replace(one, processing_ms=3_000) for one in DEPLOY.world.clients)
    world = replace(DEPLOY.world, faults=(close,), clients=clients, duration_ms=200_000)
    phases = (Phase(name="close", from_ms=60_000, until=PhaseEnd.REST),)
    result = run(replace(DEPLOY, world=world, phases=phases))
    [span] = result.phases
    assert span.at_rest
    assert result.metrics["close.leaves_sent"] == 0  # a consumer group leaves by a heartbeat
    assert result.metrics["close.rebalance_episodes"] == 1
    assert result.metrics["close.partition_moves"] >= 2
