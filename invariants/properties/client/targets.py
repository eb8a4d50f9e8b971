"""What a client reconciles to: what the last answer gave it, and nothing else.

Source: client §0.2, §1.3, §4.3.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    NO_ASSIGNMENT,
    CallbackCompleted,
    CallbackKind,
    ClientState,
    HeartbeatAnswered,
    RunCallback,
    StateChanged,
    Subscribe,
)
from rebalance_sim.protocol.clients.kinds import JAVA
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 215


class TargetAsReceived(Property):
    """client §0.2, and row 5 of client §1.3: the empty first assignment has its place, too."""

    id = "client.target.as_received"
    sentence = (
        "What a Java client reconciles to is the assignment of the last answer that had one, an "
        "empty one as well, until its membership is over."
    )
    clauses = ("client §0.2", "client §1.3")
    violated_by = ("KAFKA-16185", "KAFKA-16198")
    client_kinds = (JAVA,)

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Look at a new target, and at an answer that should have led to one."""
        member, event = entry.member, step.event
        received = event.response.assignment if type(event) is HeartbeatAnswered else None
        if received is None:
            if member.target == entry.target or member.target == NO_ASSIGNMENT:
                return None
            return Finding(
                f"{entry.name} has the target {self.model.names_of(member.target.partitions)} "
                f"after {self.model.names_of(entry.target.partitions)}, and no answer gave it that",
                {"client": entry.name},
            )
        if not (
            entry.state.takes_assignments
            and member.state.takes_assignments
            and member.member_epoch == event.response.member_epoch
        ):
            return None
        if member.target != NO_ASSIGNMENT and member.target.partitions == received:
            return None
        target = self.model.names_of(member.target.partitions)
        return Finding(
            f"{entry.name} was assigned {self.model.names_of(received)} at epoch "
            f"{member.member_epoch}, and has the target "
            f"{'none' if member.target == NO_ASSIGNMENT else target}",
            {"client": entry.name},
        )


class ReconcilesAnew(Property):
    """client §4.3, last row: what a membership that is over has begun ends without effect. Whom the
    assigned callback of a former one acknowledges for works on what it was never called back for.
    """

    id = "client.reconcile.of_this_membership"
    sentence = (
        "A Java client takes over only partitions of a target that it has had since it last began "
        "to join; and if its application listens, its first acknowledgement since then follows on "
        "an onPartitionsAssigned that has begun since then as well, and returned well."
    )
    clauses = ("client §4.3", "client §4.1", "client §1.3", "defects S1")
    violated_by = ("mut-client-ack-before-apply", "test:finishes-former-reconciliations")
    client_kinds = (JAVA,)
    interest = Interest(events=(Subscribe, CallbackCompleted), effects=(RunCallback, StateChanged))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._given: dict[str, frozenset[TopicPartition]] = self.of_process({})
        """Client -> all its targets since then."""
        self._awaits: dict[str, bool] = self.of_process({})
        """Client that has acknowledged nothing since then -> whether the callback runs."""
        self._silent: set[str] = self.of_process(set())
        """Clients whose applications do not listen."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A callback has returned, or there is another listener."""
        event, name = step.event, entry.name
        if type(event) is Subscribe:
            (self._silent.discard if event.has_listener else self._silent.add)(name)
        elif self._awaits.get(name) and not event.failed:
            del self._awaits[name]
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Follow callbacks, and look at acknowledgements."""
        name = entry.name
        for effect in step.effects:
            if type(effect) is RunCallback:
                if name in self._awaits:
                    self._awaits[name] = effect.kind is CallbackKind.ASSIGNED
            elif type(effect) is not StateChanged:
                continue
            elif effect.to_state is ClientState.JOINING:
                if effect.from_state is not ClientState.JOINING:
                    self._awaits[name] = False
                    self._given[name] = frozenset()
            elif effect.to_state is ClientState.ACKNOWLEDGING and name in self._awaits:
                del self._awaits[name]
                if name not in self._silent:
                    return Finding(
                        f"{name} acknowledges for the first time since it began to join, and its "
                        "application was not called back since",
                        {"client": name},
                    )
        return None

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Note a new target, and look at what is assigned anew."""
        member, name = entry.member, entry.name
        if member.target is not entry.target:
            given, partitions = self._given.get(name), member.target.partitions
            if not given:
                self._given[name] = partitions
            elif not partitions <= given:
                self._given[name] = given | partitions
        if member.ownership_version == entry.version or member.assigned is entry.assigned:
            return None
        new = member.assigned.keys() - entry.assigned.keys()
        if new:
            new -= self._given.get(name, frozenset())
        if not new:
            return None
        return Finding(
            f"{name} takes {self.model.names_of(new)} over, which no answer has given to it since "
            "it last began to join",
            {"client": name},
        )
