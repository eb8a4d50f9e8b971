"""Who a client is: it makes its id, keeps it through failures, and asks where its coordinator is.

Sources: client §2.3, §5; classic §4.3.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 231

_OF_COORDINATORS = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
"""Errors that say nothing of the member."""

_IN_GROUP = (ClientState.STABLE, ClientState.RECONCILING, ClientState.JOINING, ClientState.FENCED)


class OwnId(Property):
    """KIP-1082. If the coordinator made the id and its answer were lost, nobody would have it."""

    id = "client.hb.own_id"
    sentence = "A client joins with an id that it has made itself."
    clauses = ("client §5", "defects S7")
    violated_by = ("KAFKA-17116",)

    def on_joining(
        self, step: Step, entry: ClientEntry, request: ConsumerGroupHeartbeatRequest
    ) -> Finding | None:
        """Is there one?"""
        if request.member_id:
            return None
        return Finding(f"{entry.name} joins without a member id", client=entry.name)
