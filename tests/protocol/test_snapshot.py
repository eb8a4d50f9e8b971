"""Machines as values: what a snapshot holds, and which states have the same key."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import SendHeartbeat
from rebalance_sim.protocol.clients.common.events import HeartbeatAnswered
from rebalance_sim.protocol.clients.java.consumer.consumer_state import CONSUMER_STATE
from rebalance_sim.protocol.clients.java.consumer.java_consumer import ConsumerMember
from rebalance_sim.protocol.migration.group_semantics import CORRECT_GROUPS
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.snapshot import Freezer, KeyMaker, StateFields
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition

_ORDERS = TopicPartition("id-orders", 0)
_FREE = ("last_poll_at_ms", "_interval_due_ms")


def _joining(now_ms: int = 0) -> ConsumerMember:
    member = ConsumerMember(config=ConsumerConfig(group_id="g"), member_id="m", now_ms=now_ms)
    member.on_event(events.MetadataKnown(topic_names={"id-orders": "orders"}), now_ms=now_ms)
    member.on_event(events.Subscribe(topic_names=frozenset({"orders"})), now_ms=now_ms)
    member.on_event(events.PollingResumed(), now_ms=now_ms)
    found = events.CoordinatorFound(correlation_id=member.open_requests[0], node_id=0)
    member.on_event(found, now_ms=now_ms)
    member.on_event(events.Poll(), now_ms=now_ms)
    return member


def _answer(member: ConsumerMember, *, epoch: int, assignment: frozenset[TopicPartition]) -> None:
    response = ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=assignment
    )
    number = member.open_requests[-1]
    member.on_event(
        HeartbeatAnswered(correlation_id=number, response=response), now_ms=member.now_ms
    )


def test_a_restored_member_goes_on_by_itself() -> None:
    member = _joining()
    snapshot = member.snapshot()
    other = member.restored(snapshot)
    _answer(other, epoch=3, assignment=frozenset({_ORDERS}))

    assert (member.member_epoch, other.member_epoch) == (0, 3)
    assert len(member.open_requests) == 1
    assert other.config is member.config
    assert other.rules is member.rules
    assert member.snapshot() == snapshot
    _answer(member, epoch=3, assignment=frozenset({_ORDERS}))
    assert member.state_key() == other.state_key()


def test_a_waiting_continuation_calls_the_restored_parts() -> None:
    member = _joining()
    _answer(member, epoch=3, assignment=frozenset({_ORDERS}))
    member.on_event(events.Poll(), now_ms=0)
    assert member.running_callback is not None
    other = member.restored(member.snapshot())
    effects = other.on_event(events.CallbackCompleted(), now_ms=0)
    assert any(isinstance(effect, SendHeartbeat) for effect in effects)
    assert member.running_callback is not None
    assert _ORDERS in other.assigned
    assert not other.assigned[_ORDERS].awaiting_assigned_callback
    assert member.assigned[_ORDERS].awaiting_assigned_callback


def test_keys_leave_out_the_clock_and_what_has_been_counted() -> None:
    early, late = _joining(0), _joining(70_000)
    assert early.state_key() == late.state_key()
    # Another heartbeat and its answer, and the member is where it was.
    for member in (early, late):
        _answer(member, epoch=3, assignment=frozenset())
        member.on_event(events.Poll(), now_ms=member.now_ms)
        member.on_event(events.CallbackCompleted(), now_ms=member.now_ms)
        _answer(member, epoch=3, assignment=frozenset())
        _beat(member)
    before = early.state_key(free_times=_FREE)
    assert before == late.state_key(free_times=_FREE)
    early.on_event(events.Tick(), now_ms=early.next_deadline_ms or 0)
    assert early.state_key(free_times=_FREE) != before
    _steady_answer(early)
    assert early.state_key(free_times=_FREE) == before


def _beat(member: ConsumerMember) -> None:
    member.on_event(events.Tick(), now_ms=member.next_deadline_ms or 0)
    _steady_answer(member)


def _steady_answer(member: ConsumerMember) -> None:
    response = ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=3, heartbeat_interval_ms=5_000
    )
    number = member.open_requests[-1]
    member.on_event(
        HeartbeatAnswered(correlation_id=number, response=response), now_ms=member.now_ms
    )


def test_keys_tell_epochs_and_partitions_apart() -> None:
    keys = set()
    for epoch, assignment in ((3, frozenset()), (4, frozenset()), (3, frozenset({_ORDERS}))):
        member = _joining()
        _answer(member, epoch=epoch, assignment=assignment)
        keys.add(member.state_key())
    assert len(keys) == 3


def test_every_field_that_is_said_something_of_is_there() -> None:
    member = _joining()
    _answer(member, epoch=3, assignment=frozenset({_ORDERS}))
    seen: dict[str, set[str]] = {}
    todo: list[object] = [member]
    done: set[int] = set()
    while todo:
        one = todo.pop()
        if id(one) in done or not type(one).__module__.startswith("rebalance_sim"):
            continue
        done.add(id(one))
        names = {*getattr(one, "__dict__", {}), *getattr(type(one), "_fields", ())}
        names |= {name for base in type(one).__mro__ for name in getattr(base, "__slots__", ())}
        for base in type(one).__mro__:
            seen.setdefault(base.__name__, set()).update(names)
        todo += [getattr(one, name, None) for name in names]
    for kind, fields in CONSUMER_STATE.items():
        if kind.__name__ not in seen:  # Nothing of this class is alive in this state.
            assert kind.__name__ in ("Commit", "Lookup")
            continue
        said = {*fields.times, *fields.caches, *fields.unordered, *fields.ordinals}
        assert said | {*fields.key_ordinals} <= seen[kind.__name__], kind


def test_what_waits_must_be_data() -> None:
    with pytest.raises(ProtocolBug, match="cannot be kept"):
        Freezer(()).freeze([lambda: None])


def test_times_that_are_over_are_the_same_and_numbers_count_by_their_order() -> None:
    class Part:
        def __init__(self, due_ms: int, number: int, last: int) -> None:
            self.due_ms, self.number, self.last = due_ms, number, last

    fields = StateFields(times={"due_ms": 0}, ordinals={"number": "n", "last": "n"})
    maker = KeyMaker({Part: fields})
    key = partial(maker.key, now_ms=100)
    assert key(Part(90, 3, 7)) == key(Part(20, 1, 2))
    assert key(Part(110, 3, 7)) != key(Part(120, 3, 7))
    assert maker.key(Part(110, 3, 7), now_ms=100) == maker.key(Part(15, 3, 7), now_ms=5)
    assert key(Part(90, 3, 7)) != key(Part(90, 7, 7))
    assert key(Part(90, 3, 7)) != key(Part(90, 7, 3))


def _coordinator() -> GroupCoordinator:
    return GroupCoordinator(
        config=CoordinatorConfig(group_consumer_assignment_interval_ms=0),
        new_member_id=str,
        semantics=CORRECT_GROUPS,
        image=MetadataImage([Topic(topic_id="id-orders", name="orders", partition_count=1)]),
    )


def _join(coordinator: GroupCoordinator, member_id: str, *, now_ms: int = 0) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("orders",),
        topic_partitions=frozenset(),
    )
    for record in coordinator.handle(request, now_ms=now_ms).records:
        coordinator.replay(record)


def test_a_coordinator_goes_back_to_a_snapshot() -> None:
    coordinator = _coordinator()
    empty, empty_key = coordinator.snapshot(), coordinator.state_key(now_ms=0)
    _join(coordinator, "a")
    one, one_key = coordinator.snapshot(), coordinator.state_key(now_ms=0)
    _join(coordinator, "b")
    two_key = coordinator.state_key(now_ms=0)
    assert len({empty_key, one_key, two_key}) == 3

    coordinator.restore(empty)
    assert coordinator.project("g") is None
    assert coordinator.state_key(now_ms=0) == empty_key
    coordinator.restore(one)
    assert coordinator.state_key(now_ms=0) == one_key
    _join(coordinator, "b")
    assert coordinator.state_key(now_ms=0) == two_key


def test_a_coordinator_has_the_same_key_at_another_time() -> None:
    first, second = _coordinator(), _coordinator()
    _join(first, "a", now_ms=0)
    _join(second, "a", now_ms=500)
    assert first.state_key(now_ms=0) == second.state_key(now_ms=500)


def test_a_coordinator_that_keeps_history_has_no_snapshot() -> None:
    coordinator = GroupCoordinator(
        config=replace(CoordinatorConfig()),
        new_member_id=str,
        semantics=CORRECT_GROUPS,
        keeps_history=True,
    )
    with pytest.raises(ValueError, match="keeps history"):
        coordinator.snapshot()
