"""Small scopes, explored to the end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.explore.actions import Doing
from rebalance_sim.scenarios.explore.explored import Explored
from rebalance_sim.scenarios.explore.explorer import Explorer
from rebalance_sim.scenarios.explore.judge import CALL_PROPERTIES, NEED_HISTORY
from rebalance_sim.scenarios.explore.member_states import ABSENT
from rebalance_sim.scenarios.explore.scenario_of import scenario_of
from rebalance_sim.scenarios.explore.scope import GROUP, Disturbance, Scope
from rebalance_sim.scenarios.explore.state_facts import STATE_PROPERTIES
from rebalance_sim.scenarios.explore.verdict import describe
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import parse_scenario

_LOST = (Disturbance.CONNECTION_LOST,)


def explored(scope: Scope) -> Explored:
    return Explorer(scope).run()


def test_the_undisturbed_scope_is_clean() -> None:
    result = explored(Scope(max_disturbances=0))
    assert not result.cut_off
    assert result.paths == []
    assert (result.progress.states, result.progress.depth) == (5_367, 33)


def test_a_lost_connection_breaks_nothing() -> None:
    result = explored(Scope(disturbances=_LOST))
    assert not result.cut_off
    assert result.paths == []
    assert result.progress.states > 37_000


_ENDS = (Disturbance.CLOSE, Disturbance.CRASH, Disturbance.SESSION_TIMEOUT)


def test_a_static_member_may_leave_and_come_back() -> None:
    result = explored(Scope(members=1, disturbances=_ENDS, instances=("x",), returns=True))
    assert not result.cut_off
    assert result.paths == []


def test_a_static_member_may_be_replaced_by_another_one() -> None:
    explorer = Explorer(Scope(disturbances=_ENDS, instances=("x", "x"), returns=True))
    result = explorer.run()
    assert not result.cut_off
    assert result.paths == []
    assert _held_after_a_replacement(explorer) == 0b11


def _held_after_a_replacement(explorer: Explorer) -> int:
    """What ``b`` holds when ``a`` has left for a while, and ``b`` has come instead."""
    state = explorer.first
    for doing, who in (
        (Doing.START, "a"),
        (Doing.POLL, "a"),
        (Doing.HANDLED, "a"),
        (Doing.ANSWERED, "a"),
        (Doing.CLOSE, "a"),
        (Doing.START, "b"),
        (Doing.POLL, "b"),
        (Doing.HANDLED, "a"),
        (Doing.HANDLED, "b"),
    ):
        step = next(one for one in explorer.steps(state) if one.action[:2] == (doing, who))
        assert step.state is not None, step
        state = step.state
    members = explorer.coordinator.facts(explorer.unpack(state).coordinator).members
    assert list(members) == ["member-b"]
    return members["member-b"].held


@pytest.mark.parametrize(
    ("defect", "property_id", "steps"),
    [("PR-23542", "refusal.cause", 6), ("KAFKA-20601", "refusal.cause", 10)],
)
def test_known_issues_of_static_members_are_reached(
    defect: str, property_id: str, steps: int
) -> None:
    scope = Scope(
        disturbances=(Disturbance.CRASH, Disturbance.CONNECTION_LOST),
        defects=(defect,),
        instances=("x", "y"),
        returns=True,
        full=True,
    )
    explorer = Explorer(scope)
    path = explorer.run(stops_at_first=True).paths[0]
    assert path.finding.property == property_id
    assert len(path.actions) == steps
    assert scenario_of(explorer, path).is_confirmed


@pytest.mark.parametrize(
    ("kinds", "states", "depth"),
    [
        (("eager", "eager"), 3_010, 38),
        (("cooperative", "cooperative"), 8_746, 56),
        (("eager", "consumer"), 11_383, 44),
    ],
)
def test_the_undisturbed_scope_of_classic_members_is_clean(
    kinds: tuple[str, ...], states: int, depth: int
) -> None:
    result = explored(Scope(kinds=kinds, max_disturbances=0))
    assert not result.cut_off
    assert result.paths == []
    assert (result.progress.states, result.progress.depth) == (states, depth)


@pytest.mark.parametrize(
    ("defect", "property_id"),
    [
        ("classic-early-conversion", "refusal.server_error"),
        ("classic-unseen-growth", "conversion.topics_known"),
    ],
)
def test_known_issues_of_conversions_are_reached(defect: str, property_id: str) -> None:
    scope = Scope(kinds=("eager", "consumer"), defects=(defect,), max_disturbances=0)
    explorer = Explorer(scope)
    path = explorer.run(stops_at_first=True).paths[0]
    assert path.finding.property == property_id
    assert len(path.actions) == 9
    assert scenario_of(explorer, path).is_confirmed


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_the_whole_scope_is_clean() -> None:
    result = explored(Scope())
    assert not result.cut_off
    assert result.paths == []
    assert result.progress.states > 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "scope",
    [
        Scope(disturbances=_LOST, auto_commit=True),
        Scope(disturbances=_LOST, assignment_interval=True),
        Scope(disturbances=_LOST, slow_lookups=True),
        Scope(max_disturbances=0, slow_metadata=True),
        Scope(kinds=("cooperative", "cooperative"), max_disturbances=0, slow_metadata=True),
        Scope(disturbances=_LOST, partitions=2),
        Scope(max_disturbances=0, topics=3, semantics="kafka-4.1-clean"),
        Scope(disturbances=_ENDS, topics=1, instances=("x", "y"), returns=True, full=True),
        Scope(disturbances=_ENDS, topics=1, instances=("x", "x"), returns=True, max_disturbances=2),
        Scope(disturbances=(Disturbance.CRASH,), topics=1, returns=True),
        Scope(kinds=("eager", "eager")),
        Scope(kinds=("cooperative", "cooperative"), disturbances=_LOST),
    ],
)
def test_a_wider_scope_is_clean(scope: Scope) -> None:
    result = explored(scope)
    assert not result.cut_off
    assert result.paths == []


@pytest.mark.slow
def test_with_late_metadata_nothing_has_to_go_wrong_for_d12() -> None:
    """A member acknowledges the topic that it knows, and takes the other one over meanwhile."""
    scope = Scope(semantics="kafka-4.3", max_disturbances=0, slow_metadata=True)
    path = Explorer(scope).run(stops_at_first=True).paths[0]
    assert path.finding.property == "cross.assigned_is_held"
    assert len(path.actions) == 13
    assert {action.doing for action in path.actions} >= {Doing.METADATA, Doing.CALLBACK_DONE}
    repaired = Explorer(replace(scope, repairs=("D12",))).run(max_states=40_000)
    assert repaired.paths == []


def test_an_early_grant_takes_six_steps() -> None:
    explorer = Explorer(Scope(max_disturbances=0, defects=("mut-early-grant",)))
    paths = {path.finding.property: path for path in explorer.run().paths}
    path = paths["coordinator.exclusive_ownership"]
    assert [str(action) for action in path.actions] == [
        "a starts",
        "a polls",
        "the coordinator handles a request of a",
        "b starts",
        "b polls",
        "the coordinator handles a request of b",
    ]


def test_d12_takes_thirteen_steps_and_its_scenario_shows_it() -> None:
    explorer = Explorer(Scope(disturbances=_LOST, defects=("D12",)))
    paths = {path.finding.property: path for path in explorer.run().paths}
    path = paths["cross.assigned_is_held"]
    assert len(path.actions) == 13
    assert Doing.LOST in {action.doing for action in path.actions}

    concrete = scenario_of(explorer, path)
    assert concrete.is_confirmed
    result = run(parse_scenario(concrete.text()), prove=Prove.NONE)
    assert "cross.assigned_is_held" in {row.property for row in result.violations}
    world = replace(concrete.scenario.world, defects=(), quiet_period_ms=None)
    assert run(replace(concrete.scenario, world=world)).outcome == "ok"


@pytest.mark.slow
def test_d12_needs_no_lost_connection() -> None:
    scope = Scope(disturbances=(Disturbance.SESSION_TIMEOUT,), defects=("D12",))
    explorer = Explorer(scope)
    path = explorer.run(stops_at_first=True).paths[0]
    assert path.finding.property == "cross.assigned_is_held"
    assert len(path.actions) == 20
    assert scenario_of(explorer, path).is_confirmed


def test_a_bound_cuts_the_search_off_and_the_verdict_says_so() -> None:
    result = Explorer(Scope()).run(max_states=3_000)
    assert result.cut_off == "more than 3,000 states"
    assert result.progress.frontier > 0
    words = "\n".join(describe(result))
    assert words.startswith("cut off: 2 members, 2 topics of 1 partition")
    assert "states were still to be seen" in words


def test_memory_and_time_cut_it_off_too() -> None:
    assert "MB of memory" in Explorer(Scope()).run(max_memory_mb=1).cut_off
    assert "seconds" in Explorer(Scope()).run(max_seconds=0.0).cut_off


def test_numbers_that_would_not_fit_cut_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalance_sim.scenarios.explore.explorer.NODE_LIMIT", 500)
    result = Explorer(Scope()).run()
    assert result.cut_off == "500 states of one member and its connection"


def test_two_searches_of_one_scope_are_the_same() -> None:
    first, second = (explored(Scope(disturbances=(Disturbance.CRASH,))) for _ in range(2))
    assert first.progress.states == second.progress.states
    assert first.transitions == second.transitions


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"members": 0}, "members"),
        ({"topics": 13}, "topics"),
        ({"topics": 4, "partitions": 4}, "partitions"),
        ({"max_disturbances": 4}, "max_disturbances"),
        ({"semantics": "kafka-9"}, "semantics"),
        ({"defects": ("no-such",)}, "semantics"),
        ({"instances": ("x", "y", "z")}, "instances"),
        ({"kinds": ("eager", "eager", "eager")}, "kinds"),
        ({"kinds": ("egaer",)}, "kinds"),
    ],
)
def test_a_scope_that_is_not_small_is_refused(fields: dict[str, object], place: str) -> None:
    with pytest.raises(ScenarioError, match=place):
        Scope(**fields)  # type: ignore[arg-type]


def test_the_properties_are_those_of_runs() -> None:
    ids = {one.id for one in PROPERTIES}
    assert set(STATE_PROPERTIES) <= ids
    assert ids >= NEED_HISTORY
    assert len(CALL_PROPERTIES) > 30


class _Client:
    is_alive = True

    def __init__(self, name: str, member: object) -> None:
        self.name = name
        self.member = member


class _View:
    """A state of the whole as a ``WorldView``."""

    group_id = GROUP
    has_data_plane = False
    now_ms = 0

    def __init__(self, explorer: Explorer, state: int) -> None:
        whole = explorer.unpack(state)
        self.config = explorer.scope.config
        self.semantics = explorer.scope.rules
        self._shard = explorer.coordinator.shard_at(whole.coordinator)
        self._clients = {}
        for nodes, number in zip(explorer.nodes, whole.nodes, strict=True):
            member = nodes.node(number).member
            if member != ABSENT and not nodes.members.has_ended(member):
                self._clients[nodes.name] = _Client(nodes.name, nodes.members.thawed(member))

    def acting_shard(self) -> object:
        return self._shard

    def clients(self) -> dict[str, _Client]:
        return self._clients


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize(
    ("defects", "kinds"),
    [
        (("D12",), ()),
        (("mut-client-rejoins-before-lost",), ()),
        (("mut-client-rejoins-before-lost",), ("consumer", "eager")),
    ],
)
def test_bits_say_what_the_properties_say(defects: tuple[str, ...], kinds: tuple[str, ...]) -> None:
    explorer = Explorer(
        Scope(
            disturbances=(Disturbance.CONNECTION_LOST, Disturbance.SESSION_TIMEOUT),
            defects=defects,
            kinds=kinds,
        )
    )
    judged = set(STATE_PROPERTIES) - {"cross.current_fits_target"}
    states = _walked(explorer, count=12, steps=60)
    found = set()
    for state in states:
        view = _View(explorer, state)
        violated = set(_violated(view))
        said = explorer.look_at(state)
        if said is None or said.property not in judged:
            assert not violated, (state, violated)
        else:
            assert said.property in violated
            found.add(said.property)
    assert view.acting_shard().coordinator.groups_of(ConsumerGroup) is not None  # type: ignore[attr-defined]
    assert found


def _violated(view: _View) -> Iterator[str]:
    """The properties that this state violates, by their sentences."""
    shard: Any = view.acting_shard()
    group: Any = shard.coordinator.groups_of(ConsumerGroup).get(GROUP)
    if group is None:
        group = shard.coordinator.groups_of(ClassicGroup).get(GROUP)
    present: dict[TopicPartition, list[bool]] = {}
    for client in view.clients().values():
        member = client.member
        is_classic = member.kind in CLASSIC_KINDS
        if is_classic and member.assigned:
            classic = member.classic
            if classic.is_rebalancing and not classic.is_cooperative:
                yield "classic.eager_revokes_first"
        stored = None if group is None else group.members.get(member.member_id)
        if stored is None:
            continue
        is_consumer_group = isinstance(group, ConsumerGroup)
        epoch = stored.member_epoch if is_consumer_group else group.generation_id
        if not 0 < member.member_epoch == epoch:
            continue
        for partition in member.fetchable:
            present.setdefault(partition, []).append(is_classic)
        if is_consumer_group and not is_classic:
            held = stored.assigned.keys() | stored.pending_revocation.keys()
            if not member.assigned.keys() <= held:
                yield "cross.assigned_is_held"
    for kinds in present.values():
        if len(kinds) > 1:
            yield f"{'classic' if any(kinds) else 'cross'}.exclusive_consumption"


def _walked(explorer: Explorer, *, count: int, steps: int) -> set[int]:
    """States on some random ways, and on the ways to what is found."""
    draw = random.Random(7)
    states = {explorer.first}
    for _ in range(count):
        state = explorer.first
        for _ in range(steps):
            after = [step.state for step in explorer.steps(state) if step.state is not None]
            if not after:
                break
            state = draw.choice(after)
            states.add(state)
    for path in explorer.run(max_states=60_000).paths:
        states.update(path.states)
        last = [step.state for step in explorer.steps(path.states[-1])]
        states.update(one for one in last[:5] if one is not None)
    return states
