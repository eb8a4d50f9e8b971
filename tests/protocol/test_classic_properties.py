"""Random histories of a classic group satisfy the properties of classic §10.1."""

from __future__ import annotations

from typing import Any

from classic_builders import GROUP_ID, ClassicBench, subscription, timer_names
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.errors import ErrorCode

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE

names = st.sampled_from(["A", "B", "C", "sD", "sE"])
"""Those that begin with s are static."""


def instance_of(name: str) -> str | None:
    return name if name.startswith("s") else None


class RandomHistory(RuleBasedStateMachine):
    """Clients that do anything at any time; nothing is expected of them."""

    @initialize(delay_ms=st.sampled_from([0, 500]))
    def start(self, delay_ms: int) -> None:
        self.bench = ClassicBench(delay_ms=delay_ms)
        self.generation = 0
        self.answers: dict[int, set[tuple[str | None, str]]] = {}
        self.gone: set[str] = set()

    # -- what clients do -------------------------------------------------------------------

    @rule(
        name=names,
        protocols=st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range")]),
        generation=st.integers(-1, 1),
        session_ms=st.sampled_from([1_000, 4_000]),
        rebalance_ms=st.sampled_from([1_000, 3_000]),
        forgets_id=st.booleans(),
    )
    def join(self, name: str, forgets_id: bool, generation: int, **options: Any) -> None:
        group = self.group()
        before = set(group.members) if group else set()
        self.answer(
            self.bench.send_join(
                name,
                member_id="" if forgets_id else None,
                instance=instance_of(name),
                metadata=subscription(generation=generation),
                **options,
            )
        )
        if group and group is self.group():
            self.gone |= before - set(group.members)

    @rule(name=names, others=st.lists(names, max_size=3))
    def sync(self, name: str, others: list[str]) -> None:
        if self.group() is not None:
            give = {other: (number,) for number, other in enumerate(others)}
            self.bench.sync(name, give=give, instance=instance_of(name), protocol=None)

    @rule(name=names, behind=st.booleans())
    def beat(self, name: str, behind: bool) -> None:
        group = self.group()
        if group is not None:
            generation = group.generation_id - behind
            code = self.bench.beat(name, generation=generation, instance=instance_of(name))
            assert not behind or code is not ErrorCode.NONE

    @rule(name=names)
    def leave(self, name: str) -> None:
        if self.bench.leave((name, instance_of(name))) == [ErrorCode.NONE]:
            self.gone.add(self.bench.id(name))

    @rule(name=names)
    def commit(self, name: str) -> None:
        group = self.group()
        if group is not None:
            code = self.bench.commit_offset(name, group.generation_id)
            assert code is not ErrorCode.NONE or group.state is not COMPLETING

    @rule(ms=st.sampled_from([1, 400, 1_100, 5_000]))
    def wait(self, ms: int) -> None:
        self.bench.wait(ms)

    @rule()
    def restart(self) -> None:
        self.bench.shard.restart()
        self.answers.clear()
        self.gone.clear()
        group = self.group()
        self.generation = 0 if group is None else group.generation_id
        assert group is None or group.state in (EMPTY, STABLE)

    # -- what must hold --------------------------------------------------------------------

    def group(self) -> ClassicGroup | None:
        return self.bench.shard.coordinator.groups_of(ClassicGroup).get(GROUP_ID)

    def answer(self, response: Any) -> None:
        if response is not None and response.error_code is ErrorCode.NONE:
            said = (response.protocol_name, response.leader)
            self.answers.setdefault(response.generation_id, set()).add(said)
            assert not response.members or response.leader == response.member_id

    @invariant()
    def generations_grow_and_all_answers_of_one_agree(self) -> None:
        for token in list(self.bench.shard.answers):
            if str(token).startswith("join"):
                self.answer(self.bench.shard.answers.pop(token))
        group = self.group()
        if group is not None:
            assert group.generation_id >= self.generation
            self.generation = group.generation_id
        for said in self.answers.values():
            assert len({protocol for protocol, _ in said}) == 1

    @invariant()
    def the_group_agrees_with_itself(self) -> None:
        group = self.group()
        if group is None:
            return
        members = group.members
        assert (group.state is EMPTY) == (not members) or group.state is PREPARING
        awaiting = [m for m in members.values() if m.awaiting_join is not None]
        assert group.num_awaiting_join == len(awaiting)
        assert group.state is PREPARING or not awaiting
        assert group.pending_join.isdisjoint(members)
        assert group.pending_sync <= set(members)
        assert group.static_members == {
            m.group_instance_id: i for i, m in members.items() if m.group_instance_id is not None
        }
        assert (group.leader_id in members) if members else group.leader_id is None
        counts: dict[str, int] = {}
        for member in members.values():
            for name in member.protocol_names():
                counts[name] = counts.get(name, 0) + 1
        assert group.supported_protocols == counts
        if group.state in (COMPLETING, STABLE):
            assert counts[group.protocol_name or ""] == len(members)

    @invariant()
    def whatever_waits_has_a_timer(self) -> None:
        group = self.group()
        if group is None:
            return
        armed = timer_names(self.bench.shard)
        if group.state is PREPARING:
            assert "classic-join" in armed
        if group.state is COMPLETING and group.pending_sync:
            assert "classic-sync" in armed
        for member_id, member in group.members.items():
            assert member.has_satisfied_heartbeat or f"classic-session {member_id}" in armed
        for member_id in group.pending_join:
            assert f"classic-session {member_id}" in armed

    @invariant()
    def who_is_gone_stays_gone(self) -> None:
        group = self.group()
        for member_id in sorted(self.gone):
            if group is None or member_id not in group.members:
                generation = 0 if group is None else group.generation_id
                assert self.bench.beat(member_id, generation=generation) is not ErrorCode.NONE

    def teardown(self) -> None:
        """Left alone, a rebalance ends, and so do all sessions."""
        self.bench.wait(700_000)
        group = self.group()
        assert group is None or group.state is EMPTY
        assert not {name for name in timer_names(self.bench.shard) if "classic" in name}


TestRandomHistories = RandomHistory.TestCase
TestRandomHistories.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
