"""Violations that a simulated version is known for, and how each is recognised.

A shipped version carries defects (``Semantics.shipped_defects``), the protocol itself has limits. A
violation counts as known only if the version has the defect, nobody has switched it on for this
run, and the evidence shows the defect's own signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from protocol.semantics import Semantics

__all__ = ["KNOWN", "KnownDefect", "known_defect"]

Evidence = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDefect:
    """``defect`` breaks the promise ``promise_id``; ``recognises`` tells its signature."""

    defect: str
    promise_id: str
    signature: str
    recognises: Callable[[Evidence], bool]


def _is_own_instance(evidence: Evidence) -> bool:
    return (
        evidence["code"] == "UNRELEASED_INSTANCE_ID"
        and evidence["request_epoch"] == 0
        and evidence["holder"] == evidence["member"]
    )


def _is_full_seat(evidence: Evidence) -> bool:
    return (
        evidence["code"] == "GROUP_MAX_SIZE_REACHED"
        and evidence["request_epoch"] == 0
        and evidence["predecessor_epoch"] == -2
    )


def _is_refused_rejoin(evidence: Evidence) -> bool:
    return (
        evidence["code"] == "FENCED_MEMBER_EPOCH"
        and evidence["request_epoch"] == 0
        and evidence["stored_epoch"] != 0
        and evidence["previous_epoch"] != 0
    )


def _is_unfiltered(evidence: Evidence) -> bool:
    # The target of before the change is still in force, or the member revokes and ignores the new.
    if evidence["is_new_target"]:
        return bool(evidence["is_kept"]) and evidence["state"] == "UNREVOKED_PARTITIONS"
    return bool(evidence["is_kept"]) or bool(evidence["is_in_target"])


def _is_strict_commit(evidence: Evidence) -> bool:
    epoch, stored = evidence["epoch"], evidence["stored_epoch"]
    return isinstance(epoch, int) and isinstance(stored, int) and 0 < epoch < stored


def _is_given_away(evidence: Evidence) -> bool:
    return bool(evidence["was_given_away"])


def _is_after_failed_callback(evidence: Evidence) -> bool:
    return bool(evidence.get("has_failed_callback")) and not evidence.get("is_fetched")


COMMON_DEFECTS = (
    "D12",
    "D13",
    "D14",
    "classic-early-conversion",
    "classic-early-sync",
    "classic-forgotten-owners",
    "classic-quiet-return",
    "classic-recreated-topic",
    "classic-unheard-removal",
    "classic-unseen-growth",
    "classic-unseen-subscription",
    "classic-unwatched-join",
    "classic-vanished-partition",
    "sim-failed-callback",
    "sim-late-answer",
    "sim-overtaken-commit",
    "sim-repeated-ack",
    "sim-retried-commit",
)
"""What every version has: limits of the protocol itself (coordinator reference, section 15), and
defects of clients, each of which has one version only (docs/findings.md).
Those named ``classic-`` are of classic-group-and-migration.md: ``early-conversion``,
``forgotten-owners``, ``unseen-growth``, ``unseen-subscription`` and ``vanished-partition`` of
section 7.3, ``early-sync`` of 7.8, ``quiet-return`` of 2.5, ``unheard-removal`` and
``unwatched-join`` of 7.5; ``recreated-topic``: members of that protocol know topics by name."""

KNOWN: tuple[KnownDefect, ...] = (
    KnownDefect(
        defect="PR-23542",
        promise_id="refusal.own_instance",
        signature="a join at epoch 0 is refused as unreleased, and the sender is the holder",
        recognises=_is_own_instance,
    ),
    KnownDefect(
        defect="PR-23542",
        promise_id="coordinator.static_members",
        signature="a member has changed its instance id, and the former one is still mapped to it",
        recognises=lambda evidence: evidence["instance_changed"] is True,
    ),
    KnownDefect(
        defect="KAFKA-20601",
        promise_id="refusal.seat",
        signature="a static join finds the group full, and its predecessor has left for a while",
        recognises=_is_full_seat,
    ),
    KnownDefect(
        defect="KAFKA-19233",
        promise_id="refusal.rejoin",
        signature="a join at epoch 0 is fenced, and the member's previous epoch is not 0",
        recognises=_is_refused_rejoin,
    ),
    KnownDefect(
        defect="KAFKA-19431",
        promise_id="coordinator.subscribed_only",
        signature="what was dropped from the subscription stays, or comes by an older target",
        recognises=_is_unfiltered,
    ),
    KnownDefect(
        defect="KAFKA-20332",
        promise_id="client.deliver.owned",
        signature="records are handed out of an assigned partition that is marked to be revoked",
        recognises=lambda evidence: evidence.get("is_being_revoked") is True,
    ),
    KnownDefect(
        defect="KAFKA-20332",
        promise_id="client.revocation.committed",
        signature="records were handed out of a partition that was marked to be revoked",
        recognises=lambda evidence: evidence.get("was_late") is True,
    ),
    *(
        KnownDefect(
            defect="classic-recreated-topic",
            promise_id=promise_id,
            signature="a classic member goes on with a topic that was created anew under its name",
            recognises=lambda evidence: evidence.get("is_recreated") is True,
        )
        for promise_id in ("classic.exclusive_consumption", "offsets.commit_of_owner")
    ),
    *(
        KnownDefect(
            defect="classic-forgotten-owners",
            promise_id=promise_id,
            signature="a member was converted in the middle of a rebalance, and goes on as before",
            recognises=lambda evidence: evidence.get("is_forgotten") is True,
        )
        for promise_id in ("classic.exclusive_consumption", "offsets.commit_of_owner")
    ),
    *(
        KnownDefect(
            defect="classic-unheard-removal",
            promise_id=promise_id,
            signature="a removed member was let in again under its id, and keeps what it had",
            recognises=lambda evidence: evidence.get("is_readmitted") is True,
        )
        for promise_id in ("classic.exclusive_consumption", "offsets.commit_of_owner")
    ),
    KnownDefect(
        defect="classic-unseen-growth",
        promise_id="liveness.partitions_owned",
        signature="the group was converted, and its target has never had the partition",
        recognises=lambda evidence: evidence.get("is_unseen_since_conversion") is True,
    ),
    *(
        KnownDefect(
            defect="classic-quiet-return",
            promise_id=promise_id,
            signature="a static member came back to the generation, and no rebalance has followed",
            recognises=lambda evidence: evidence.get("has_quiet_return") is True,
        )
        for promise_id in ("liveness.classic_partitions_owned", "liveness.partitions_owned")
    ),
    *(
        KnownDefect(
            defect="classic-vanished-partition",
            promise_id=promise_id,
            signature="a conversion brings, or has brought, a partition of a topic made smaller",
            recognises=lambda evidence: evidence.get("has_vanished_partition") is True,
        )
        for promise_id in (
            "liveness.classic_settles",
            "liveness.converges",
            "liveness.partitions_owned",
            "refusal.server_error",
        )
    ),
    *(
        KnownDefect(
            defect="classic-unseen-subscription",
            promise_id=promise_id,
            signature="the group was converted, and a member has what it does not subscribe to",
            recognises=lambda evidence: evidence.get("has_unseen_subscription") is True,
        )
        for promise_id in ("liveness.classic_settles", "liveness.partitions_owned")
    ),
    KnownDefect(
        defect="classic-early-sync",
        promise_id="classic.sync_is_durable",
        signature="the group has just been converted back, and is Stable before that is committed",
        recognises=lambda evidence: evidence.get("is_conversion") is True,
    ),
    *(
        KnownDefect(
            defect="classic-unwatched-join",
            promise_id=promise_id,
            signature="a classic member joined, that was not committed in time, and it has gone",
            recognises=lambda evidence: evidence.get("has_unwatched_join") is True,
        )
        for promise_id in (
            "liveness.converges",
            "liveness.ghosts_gone",
            "liveness.partitions_owned",
        )
    ),
    KnownDefect(
        defect="classic-early-conversion",
        promise_id="classic.timers_armed",
        signature="a refused conversion has answered a parked request, and armed no session",
        recognises=lambda evidence: evidence.get("is_unparked") is True,
    ),
    KnownDefect(
        defect="classic-early-conversion",
        promise_id="refusal.server_error",
        signature="a join finds a classic group in a join phase, which cannot be converted then",
        recognises=lambda evidence: evidence.get("converts_classic_group") is True,
    ),
    KnownDefect(
        defect="KAFKA-20066",
        promise_id="offsets.rightful_commit",
        signature="a commit at an older epoch is refused, although the partitions were kept",
        recognises=_is_strict_commit,
    ),
    *(
        KnownDefect(
            defect="sim-stale-subscription-type",
            promise_id=promise_id,
            signature="a target is installed by a request that brings a pattern, and no new epoch",
            recognises=lambda evidence: evidence.get("brings_unresolved_pattern") is True,
        )
        for promise_id in (
            "target.complete",
            "target.current",
            "target.subscribed_only",
            "coordinator.subscribed_only",
        )
    ),
    *(
        KnownDefect(
            defect="sim-lost-pattern-withdrawal",
            promise_id=promise_id,
            signature="the coordinator has a pattern of a client that has none any more",
            recognises=lambda evidence: evidence.get("keeps_withdrawn_pattern") is True,
        )
        for promise_id in ("liveness.converges", "liveness.partitions_owned")
    ),
    *(
        KnownDefect(
            defect="sim-unheard-grant",
            promise_id=promise_id,
            signature=(
                "in the calm, a member waits to be removed for keeping what was granted behind its "
                "back, and taken away before it heard"
            ),
            recognises=lambda evidence: evidence.get("unheard_revocation") is True,
        )
        for promise_id in ("liveness.converges", "liveness.partitions_owned")
    ),
    *(
        KnownDefect(
            defect="D12",
            promise_id=promise_id,
            signature=(
                "an owned list left out what the client had accepted and was still to take over, "
                "and so the coordinator released that without a revocation"
            ),
            recognises=_is_given_away,
        )
        for promise_id in (
            "cross.assigned_is_held",
            "cross.current_fits_target",
            "cross.exclusive_consumption",
            "offsets.commit_of_owner",
        )
    ),
    KnownDefect(
        defect="D13",
        promise_id="offsets.of_this_topic",
        signature="the request names a topic that has been created anew, by its name or its new id",
        recognises=lambda evidence: evidence["goes_by_name"] is True,
    ),
    KnownDefect(
        defect="D14",
        promise_id="coordinator.removal_due",
        signature="the timer was left armed by a batch that could not be written, and ran out",
        recognises=lambda evidence: evidence.get("left_by_failed_write") is True,
    ),
    *(
        KnownDefect(
            defect="D14",
            promise_id=promise_id,
            signature=(
                "a member has lost a timer with a batch that could not be written, and has not "
                "been heard of since"
            ),
            recognises=lambda evidence: evidence.get("lost_with_failed_write") is True,
        )
        for promise_id in (
            "coordinator.timers_armed",
            "liveness.converges",
            "liveness.ghosts_gone",
            "liveness.partitions_owned",
            "liveness.revocation_bounded",
            "liveness.target_computed",
        )
    ),
    *(
        KnownDefect(
            defect="sim-failed-callback",
            promise_id=promise_id,
            signature=(
                "the assigned callback has failed after the new set was taken over, and a later "
                "target equal to the old set was acknowledged without taking that over"
            ),
            recognises=_is_after_failed_callback,
        )
        for promise_id in (
            "client.stable.means_equal",
            "cross.assigned_is_held",
            "liveness.partitions_owned",
        )
    ),
    *(
        KnownDefect(
            defect="sim-late-answer",
            promise_id=promise_id,
            signature="the answer to a heartbeat from before the last join came after that join",
            recognises=lambda evidence: evidence["took_late_answer"] is True,
        )
        for promise_id in (
            "client.epoch.sign",
            "client.hb.join_shape",
            "cross.assigned_is_held",
            "cross.current_fits_target",
        )
    ),
    *(
        KnownDefect(
            defect="sim-retried-commit",
            promise_id=promise_id,
            signature="a commit that was refused, or got lost, was repeated with newer positions",
            recognises=lambda evidence: evidence["is_repeated"] is True,
        )
        for promise_id in ("client.commit.processed", "client.start.processed")
    ),
    KnownDefect(
        defect="sim-repeated-ack",
        promise_id="liveness.partitions_owned",
        signature="a librdkafka client has the right epoch, and was never told of all it holds",
        recognises=lambda evidence: evidence.get("was_told_nothing") is True,
    ),
    KnownDefect(
        defect="sim-overtaken-commit",
        promise_id="client.start.committed",
        signature="a client has sent an older commit after a newer one, and the older one stayed",
        recognises=lambda evidence: evidence["was_overtaken"] is True,
    ),
)
"""All signatures."""


def known_defect(semantics: Semantics, promise_id: str, evidence: Evidence) -> str | None:
    """The shipped defect that explains this violation, or None."""
    for entry in KNOWN:
        if (
            entry.promise_id == promise_id
            and entry.defect in (*semantics.shipped_defects, *COMMON_DEFECTS)
            and entry.defect not in semantics.defects
            and entry.recognises(evidence)
        ):
            return entry.defect
    return None
