"""Real clients: they join, read everything, commit and leave, whatever the gateway does to them."""

from __future__ import annotations

import asyncio
import json

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from real_clients import consumer, gateway, read, share, until

from rebalance_sim.conformance.broker_replay import replay_broker_trace
from rebalance_sim.conformance.broker_trace import load_broker_trace

PROTOCOLS = ["classic", "consumer"]
ROWS = [b"%d" % number for number in range(40)]
ALL = {("orders", number): 10 for number in range(4)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_librdkafka_joins_reads_commits_and_leaves(protocol):
    with gateway() as broker:
        broker.add_records("orders", ROWS)
        client = consumer(broker, protocol)
        assert read([client], 40) == set(ROWS)
        until(lambda: broker.committed("g") == ALL)
        assert broker.state("g") == "Stable"
        client.close()
        until(lambda: not broker.members("g"))
        broker.assert_ok()


def test_kafka_python_joins_reads_commits_and_leaves():
    from kafka import KafkaConsumer

    with gateway() as broker:
        broker.add_records("orders", ROWS)
        client = KafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        seen: set[bytes] = set()

        def poll() -> bool:
            for rows in client.poll(1_000).values():
                seen.update(row.value for row in rows)
            return len(seen) == 40

        until(poll)
        client.commit()
        assert broker.committed("g") == ALL
        client.close()
        until(lambda: not broker.members("g"))
        broker.assert_ok()


def test_aiokafka_joins_reads_commits_and_leaves():
    from aiokafka import AIOKafkaConsumer

    async def consume(bootstrap: str) -> set[bytes]:
        client = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await client.start()
        seen: set[bytes] = set()
        while len(seen) < 40:
            for rows in (await client.getmany(timeout_ms=1_000)).values():
                seen.update(row.value for row in rows)
        await client.commit()
        await client.stop()
        return seen

    with gateway() as broker:
        broker.add_records("orders", ROWS)
        assert asyncio.run(asyncio.wait_for(consume(broker.bootstrap), 30)) == set(ROWS)
        assert broker.committed("g") == ALL
        until(lambda: not broker.members("g"))
        broker.assert_ok()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_session_of_several_clients_replays_as_a_trace(protocol, tmp_path):
    with gateway() as broker:
        clients = [consumer(broker, protocol, client_id=f"c{number}") for number in range(3)]
        share(clients, 1, 1, 2)
        broker.add_records("orders", ROWS)
        read(clients, 40)
        broker.set_topic("orders", 6)
        share(clients, 2, 2, 2)
        clients.pop().close()
        share(clients, 3, 3)
        broker.move_coordinator()
        broker.add_records("orders", [b"more"] * 6)
        read(clients, 1)
        for client in clients:
            client.close()
        until(lambda: not broker.members("g"))
        broker.assert_ok()
        path = tmp_path / "g.json"
        path.write_text(json.dumps(broker.trace("g")))
    report = replay_broker_trace(load_broker_trace(path))
    assert report.first_difference is None
    assert report.responses_total > 20
    assert report.batches_total > 10


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "rule",
    [
        {"action": "close_after"},
        {"action": "lose_answer", "delay_ms": 1_000},
        {"action": "silence", "delay_ms": 1_000},
        {"action": "delay_answer", "delay_ms": 1_000},
        {"action": "delay_request", "delay_ms": 1_000},
        {"action": "delay_commit", "delay_ms": 1_000},
        {"action": "error", "error": "NOT_COORDINATOR"},
        {"action": "move_coordinator", "load_ms": 500},
    ],
    ids=lambda rule: rule["action"],
)
def test_every_action_on_a_commit_is_survived(protocol, rule):
    with gateway() as broker:
        broker.add_records("orders", ROWS)
        broker.rules.add(api="OffsetCommit", group="g", **rule)
        client = consumer(broker, protocol, enable_auto_commit=True, auto_commit_interval_ms=100)
        assert read([client], 40) == set(ROWS)
        until(lambda: client.poll(0.05) is None and broker.committed("g") == ALL)
        assert broker.rules.hits == [1]
        client.close()
        broker.assert_ok()


def test_a_delayed_commit_is_shown_when_it_is_committed():
    with gateway() as broker:
        broker.add_records("orders", ROWS)
        client = consumer(broker, "consumer")
        broker.rules.add(api="OffsetCommit", action="delay_commit", delay_ms=2_000)
        until(lambda: (client.poll(0.05) or client.poll(0.05)) is not None)
        offset = confluent_kafka.TopicPartition("orders", 0, 7)
        client.commit(offsets=[offset], asynchronous=True)
        until(lambda: client.poll(0.05) is None and bool(broker.rules.hits[0]))
        assert broker.committed("g") == {}
        until(lambda: broker.committed("g") == {("orders", 0): 7})
        client.close()
        broker.assert_ok()


def test_a_defect_of_the_coordinator_is_found_while_clients_use_it():
    with gateway(defects=["mut-early-grant"]) as broker:
        told: list[object] = []
        broker.on_violation(told.append)
        clients = [consumer(broker, "consumer")]
        share(clients, 4)
        clients.append(consumer(broker, "consumer"))
        # The first has no time to give anything up, and the second gets it all the same.
        until(lambda: clients[1].poll(0.02) is None and bool(broker.violations))
        assert told == list(broker.violations)
        with pytest.raises(AssertionError, match="ConsumerGroupHeartbeat"):
            broker.assert_ok()
        for client in clients:
            client.close()


def test_administrators_see_and_change_what_there_is():
    with gateway() as broker:
        broker.add_records("orders", ROWS)
        client = consumer(broker, "consumer")
        read([client], 40)
        until(lambda: broker.committed("g") == ALL)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (row,) = admin.list_consumer_groups().result().valid
        assert row.group_id == "g"
        described = admin.describe_consumer_groups(["g"])["g"].result()
        assert len(described.members[0].assignment.topic_partitions) == 4
        admin.create_topics([NewTopic("new", 3, 1)])["new"].result()
        admin.create_partitions([NewPartitions("new", 5)])["new"].result()
        assert len(admin.list_topics("new").topics["new"].partitions) == 5
        admin.delete_topics(["new"])["new"].result()
        asked = confluent_kafka.ConsumerGroupTopicPartitions("g")
        stored = admin.list_consumer_group_offsets([asked])["g"].result().topic_partitions
        assert {(one.topic, one.partition): one.offset for one in stored} == ALL
        client.close()
        until(lambda: not broker.members("g"))
        admin.delete_consumer_groups(["g"])["g"].result()
        assert broker.state("g") == ""
        broker.assert_ok()


def test_a_producer_is_served():
    with gateway() as broker:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True}
        )
        producer.produce("orders", b"by a producer", partition=2)
        assert producer.flush(20) == 0
        client = consumer(broker, "classic")
        assert read([client], 1) == {b"by a producer"}
        client.close()
        broker.assert_ok()
