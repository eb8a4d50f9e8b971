"""Targets that members compute: by the right one, from what it was given, and no other way.

Source: coordinator §12 (the text of KIP-848). No other version has such targets, and none of these
properties is asked about there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rebalance_sim.invariants.model.computations import is_fit, problem_in
from rebalance_sim.invariants.model.ledger import Change, MemberEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.consumer.timer_keys import computation_key
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.assignment_messages import (
    ClientAssignor,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH, ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 270


class ClientSideProperty(Property):
    """A property about groups whose members compute their targets."""

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """Only where members may offer assignors at all."""
        return semantics.coordinator.has_client_assignors

    def accepted(self, step: Step) -> ConsumerGroupInstallAssignmentRequest | None:
        """The result that was installed in this step, if it was one."""
        request = step.request
        if (
            type(request) is not ConsumerGroupInstallAssignmentRequest
            or step.response.error_code is not ErrorCode.NONE
        ):
            return None
        return request

    def given(
        self, step: Step, request: ConsumerGroupInstallAssignmentRequest
    ) -> ConsumerGroupPrepareAssignmentResponse | None:
        """What the sender was given by this shard for the epoch of its result."""
        return self.model.computations.prepared(step.shard.name, request)


class OneComputingMember(ClientSideProperty):
    """coordinator §12.3, steps 1 and 4."""

    id = "assignment.one_computing_member"
    sentence = (
        "One member at a time is told to compute; another one only when the first is done, "
        "gone, out of time, or unable, or when another assignor is to be used."
    )
    clauses = ("coordinator §12.3",)
    violated_by = ("mut-asks-everybody",)

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Is another member told while somebody computes?"""
        response: ConsumerGroupHeartbeatResponse = step.response
        if not response.should_compute_assignment:
            return None
        shard = step.shard
        chosen = self.model.computations.chosen(shard.name)
        if chosen is None or chosen.member_id == response.member_id:
            return None
        ledger = self.model.ledger_of(shard)
        entry = ledger.members.get(chosen.member_id)
        if (
            entry is None
            or entry.epoch < JOIN_EPOCH
            or step.at_ms >= chosen.deadline_ms
            or chosen.is_overruled
            or ledger.target_epoch != chosen.target_epoch
            or is_fit(ledger, response.member_id or "", instead_of=chosen.member_id)
        ):
            return None
        return Finding(
            f"{self.model.who(response.member_id or '')} was told to compute while "
            f"{self.model.who(chosen.member_id)} has until {chosen.deadline_ms} ms",
            {"member": response.member_id, "computing": chosen.member_id},
        )


