"""The client's part in targets that members compute: what it hands in, what it is called back for.

Source: coordinator §12.5-§12.7 (the text of KIP-848).
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.consumer.client_side import ClientSideProperty
from rebalance_sim.invariants.property import Finding, Interest
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    AssignmentInstalled,
    AssignmentReceived,
    ComputeAssignment,
    HeartbeatAnswered,
    SendInstallAssignment,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 280


class AssignmentReportedOnce(ClientSideProperty):
    """coordinator §12.7."""

    id = "client.on_assignment.once"
    sentence = (
        "The assignor's callback runs once per epoch, with the whole target, assigned and "
        "pending, and the metadata of that epoch."
    )
    clauses = ("coordinator §12.7",)
    violated_by = ("mut-client-hears-every-answer",)
    interest = Interest(effects=(AssignmentReceived,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._heard: dict[str, int] = self.of_process({})

    def on_joining(
        self, step: Step, entry: ClientEntry, request: ConsumerGroupHeartbeatRequest
    ) -> Finding | None:
        """A new membership has heard of nothing."""
        self._heard.pop(entry.name, None)
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Look at every call, and at the answer that it comes from."""
        for effect in step.effects:
            if type(effect) is not AssignmentReceived:
                continue
            last = self._heard.get(entry.name, 0)
            self._heard[entry.name] = effect.member_epoch
            if effect.member_epoch <= last:
                return Finding(
                    f"{entry.name} was called back at epoch {effect.member_epoch} after {last}",
                    {"client": entry.name},
                )
            if type(step.event) is not HeartbeatAnswered:
                return Finding(f"{entry.name} was called back without an answer")
            response = step.event.response
            whole = (response.assignment or frozenset()) | (
                response.pending_topic_partitions or frozenset()
            )
            said = response.member_epoch, whole, response.assignment_metadata
            if (effect.member_epoch, effect.partitions, effect.metadata) != said:
                return Finding(
                    f"{entry.name} was called back with {self.model.names_of(effect.partitions)}; "
                    f"the answer has {self.model.names_of(whole)}",
                    {"client": entry.name},
                )
        return None


class ResultHandedInOnce(ClientSideProperty):
    """coordinator §12.5, §12.6: what follows on an error."""

    id = "client.result.handed_in_once"
    sentence = (
        "A client hands in what it computed for the epoch that it was given, and again only "
        "if its own epoch was stale."
    )
    clauses = ("coordinator §12.5", "coordinator §12.6")
    violated_by = ("mut-client-installs-again",)
    interest = Interest(
        events=(AssignmentInstalled,), effects=(ComputeAssignment, SendInstallAssignment)
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._epoch: dict[str, int | None] = self.of_process({})
        """Client -> epoch of the group that it may hand in a result for."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A result was answered: it may be handed in again, or may not."""
        if step.event.response.error_code is not ErrorCode.STALE_MEMBER_EPOCH:
            self._epoch[entry.name] = None
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Look at what is computed and what is handed in."""
        for effect in step.effects:
            if type(effect) is ComputeAssignment:
                self._epoch[entry.name] = effect.prepared.group_epoch
            elif type(effect) is SendInstallAssignment:
                expected = self._epoch.get(entry.name)
                if effect.request.group_epoch != expected:
                    return Finding(
                        f"{entry.name} handed in a target for epoch {effect.request.group_epoch}; "
                        f"what it may hand in is for {'none' if expected is None else expected}",
                        {"client": entry.name},
                    )
        return None
