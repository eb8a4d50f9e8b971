"""State is what the log says: random histories of a shard (coordinator §9.2, §9.3, §14.1)."""

from __future__ import annotations

import re
from typing import Any

from committed_state import assert_reads_and_reverts_at_every_batch
from coordinator_builders import (
    GROUP_ID,
    Bench,
    compacted,
    load,
    recount,
    shorthand,
    state_of,
    text,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.consumer_messages import (
    AlterGroupConfigRequest,
    DeleteGroupsRequest,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetDeleteRequest
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition

members = st.sampled_from("ABCDE")
instances = st.sampled_from(["own", "own", "own", "own", None, "i"])
"""D and E are static: ``own`` is their instance id, and None for the others."""
OWN_INSTANCES = {"D": "i", "E": "j"}
subscriptions = st.sampled_from(["foo", "bar", "foo bar", "foo bar", "foo bar", "nowhere foo", ""])
patterns = st.sampled_from([None, None, None, None, "", "f.*", "(?i)FOO"])
rarely = st.sampled_from([False, False, False, False, True])
assignors = st.sampled_from([None, None, "uniform", "range"])
durations_ms = st.sampled_from([0, 0, 0, 1, 400, 1_000, 1_000, 10_001, 25_000])

ORDERS = re.compile(
    r"""(2†\ )?(8†\ 7†\ 5†\ 5\ 7\ 8\ )?(5\ )?(16†\ )?(3\ )?((7\ )*6\ )?(8\ )*   # a heartbeat
    | 8†\ 7†\ 5†\ (16†\ )?3\ (6\ |(8\ )*)                                    # a member goes
    | (16\ )+(3\ )?                                                          # patterns resolved
    | (1\ )+                                                                 # a commit
    | ((1†\ )*(6†\ 4†\ 3†\ |2†\ )?)*                                         # deleting, expiring
    """,
    re.VERBOSE,
)
"""coordinator §9.2; the further 8 of the KIP's rules are those promoted by a release."""


class RandomHistory(RuleBasedStateMachine):
    """Requests of clients that behave, of some that do not, and whatever else befalls a shard."""

    def __init__(self) -> None:
        super().__init__()
        self.script: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.epoch_known: dict[str, int] = {}
        self.epochs_seen = (0, 0)
        self.batches_seen = 0
        self.next_topic_id = 2

    @initialize(
        version=st.sampled_from(sorted(SEMANTICS)),
        interval_ms=st.sampled_from([0, 1_000]),
        max_size=st.sampled_from([3, 100]),
    )
    def start(self, version: str, interval_ms: int, max_size: int) -> None:
        self.setting = {
            "semantics": version,
            "topics": {"foo": 3, "bar": 2},
            "group_consumer_assignment_interval_ms": interval_ms,
            "group_consumer_max_size": max_size,
        }
        self.bench = Bench(**self.setting)
        for member_id in "ABD":
            self.join(member_id, "foo bar", None, "own", None, False)

    def do(self, name: str, *args: Any, **fields: Any) -> Any:
        self.script.append((name, args, fields))
        return getattr(self.bench, name)(*args, **fields)

    def received(self, member_id: str, response: Any, is_lost: bool) -> None:
        assert response.error_code is not ErrorCode.UNKNOWN_SERVER_ERROR
        if response.error_code is ErrorCode.NONE and not is_lost:
            self.epoch_known[member_id] = response.member_epoch

    def has_group(self) -> bool:
        return GROUP_ID in self.bench.shard.coordinator.groups_of(ConsumerGroup)

    def present(self) -> list[str]:
        return sorted(self.bench.group.members) if self.has_group() else []

    # -- clients ---------------------------------------------------------------------------

    @rule(
        member_id=members,
        topics=subscriptions,
        regex=patterns,
        instance_id=instances,
        assignor=assignors,
        is_lost=rarely,
    )
    def join(
        self,
        member_id: str,
        topics: str,
        regex: str | None,
        instance_id: str | None,
        assignor: str | None,
        is_lost: bool,
    ) -> None:
        response = self.do(
            "join",
            member_id,
            topics,
            subscribed_topic_regex=regex,
            instance_id=own(member_id, instance_id),
            server_assignor=assignor,
            rebalance_timeout_ms=20_000,
        )
        self.received(member_id, response, is_lost)

    @rule(revokers=st.frozensets(members), loser=st.none() | members)
    def everybody_beats(self, revokers: frozenset[str], loser: str | None) -> None:
        for member_id in self.present():
            self.beat(member_id, member_id in revokers, member_id == loser)

    @rule(member_id=members, has_revoked=st.booleans(), is_lost=rarely)
    def beat(self, member_id: str, has_revoked: bool, is_lost: bool) -> None:
        """A client as it should be, perhaps still busy with a revocation."""
        if member_id not in self.present():
            return
        member = self.bench.member(member_id)
        owned = set(member.assigned) | (set() if has_revoked else set(member.pending_revocation))
        epoch = self.epoch_known.get(member_id, 0)
        if epoch < 1:
            self.join(
                member_id, " ".join(member.subscribed_topic_names), None, "own", None, is_lost
            )
            return
        response = self.do(
            "beat",
            member_id,
            owned=as_list(owned),
            epoch=epoch,
            instance_id=own(member_id, "own"),
        )
        if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch_known.pop(member_id, None)
        self.received(member_id, response, is_lost)

    @rule(member_id=members, topics=subscriptions, regex=patterns)
    def subscribe(self, member_id: str, topics: str, regex: str | None) -> None:
        epoch = self.epoch_known.get(member_id, 0)
        if epoch < 1:
            return
        response = self.do(
            "beat",
            member_id,
            epoch=epoch,
            topics=topics,
            subscribed_topic_regex=regex,
            instance_id=own(member_id, "own"),
        )
        self.received(member_id, response, is_lost=False)

    @rule(
        member_id=members,
        epoch=st.integers(0, 8),
        owned=st.none() | st.sampled_from(["", "foo[0]", "foo[0-2] bar[0,1]"]),
        topics=st.none() | subscriptions,
        regex=patterns,
        instance_id=instances,
    )
    def beat_anything(
        self,
        member_id: str,
        epoch: int,
        owned: str | None,
        topics: str | None,
        regex: str | None,
        instance_id: str | None,
    ) -> None:
        fields: dict[str, Any] = {} if topics is None else {"topics": topics}
        response = self.do(
            "beat",
            member_id,
            owned=owned,
            epoch=epoch,
            instance_id=own(member_id, instance_id),
            subscribed_topic_regex=regex,
            **fields,
        )
        self.received(member_id, response, is_lost=True)

    @rule(member_id=members, instance_id=instances, is_for_good=st.booleans())
    def go(self, member_id: str, instance_id: str | None, is_for_good: bool) -> None:
        if member_id not in self.present():
            return
        instance_id = own(member_id, instance_id)
        if is_for_good or instance_id is None:
            self.do("leave", member_id, instance_id)
        else:
            self.do("go_away", member_id, instance_id)
        self.epoch_known.pop(member_id, None)

    @rule(
        member_id=members,
        lag=st.integers(0, 2),
        partition=st.sampled_from(["foo-0", "foo-2", "bar-1", "bar-7"]),
    )
    def commit(self, member_id: str, lag: int, partition: str) -> None:
        epoch = self.epoch_known.get(member_id, -1)
        self.do("commit", member_id, max(epoch - lag, -1), {partition: lag})
        self.do("fetch", partition, member_id=member_id, member_epoch=epoch)

    # -- everything else -------------------------------------------------------------------

    @rule(duration_ms=durations_ms)
    def wait(self, duration_ms: int) -> None:
        self.do("wait", duration_ms)

    @rule(name=st.sampled_from(["foo", "foo", "bar", "Foo2"]), is_recreated=st.booleans())
    def change_topic(self, name: str, is_recreated: bool) -> None:
        """Create it, let it grow, and once it is large delete it."""
        topic = self.bench.shard.coordinator.image.by_name.get(name)
        self.next_topic_id += 1
        new_id = f"{name}{self.next_topic_id}"
        if topic is None:
            self.do("set_topic", name, 2, topic_id=new_id)
        elif topic.partition_count < 5:
            count = topic.partition_count + 1
            self.do("set_topic", name, count, topic_id=topic.topic_id)
        elif is_recreated:
            self.do("set_topic", name, 2, topic_id=new_id)
        else:
            self.do("delete_topic", name)

    @rule(what=st.sampled_from(["restart", "restart", "alter", "delete", "expire"]))
    def administer(self, what: str) -> None:
        if what == "restart":
            self.do("restart")
        elif what == "alter":
            configs = {"consumer.session.timeout.ms": 50_000 if len(self.script) % 2 else None}
            self.do("send", AlterGroupConfigRequest(group_id=GROUP_ID, configs=configs))
        elif what == "expire":
            self.do("wait", 600_000)
        else:
            partitions = frozenset({TopicPartition("foo", 0), TopicPartition("bar", 1)})
            self.do("send", OffsetDeleteRequest(group_id=GROUP_ID, partitions=partitions))
            self.do("send", ListGroupsRequest())
            self.do("describe")
            self.do("send", DeleteGroupsRequest(group_id=GROUP_ID))

    # -- what always holds -----------------------------------------------------------------

    @invariant()
    def a_replay_of_the_log_gives_the_same_state(self) -> None:
        """coordinator C18, in live strictness and as a load."""
        live = state_of(self.bench.shard.coordinator)
        for strict in (True, False):
            replayed = load(self.bench.semantics, self.bench.shard.log, strict=strict)
            assert state_of(replayed) == live

    @invariant()
    def derived_state_equals_a_recount(self) -> None:
        """coordinator C1, C3, C12, C14, C15."""
        for group in self.bench.shard.coordinator.groups_of(ConsumerGroup).values():
            counted = recount(group)
            assert counted.pop("state") == group.state.value
            assert {name: getattr(group, name) for name in counted} == counted
            holds = [len(m.assigned) + len(m.pending_revocation) for m in group.members.values()]
            assert sum(holds) == len(group.current_partition_epoch)
            assert sum(map(len, group.target_assignment.values())) == len(group.inverted_target)

    @invariant()
    def properties_hold(self) -> None:
        """coordinator C2, C5, C6, C13."""
        for group in self.bench.shard.coordinator.groups_of(ConsumerGroup).values():
            assert group.target_assignment.keys() <= group.members.keys()
            for member in group.members.values():
                assert member.assigned.keys().isdisjoint(member.pending_revocation)
                assert -2 <= member.member_epoch <= group.target_assignment_epoch
                if member.pending_revocation:
                    assert member.state is MemberState.UNREVOKED_PARTITIONS
                if member.instance_id is not None:
                    assert group.static_members[member.instance_id] == member.member_id

    @invariant()
    def epochs_never_go_back(self) -> None:
        """coordinator C4."""
        if not self.has_group():
            self.epochs_seen = (0, 0)
            return
        group_epoch, target_epoch = self.bench.epochs
        if group_epoch < self.epochs_seen[0]:
            # Deleted and created again within one step? Only waiting can do both.
            assert self.script[-1][0] == "wait"
            self.epochs_seen = (0, 0)
        assert target_epoch <= group_epoch
        assert self.epochs_seen[0] <= group_epoch
        assert self.epochs_seen[1] <= target_epoch
        self.epochs_seen = group_epoch, target_epoch

    @invariant()
    def records_are_written_in_the_documented_order(self) -> None:
        batches = self.bench.shard.batches
        for _, records in batches[self.batches_seen :]:
            types = "".join(f"{re.match('[0-9]+†?', s)[0]} " for s in shorthand(records).split())  # type: ignore[index]
            assert ORDERS.fullmatch(types), shorthand(records)
        self.batches_seen = len(batches)

    @invariant()
    def every_member_has_its_timers(self) -> None:
        """coordinator C23."""
        for group in self.bench.shard.coordinator.groups_of(ConsumerGroup).values():
            for member in group.members.values():
                assert self.bench.timer("session", member.member_id) is not None
                if member.pending_revocation:
                    timer = self.bench.timer("rebalance", member.member_id)
                    assert timer is not None
                    assert timer.epoch == member.member_epoch

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        again = Bench(**self.setting)
        for name, args, fields in self.script:
            getattr(again, name)(*args, **fields)
        assert again.shard.batches == self.bench.shard.batches
        assert again.shard.timers == self.bench.shard.timers
        self.loads_what_compaction_leaves()
        assert_reads_and_reverts_at_every_batch(self.bench)

    def loads_what_compaction_leaves(self) -> None:
        live = hard_state(self.bench.shard.coordinator.groups_of(ConsumerGroup))
        for keeps_tombstones in (True, False):
            log = compacted(self.bench.shard.log, keeps_tombstones=keeps_tombstones)
            loaded = load(self.bench.semantics, log, strict=False)
            assert hard_state(loaded.groups_of(ConsumerGroup)) == live


def hard_state(groups: dict[str, ConsumerGroup]) -> dict[str, Any]:
    """Everything but what compaction forgets: the former instance ids of living members, and which
    of a member and a pattern came last (coordinator §7.2)."""
    states = {group_id: state_of(group) for group_id, group in groups.items()}
    for state in states.values():
        del state["static_members"], state["type_before_patterns"]
    return states


def own(member_id: str, instance_id: str | None) -> str | None:
    return OWN_INSTANCES.get(member_id) if instance_id == "own" else instance_id


def as_list(partitions: set[TopicPartition]) -> str:
    """As ``Bench.beat`` takes an owned list."""
    return " ".join(
        f"{topic}[{number}]"
        for topic, number in (name.rsplit("-", 1) for name in text(partitions).split())
    )


RandomHistory.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRandomHistories = RandomHistory.TestCase
