"""What a client of the consumer protocol says in its heartbeats, and why it joins.

Sources: client §1.3, §2.1, §3, §6.1, §9, §10.1.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CloseConnection,
    Disconnected,
    HeartbeatAnswered,
    PollingStopped,
    RequestExpired,
    StateChanged,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
)

ORDER = 233


class ConsumerJoinCause(Property):
    """client §1.3, rows 1, 4, 17, 33."""

    id = "client.join.cause"
    sentence = (
        "A client joins only for a reason: its application has subscribed or unsubscribed, a "
        "heartbeat was refused or got lost, or the application was away from poll, in a callback "
        "perhaps; and once for each."
    )
    clauses = ("client §1.3", "client §5", "client §6.1")
    violated_by = ("test:bare-join",)
    interest = Interest(
        events=(
            Subscribe,
            Unsubscribe,
            HeartbeatAnswered,
            Disconnected,
            RequestExpired,
            PollingStopped,
        ),
        effects=(CloseConnection, StateChanged),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._idle: set[str] = self.of_process(set())
        """Clients that have no reason to join."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """This is a reason."""
        self._idle.discard(entry.name)
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """So is a connection that is closed, and the end of a membership."""
        for effect in step.effects:
            if type(effect) is CloseConnection or (
                type(effect) is StateChanged and not effect.to_state.is_in_group
            ):
                self._idle.discard(entry.name)
        return None

    def on_joining(
        self, step: Step, entry: ClientEntry, request: ConsumerGroupHeartbeatRequest
    ) -> Finding | None:
        """Is there a reason?"""
        # Who was let in at epoch 0, as a target is still to be computed, asks again.
        if entry.name in self._idle and entry.received_epochs:
            return Finding(
                f"{entry.name} joins again, {step.at_ms - entry.last_sent_ms} ms after its last "
                "heartbeat, and nothing has happened that calls for it",
                client=entry.name,
            )
        self._idle.add(entry.name)
        return None
