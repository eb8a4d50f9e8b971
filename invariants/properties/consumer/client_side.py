"""Targets that members compute: by the right one, from what it was given, and no other way.

Source: coordinator §12 (the text of KIP-848). No other version has such targets, and none of these
properties is asked about there.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.computations import is_fit, problem_in
from rebalance_sim.invariants.model.ledger import MemberEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.assignment_messages import (
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
            member=response.member_id,
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
                member=request.member_id,
            )
        chosen = self.model.computations.chosen(step.shard.name)
        if chosen is not None and (chosen.member_id != request.member_id or chosen.is_replaced):
            return Finding(
                f"{who} installed a target after another member took its place",
                member=request.member_id,
            )
        return None


class TargetAsComputed(ClientSideProperty):
    """coordinator §12.6, check 6 and step 7."""

    id = "assignment.as_computed"
    sentence = (
        "A computed target that is installed is whole by the group that was handed out: "
        "present members have their share of it, static ones that of their predecessor; "
        "whoever has joined has nothing, whoever has left is not in it."
    )
    clauses = ("coordinator §12.6",)
    violated_by = (
        "mut-install-keeps-leavers",
        "mut-install-forgets-heirs",
    )

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
                return Finding(f"{member_id} has a target and has left", member=member_id)
            if ledger.targets.get(member_id) != expected:
                return Finding(
                    f"the target of {self.model.who(member_id)} is "
                    f"{self.model.names_of(ledger.targets.get(member_id, ()))}, computed was "
                    f"{self.model.names_of(expected)}",
                    member=member_id,
                )
        return None


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
                    member=row.member_id,
                )
        return None
