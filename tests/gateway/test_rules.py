"""Faults by rule: what is refused, and which requests a rule is applied to."""

from __future__ import annotations

import pytest

import rebalance_sim as rs
from rebalance_sim.gateway.rules import Action, Rule, Rules
from rebalance_sim.gateway.settings import GatewaySettings, load_settings
from rebalance_sim.gateway.wire.frames import APIS, Request
from rebalance_sim.scenarios.codec import decode
from rebalance_sim.scenarios.errors import ScenarioError


def request(api: str = "Heartbeat", client_id: str = "c1", group: str = "g") -> Request:
    return Request(APIS[api], 4, 1, client_id, {"group_id": group})


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({}, "key 'action' is missing"),
        ({"action": "explode"}, "action: no such value"),
        ({"action": "close", "api": "Heartbeet"}, "api: no API 'Heartbeet'; did you mean 'Heartb"),
        ({"action": "close", "nth": 0}, "nth: must be >= 1, got 0"),
        ({"action": "close", "times": -1}, "times: must be >= 0, got -1"),
        (
            {"action": "close", "probability": 0},
            "probability: must be above 0 and at most 1, got 0",
        ),
        ({"action": "close", "probability": 1.1}, "at most 1, got 1.1"),
        ({"action": "delay_answer"}, "delay_ms: the action delay_answer needs delay_ms"),
        ({"action": "close", "delay_ms": 5}, "delay_ms: the action close has no delay_ms"),
        ({"action": "delay_commit", "delay_ms": 10**9}, "delay_ms: must be from 0 to 600000"),
        ({"action": "error", "api": "Heartbeat"}, "error: the action error needs error"),
        ({"action": "close", "error": "NONE"}, "error: the action close has no error"),
        ({"action": "error", "api": "Heartbeat", "error": "NOT_THERE"}, "no error 'NOT_THERE'"),
        ({"action": "error", "api": "Fetch", "error": "NOT_COORDINATOR"}, "api: Fetch is not"),
        ({"action": "close", "lost_records": 2}, "lost_records: the action close loses no"),
        ({"action": "close", "load_ms": 2}, "load_ms: the action close has no load_ms"),
        ({"action": "close", "apis": "Fetch"}, "apis"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_key_and_the_remedy(keys, problem):
    with pytest.raises(ScenarioError) as refused:
        decode(Rule, keys)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("semantics = 'kafka-9'", "no semantics 'kafka-9'"),
        ("defects = ['mut-earl']", "no defect 'mut-earl'; did you mean 'mut-early-grant'?"),
        ("[topics]\norders = 0", "topics.orders: must be from 1 to 10000, got 0"),
        ("[[rules]]\naction = 'close'\nnth = 0", "rules[0].nth: must be >= 1, got 0"),
        ("[coordinator]\ngroup_max_size = 0", "coordinator: group_max_size must be >= 1"),
        ("[[rules]", "is not valid TOML"),
    ],
)
def test_a_file_is_refused_with_its_name_and_the_key(tmp_path, text, problem):
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError) as refused:
        load_settings(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert problem in str(refused.value)


def test_a_file_says_all_that_there_is(tmp_path):
    path = tmp_path / "gateway.toml"
    path.write_text(
        "semantics = 'kafka-4.1'\ndefects = ['mut-early-grant']\n[topics]\norders = 2\n"
        "[coordinator]\ngroup_max_size = 3\n[[rules]]\naction = 'close'\napi = 'Heartbeat'\n"
    )
    settings = load_settings(path)
    assert isinstance(settings, GatewaySettings)
    assert settings.coordinator.group_max_size == 3
    assert settings.rules == (decode(Rule, {"action": "close", "api": "Heartbeat"}),)


def test_a_rule_is_applied_to_the_nth_matching_request_and_so_many_after_it():
    rules = Rules()
    rule = rules.add(action="close", api="Heartbeat", client_id="c*", group="g", nth=2, times=2)
    others = [request("LeaveGroup"), request(client_id="d"), request(group="h")]
    assert [rules.take(one) for one in others] == [None] * 3
    assert [rules.take(request()) for _ in range(5)] == [None, rule, rule, None, None]
    assert rules.hits == [2]


def test_without_an_end_a_rule_is_applied_from_the_nth_request_on():
    rules = Rules()
    rule = rules.add(action="close", nth=2, times=0)
    assert [rules.take(request()) for _ in range(4)] == [None, rule, rule, rule]


def test_a_rule_with_a_probability_is_applied_to_the_share_that_its_seed_draws():
    def taken(seed: int, **keys: object) -> list[bool]:
        rules = Rules(seed=seed)
        rules.add(action="close", api="Heartbeat", probability=0.25, **keys)
        # What is of another API takes no draw away.
        others = Rules(seed=seed)
        others.add(action="close", api="Heartbeat", probability=0.25, **keys)
        drawn = [rules.take(request()) is not None for _ in range(400)]
        for one in drawn:
            assert others.take(request("LeaveGroup")) is None
            assert (others.take(request()) is not None) == one
        assert rules.hits == [sum(drawn)]
        return drawn

    whole = taken(7, times=0)
    assert whole == taken(7, times=0) != taken(8, times=0)
    # 100 expected; a binomial share is that far off once in 100,000 seeds.
    assert 62 < sum(whole) < 138
    first, *_ = [number for number, one in enumerate(whole) if one]
    assert taken(7, times=1) == [number == first for number in range(400)]
    assert not any(taken(7, times=0, nth=50)[:49])


def test_the_first_rule_that_is_due_is_applied_and_all_count():
    rules = Rules()
    first = rules.add(action="close", nth=2)
    second = rules.add(action="silence", nth=1, times=0)
    assert [rules.take(request()) for _ in range(3)] == [second, first, second]


def test_only_who_asks_for_stable_offsets_is_told_that_they_are_not():
    rule = Rule(action=Action.ERROR, api="OffsetFetch", error="UNSTABLE_OFFSET_COMMIT")
    api = APIS["OffsetFetch"]
    asked = Request(api, 7, 1, "c1", {"group_id": "g", "require_stable": True})
    assert rule.matches(asked)
    assert not rule.matches(asked._replace(message={"group_id": "g", "require_stable": False}))
    assert not rule.matches(asked._replace(version=3, message={"group_id": "g"}))


@pytest.mark.parametrize(
    ("act", "kind", "problem"),
    [
        (lambda broker: broker.add_records("none", [b"x"]), KeyError, "there is no topic 'none'"),
        (lambda broker: broker.add_records("orders", ["x"]), TypeError, "bytes, got 'x'"),
        (lambda broker: broker.add_records("orders", [b"x"], 9), IndexError, "and no 9"),
        (lambda broker: broker.set_topic("orders", 2), ValueError, "cannot have fewer"),
        (lambda broker: broker.set_topic("a b", 2), ValueError, "'a b' is no name of a topic"),
        (lambda broker: broker.delete_topic("none"), KeyError, "there are: orders"),
        (lambda broker: broker.move_coordinator(load_ms=-1), ValueError, "are 0 or more"),
    ],
)
def test_what_a_gateway_cannot_do_is_said_in_a_line(act, kind, problem):
    with rs.Gateway(topics={"orders": 4}) as broker:
        with pytest.raises(kind) as refused:
            act(broker)
        assert problem in str(refused.value)
        assert broker._here.topics.counts == {"orders": 4}
        broker.assert_ok()


def test_a_topic_with_a_name_that_is_none_is_refused():
    with pytest.raises(ScenarioError, match=r"^topics\.a b: 'a b' is no name of a topic"):
        rs.Gateway(topics={"a b": 1})
