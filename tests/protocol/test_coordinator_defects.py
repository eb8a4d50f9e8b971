"""Each coordinator defect changes what it says, in a short history made by hand.

The histories follow "Minimal sequence" of docs/reference/defects.md. Without the switch the clean
rules of 4.4 do it right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import test_classic_defects
import test_client_side_defects
import test_kip848_rules
from coordinator_builders import GROUP_ID, Bench, compacted, load, parts

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions.semantics import SEMANTICS, Semantics
from rebalance_sim.protocol.wire.consumer_messages import (
    AlterGroupConfigRequest,
    DeleteGroupsRequest,
)
from rebalance_sim.protocol.wire.errors import ReplayError
from rebalance_sim.protocol.wire.offset_messages import OffsetDeleteRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.transaction_messages import (
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

CLEAN = SEMANTICS["kafka-4.4-clean"]

History = Callable[[Semantics], Any]


def revoking(semantics: Semantics) -> Bench:
    """A is told to give foo-2 to B."""
    bench = Bench(semantics)
    bench.join("A")
    bench.join("B")
    bench.beat("A")
    assert bench.pending("A") == "foo-2"
    return bench


def moved_on(semantics: Semantics) -> Bench:
    """A has given foo-2 to B, and is at epoch 3 where it was at 2."""
    bench = revoking(semantics)
    bench.beat("A", owned="foo[0,1]")
    bench.beat("B")
    assert bench.member("A").member_epoch == 3
    return bench


def revocation_cancelled(semantics: Semantics) -> Bench:
    """B leaves before A has acknowledged, so that A gets foo-2 back."""
    bench = revoking(semantics)
    bench.leave("B")
    bench.beat("A", owned="foo[0,1]")
    return bench


def with_static_seat(semantics: Semantics) -> Bench:
    bench = Bench(semantics, group_consumer_max_size=1)
    bench.join("A", instance_id="i")
    return bench


# -- the histories; each returns what the defect changes -----------------------------------


def cancelled_revocation(semantics: Semantics) -> Any:
    bench = revocation_cancelled(semantics)
    entry = bench.group.epoch_of(next(iter(parts("foo[2]"))))
    bench.join("C")
    return entry, bench.assigned("A"), bench.assigned("C")


def acknowledgement_meets_newer_target(semantics: Semantics) -> Any:
    bench = revoking(semantics)
    bench.join("C")
    bench.beat("A", owned="foo[0,1]")
    bench.beat("A")
    return bench.view("A")


def slow_callback(semantics: Semantics) -> Any:
    bench = revoking(semantics)
    bench.wait(10_000)
    bench.beat("A")
    return bench.timer_at("rebalance", "A")


def topic_of_a_pattern_grows(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A", None, subscribed_topic_regex="f.*")
    bench.wait(0)
    bench.beat("A")
    bench.set_topic("foo", 4)
    bench.beat("A")
    return bench.assigned("A")


def death_after_a_failover(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A")
    bench.shard.restart()
    bench.wait(45_000)
    return bench.state


def rejoin_while_registered(semantics: Semantics) -> Any:
    return moved_on(semantics).join("A").error_code.name


def unsubscribe_while_revoking(semantics: Semantics) -> Any:
    bench = Bench(semantics, topics={"foo": 2, "bar": 2})
    bench.join("A", "foo bar")
    bench.join("B", "foo bar")
    bench.beat("A")
    assert bench.pending("A")
    response = bench.beat("A", topics="foo")
    return sorted({topic for topic, _ in response.assignment or bench.member("A").assigned})


def own_revocation_returned(semantics: Semantics) -> Any:
    return revocation_cancelled(semantics).view("A")


def commit_with_the_old_epoch(semantics: Semantics) -> Any:
    bench = moved_on(semantics)
    return bench.commit("A", 2, {"foo-0": 5})["foo-0"].name


def return_to_a_full_group(semantics: Semantics) -> Any:
    bench = with_static_seat(semantics)
    bench.go_away("A", "i")
    return bench.join("A2", instance_id="i").error_code.name


def lost_response(semantics: Semantics) -> Any:
    return moved_on(semantics).beat("A", owned="foo[0,1]", epoch=2).error_code.name


def lost_static_join(semantics: Semantics) -> Any:
    return with_static_seat(semantics).join("A", instance_id="i").error_code.name


def delayed_commit_of_a_former_owner(semantics: Semantics) -> Any:
    bench = moved_on(semantics)
    bench.commit("B", 3, {"foo-2": 100})
    result = bench.commit("A", 2, {"foo-2": 50})
    return result["foo-2"].name, bench.fetched("foo-2")["foo-2"]


def second_member_joins(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A")
    bench.join("B")
    return bench.assigned("B")


def owner_dies(semantics: Semantics) -> Any:
    bench = moved_on(semantics)
    bench.wait(40_000)
    bench.beat("B")
    bench.wait(5_000)
    bench.beat("B")
    bench.beat("B")
    return bench.view("B").partition(" ")[2]


def leave_then_failover_to_a_compacted_log(semantics: Semantics) -> Any:
    bench = moved_on(semantics)
    bench.leave("A")
    live = bench.assigned("B"), len(bench.group.current_partition_epoch)
    log = compacted(bench.shard.log, keeps_tombstones=False)
    loaded = load(semantics, log, strict=False)
    return live, sorted(loaded.groups_of(ConsumerGroup)["group"].members)


def leave(semantics: Semantics) -> Any:
    bench = moved_on(semantics)
    bench.leave("A")
    bench.beat("B")
    return bench.assigned("B")


def old_offset_of_a_subscribed_topic(semantics: Semantics) -> Any:
    bench = with_old_offset(semantics, "foo")
    return bench.fetched("foo-0")["foo-0"]


def young_offset_of_an_unread_topic(semantics: Semantics) -> Any:
    bench = Bench(semantics, offsets_retention_minutes=20)
    bench.commit("", -1, {"foo-0": 5})
    bench.wait(600_000)
    return bench.fetched("foo-0")["foo-0"]


def with_old_offset(semantics: Semantics, topic: str) -> Bench:
    """An offset of ten minutes ago, where they are kept for one, and a member."""
    bench = Bench(
        semantics,
        offsets_retention_minutes=1,
        group_consumer_max_session_timeout_ms=10_000_000,
        group_consumer_session_timeout_ms=10_000_000,
    )
    bench.commit("", -1, {f"{topic}-0": 5})
    bench.join("A", topic)
    bench.wait(600_000)
    return bench


def offsets_of_a_deleted_group(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A")
    bench.commit("A", 2, {"foo-0": 5})
    bench.leave("A")
    bench.send(DeleteGroupsRequest(group_id=GROUP_ID))
    return bench.fetched("foo-0")["foo-0"]


def in_transaction(semantics: Semantics, member_epoch: int = 2) -> tuple[Bench, Any]:
    """A producer hands in an offset of A, which is at epoch 2; what that is answered."""
    bench = Bench(semantics)
    bench.join("A")
    producer = bench.send(InitProducerIdRequest(transactional_id="t"))
    partition = next(iter(parts("foo[0]")))
    answer = bench.send(
        TxnOffsetCommitRequest(
            group_id=GROUP_ID,
            transactional_id="t",
            producer_id=producer.producer_id,
            producer_epoch=0,
            offsets={partition: 5},
            generation_id=member_epoch,
            member_id="A",
            api_version=5,
        )
    )
    return bench, answer.errors[partition].name


def fetch_of_a_pending_offset(semantics: Semantics, after_ms: int = 0) -> Any:
    bench, _ = in_transaction(semantics)
    bench.wait(after_ms)
    partitions = frozenset(parts("foo[0]"))
    fetch = OffsetFetchRequest(group_id=GROUP_ID, partitions=partitions, require_stable=True)
    return sorted(code.name for code in bench.send(fetch).errors.values())


def fetch_of_what_a_dead_producer_left(semantics: Semantics) -> Any:
    """After its timeout, and the ten seconds in which the coordinator looks."""
    timeout_ms = InitProducerIdRequest(transactional_id="t").transaction_timeout_ms
    return fetch_of_a_pending_offset(semantics, timeout_ms + 10_000)


def successor_of_an_open_transaction(semantics: Semantics) -> Any:
    bench, _ = in_transaction(semantics)
    bench.send(InitProducerIdRequest(transactional_id="t"))
    bench.wait(1)
    return bench.fetched("foo-0")["foo-0"]


def marker_of_an_older_coordinator(semantics: Semantics) -> Any:
    """The second comes from a coordinator that the first one's has followed."""
    bench, _ = in_transaction(semantics)
    markers = (
        WriteTxnMarkersRequest(
            group_id=GROUP_ID,
            producer_id=1_000_001,
            producer_epoch=1,
            committed=True,
            coordinator_epoch=epoch,
        )
        for epoch in (1, 0)
    )
    return [bench.send(marker).error_code.name for marker in markers]


