"""What a coordinator answers: the truth, enough of it, and no refusal without a cause.

Sources: coordinator §1.4, §2.5-§2.9, §2.11.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import MemberEntry
from rebalance_sim.invariants.properties.consumer.epochs import explains_lost_response
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 130


class ResponseTruthful(Property):
    """coordinator §1.4, against the shadow model."""

    id = "response.truthful"
    sentence = (
        "A successful answer carries the member's stored epoch and, if any, exactly its "
        "assigned partitions; the answer to a leave repeats its epoch and nothing else."
    )
    clauses = ("coordinator §1.4", "coordinator H13", "defects S6")
    violated_by = ("KAFKA-19274", "test:lying-response")

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Compare answer and shadow model."""
        request: ConsumerGroupHeartbeatRequest = step.request
        response: ConsumerGroupHeartbeatResponse = step.response
        if request.member_epoch < JOIN_EPOCH:
            said = response.member_epoch, response.heartbeat_interval_ms, response.assignment
            if said == (request.member_epoch, 0, None):
                return None
            return Finding(
                f"a leave of {self.model.who(request.member_id)} at epoch {request.member_epoch} "
                f"was answered with epoch {response.member_epoch}, interval "
                f"{response.heartbeat_interval_ms} ms and "
                f"{self._assignment(response.assignment)}"
            )
        if response.member_id is None:
            return Finding("a successful answer lacks the member id")
        entry = self.model.ledger_of(step.shard).members.get(response.member_id)
        if entry is None:
            return Finding(f"{response.member_id} was answered with success and is no member")
        if response.member_epoch != entry.epoch:
            return Finding(
                f"{self.model.who(response.member_id)} was told epoch {response.member_epoch} and "
                f"is at {entry.epoch}",
                member=response.member_id,
            )
        assigned = entry.current.assigned.keys() if entry.current else frozenset()
        if response.assignment is None or response.assignment == assigned:
            return None
        return Finding(
            f"{self.model.who(response.member_id)} was told "
            f"{self.model.names_of(response.assignment)} and is assigned "
            f"{self.model.names_of(assigned)}",
            member=response.member_id,
        )

    def _assignment(self, partitions: frozenset[TopicPartition] | None) -> str:
        if partitions is None:
            return "no assignment"
        return f"the assignment {self.model.names_of(partitions)}"


class RefusalWritesNothing(Property):
    """coordinator §2.11. In the KIP's text a wrong epoch also removes the member
    (coordinator §13, row 7)."""

    id = "refusal.writes_nothing"
    sentence = "A refused request changes nothing."
    clauses = ("coordinator §2.11", "coordinator C17")
    violated_by = ("test:refusal-with-records",)

    def on_refused(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Were there records?"""
        if not step.records:
            return None
        code = step.response.error_code
        if code is ErrorCode.FENCED_MEMBER_EPOCH and self.model.rules.removes_fenced_member:
            return None
        return Finding(
            f"a request was refused with {code.name} and wrote {len(step.records)} records"
        )


class _Refusal(Property):
    """A refusal that a member did not deserve."""

    def found(self, step: Step, why: str) -> Finding:
        """The finding, with the code and the sender."""
        request: ConsumerGroupHeartbeatRequest = step.request
        code: ErrorCode = step.response.error_code
        return Finding(
            f"{self.model.who(request.member_id)} was refused with {code.name} at epoch "
            f"{request.member_epoch}: {why}",
            member=request.member_id,
        )


class RejoinAccepted(_Refusal):
    """coordinator §2.6; whoever drops everything and joins again has done nothing wrong."""

    id = "refusal.rejoin"
    sentence = "A registered member may join again under its own id at any time."
    clauses = ("coordinator §2.6", "coordinator §13, row 8", "defects L4")
    violated_by = ("KAFKA-19233",)

    def on_refused(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Was a join taken for an old epoch?"""
        if (
            before is None
            or step.request.member_epoch != JOIN_EPOCH
            or step.response.error_code is not ErrorCode.FENCED_MEMBER_EPOCH
        ):
            return None
        return self.found(step, f"it is registered at epoch {before.epoch}")


class LostResponseAccepted(_Refusal):
    """coordinator §2.8: one lost answer must not cost two rebalances."""

    id = "refusal.lost_response"
    sentence = (
        "A member that missed one answer is accepted at its previous epoch, if it reports only "
        "partitions that it still has."
    )
    clauses = ("coordinator §2.8", "defects L4", "defects L7")
    violated_by = ("KIP-848-lost-response",)

    def on_refused(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Was the previous epoch refused?"""
        if before is None or step.response.error_code is not ErrorCode.FENCED_MEMBER_EPOCH:
            return None
        if step.request.member_epoch <= JOIN_EPOCH:
            return None
        if not explains_lost_response(self.model, before, step.request):
            return None
        return self.found(step, f"the answer that carried epoch {before.epoch} may have been lost")


class OwnInstanceAccepted(_Refusal):
    """coordinator §2.7 and coordinator D2."""

    id = "refusal.own_instance"
    sentence = "No static member is refused because of its own instance id."
    clauses = ("coordinator §2.7", "defects L4")
    violated_by = ("PR-23542",)

    def on_refused(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Is the sender itself the holder?"""
        if step.response.error_code not in (
            ErrorCode.UNRELEASED_INSTANCE_ID,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            return None
        if before is None or before.instance_id != step.request.instance_id:
            return None
        return self.found(step, f"it holds instance id {before.instance_id} itself")


class FullGroupSeat(_Refusal):
    """coordinator §2.5 and coordinator D11."""

    id = "refusal.seat"
    sentence = (
        "A static member that returns to a full group gets its seat back, or is told that another "
        "has it; its size is no reason to refuse it."
    )
    clauses = ("coordinator §2.5", "coordinator §4.6", "defects L1")
    violated_by = ("KAFKA-20601",)

    def on_refused(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Does the instance id have a seat?"""
        request: ConsumerGroupHeartbeatRequest = step.request
        if step.response.error_code is not ErrorCode.GROUP_MAX_SIZE_REACHED:
            return None
        if request.instance_id is None or request.member_epoch != JOIN_EPOCH:
            return None
        ledger = self.model.ledger_of(step.shard)
        holder = ledger.instances.get(request.instance_id)
        if holder is None:
            return None
        epoch = ledger.members[holder].epoch
        why = "left for a while and keeps" if epoch == STATIC_LEAVE_EPOCH else "not left"
        return self.found(step, f"its predecessor {holder} has {why} its seat")


class ServerNeverFails(_Refusal):
    """coordinator §5.6: a target that cannot be computed blocks the whole group."""

    id = "refusal.server_error"
    sentence = "No heartbeat fails with an unexpected server error."
    clauses = ("coordinator §5.6", "defects L1", "defects L2")
    violated_by = (
        "KAFKA-16930",
        "classic-early-conversion",
        "classic-vanished-partition",
    )

    def on_refused(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Did the coordinator itself fail?"""
        if step.response.error_code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            return None
        return self.found(step, step.response.error_message or "no reason given")
