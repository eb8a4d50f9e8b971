"""What librdkafka reports of its own states, and how a member that was away comes back.

Source: client §10, §10.1 (rows "States", "poll expiry", "close" and "leave").
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    Call,
    CallReturned,
    OwnStateChanged,
)
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA, LIBRDKAFKA_KINDS
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import COORDINATOR_STATE
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest

ORDER = 257


class ReportsEachChange(Property):
    """client §10, row "States"."""

    id = "client.states.librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, reports each change of its own two states "
        "once: from the state that it has reported last, and to another one; that of its "
        "coordinator has ended when close returns."
    )
    clauses = ("client §10", "client §10.1")
    violated_by = ("test:librdkafka-reports-no-change", "test:librdkafka-ends-no-link")
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(effects=(OwnStateChanged, CallReturned))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._last: dict[str, dict[str, str]] = self.of_process({})
        """Client -> which of its states -> what it is."""

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Compare each change with the one before."""
        last = self._last.setdefault(entry.name, {})
        for effect in step.effects:
            if (
                type(effect) is CallReturned
                and effect.call is Call.CLOSE
                and last.get(COORDINATOR_STATE) != CoordinatorState.TERM.value
            ):
                return Finding(
                    f"close of {entry.name} returns, and its {COORDINATOR_STATE} is "
                    f"{last.get(COORDINATOR_STATE, CoordinatorState.INIT.value)}",
                    {"client": entry.name},
                )
            if type(effect) is not OwnStateChanged:
                continue
            known = last.get(effect.what, effect.from_state)
            last[effect.what] = effect.to_state
            if effect.from_state != known or effect.to_state == known:
                return Finding(
                    f"{entry.name} reports that its {effect.what} goes from {effect.from_state} to "
                    f"{effect.to_state}; it was {known}",
                    {"client": entry.name},
                )
        return None


class LeavesWhatItWasIn(Property):
    """client §10.1, rows "poll expiry" and "leave"."""

    id = "client.leave.needed_librdkafka"
    sentence = (
        "A librdkafka member leaves only if it was let in since it has joined, or if its poll "
        "timer has run out; and after that it does not join again before it has left."
    )
    clauses = ("client §10.1",)
    violated_by = ("test:librdkafka-comes-back-unseen", "test:librdkafka-leaves-unknown")
    client_kinds = (LIBRDKAFKA,)

    def on_leaving(
        self, step: Step, entry: ClientEntry, request: ConsumerGroupHeartbeatRequest
    ) -> Finding | None:
        """Does the group know it?"""
        if entry.received_epochs or entry.member.poll_expired:
            return None
        return Finding(
            f"{entry.name} leaves, and nobody has let it in since it has joined",
            {"client": entry.name},
        )

    def on_joining(
        self, step: Step, entry: ClientEntry, request: ConsumerGroupHeartbeatRequest
    ) -> Finding | None:
        """Has it left, if it was away?"""
        if not entry.member.poll_expired:
            return None
        return Finding(
            f"{entry.name} was away from poll for too long, and joins again without a leave",
            {"client": entry.name},
        )
