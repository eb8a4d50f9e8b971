"""Each defect of classic groups, migration and load shows in a short history, and without its
switch it does not.

The histories follow "Minimal sequence" of docs/reference/defects.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from classic_builders import GROUP_ID, ClassicBench, codes, spelled, subscription
from coordinator_builders import load as loaded_from

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.versions.semantics import SEMANTICS, Semantics
from rebalance_sim.protocol.wire.errors import ErrorCode, ReplayError
from rebalance_sim.protocol.wire.records import OffsetCommit, Record

CLEAN = SEMANTICS["kafka-4.3-clean"]

History = Callable[[Semantics], Any]

LOAD_DEFECTS = ("KAFKA-17306", "KAFKA-20254")


# -- classic groups ------------------------------------------------------------------------


def no_one_syncs_but_heartbeats_go_on(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics).stable("A", rebalance_ms=5_000)
    bench.send_join("A", rebalance_ms=5_000)
    for _ in range(20):
        bench.wait(1_000)
        bench.beat("A")
    return bench.state.value


def first_join_is_retried_without_an_id(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics).stable("A")
    for _ in range(3):
        bench.send_join("B", member_id="")
    return len(bench.group.members)


def static_member_returns_before_the_assignment(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    bench.join("A")
    bench.send_join("B", instance="i")
    bench.send_join("A")
    assert codes(bench.joined("B")) == [ErrorCode.NONE]
    old_share = {"A": (0, 1), "B": (2, 3)}
    back = bench.send_join("B2", instance="i")
    bench.sync("A", give=old_share)
    bench.synced("A")
    if back is None:
        bench.send_join("A")
        assert codes(bench.joined("B2")) == [ErrorCode.NONE]
        bench.sync("A", give={"A": (0, 1), "B2": (2, 3)})
    share: Any = bench.sync("B2", instance="i")
    return spelled(share.assignment)


def static_member_returns_with_more_patience(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics).stable("A", rebalance_ms=5_000, instance="i")
    bench.send_join("A2", rebalance_ms=20_000, instance="i")
    return bench.group.max_rebalance_timeout_ms


def pending_id_expires_during_a_rebalance(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics).stable("A", rebalance_ms=60_000)
    bench.send_join("B", session_ms=2_000)
    bench.send_join("A", rebalance_ms=60_000)
    bench.wait(2_000)
    return codes(bench.joined("A"))


def pending_id_leaves_during_a_rebalance(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics).stable("A", rebalance_ms=60_000)
    bench.send_join("B")
    bench.send_join("A", rebalance_ms=60_000)
    bench.leave("B")
    return codes(bench.joined("A"))


# -- migration -----------------------------------------------------------------------------


def classic_static_member_is_upgraded(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics).stable("A", instance="i")
    return bench.consume("X", instance_id="i").error_code.name


def last_static_seat_becomes_classic(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    bench.consume("X", instance_id="i")
    bench.send_join("A", instance="i")
    return "classic" if GROUP_ID in bench.shard.coordinator.groups_of(ClassicGroup) else "consumer"


def last_static_seat_becomes_classic_with_another_topic(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    bench.consume("X", instance_id="i")
    bench.send_join("A", instance="i", metadata=subscription(["foo", "bar"]))
    return bench.state.value


def last_static_seat_becomes_classic_after_another_member_left(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    bench.consume("X", instance_id="i")
    bench.consume("Y")
    bench.consume("Y", -1)
    bench.send_join("A", instance="i")
    return bench.state.value


def conversion_before_the_first_sync(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    bench.join("A")
    assert bench.state is ClassicGroupState.COMPLETING_REBALANCE
    return bench.consume("X").error_code.name


def classic_member_is_silent_after_the_conversion(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics).stable("A", session_ms=10_000)
    bench.consume("X")
    return bench.due_ms("session", "A")


def classic_member_commits_with_an_old_generation(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    bench.consume("X")
    bench.join("A")
    return bench.commit_offset("A", 1).name


def static_member_is_upgraded_in_an_unchanged_group(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics).stable("A", instance="i")
    bench.consume("X", instance_id="i")
    return bench.consumers.group_epoch - 1


def conversion_between_join_and_sync(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    bench.join("A")
    bench.join("B", protocols=("sticky", "range"))
    bench.send_join("A")
    [told] = [answer.protocol_name for answer in (bench.joined("B"),) if answer]
    bench.consume("X")
    return codes(bench.sync("B", generation=2, protocol=told))


def conversion_back_between_join_and_sync(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    bench.consume("X")
    bench.join("A")
    joined = bench.join("B", protocols=("sticky", "range"))
    assert joined is not None
    bench.consume("X", -1)
    return codes(bench.sync("B", generation=joined.generation_id, protocol=joined.protocol_name))


def classic_member_joins_under_a_disabled_policy(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics, group_consumer_migration_policy="disabled")
    bench.consume("X")
    return codes(bench.join("A"))


# -- load ----------------------------------------------------------------------------------


def compacted(records: list[Record], *, drop: Callable[[Record], bool]) -> list[Record]:
    """What compaction leaves: the last record of each key, and not the tombstones to drop."""
    newest = {(type(r), _key(r)): r for r in records}
    return [r for r in records if newest[type(r), _key(r)] is r and not drop(r)]


def _key(record: Record) -> tuple[str, ...]:
    parts = [record.group_id, getattr(record, "member_id", "")]
    if isinstance(record, OffsetCommit):
        parts += [record.topic, str(record.partition)]
    return tuple(parts)


def load(semantics: Semantics, records: list[Record]) -> str:
    coordinator = ClassicBench(semantics).shard.coordinator
    try:
        for record in records:
            coordinator.replay(record, strict=False)
    except ReplayError:
        return "the load fails"
    coordinator.on_loaded(now_ms=0)
    return f"{len(coordinator.groups_of(ConsumerGroup))} groups"


def nothing(record: Record) -> bool:
    return False


def load_of_a_log_that_begins_with_tombstones(semantics: Semantics) -> Any:
    bench = ClassicBench(CLEAN)
    bench.consume("X")
    bench.consume("X", -1)
    return load(semantics, compacted(list(bench.shard.log), drop=nothing))


def load_of_offsets_that_outlived_a_classic_group(semantics: Semantics) -> Any:
    bench = ClassicBench(CLEAN).stable("A")
    bench.commit_offset("A", 1)
    bench.consume("X")
    is_old_tombstone = lambda r: type(r).__name__ == "GroupMetadata"  # noqa: E731
    return load(semantics, compacted(list(bench.shard.log), drop=is_old_tombstone))


def classic_member_goes_on_as_a_consumer(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    bench.consume("X")
    bench.join("A", rebalance_ms=3_000)
    member_id = bench.id("A")
    epoch = bench.consumers.members[member_id].member_epoch
    bench.consume(member_id, epoch)
    bench.wait(3_000)
    return member_id in bench.consumers.members


def protocol_type_after_a_load(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics).stable("A")
    bench.leave("A")
    loaded = loaded_from(semantics, bench.shard.log, strict=False)
    return loaded.groups_of(ClassicGroup)[GROUP_ID].protocol_type


def unread_offset_during_a_rebalance(semantics: Semantics) -> Any:
    bench = ClassicBench(
        semantics, offsets_retention_minutes=1, offsets_retention_check_interval_ms=70_000
    )
    bench.commit_offset("", -1)
    patient: dict[str, Any] = {"session_ms": 200_000, "rebalance_ms": 200_000}
    bench.stable("A", "B", metadata=subscription(["bar"]), **patient)
    bench.send_join("A", **patient)
    assert bench.state is ClassicGroupState.PREPARING_REBALANCE
    bench.wait(70_000)
    stored = bench.shard.coordinator.offsets.of_group(GROUP_ID)
    return [value.offset for value in stored.values()]


def classic_member_in_the_place_of_a_pattern(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    pattern = {"subscribed_topic_names": None, "subscribed_topic_regex": "f.*"}
    bench.consume("X", instance_id="i", **pattern)
    bench.consume("Y")
    bench.join("A", instance="i")
    return bench.consumers.members[bench.id("A")].subscribed_topic_regex


def session_of_a_synced_member(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics)
    bench.join("A", session_ms=10_000)
    bench.wait(2_000)
    bench.sync("A", give={"A": (0,)})
    return bench.due_ms("classic-session", "A")


def silent_static_leader(semantics: Semantics) -> Any:
    bench = ClassicBench(semantics).stable("A", instance="i", rebalance_ms=5_000)
    bench.send_join("B", rebalance_ms=5_000)
    bench.send_join("B", rebalance_ms=5_000)
    bench.wait(5_000)
    return bench.name(bench.group.leader_id)


HISTORIES: dict[str, tuple[History, Any, Any]] = {
    "KAFKA-6421": (protocol_type_after_a_load, "consumer", None),
    "KAFKA-13636": (unread_offset_during_a_rebalance, [5], []),
    "KAFKA-19720": (classic_member_in_the_place_of_a_pattern, "", "f.*"),
    "KAFKA-14009": (static_member_returns_with_more_patience, 20_000, 5_000),
    "PR-16290": (classic_member_is_silent_after_the_conversion, 10_000, 45_000),
    "PR-451": (session_of_a_synced_member, 12_000, 10_000),
    "mut-silent-leader": (silent_static_leader, "B", "A"),
    "sim-kept-timers": (classic_member_goes_on_as_a_consumer, True, False),
    "KAFKA-12890": (no_one_syncs_but_heartbeats_go_on, "Empty", "CompletingRebalance"),
    "KAFKA-7824": (first_join_is_retried_without_an_id, 1, 4),
    "KAFKA-9801": (static_member_returns_before_the_assignment, [2, 3], []),
    "KAFKA-7909": (pending_id_expires_during_a_rebalance, [ErrorCode.NONE], [None]),
    "KAFKA-17228": (classic_static_member_is_upgraded, "NONE", "UNRELEASED_INSTANCE_ID"),
    "KAFKA-17317": (last_static_seat_becomes_classic, "classic", "consumer"),
    "KAFKA-19546": (
        last_static_seat_becomes_classic_with_another_topic,
        "PreparingRebalance",
        "Stable",
    ),
    "KAFKA-20273": (
        last_static_seat_becomes_classic_after_another_member_left,
        "PreparingRebalance",
        "Stable",
    ),
    "KAFKA-17733": (conversion_before_the_first_sync, "NONE", "GROUP_ID_NOT_FOUND"),
    "classic-forgotten-assignor": (
        conversion_between_join_and_sync,
        [ErrorCode.REBALANCE_IN_PROGRESS],
        [ErrorCode.INCONSISTENT_GROUP_PROTOCOL],
    ),
    "PR-16145": (
        classic_member_commits_with_an_old_generation,
        "ILLEGAL_GENERATION",
        "STALE_MEMBER_EPOCH",
    ),
    "KAFKA-18687": (static_member_is_upgraded_in_an_unchanged_group, 0, 1),
    "KAFKA-20640": (
        classic_member_joins_under_a_disabled_policy,
        [ErrorCode.INCONSISTENT_GROUP_PROTOCOL],
        [ErrorCode.NONE],
    ),
    "KAFKA-17306": (load_of_a_log_that_begins_with_tombstones, "1 groups", "the load fails"),
    "KAFKA-20254": (load_of_offsets_that_outlived_a_classic_group, "1 groups", "the load fails"),
}
"""Name -> history, what comes of it by the clean rules, what comes of it with the defect."""


@pytest.mark.parametrize("name", HISTORIES)
def test_the_defect_shows_with_its_switch_and_not_without(name: str) -> None:
    history, right, wrong = HISTORIES[name]
    assert history(CLEAN) == right
    assert history(CLEAN.with_defects(name)) == wrong


def test_a_pending_id_that_leaves_is_the_same_defect_as_one_that_expires() -> None:
    assert pending_id_leaves_during_a_rebalance(CLEAN) == [ErrorCode.NONE]
    assert pending_id_leaves_during_a_rebalance(CLEAN.with_defects("KAFKA-7909")) == [None]


def test_a_conversion_back_forgets_assignors_as_an_upgrade_does() -> None:
    forgetful = CLEAN.with_defects("classic-forgotten-assignor")
    assert conversion_back_between_join_and_sync(CLEAN) == [ErrorCode.REBALANCE_IN_PROGRESS]
    refused = [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert conversion_back_between_join_and_sync(forgetful) == refused


@pytest.mark.parametrize("name", LOAD_DEFECTS)
def test_a_defect_of_the_load_does_not_show_in_live_operation(name: str) -> None:
    bench = ClassicBench(CLEAN.with_defects(name))
    bench.commit_offset("", -1)
    bench.stable("A", "B")
    bench.commit_offset("A", bench.generation)
    bench.consume("X")
    bench.join("A", metadata=subscription(generation=2))
    bench.consume("X", -1)
    bench.leave("A", "B")
    assert bench.state is ClassicGroupState.EMPTY