class ComputationIsLimited(ClientSideProperty):
    """coordinator §12.3. Told again, the member has the time that it had."""

    id = "assignment.computation_is_limited"
    sentence = "Once a member is told to compute, a timer runs out if it does not finish."
    clauses = ("coordinator §12.3", "defects L1")
    violated_by = ("mut-no-computation-timer",)

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Is a member told for the first time?"""
        response: ConsumerGroupHeartbeatResponse = step.response
        if not response.should_compute_assignment:
            return None
        shard = step.shard
        if (
            self.model.computations.chosen(shard.name) is not None
            or computation_key(self.model.group_id) in shard.armed_timers
        ):
            return None
        return Finding(
            f"{self.model.who(response.member_id or '')} was told to compute, and no timer limits "
            "that",
            {"member": response.member_id},
        )


class ChosenMemberInstalls(ClientSideProperty):
    """coordinator §12.6, check 5."""

    id = "assignment.chosen_member"
    sentence = (
        "A computed target is taken only from a member that was given the group at that "
        "epoch and has not been replaced since."
    )
    clauses = ("coordinator §12.6",)
    violated_by = ("mut-install-from-anybody",)

    def on_assignment_request(self, step: Step) -> Finding | None:
        """Whose result was installed?"""
        request = self.accepted(step)
        if request is None:
            return None
        who = self.model.who(request.member_id)
        if self.given(step, request) is None:
            return Finding(
                f"{who} installed a target for epoch {request.group_epoch}, at which it was not "
                "given the group",
                {"member": request.member_id},
            )
        chosen = self.model.computations.chosen(step.shard.name)
        if chosen is not None and (chosen.member_id != request.member_id or chosen.is_replaced):
            return Finding(
                f"{who} installed a target after another member took its place",
                {"member": request.member_id},
            )
        return None


class EpochOfPreparation(ClientSideProperty):
    """coordinator §12.3, step 5."""

    id = "assignment.epoch_of_preparation"
    sentence = "A computed target has the group epoch at which its group was handed out."
    clauses = ("coordinator §12.3", "coordinator §12.6")
    violated_by = ("mut-install-at-present-epoch",)

    def on_assignment_request(self, step: Step) -> Finding | None:
        """At which epoch was it installed?"""
        request = self.accepted(step)
        given = None if request is None else self.given(step, request)
        if given is None:
            return None
        epoch = self.model.ledger_of(step.shard).target_epoch
        if epoch == given.group_epoch:
            return None
        return Finding(
            f"a target computed from the group at epoch {given.group_epoch} was installed as that "
            f"of epoch {epoch}",
            {"epoch": epoch},
        )


class TargetAsComputed(ClientSideProperty):
    """coordinator §12.6, check 6 and step 7."""

    id = "assignment.as_computed"
    sentence = (
        "A computed target that is installed is whole by the group that was handed out: "
        "present members have their share of it, static ones that of their predecessor; "
        "whoever has joined has nothing, whoever has left is not in it."
    )
    clauses = ("coordinator §12.6",)
    violated_by = ("mut-install-keeps-leavers", "mut-install-forgets-heirs")

    def on_assignment_request(self, step: Step) -> Finding | None:
        """Compare the installed target with the result, and that with what was handed out."""
        request = self.accepted(step)
        given = None if request is None else self.given(step, request)
        if request is None or given is None:
            return None
        problem = problem_in(given, request, self.model.name_of)
        if problem is not None:
            return Finding(f"a result was installed although {problem}")
        ledger = self.model.ledger_of(step.shard)
        shares = {row.member_id: row.partitions for row in request.members}
        for member in given.members:
            successor = ledger.instances.get(member.instance_id or "")
            if successor is not None and member.member_id not in ledger.members:
                shares.setdefault(successor, shares.pop(member.member_id, frozenset()))
        for member_id in sorted(ledger.members.keys() | ledger.targets.keys()):
            expected = shares.get(member_id, frozenset())
            if member_id not in ledger.members:
                return Finding(f"{member_id} has a target and has left", {"member": member_id})
            if ledger.targets.get(member_id) != expected:
                return Finding(
                    f"the target of {self.model.who(member_id)} is "
                    f"{self.model.names_of(ledger.targets.get(member_id, ()))}, computed was "
                    f"{self.model.names_of(expected)}",
                    {"member": member_id},
                )
        return None


class ValidResultAccepted(ClientSideProperty):
    """coordinator §12.6, check 6: the present group is not what a result is judged by."""

    id = "assignment.valid_result"
    sentence = "A result that is whole by the group that was handed out is not called invalid."
    clauses = ("coordinator §12.6",)
    violated_by = ("mut-install-checks-present",)

    def on_assignment_request(self, step: Step) -> Finding | None:
        """Was a sound result refused?"""
        request: Any = step.request
        if step.response.error_code is not ErrorCode.INVALID_ASSIGNMENT:
            return None
        given = self.given(step, request)
        if given is None or problem_in(given, request, self.model.name_of) is not None:
            return None
        return Finding(
            f"the result of {self.model.who(request.member_id)} for epoch {request.group_epoch} "
            f"was refused: {step.response.error_message}",
            {"member": request.member_id},
        )


class ResultValid(ClientSideProperty):
    """coordinator §12.6, check 6, for whoever computes."""

    id = "assignor.result_valid"
    sentence = (
        "A client-side assignor of a client assigns every partition that it was given exactly once."
    )
    clauses = ("coordinator §12.6", "defects S8")
    violated_by = ("mut-streams-double-active",)

    def on_assignment_request(self, step: Step) -> Finding | None:
        """Look at every result, whatever becomes of it."""
        request = step.request
        if type(request) is not ConsumerGroupInstallAssignmentRequest:
            return None
        if not self.model.is_client(request.member_id):
            return None
        given = self.given(step, request)
        problem = None if given is None else problem_in(given, request, self.model.name_of)
        if problem is None:
            return None
        return Finding(f"{self.model.who(request.member_id)} computed a target in which {problem}")


class OwnVersion(ClientSideProperty):
    """coordinator §12.4."""

    id = "assignor.own_version"
    sentence = (
        "A client-side assignor of a client writes to each member in the version that member uses."
    )
    clauses = ("coordinator §12.4",)
    violated_by = ("mut-streams-own-version",)

    def on_assignment_request(self, step: Step) -> Finding | None:
        """Compare versions row by row."""
        request = step.request
        if type(request) is not ConsumerGroupInstallAssignmentRequest:
            return None
        if not self.model.is_client(request.member_id):
            return None
        given = self.given(step, request)
        used = {m.member_id: m.metadata_version for m in given.members} if given else {}
        for row in request.members:
            if row.metadata_version != used.get(row.member_id, row.metadata_version):
                return Finding(
                    f"{self.model.who(request.member_id)} wrote to "
                    f"{self.model.who(row.member_id)} in version {row.metadata_version}; that "
                    f"member uses {used[row.member_id]}",
                    {"member": row.member_id},
                )
        return None


class AssignorChangeHandled(ClientSideProperty):
    """coordinator §12.1: this is what replaces an enforced rebalance."""

    id = "assignment.news_heeded"
    sentence = (
        "What a member newly says to an assignor, or a new reason other than 0, raises the "
        "group epoch."
    )
    clauses = ("coordinator §12.1",)
    violated_by = ("mut-no-bump-on-reason",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at every member whose record was written."""
        if change.group_epoch[1] > change.group_epoch[0]:
            return None
        for member_id, (before, after) in change.members.items():
            old, new = _offers(before), _offers(after)
            if before is not None and after is not None and _is_news(old, new):
                return Finding(
                    f"{self.model.who(member_id)} has something new to say, and the group epoch "
                    f"stays {change.group_epoch[1]}",
                    {"member": member_id},
                )
        return None


