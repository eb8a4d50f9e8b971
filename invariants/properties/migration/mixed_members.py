"""What a consumer group stores of its classic members.

Source: classic §7.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.formatting import listed
from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest, JoinGroupResponse
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import MemberMetadataValue

ORDER = 191

_UNCHANGED_TIMEOUT_MS = -1


class ClassicMemberFieldsAsRequested(Property):
    """classic §7.5. Whoever takes a static member's place has nothing of what that one said."""

    id = "hybrid.member_fields_as_requested"
    sentence = (
        "What a consumer group stores of a classic member is what its JoinGroup has said last: "
        "topics and no pattern, rack, timeouts, instance id and assignors."
    )
    clauses = ("classic §7.5",)
    violated_by = ("KAFKA-19720", "test:classic-member-without-rack")
    judges_mixed = True
    interest = Interest(requests=(JoinGroupRequest,))

    def on_classic_request(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Compare the sender's record with its request, unless it has converted the group back."""
        request, response, shard = step.request, step.response, step.shard
        if (
            type(response) is not JoinGroupResponse
            or response.error_code is not ErrorCode.NONE
            or self.model.group_in(shard) is None
        ):
            return None
        entry = self.model.ledger_of(shard).members.get(response.member_id)
        if entry is None or entry.metadata is None:
            return None
        for difference in _differences(request, entry.metadata):
            return Finding(
                f"{response.member_id} is stored with {difference}", {"member": response.member_id}
            )
        return None


def _differences(request: JoinGroupRequest, stored: MemberMetadataValue) -> Iterator[str]:
    subscription = request.protocols[0].metadata
    if isinstance(subscription, Subscription):
        said = sorted(set(subscription.topics))
        if sorted(stored.subscribed_topic_names) != said:
            names = listed(sorted(stored.subscribed_topic_names))
            yield f"the topics {names}, and has said {listed(said)}"
        if subscription.rack_id and stored.rack_id != subscription.rack_id:
            yield f"{stored.rack_id or 'no'} rack, and has said {subscription.rack_id}"
    if stored.subscribed_topic_regex:
        yield f"the pattern {stored.subscribed_topic_regex}, which no classic member has"
    timeout_ms = request.effective_rebalance_timeout_ms
    if timeout_ms not in (_UNCHANGED_TIMEOUT_MS, stored.rebalance_timeout_ms):
        yield f"a rebalance timeout of {stored.rebalance_timeout_ms} ms, and has said {timeout_ms}"
    if request.group_instance_id not in (None, stored.instance_id):
        yield f"instance id {stored.instance_id}, and has said {request.group_instance_id}"
    metadata = stored.classic_member_metadata
    if metadata is None:
        yield "nothing of the classic protocol"
    elif metadata.session_timeout_ms != request.session_timeout_ms:
        said_ms = request.session_timeout_ms
        yield f"a session timeout of {metadata.session_timeout_ms} ms, and has said {said_ms}"
    elif metadata.supported_protocols != request.protocols:
        yield "other assignors, or other metadata, than it has sent"