def transaction_at_an_old_epoch(semantics: Semantics) -> Any:
    return in_transaction(semantics, member_epoch=1)[1]


def offset_deleted_before_a_failover(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.commit("", -1, {"foo-0": 5})
    partitions = frozenset(parts("foo[0]"))
    bench.send(OffsetDeleteRequest(group_id=GROUP_ID, partitions=partitions))
    bench.restart()
    return bench.fetched("foo-0")["foo-0"]


def offsets_of_a_topic_created_anew(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A")
    bench.commit("A", 2, {"foo-0": 5})
    bench.set_topic("foo", 3, topic_id="again")
    bench.wait(0)
    return bench.fetched("again-0")["again-0"]


def fetch_at_an_old_epoch(semantics: Semantics) -> Any:
    return moved_on(semantics).fetch("foo-0", member_id="A", member_epoch=2).error_code.name


def interval_is_altered(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A")
    configs = {"consumer.heartbeat.interval.ms": 6_000}
    bench.send(AlterGroupConfigRequest(group_id=GROUP_ID, configs=configs))
    return bench.beat("A").heartbeat_interval_ms


def topic_grows(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A")
    bench.set_topic("foo", 4)
    bench.beat("A")
    return bench.assigned("A")


def heartbeat_of_an_old_epoch(semantics: Semantics) -> Any:
    bench = moved_on(semantics)
    bench.set_topic("foo", 4)
    bench.settle()
    return bench.beat("A", owned="", epoch=2).error_code.name


def previous_epoch_with_a_lost_partition(semantics: Semantics) -> Any:
    return moved_on(semantics).beat("A", owned="foo[0-2]", epoch=2).error_code.name


def vote_changes(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A", server_assignor="uniform")
    bench.beat("A", server_assignor="range")
    return bench.epochs


def last_member_leaves(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A")
    bench.leave("A")
    return bench.epochs


def instance_id_changes(semantics: Semantics) -> Any:
    """Clean rules let no member change it (PR-23542)."""
    bench = Bench(semantics.with_defects("PR-23542"))
    bench.join("A", instance_id="i")
    bench.join("A", instance_id="j")
    return sorted(bench.group.static_members)


def single_votes_tie(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A", server_assignor="uniform")
    bench.join("B", server_assignor="range")
    for _ in range(3):
        bench.beat("A")
        bench.beat("B")
    return bench.epochs[0]


def pattern_joins_while_a_leave_waits(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("B")
    bench.join("C")
    bench.leave("C")
    bench.join("A", None, subscribed_topic_regex="f.*")
    return bench.target("B")


def load_of_a_compacted_log(semantics: Semantics) -> Any:
    """A has come and gone: an epoch record comes first, then tombstones of somebody unknown."""
    bench, other = Bench(semantics), Bench(semantics)
    bench.join("A")
    bench.leave("A")
    log = compacted(bench.shard.log, keeps_tombstones=True)
    other.join("B")
    tombstones = [record for record in log if record.value is None]
    after_b = [*other.shard.log, *tombstones]
    return outcome_of_load(semantics, log), outcome_of_load(semantics, after_b)


def load_of_offsets_before_their_group(semantics: Semantics) -> Any:
    bench = Bench(semantics)
    bench.join("A")
    bench.commit("A", 2, {"foo-0": 1})
    log = sorted(bench.shard.log, key=lambda record: record.type_id != 1)
    return outcome_of_load(semantics, log)


def outcome_of_load(semantics: Semantics, log: list[Record]) -> str:
    try:
        loaded = load(semantics, log, strict=False)
    except ReplayError as error:
        return f"fails: {error}"
    return f"loads {sorted(loaded.groups_of(ConsumerGroup))}"


ALL = "foo-0 foo-1 foo-2"

HISTORIES: dict[str, tuple[History, Any, Any]] = {
    "KAFKA-16147": (cancelled_revocation, (4, ALL, ""), (-1, ALL, "foo-2")),
    "KAFKA-16168": (offsets_of_a_topic_created_anew, -1, 5),
    "KAFKA-16249-ack": (
        acknowledgement_meets_newer_target,
        "2/2 UNREVOKED foo-0 (foo-1)",
        "2/2 UNREVOKED foo-0 foo-1 (foo-2)",
    ),
    "KAFKA-16249-timer": (slow_callback, 50_000, 60_000),
    "KAFKA-17306": (
        load_of_a_compacted_log,
        ("loads ['group']", "loads ['group']"),
        ("fails: group group does not exist", "fails: group group has no member A"),
    ),
    "KAFKA-18916": (topic_of_a_pattern_grows, ALL + " foo-3", ALL),
    "KAFKA-18931": (death_after_a_failover, "Empty", "Stable"),
    "KAFKA-19233": (rejoin_while_registered, "NONE", "FENCED_MEMBER_EPOCH"),
    "KAFKA-19431": (unsubscribe_while_revoking, [], ["bar"]),
    "KAFKA-19449": (own_revocation_returned, f"4/2 STABLE {ALL}", "4/2 UNRELEASED foo-0 foo-1"),
    "KAFKA-20066": (commit_with_the_old_epoch, "NONE", "STALE_MEMBER_EPOCH"),
    "KAFKA-20254": (
        load_of_offsets_before_their_group,
        "loads ['group']",
        "fails: group group is not a consumer group",
    ),
    "KAFKA-20434": (vote_changes, (3, 3), (2, 2)),
    "KAFKA-20442": (last_member_leaves, (3, 3), (3, 2)),
    "KAFKA-20747": (instance_id_changes, ["j"], ["i", "j"]),
    "KAFKA-20601": (return_to_a_full_group, "NONE", "GROUP_MAX_SIZE_REACHED"),
    "KIP-848-lost-response": (lost_response, "NONE", "FENCED_MEMBER_EPOCH"),
    "PR-23542": (lost_static_join, "NONE", "UNRELEASED_INSTANCE_ID"),
    "mut-commit-no-fence": (
        delayed_commit_of_a_former_owner,
        ("STALE_MEMBER_EPOCH", 100),
        ("NONE", 50),
    ),
    "mut-abort-keeps-offsets": (successor_of_an_open_transaction, -1, 5),
    "mut-fetch-shows-pending": (fetch_of_a_pending_offset, ["UNSTABLE_OFFSET_COMMIT"], []),
    "mut-old-marker-counts": (
        marker_of_an_older_coordinator,
        ["NONE", "TRANSACTION_COORDINATOR_FENCED"],
        ["NONE", "NONE"],
    ),
    "mut-txn-never-times-out": (
        fetch_of_what_a_dead_producer_left,
        [],
        ["UNSTABLE_OFFSET_COMMIT"],
    ),
    "mut-txn-commit-no-fence": (transaction_at_an_old_epoch, "ILLEGAL_GENERATION", "NONE"),
    "mut-config-at-load": (interval_is_altered, 6_000, 5_000),
    "mut-delete-keeps-offsets": (offsets_of_a_deleted_group, -1, 5),
    "mut-early-grant": (second_member_joins, "", "foo-2"),
    "mut-expire-early": (young_offset_of_an_unread_topic, 5, -1),
    "mut-expire-keeps-ownership": (owner_dies, f"STABLE {ALL}", "UNRELEASED foo-2"),
    "mut-expire-subscribed": (old_offset_of_a_subscribed_topic, 5, -1),
    "mut-fetch-no-fence": (fetch_at_an_old_epoch, "STALE_MEMBER_EPOCH", "NONE"),
    "mut-load-revives-offsets": (offset_deleted_before_a_failover, -1, 5),
    "mut-no-assignment-tombstone": (
        leave_then_failover_to_a_compacted_log,
        (("foo-2", 1), ["B"]),
        (("foo-2", 1), ["A", "B"]),
    ),
    "mut-no-bump-on-leave": (leave, ALL, "foo-2"),
    "mut-no-bump-on-metadata": (topic_grows, ALL + " foo-3", ALL),
    "mut-no-epoch-fence": (heartbeat_of_an_old_epoch, "FENCED_MEMBER_EPOCH", "NONE"),
    "mut-prev-epoch-any": (previous_epoch_with_a_lost_partition, "FENCED_MEMBER_EPOCH", "NONE"),
    "tied-assignor-votes": (single_votes_tie, 3, 6),
    "sim-stale-subscription-type": (pattern_joins_while_a_leave_waits, ALL, ""),
}
"""Name -> history, what comes of it by the clean rules, what comes of it with the defect."""


def test_every_defect_of_a_coordinator_has_its_history() -> None:
    """Those of classic groups, migration, the KIP's text and client-side assignors stand in tables
    of their own; known issues of classic groups are shown by their scenarios, with and without the
    repair."""
    tables = (
        HISTORIES,
        test_classic_defects.HISTORIES,
        test_client_side_defects.HISTORIES,
        test_kip848_rules.HISTORIES,
    )
    named = {name for table in tables for name in table}
    assert {name for name in named if not name.startswith("classic-")} == {
        defect.id
        for defect in DEFECTS.values()
        if any(issubclass(MigrationRules, rule.__bases__[0]) for rule in defect.rules)
        and not defect.id.startswith("classic-")
    }


@pytest.mark.parametrize("name", HISTORIES)
def test_the_defect_shows_with_its_switch_and_not_without(name: str) -> None:
    history, right, wrong = HISTORIES[name]
    assert history(CLEAN) == right
    assert history(CLEAN.with_defects(name)) == wrong


# -- versions ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", SEMANTICS)
@pytest.mark.parametrize("name", DEFECTS)
def test_every_name_can_be_switched_on_in_every_version(version: str, name: str) -> None:
    before = SEMANTICS[version]
    after = before.with_defects(name)
    assert after.defects == (name,)
    assert (after.name, after.shipped_defects) == (before.name, before.shipped_defects)
    assert before.defects == ()
    bench = Bench(after)
    bench.join("A")
    bench.wait(0)
    bench.join("A")
    assert bench.shard.coordinator.semantics == after.of_both
    assert bench.assigned("A") == ALL


def test_defects_add_up() -> None:
    both = CLEAN.with_defects("mut-early-grant").with_defects("KAFKA-20066", "mut-no-epoch-fence")
    assert both.defects == ("KAFKA-20066", "mut-early-grant", "mut-no-epoch-fence")
    assert second_member_joins(both) == "foo-2"
    assert heartbeat_of_an_old_epoch(both) == "NONE"
    assert commit_with_the_old_epoch(both) == "STALE_MEMBER_EPOCH"


def test_a_defect_that_is_shipped_changes_nothing_when_switched_on() -> None:
    version = SEMANTICS["kafka-4.1"]
    assert version.with_defects("KAFKA-20066").coordinator is version.coordinator


def test_what_4_3_shipped_with_shows_in_it() -> None:
    version = SEMANTICS["kafka-4.3"]
    shipped = set(version.shipped_defects) & set(HISTORIES)
    assert shipped
    for name in sorted(shipped):
        history, _, wrong = HISTORIES[name]
        assert history(version) == wrong


@pytest.mark.parametrize("name", ["", "KAFKA-1", "kafka-16147"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"no defect {name!r}; "):
        SEMANTICS["kafka-4.3"].with_defects(name)


def test_a_class_with_many_defects_is_named_after_the_rules() -> None:
    for version in SEMANTICS.values():
        everything = version.with_defects(*DEFECTS)
        assert everything.coordinator.__name__ == "MigrationRulesWithChanges"
        assert everything.member.__name__ == "MemberRulesWithChanges"
