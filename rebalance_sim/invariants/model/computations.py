"""Who was asked to compute a target, and from what: kept from answers alone.

Source: coordinator §12.3-§12.6 (the text of KIP-848). A coordinator keeps its choice of member in
memory only; what can be seen of it is whom it tells, and what it hands out.
"""

from __future__ import annotations

from typing import Any

from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)

COMPUTATION_REQUESTS = (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupInstallAssignmentRequest,
)
"""The requests of a member that computes a target."""


class Computations:
    """For each shard: the member that it asked last, and what it has handed out to whom."""

    def __init__(self) -> None:
        self.chosen: dict[str, str] = {}
        """Shard -> the member that was asked to compute, if nothing has come of it yet."""
        self._prepared: dict[tuple[str, str], ConsumerGroupPrepareAssignmentResponse] = {}

    def prepared(
        self, shard_name: str, request: ConsumerGroupInstallAssignmentRequest
    ) -> ConsumerGroupPrepareAssignmentResponse | None:
        """What the sender of this result was last given here, if it is of that epoch."""
        given = self._prepared.get((shard_name, request.member_id))
        return given if given and given.group_epoch == request.group_epoch else None

    def note_change(self, shard_name: str, change: Change) -> None:
        """A member that has gone computes no more, even if it comes back under the same id."""
        for member_id in change.removed() if self.chosen or self._prepared else ():
            self._prepared.pop((shard_name, member_id), None)
            if self.chosen.get(shard_name) == member_id:
                del self.chosen[shard_name]

    def note_answer(self, shard_name: str, request: Any, response: Any) -> None:
        """A group was handed out, or a result was accepted: the next computation is another one."""
        if response.error_code:
            return
        if type(response) is ConsumerGroupPrepareAssignmentResponse:
            self._prepared[shard_name, request.member_id] = response
        else:
            self.forget(shard_name)

    def forget(self, shard_name: str) -> None:
        """The shard is loaded, or given up: it remembers nothing."""
        self.chosen.pop(shard_name, None)
        for key in [key for key in self._prepared if key[0] == shard_name]:
            del self._prepared[key]


def is_fit(ledger: GroupLedger, member_id: str) -> bool:
    """Can this member compute: is it present, and does it read what all say to an assignor that all
    offer?"""
    entry = ledger.members.get(member_id)
    if entry is None or entry.metadata is None or entry.epoch < 0:
        return False
    for own in entry.metadata.client_assignors or ():
        versions = [
            offer.metadata_version
            for other in ledger.members.values()
            for offer in (other.metadata.client_assignors or () if other.metadata else ())
            if offer.name == own.name
        ]
        is_common = len(versions) == len(ledger.members)
        if is_common and own.minimum_version <= min(versions) <= max(versions) <= (
            own.maximum_version
        ):
            return True
    return False
