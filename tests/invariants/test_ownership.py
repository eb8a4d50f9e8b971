"""Who holds a partition: what a finding says, and what is no breach."""

from __future__ import annotations

from dataclasses import replace

from coordinator_world import GROUP, ORDERS, CoordinatorWorld
from falsified_coordinator import current, parts_of, settled

from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.records import ConsumerGroupCurrentMemberAssignment
from rebalance_sim.protocol.wire.topics import TopicPartition


def write_for(world: CoordinatorWorld, member_id: str, record, owned) -> None:
    """A record as if this heartbeat of the member had written it."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, member_epoch=3, topic_partitions=owned
    )
    world.write(record, request=request, response=world.heartbeat(member_id, 3))


def test_a_finding_names_the_partition_and_both_holders():
    """To read it needs no log."""
    world = settled()
    mine, others = parts_of(world, "a"), parts_of(world, "b")
    world.write(current("b", 3, [*others, mine[0]]))
    assert world.first.property.id == "coordinator.exclusive_ownership"
    assert world.first.detail == f"orders-{mine[0]} went to b while a held it (STABLE)"


def test_the_full_check_finds_a_second_holder_that_was_never_written():
    """It compares the coordinator's members with those of the log."""
    world = settled()
    everything = dict.fromkeys(sorted(p for m in world.group.members.values() for p in m.assigned))
    world.group.members["b"] = replace(
        world.group.members["b"], assigned=dict.fromkeys(everything, 3)
    )
    world.checker.check_fully(world.show("fault"))
    assert "log.replay_equivalence" in world.violated


def test_a_heartbeat_without_an_owned_list_releases_nothing():
    """coordinator C9."""
    world = settled()
    mine = parts_of(world, "a")
    write_for(world, "a", current("a", 3, mine[1:]), None)
    assert "coordinator.release_is_acknowledged" in world.violated


def test_an_owned_list_without_the_partition_releases_it():
    """The other half of coordinator C9."""
    world = settled()
    mine = parts_of(world, "a")
    kept = frozenset(TopicPartition(ORDERS.topic_id, n) for n in mine[1:])
    write_for(world, "a", current("a", 3, mine[1:]), kept)
    assert "coordinator.release_is_acknowledged" not in world.violated


def test_a_grant_of_a_topic_that_is_not_subscribed_is_found():
    """defects S6, on a falsified outcome."""

    def with_payments(outcome: Outcome) -> Outcome:
        payments = {TopicPartition("id-payments", 0): 4}
        records = tuple(
            replace(r, value=replace(r.value, assigned=payments))
            if isinstance(r, ConsumerGroupCurrentMemberAssignment)
            else r
            for r in outcome.records
        )
        return replace(outcome, records=records)

    world = settled()
    world.join("c", change=with_payments)
    assert "coordinator.subscribed_only" in world.violated
