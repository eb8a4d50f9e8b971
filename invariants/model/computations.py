"""What coordinators have asked of members that compute targets: a shadow model, kept from answers
alone.

Source: coordinator §12.3-§12.6 (the text of KIP-848). A coordinator keeps its choice of member in
memory only; what can be seen of it is whom it tells, what it hands out, and which timer fires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.protocol.wire.assignment_messages import (
    ClientAssignor,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

COMPUTATION_REQUESTS = (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupInstallAssignmentRequest,
)
"""The requests of a member that computes a target."""


@dataclass(slots=True, kw_only=True)
class ChosenMember:
    """A member that was told to compute. ``deadline_ms`` is when another one may take its place;
    ``target_epoch`` that of the group at the time, ``assignor`` the one that all preferred.
    ``is_overruled``: that has changed, the member has left for a while, or a batch was lost, and so
    the choice may be made anew."""

    member_id: str
    deadline_ms: int
    target_epoch: int
    assignor: str | None
    is_replaced: bool = False
    is_overruled: bool = False


@dataclass(slots=True)
class _ShardState:
    chosen: ChosenMember | None = None
    prepared: dict[str, ConsumerGroupPrepareAssignmentResponse] = field(default_factory=dict)


class Computations:
    """For each shard: the member that it told last, and what it has handed out to whom."""

    def __init__(self) -> None:
        self._by_shard: dict[str, _ShardState] = {}

    def chosen(self, shard_name: str) -> ChosenMember | None:
        """The member that was told to compute, if nothing has come of it yet."""
        state = self._by_shard.get(shard_name)
        return None if state is None else state.chosen

    def prepared(
        self, shard_name: str, request: ConsumerGroupInstallAssignmentRequest
    ) -> ConsumerGroupPrepareAssignmentResponse | None:
        """What the sender of this result was last given here, if it is of that epoch."""
        state = self._by_shard.get(shard_name)
        given = None if state is None else state.prepared.get(request.member_id)
        if given is None or given.group_epoch != request.group_epoch:
            return None
        return given

    # -- written by the checker ------------------------------------------------------------

    def note_chosen(self, shard_name: str, member_id: str, ledger: GroupLedger, at_ms: int) -> None:
        """A heartbeat was answered with ``should_compute_assignment``. Told again is the same as
        told once, unless somebody else was in between."""
        state = self._by_shard.setdefault(shard_name, _ShardState())
        chosen = state.chosen
        if chosen is not None and chosen.member_id == member_id and not chosen.is_replaced:
            return
        entry = ledger.members.get(member_id)
        timeout_ms = entry.metadata.rebalance_timeout_ms if entry and entry.metadata else 0
        state.chosen = ChosenMember(
            member_id=member_id,
            deadline_ms=at_ms + timeout_ms,
            target_epoch=ledger.target_epoch,
            assignor=preferred_assignor(ledger),
        )

    def note_change(self, shard_name: str, change: Change) -> None:
        """Whoever has gone computes no more, even if it comes back under the same id."""
        state = self._by_shard.get(shard_name)
        if state is None:
            return
        for member_id in change.removed():
            state.prepared.pop(member_id, None)
            if state.chosen is not None and state.chosen.member_id == member_id:
                state.chosen = None
        chosen = state.chosen
        if chosen is None:
            return
        _, after = change.members.get(chosen.member_id, (None, None))
        is_away = after is not None and after.epoch < JOIN_EPOCH
        if is_away or preferred_assignor(change.ledger) != chosen.assignor:
            chosen.is_overruled = True

    def note_answer(self, shard_name: str, request: Any, response: Any) -> None:
        """A group was handed out, or a result was accepted: the next computation is another one."""
        if response.error_code is not ErrorCode.NONE:
            return
        if type(response) is ConsumerGroupPrepareAssignmentResponse:
            state = self._by_shard.setdefault(shard_name, _ShardState())
            state.prepared[request.member_id] = response
        else:
            self._by_shard.pop(shard_name, None)

    def note_expired(self, shard_name: str, ledger: GroupLedger) -> None:
        """The time of the computing member is over. It is replaced if anybody else can compute."""
        chosen = self.chosen(shard_name)
        if chosen is not None:
            others = (m for m in sorted(ledger.members) if m != chosen.member_id)
            chosen.is_replaced = any(is_fit(ledger, other) for other in others)

    def note_failed_write(self, shard_name: str) -> None:
        """Memory went back. If a result was among what is lost, somebody is told anew; whoever was
        given the group may still hand in what it has computed."""
        chosen = self.chosen(shard_name)
        if chosen is not None:
            chosen.is_overruled = True

    def forget(self, shard_name: str) -> None:
        """The shard is loaded, or given up: it remembers nothing."""
        self._by_shard.pop(shard_name, None)


def offer_in(entry: MemberEntry | None, name: str) -> ClientAssignor | None:
    """What a member says to the assignor of this name, by its record."""
    offers = entry.metadata.client_assignors if entry and entry.metadata else None
    return next((offer for offer in offers or () if offer.name == name), None)


def is_fit(ledger: GroupLedger, member_id: str, *, instead_of: str | None = None) -> bool:
    """Can this member compute: is it present, and does it read what all say to an assignor that all
    offer? With ``instead_of``: by an assignor with which that member cannot."""
    entry = ledger.members.get(member_id)
    if entry is None or entry.metadata is None or entry.epoch < 0:
        return False
    for own in entry.metadata.client_assignors or ():
        said = [offer_in(other, own.name) for other in ledger.members.values()]
        versions = [offer.metadata_version for offer in said if offer is not None]
        if len(versions) < len(said) or not _reads(own, versions):
            continue
        if instead_of is None:
            return True
        other = offer_in(ledger.members.get(instead_of), own.name)
        if other is None or not _reads(other, versions):
            return True
    return False


def preferred_assignor(ledger: GroupLedger) -> str | None:
    """Of the assignors that all members offer, and whose metadata somebody reads, the one with the
    lowest sum of ranks, then the first in the alphabet (coordinator §12.2)."""
    ranks: dict[str, list[int]] = {}
    for entry in ledger.members.values():
        offers = entry.metadata.client_assignors if entry.metadata else None
        for rank, offer in enumerate(offers or ()):
            ranks.setdefault(offer.name, []).append(rank)
    common = [name for name, of_name in ranks.items() if len(of_name) == len(ledger.members)]
    for name in sorted(common, key=lambda name: (sum(ranks[name]), name)):
        offers_of_name = [offer_in(entry, name) for entry in ledger.members.values()]
        there = [offer for offer in offers_of_name if offer is not None]
        versions = [offer.metadata_version for offer in there]
        if any(_reads(offer, versions) for offer in there):
            return name
    return None


def _reads(offer: ClientAssignor, versions: list[int]) -> bool:
    return offer.minimum_version <= min(versions) and max(versions) <= offer.maximum_version


def problem_in(
    given: ConsumerGroupPrepareAssignmentResponse,
    request: ConsumerGroupInstallAssignmentRequest,
    name_of: Callable[[TopicPartition], str],
) -> str | None:
    """What is wrong with a result, by what it was computed from (coordinator §12.6); in words."""
    names = [row.member_id for row in request.members]
    strangers = set(names) - {member.member_id for member in given.members}
    if strangers:
        return f"{min(strangers)} was not in the group"
    if len(set(names)) < len(names):
        return "a member has two shares"
    counts: dict[TopicPartition, int] = {}
    for row in request.members:
        for partition in row.partitions:
            counts[partition] = counts.get(partition, 0) + 1
    twice = [partition for partition, count in counts.items() if count > 1]
    if twice:
        return f"{name_of(min(twice))} is assigned twice"
    expected: Mapping[str, int] = {t.topic_id: t.partition_count for t in given.topics}
    for partition in sorted(counts):
        if not 0 <= partition.partition < expected.get(partition.topic_id, 0):
            return f"{name_of(partition)} does not exist"
    missing = sum(expected.values()) - len(counts)
    return f"{missing} partitions are assigned to nobody" if missing else None
