"""When librdkafka's member takes an assignment over, and when all that it has is unassigned.

Source: client §10.1, rows "States", "threads" and "close".
"""

from __future__ import annotations

from typing import Any

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    Call,
    CallbackCompleted,
    ClientState,
    MetadataKnown,
    RequestMetadata,
)
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA, LIBRDKAFKA_KINDS
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState

ORDER = 258

_AT_REST = (JoinState.INIT, JoinState.STEADY)
_CALLING = (JoinState.WAIT_ASSIGN_CALL, JoinState.WAIT_UNASSIGN_CALL)


class TakesOverWhatIsNamed(Property):
    """client §10.1. A heartbeat later the next answer would make it look again."""

    id = "client.names.librdkafka"
    sentence = (
        "A librdkafka member that has asked for the names of topics that it is assigned, and is "
        "taking nothing else over, begins as soon as its metadata is there with all that has a "
        "name by then."
    )
    clauses = ("client §10.1", "client §4.1")
    violated_by = ("test:librdkafka-overlooks-names",)
    client_kinds = (LIBRDKAFKA,)
    interest = Interest(events=(MetadataKnown,), effects=(RequestMetadata,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._asking: set[str] = self.of_process(set())
        """Clients that have asked for names."""

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """It asks."""
        if type(step.event) is not MetadataKnown:
            self._asking.add(entry.name)
        return None

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """It is told."""
        if entry.name not in self._asking:
            return None
        self._asking.discard(entry.name)
        member: Any = entry.member
        received = member.next_target
        if received is None or member.waits_for_ack or member.join_state not in _AT_REST:
            return None
        owned = {partition.topic_id for partition in member.acked.partitions}
        named = {
            p
            for p in received.partitions
            if p.topic_id in step.event.topic_names or p.topic_id in owned
        }
        if named == member.handled.partitions and named != received.partitions:
            return None
        return Finding(
            f"{entry.name} knows the topics of {self.model.names_of(named)} now, and does not take "
            "that over",
            {"client": entry.name},
        )


class UnassignsAtItsEnd(Property):
    """client §10.1: the leave does not wait for what is still to be called back."""

    id = "client.close.unassigns_librdkafka"
    sentence = (
        "When a callback of a client of librdkafka, of either protocol, that is closed or has "
        "failed returns, all its partitions are unassigned at once."
    )
    clauses = ("client §10.1",)
    violated_by = ("test:librdkafka-assigns-at-its-end",)
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(events=(CallbackCompleted,))

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is it still about to assign anything, or to give it up?"""
        member: Any = entry.member
        if member.blocked_in is not Call.CLOSE and member.state is not ClientState.FATAL:
            return None
        if member.join_state not in _CALLING:
            return None
        return Finding(
            f"{entry.name} is {member.join_state.value}, and its last callback has returned",
            {"client": entry.name},
        )
