"""Clients that report are judged by what can be seen from outside, at once, and with the requests
and reports that led to it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from real_clients import consumer, gateway, share, until

import rebalance_sim as rs
from rebalance_sim.conformance.record.wire import Connection


class Reporter:
    """Lines to a gateway, of one client."""

    def __init__(self, broker: rs.Gateway, client_id: str, **about: str) -> None:
        host, port = broker.bootstrap.split(":")
        self._about = {"group": "g", "library": "librdkafka", "protocol": "consumer"}
        self._about |= {"client_id": client_id, **about}
        self._socket = socket.create_connection((host, int(port)))
        self._answers = self._socket.makefile()

    def tell(self, event: str, **more: Any) -> str:
        return self.line(json.dumps({**self._about, "event": event, **more}))

    def line(self, text: str) -> str:
        self._socket.sendall(text.encode() + b"\n")
        return self._answers.readline().strip()

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def found(broker: rs.Gateway) -> set[str]:
    return {one.violation.violation.property.id for one in broker.violations}


@pytest.fixture
def broker() -> Iterator[rs.Gateway]:
    with gateway() as made:
        made.add_records("orders", [b"row"] * 8)
        yield made


@pytest.mark.parametrize(
    ("reports", "violated"),
    [
        ([("assigned", {"partitions": {"orders": [0]}})], set()),
        (
            [
                ("assigned", {"partitions": {"orders": [0]}}),
                ("polled", {"records": [["orders", 0, 0, 2]]}),
                ("revoked", {"partitions": {"orders": [0]}}),
                ("assigned", {"partitions": {"orders": [0]}}),
            ],
            set(),
        ),
        ([("assigned", {"partitions": {"orders": [0]}})] * 2, {"client.callback.balance"}),
        (
            [
                ("assigned", {"partitions": {"orders": [0]}}),
                ("revoked", {"partitions": {"orders": [0]}}),
                ("revoked", {"partitions": {"orders": [0]}}),
            ],
            {"client.callback.balance"},
        ),
        ([("polled", {"records": [["orders", 1, 0, 2]]})], {"client.deliver.owned"}),
        (
            [
                ("assigned", {"partitions": {"orders": [0]}}),
                ("polled", {"records": [["orders", 0, 0, 99]]}),
            ],
            {"client.deliver.owned"},
        ),
        (
            [("committing", {"commit_id": 1}), ("committed", {"commit_id": 1})],
            set(),
        ),
        ([("committed", {"commit_id": 1})], {"client.commit.reported"}),
    ],
)
def test_reports_that_contradict_each_other_are_found(broker, reports, violated):
    reporter = Reporter(broker, "c")
    assert reporter.tell("started") == "ok"
    assert [reporter.tell(event, **more) for event, more in reports] == ["ok"] * len(reports)
    assert found(broker) == violated
    for one in broker.violations:
        assert f"c reports\n  {{'group_id': 'g', 'event': '{reports[-1][0]}'" in str(one)
    reporter.tell("stopped")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_commits_and_starts_are_judged_of_either_protocol(broker, protocol):
    def reporter(name: str) -> Reporter:
        one = Reporter(broker, name, protocol=protocol)
        assert one.tell("started", auto_offset_reset="earliest") == "ok"
        return one

    def polls(*rows: list[object]) -> set[str]:
        """What is found by the time that it polls: a commit is judged at its next report."""
        told.tell("polled", records=rows)
        return found(broker)

    def commits(number: int, offset: int) -> None:
        asked = TopicPartition("orders", number, offset)
        client.commit(offsets=[asked], asynchronous=False)

    client, told = consumer(broker, protocol, client_id="c"), reporter("c")
    share([client], 4)
    told.tell("assigned", partitions={"orders": [0]})
    polls(["orders", 0, 0, 1])
    commits(0, 1)
    assert polls() == set()
    commits(1, 0)  # By its reports this is not its own.
    assert polls() == {"client.commit.owned"}
    commits(0, 2)
    assert polls() == {"client.commit.owned", "client.commit.processed"}
    client.close()
    told.tell("stopped")
    client, told = consumer(broker, protocol, client_id="d"), reporter("d")
    share([client], 4)
    told.tell("assigned", partitions={"orders": [0]})
    assert "client.start.committed" in polls(["orders", 0, 0, 1])
    assert "client.deliver.owned" in polls(["orders", 3, 0, 1])
    client.close()
    told.tell("stopped")


def test_a_partition_that_is_not_given_up_is_found_three_times(broker):
    reporters = [Reporter(broker, f"c{number}") for number in range(2)]
    for one in reporters:
        assert one.tell("started", auto_offset_reset="earliest") == "ok"
    clients = [consumer(broker, "consumer", client_id="c0")]
    share(clients, 4)
    reporters[0].tell("assigned", partitions={"orders": [0, 1, 2, 3]})
    clients.append(consumer(broker, "consumer", client_id="c1"))
    share(clients, 2, 2)
    # The first has not told that anything was revoked: to its application it has all four.
    assert found(broker) == {"client.revoke_before_ack", "cross.assigned_is_held"}
    own = [one.partition for one in clients[1].assignment()]
    reporters[1].tell("assigned", partitions={"orders": own})
    assert "cross.exclusive_consumption" in found(broker)
    for client in clients:
        client.close()


def test_closing_the_connections_of_clients_leaves_that_of_a_reporter_alone(broker):
    reporter = Reporter(broker, "c")
    # Connected, and nothing said yet: whose it is, is not known.
    until(lambda: len(broker._here._connections) == 1)
    broker.close_connections("*")
    assert reporter.tell("started") == "ok"
    broker.close_connections("*")
    assert reporter.tell("assigned", partitions={}) == "ok"


def test_a_request_that_comes_after_its_sender_gave_it_up_is_not_in_flight(broker):
    # Later than librdkafka waits for it: its interval, which it looks at once a second.
    broker.rules.add(api="ConsumerGroupHeartbeat", nth=3, action="delay_request", delay_ms=2_000)
    reporter = Reporter(broker, "c")
    reporter.tell("started", auto_offset_reset="earliest")
    client = consumer(broker, "consumer", client_id="c")
    share([client], 4)
    reporter.tell("assigned", partitions={"orders": [*range(4)]})
    exchanges = broker._here._exchanges

    def goes_on_after_it() -> bool:
        client.poll(0.05)
        sent = [one for one in exchanges if one.api == "ConsumerGroupHeartbeat"]
        late = [number for number, one in enumerate(sent) if one.fault]
        return bool(late) and sent[-1].at_ms > sent[late[0]].at_ms + 3_000

    until(goes_on_after_it)
    broker.assert_ok()
    client.close()


def test_what_is_owed_is_told_and_waited_for(broker):
    reporter = Reporter(broker, "c")
    reporter.tell("started", auto_offset_reset="earliest")
    assert [one.property.id for one in broker.unsettled("g")] == ["liveness.converges"]
    client = consumer(broker, "consumer", client_id="c")
    share([client], 4)
    numbers = range(4)
    reporter.tell("assigned", partitions={"orders": [*numbers]})
    with pytest.raises(AssertionError, match=r"client\.deliver\.all: c fetches"):
        broker.assert_settled("g", within_s=0.3)
    reporter.tell("polled", records=[["orders", number, 0, 2] for number in numbers])
    broker.assert_settled("g")
    broker.add_records("orders", [b"more"], partition=3)
    assert "hands nothing out" in str(broker.unsettled("g")[0])
    reporter.tell("polled", records=[["orders", 3, 2, 3]])
    broker.assert_settled("g")
    client.close()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "no JSON: "),
        ('{"event": "polled", "client_id": "x"}', "client_id 'x' has not started"),
        ('{"event": 3}', "event must be a text, got 3"),
        (
            '{"event": "started", "client_id": "c", "group": "g"}',
            "protocol must be a text, got None",
        ),
        (
            '{"event": "started", "client_id": "c", "group": "g", "protocol": "x"}',
            "protocol is classic or consumer",
        ),
    ],
)
def test_a_report_that_is_none_is_answered_with_what_is_wrong(broker, line, problem):
    reporter = Reporter(broker, "c")
    assert reporter.line(line).startswith(problem)
    assert reporter.tell("started") == "ok"


@pytest.mark.parametrize(
    ("event", "more", "problem"),
    [
        ("asigned", {}, "no event 'asigned': one of started, assigned"),
        ("started", {}, "client_id 'c' has started already"),
        ("assigned", {"partitions": [1]}, "partitions must be an object"),
        ("assigned", {"partitions": {"none": [0]}}, "there is no topic 'none'"),
        ("assigned", {"partitions": {"orders": [-1]}}, "a partition must be a number from 0"),
        ("polled", {"records": [["orders", 0, 1]]}, "records has rows of topic, partition"),
        ("committed", {"commit_id": 1, "error": "NO"}, "no error 'NO'"),
    ],
)
def test_an_event_that_makes_no_sense_is_refused_in_a_line(broker, event, more, problem):
    reporter = Reporter(broker, "c")
    reporter.tell("started")
    assert reporter.tell(event, **more).startswith(problem)
    broker.assert_ok()


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_leave_that_was_lost_may_be_repeated_and_no_other(broker, is_lost):
    """As franz-go does."""
    reporter = Reporter(broker, "c")
    reporter.tell("started")
    if is_lost:
        broker.rules.add(api="ConsumerGroupHeartbeat", nth=2, action="lose_answer")
    host, port = broker.bootstrap.split(":")
    named = {"group_id": "g", "member_id": "m"}
    join = {**named, "member_epoch": 0, "rebalance_timeout": 60_000, "topic_partitions": []}
    leave = {**named, "member_epoch": -1}
    first, second = (Connection((host, int(port)), "c") for _ in range(2))
    first.call("ConsumerGroupHeartbeat", 1, {**join, "subscribed_topic_names": ["orders"]})
    first.send("ConsumerGroupHeartbeat", 1, leave)
    until(lambda: not broker.members("g"))
    first.close()
    second.call("ConsumerGroupHeartbeat", 1, leave)
    assert found(broker) == (set() if is_lost else {"client.leave.once"})
    second.close()
