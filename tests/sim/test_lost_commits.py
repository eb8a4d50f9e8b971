"""Committed records are lost: by an unclean election, and with the host of the last in-sync
replica. The group goes back in time, and nearly every property is judged as before."""

from __future__ import annotations

from worlds import Watched, client, spec

from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.sim.faults.log_tail_loss import LogTailLoss
from rebalance_sim.sim.faults.unclean_election import UncleanElection
from rebalance_sim.sim.spec import BrokerSpec, DelaySpec


def test_an_unclean_election_takes_a_group_back_in_time() -> None:
    fault = UncleanElection(at_ms=32_000, duration_ms=5_000, lost_batches=4)
    watched = Watched(spec(client("a"), client("b", start_ms=30_000), faults=(fault,)))
    watched.advance_to(31_999)
    epoch = watched.group().group_epoch
    assert {watched.state("a"), watched.state("b")} == {"STABLE"}
    watched.advance_to(32_030)
    old, new = (broker.replicas[0] for broker in watched.world.brokers[:2])
    assert watched.world.acting_shard() is new.shard
    assert 0 not in watched.world.controller.partitions[0].in_sync
    assert watched.group().group_epoch < epoch
    assert watched.checkers["group"].model.went_back_at_step is not None
    assert old.log.end_offset > new.log.end_offset
    watched.run()
    assert old.log.records == new.log.records
    assert watched.world.controller.partitions[0].in_sync == [0, 1, 2]
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))
    assert watched.fetchable("a") and watched.fetchable("b")


def test_what_a_lost_tail_lacks_is_fetched_from_the_replicas_that_were_in_sync() -> None:
    fault = LogTailLoss(at_ms=32_000, duration_ms=5_000, lost_batches=4)
    watched = Watched(spec(client("a"), client("b", start_ms=30_000), faults=(fault,)))
    watched.advance_to(31_999)
    replicas = [broker.replicas[0] for broker in watched.world.brokers]
    end = replicas[0].log.end_offset
    watched.advance_to(36_999)
    assert replicas[0].log.end_offset < end
    watched.advance_to(38_000)
    assert watched.world.controller.partitions[0].leader is watched.world.brokers[1]
    assert replicas[0].log.records == replicas[1].log.records
    result = watched.run()
    assert replicas[1].log.end_offset >= end
    assert result.metrics["fences"] == 0
    assert watched.checkers["group"].model.went_back_at_step is None


def test_the_lost_tail_of_the_only_replica_takes_a_group_back_in_time() -> None:
    brokers = BrokerSpec(count=1, load=DelaySpec(min_ms=20), metadata=DelaySpec(min_ms=5))
    fault = LogTailLoss(at_ms=32_000, duration_ms=5_000, lost_batches=4)
    watched = Watched(
        spec(client("a"), client("b", start_ms=30_000), faults=(fault,), brokers=brokers)
    )
    watched.run()
    assert watched.checkers["group"].model.went_back_at_step is not None
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_a_batch_is_lost_as_a_whole() -> None:
    fault = UncleanElection(at_ms=32_000, duration_ms=5_000, lost_batches=2)
    watched = Watched(spec(client("a"), client("b", start_ms=30_000), faults=(fault,)))
    watched.advance_to(31_999)
    old = watched.world.brokers[0].replicas[0].log
    starts = list(old.batches)
    watched.advance_to(32_001)
    assert watched.world.brokers[1].replicas[0].log.end_offset == starts[-2]


def test_a_grant_that_is_lost_is_told_from_what_the_group_has_held_since() -> None:
    fault = UncleanElection(at_ms=44_000, duration_ms=5_000, lost_batches=1)
    watched = Watched(spec(client("a"), client("b", start_ms=30_000), faults=(fault,)))
    watched.advance_to(43_999)
    model = watched.checkers["group"].model
    before = {name: model.clients[name].member_id for name in ("a", "b")}
    granted = set(model.clients["b"].member.fetchable)
    assert granted and not any(model.is_from_lost_commit(before["b"], p) for p in granted)
    watched.advance_to(44_030)
    assert model.went_back_at_step is not None
    held = set(watched.group().members[before["a"]].assigned)
    assert held and not any(model.is_from_lost_commit(before["a"], p) for p in held)
    assert all(model.is_from_lost_commit(before["b"], p) for p in granted)
    watched.run()
    for client_entry in model.clients.values():
        for partition in client_entry.member.fetchable:
            assert not model.is_from_lost_commit(client_entry.member_id, partition)


def test_few_properties_are_not_judged_after_that() -> None:
    """A client keeps what it had at an epoch that is lost, which others get, and which comes
    again; and positions go back to what is still committed."""
    assert {known.id for known in PROPERTIES if not known.outlives_lost_commits} == {
        "client.start.committed",
        "cross.assigned_is_held",
        "cross.current_fits_target",
        "offsets.commit_of_owner",
        "transactions.exactly_once",
        "transactions.one_record_for_each",
    }