class MetadataOfEpoch(ClientSideProperty):
    """coordinator §12.7."""

    id = "response.assignment_metadata"
    sentence = (
        "A member is told the metadata that came with the target of the epoch that it has "
        "reached; within an epoch they stay as they are."
    )
    clauses = ("coordinator §12.7",)
    violated_by = ("mut-metadata-ahead",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Is what is stored for the members of this batch right?"""
        ledger = change.ledger
        for member_id, (before, after) in change.members.items():
            old = before.current if before else None
            new = after.current if after else None
            if new is None or new is old or new.member_epoch < JOIN_EPOCH:
                continue
            if old is not None and old.member_epoch == new.member_epoch:
                expected = old.metadata
            elif new.member_epoch == ledger.target_epoch:
                expected = ledger.target_metadata.get(member_id)
            else:
                continue
            if new.metadata != expected:
                return Finding(
                    f"{self.model.who(member_id)} has other metadata at epoch {new.member_epoch} "
                    "than came with it",
                    {"member": member_id},
                )
        return None

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Is what the sender is told what is stored?"""
        response: ConsumerGroupHeartbeatResponse = step.response
        if response.assignment is None or step.request.member_epoch < JOIN_EPOCH:
            return None
        entry = self.model.ledger_of(step.shard).members.get(response.member_id or "")
        current = entry.current if entry else None
        if current is None or response.assignment_metadata == current.metadata:
            return None
        return Finding(
            f"{self.model.who(response.member_id or '')} was told other metadata at epoch "
            f"{response.member_epoch} than it has reached",
            {"member": response.member_id},
        )


def _offers(entry: MemberEntry | None) -> Sequence[ClientAssignor]:
    metadata = entry.metadata if entry else None
    return (metadata.client_assignors if metadata else None) or ()


def _is_news(old: Sequence[ClientAssignor], new: Sequence[ClientAssignor]) -> bool:
    if old is new:
        return False
    if len(old) != len(new):
        return True
    for one, other in zip(old, new, strict=True):
        if (one.name, one.metadata_version, one.metadata_bytes) != (
            other.name,
            other.metadata_version,
            other.metadata_bytes,
        ) or (one.minimum_version, one.maximum_version) != (
            other.minimum_version,
            other.maximum_version,
        ):
            return True
        if other.reason and other.reason != one.reason:
            return True
    return False
