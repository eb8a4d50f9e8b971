"""Kinds of client: one value each, one table, and a base class that a further kind builds on."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol, NewMember
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import CallReturned, SendHeartbeat
from rebalance_sim.protocol.clients.common.events import Close, CommitOffsets, Poll, Tick
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import Call
from rebalance_sim.protocol.clients.kinds import KINDS, kind_of
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ProtocolBug


def new_member(kind: ClientKind) -> NewMember:
    settings: dict[str, Any] = {"group_id": "group"}
    if kind.is_classic:
        settings["assignors"] = (CLASSIC_ASSIGNORS["range"],)
    return NewMember(
        config=kind.config(**settings),
        member_id="m1",
        rules=kind.rules,
        jitter=lambda: 0.0,
        now_ms=0,
    )


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_makes_members_that_say_what_they_are(name: str) -> None:
    kind = KINDS[name]
    member = kind.make(new_member(kind))
    assert (kind.name, member.kind) == (name, name)
    assert (member.classic is not None) == kind.is_classic
    assert member.computing_state is None and member.local_assignors == ()
    assert kind_of(kind.library, kind.protocol) is kind
    assert set(kind.default_assignors) <= kind.assignors.keys()


def test_a_library_has_one_kind_for_each_protocol() -> None:
    described = [(kind.library, kind.protocol) for kind in KINDS.values()]
    assert len(set(described)) == len(described)
    with pytest.raises(KeyError, match=r"sarama with group\.protocol=classic"):
        kind_of("sarama", GroupProtocol.CLASSIC)


class Beating(GroupMember):
    """A kind that sends heartbeats, one after the other, and nothing else."""

    kind: ClassVar[str] = "beating"
    is_closed = False

    def __init__(self) -> None:
        config = ConsumerConfig(group_id="group")
        super().__init__(config=config, member_id="m1", jitter=lambda: 0.0, now_ms=0)
        self._application = Application(self, on_poll_event=lambda: None, run_managers=lambda: None)
        self.heard: list[object] = []

    def _go_on(self, event: events.Event) -> None:
        if not self.requests.count(SendHeartbeat) and not self.is_closed:
            request = ConsumerGroupHeartbeatRequest(
                group_id="group", member_id="m1", member_epoch=0
            )
            self.requests.send(
                SendHeartbeat,
                request=request,
                on_answered=self.heard.append,
                on_lost=self.heard.append,
            )

    def _on_close(self, event: Close) -> None:
        self.is_closed = True
        self._application.end_call(Call.CLOSE)


def test_a_further_kind_says_only_what_it_does_itself() -> None:
    member = Beating()
    (beat,) = member.on_event(Tick(), now_ms=0)
    assert isinstance(beat, SendHeartbeat)
    assert member.on_event(Tick(), now_ms=1) == ()  # one is in flight
    response = ConsumerGroupHeartbeatResponse(member_epoch=1)
    answered = events.HeartbeatAnswered(correlation_id=beat.correlation_id, response=response)
    (second,) = member.on_event(answered, now_ms=2)
    assert isinstance(second, SendHeartbeat)
    lost = events.Disconnected(correlation_ids=(second.correlation_id,))
    assert len(member.on_event(lost, now_ms=3)) == 1
    assert member.heard == [response, Loss.TRANSPORT]
    assert member.on_event(Close(), now_ms=4) == (CallReturned(call=Call.CLOSE),)
    assert member.on_event(Tick(), now_ms=5) == ()


def test_what_a_kind_does_not_know_is_a_bug_of_the_host() -> None:
    member = Beating()
    (beat,) = member.on_event(Tick(), now_ms=5)
    for event in (Poll(), CommitOffsets(commit_id=1, is_sync=True)):
        with pytest.raises(ProtocolBug, match="not an event of a beating member"):
            member.on_event(event, now_ms=5)
    with pytest.raises(ProtocolBug, match="time goes back"):
        member.on_event(Tick(), now_ms=4)
    assert isinstance(beat, SendHeartbeat)
    with pytest.raises(ProtocolBug, match="not in flight"):
        number = beat.correlation_id + 1
        response = ConsumerGroupHeartbeatResponse()
        member.on_event(
            events.HeartbeatAnswered(correlation_id=number, response=response), now_ms=5
        )
    with pytest.raises(ProtocolBug, match="CoordinatorFound answers request 1"):
        found = events.CoordinatorFound(correlation_id=beat.correlation_id, node_id=1)
        member.on_event(found, now_ms=5)
