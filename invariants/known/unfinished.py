"""What has not come about in the quiet period, and the known issues that explain it."""

from __future__ import annotations

from rebalance_sim.invariants.known.known_issues import known_issue
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.deleted_partitions import has_vanished_partition
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Late
from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA
from rebalance_sim.protocol.versions.semantics import Semantics


def explanation(
    property_id: str,
    late: Late,
    semantics: Semantics,
    model: ModelView,
    quiet_since_ms: int | None,
) -> str | None:
    """The known issue that explains it, by the evidence of its group and of the client it hangs
    on; None if there is none. ``quiet_since_ms``: when the last fault ended."""
    evidence: dict[str, object] = {
        "unreported_revocation": _has_unreported_revocation(model, quiet_since_ms),
    }
    ledger, shard = model.acting_ledger(), model.acting_shard()
    if ledger is not None and shard is not None:
        evidence |= _of_group(late, model, shard, ledger)
    entry = model.clients.get(late.client)
    if entry is not None:
        evidence |= _of_client(entry, ledger)
    return known_issue(semantics, property_id, evidence)


def _of_group(
    late: Late, model: ModelView, shard: ShardView, ledger: GroupLedger
) -> dict[str, object]:
    classic = model.classic_group_in(shard)
    # A conversion back without a rebalance makes targets assignments that nobody fetches.
    generation_id = ledger.converted_epoch if classic is None else classic.generation_id
    return {
        "lost_with_failed_write": model.failed_writes.hold_up(shard, ledger),
        "has_stranded_members": 0 < ledger.classic_count == len(ledger.members)
        and (
            ledger.group_epoch > ledger.target_epoch or late.evidence.get("is_in_no_target") is True
        ),
        "has_unwatched_join": model.failed_writes.leave_unwatched(shard, ledger),
        "has_quiet_return": generation_id in model.quiet_returns,
        "has_unseen_subscription": _has_unseen_subscription(shard, ledger),
        "has_vanished_partition": has_vanished_partition(model, shard),
        "is_unseen_since_conversion": ledger.converted_epoch >= 0
        and late.evidence.get("is_in_no_target") is True,
    }


def _of_client(entry: ClientEntry, ledger: GroupLedger | None) -> dict[str, object]:
    return {
        "has_failed_callback": entry.has_failed_callback,
        "keeps_withdrawn_pattern": _keeps_withdrawn_pattern(entry, ledger),
        "was_sent_nothing": _was_sent_nothing(entry, ledger),
    }


def _has_unseen_subscription(shard: ShardView, ledger: GroupLedger) -> bool:
    """Is the target still that of a classic group, and has some member changed its subscription
    since its leader gave it that?"""
    if not ledger.has_converted_target:
        return False
    by_id = shard.coordinator.image.by_id
    return any(
        (topic := by_id.get(partition.topic_id)) is not None
        and topic.name not in ledger.names_of(entry)
        for member_id, entry in ledger.members.items()
        for partition in ledger.targets.get(member_id, ())
    )


def _has_unreported_revocation(model: ModelView, quiet_since_ms: int | None) -> bool:
    """Does the group wait, or has it waited in this quiet period, for an acknowledgement of what
    its owner was never told of?"""
    if quiet_since_ms is not None and model.expelled_unreported_ms >= quiet_since_ms:
        return True
    ledger = model.acting_ledger()
    return ledger is not None and any(model.is_unreported(*item) for item in ledger.members.items())


def _was_sent_nothing(entry: ClientEntry, ledger: GroupLedger | None) -> bool:
    """Is this a librdkafka client, up to date by its epoch, for which the coordinator holds
    what was in no answer that reached it?"""
    member = entry.member
    stored = ledger.members.get(member.member_id) if ledger else None
    return (
        member.kind == LIBRDKAFKA
        and stored is not None
        and stored.epoch == member.member_epoch
        and not stored.held() <= member.target.partitions
    )


def _keeps_withdrawn_pattern(entry: ClientEntry, ledger: GroupLedger | None) -> bool:
    """Does the coordinator have a pattern of this client, which has none any more?"""
    stored = ledger.members.get(entry.member.member_id) if ledger else None
    return (
        stored is not None
        and stored.metadata is not None
        and stored.metadata.subscribed_topic_regex != ""
        and entry.member.subscribed_topic_regex is None
    )
