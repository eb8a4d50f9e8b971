"""Violations that a simulated version is known for, and how each is recognised.

A shipped version carries defects (``Semantics.shipped_defects``), and so does the protocol itself.
A violation is explained only if the version has the defect, nobody has switched it on for this run,
and the evidence shows the defect's own signature for the very subject of the violation. Whether it
is the defect indeed shows in a run without it (``scenarios/counterfactual.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rebalance_sim.invariants.explanation import Explanation, Seen, Subject, named, subjects_of
from rebalance_sim.invariants.property import Finding
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.consumer_messages import STATIC_LEAVE_EPOCH

Evidence = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Moment:
    """A violation: who or what it is about, its evidence, its step."""

    subjects: tuple[Subject, ...]
    evidence: Evidence
    step: int
    at_ms: int


def _always(evidence: Evidence) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIssue:
    """``issue`` violates the properties ``property_ids``; ``signature`` is how it shows.

    ``sign``: the item of the evidence that has what was ``Seen`` of it, one or several, or None.
    Without one the step of the violation itself is the cause. ``recognises`` must be true of the
    evidence in either case.
    """

    issue: str
    property_ids: tuple[str, ...]
    signature: str
    sign: str = ""
    recognises: Callable[[Evidence], bool] = _always

    def causes(self, moment: Moment) -> tuple[Seen, ...]:
        """What was seen of the issue; nothing if the evidence does not show it."""
        if not self.recognises(moment.evidence):
            return ()
        if self.sign:
            seen = moment.evidence.get(self.sign)
            several = seen if isinstance(seen, tuple) else (seen,)
            return tuple(one for one in several if isinstance(one, Seen))
        return tuple(
            Seen(subject=subject, step=moment.step, at_ms=moment.at_ms, what=self.signature)
            for subject in moment.subjects
        )


def _shows(sign: str) -> Callable[[Evidence], bool]:
    """Whether the evidence says that this is so."""
    return lambda evidence: evidence.get(sign) is True


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
        and evidence["predecessor_epoch"] is not None
    )


def _is_refused_rejoin(evidence: Evidence) -> bool:
    # To who has left for a while, at epoch -2, 0 is a newer epoch; else it is an older one.
    return (
        evidence["code"] == "FENCED_MEMBER_EPOCH"
        and evidence["request_epoch"] == 0
        and evidence["stored_epoch"] != 0
        and (evidence["previous_epoch"] != 0 or evidence["stored_epoch"] == STATIC_LEAVE_EPOCH)
    )


def _is_unfiltered(evidence: Evidence) -> bool:
    # The target of before the change is still in force, or the member revokes and ignores the new.
    if evidence["is_new_target"]:
        return bool(evidence["is_kept"]) and evidence["state"] == "UNREVOKED_PARTITIONS"
    return bool(evidence["is_kept"]) or bool(evidence["is_in_target"])


def _is_strict_commit(evidence: Evidence) -> bool:
    epoch, stored = evidence["request_epoch"], evidence["stored_epoch"]
    is_older = isinstance(epoch, int) and isinstance(stored, int) and 0 < epoch < stored
    return is_older and evidence["code"] == "STALE_MEMBER_EPOCH"


def _is_not_fetched(evidence: Evidence) -> bool:
    return not evidence.get("is_fetched")


KNOWN_ISSUES: tuple[KnownIssue, ...] = (
    KnownIssue(
        issue="PR-23542",
        property_ids=("refusal.cause",),
        signature="a join at epoch 0 is refused as unreleased, and the sender is the holder",
        recognises=_is_own_instance,
    ),
    KnownIssue(
        issue="KAFKA-20747",
        property_ids=("coordinator.static_members",),
        signature="a member has changed its instance id, and the former one is still mapped to it",
        sign="instance_changed",
    ),
    KnownIssue(
        issue="KAFKA-20442",
        property_ids=("coordinator.emptied_group_settled",),
        signature="the last member is removed, and no target epoch is written",
    ),
    KnownIssue(
        issue="KAFKA-20434",
        property_ids=("coordinator.epoch_cause",),
        signature="a heartbeat changes which assignor is preferred, and not the group epoch",
        recognises=_shows("is_for_assignor"),
    ),
    KnownIssue(
        issue="tied-assignor-votes",
        property_ids=("coordinator.epoch_cause",),
        signature="members vote for several assignors, and a heartbeat that changes nothing raises "
        "the group epoch",
        recognises=_shows("votes_tie"),
    ),
    KnownIssue(
        issue="tied-assignor-votes",
        property_ids=("liveness.converges", "liveness.partitions_owned"),
        signature="members vote for several assignors, each for one that no other votes for",
        sign="has_tied_votes",
    ),
    KnownIssue(
        issue="classic-dropped-group",
        property_ids=("coordinator.group_kept",),
        signature="an empty consumer group is gone from memory, and no tombstone was written",
    ),
    KnownIssue(
        issue="KAFKA-20601",
        property_ids=("refusal.cause", "classic.refusal_cause"),
        signature="a static join finds the group full, and its predecessor has a seat there",
        recognises=_is_full_seat,
    ),
    KnownIssue(
        issue="KAFKA-19233",
        property_ids=("refusal.cause",),
        signature="a join at epoch 0 is fenced, and neither epoch nor previous epoch are 0",
        recognises=_is_refused_rejoin,
    ),
    KnownIssue(
        issue="KAFKA-19431",
        property_ids=("coordinator.subscribed_only",),
        signature="what was dropped from the subscription stays, or comes by an older target",
        recognises=_is_unfiltered,
    ),
    KnownIssue(
        issue="KAFKA-20332",
        property_ids=("client.deliver.owned",),
        signature="records are handed out of an assigned partition that is marked to be revoked",
        recognises=_shows("is_being_revoked"),
    ),
    KnownIssue(
        issue="KAFKA-20332",
        property_ids=("client.revocation.committed",),
        signature="records were handed out of a partition that was marked to be revoked",
        sign="was_late",
    ),
    KnownIssue(
        issue="KAFKA-19813",
        property_ids=("client.hb.backoff", "client.hb.backoff_bound"),
        signature="a heartbeat follows on a failed one outside of any backoff of 4.3.1",
        recognises=_shows("is_after_failure"),
    ),
    KnownIssue(
        issue="classic-recreated-topic",
        property_ids=("classic.exclusive_consumption", "offsets.commit_of_owner"),
        signature="a classic member goes on with a topic that was created anew under its name",
        sign="is_recreated",
    ),
    KnownIssue(
        issue="classic-reused-generation",
        property_ids=("classic.exclusive_consumption",),
        signature="the generation of a client is one of a former coordinator, used again since",
        sign="is_reused_generation",
    ),
    KnownIssue(
        issue="classic-forgotten-owners",
        property_ids=("classic.exclusive_consumption", "offsets.commit_of_owner"),
        signature="a member was converted in the middle of a rebalance, and goes on as before",
        sign="is_forgotten",
    ),
    KnownIssue(
        issue="classic-forgotten-assignor",
        property_ids=("client.fatal.cause",),
        signature="the group was converted between a member's JoinGroup and its SyncGroup",
        sign="has_forgotten_assignor",
    ),
    KnownIssue(
        issue="classic-unheard-removal",
        property_ids=("classic.exclusive_consumption", "offsets.commit_of_owner"),
        signature="a removed member was let in again under its id, and keeps what it had",
        sign="is_readmitted",
    ),
    KnownIssue(
        issue="classic-stranded-members",
        property_ids=("liveness.classic_settles", "liveness.partitions_owned"),
        signature="a consumer group of classic members alone lacks a target, or knows old topics",
        sign="has_stranded_members",
    ),
    KnownIssue(
        issue="classic-unseen-growth",
        property_ids=("liveness.partitions_owned",),
        signature="the group was converted, and its target has never had the partition",
        sign="is_unseen_since_conversion",
    ),
    KnownIssue(
        issue="classic-quiet-return",
        property_ids=("liveness.classic_partitions_owned", "liveness.partitions_owned"),
        signature="a static member came back to the generation, and no rebalance has followed",
        sign="has_quiet_return",
    ),
    KnownIssue(
        issue="KAFKA-20273",
        property_ids=("liveness.classic_partitions_owned", "liveness.partitions_owned"),
        signature="a JoinGroup has a target due, converts the group, and no rebalance has followed",
        sign="leaves_due_target",
    ),
    KnownIssue(
        issue="classic-vanished-partition",
        property_ids=(
            "liveness.classic_settles",
            "liveness.converges",
            "liveness.partitions_owned",
            "refusal.server_error",
        ),
        signature="a conversion brings, or has brought, a partition of a topic made smaller",
        sign="has_vanished_partition",
    ),
    KnownIssue(
        issue="classic-unseen-subscription",
        property_ids=("liveness.classic_settles", "liveness.partitions_owned"),
        signature="the group was converted, and a member has what it does not subscribe to",
        sign="has_unseen_subscription",
    ),
    KnownIssue(
        issue="classic-early-sync",
        property_ids=("classic.sync_is_durable",),
        signature="the group has just been converted back, and is Stable before that is committed",
        recognises=_shows("is_conversion"),
    ),
    KnownIssue(
        issue="classic-unwatched-join",
        property_ids=(
            "liveness.converges",
            "liveness.stale_members_removed",
            "liveness.partitions_owned",
        ),
        signature="a classic member joined, that was not committed in time, and it has gone",
        sign="has_unwatched_join",
    ),
    KnownIssue(
        issue="classic-early-conversion",
        property_ids=("classic.timers_armed",),
        signature="a refused conversion has answered a parked request, and armed no session",
        sign="is_unparked",
    ),
    KnownIssue(
        issue="classic-early-conversion",
        property_ids=("refusal.server_error",),
        signature="a join finds a classic group in a join phase, which cannot be converted then",
        recognises=_shows("converts_classic_group"),
    ),
    KnownIssue(
        issue="librdkafka-4533",
        property_ids=("liveness.classic_partitions_owned",),
        signature="the leader, of librdkafka, does not subscribe to the topic, which has grown",
        sign="is_overlooked",
    ),
    KnownIssue(
        issue="sim-kept-timers",
        property_ids=(
            "coordinator.removal_due",
            "coordinator.timers_armed",
        ),
        signature="a member has gone on with the other protocol under its id",
        sign="has_switched",
    ),
    KnownIssue(
        issue="KAFKA-20066",
        property_ids=("offsets.commit_refusal_cause",),
        signature="a commit at an older epoch is refused, although the partitions were kept",
        recognises=_is_strict_commit,
    ),
    KnownIssue(
        issue="sim-stale-subscription-type",
        property_ids=(
            "target.complete",
            "target.current",
            "target.subscribed_only",
            "coordinator.subscribed_only",
        ),
        signature="a target is installed by a request that brings a pattern, and no new epoch",
        recognises=_shows("brings_unresolved_pattern"),
    ),
    KnownIssue(
        issue="sim-lost-pattern-withdrawal",
        property_ids=("liveness.converges", "liveness.partitions_owned"),
        signature="the coordinator has a pattern of a client that has none any more",
        sign="keeps_withdrawn_pattern",
    ),
    KnownIssue(
        issue="sim-unheard-grant",
        property_ids=("liveness.converges", "liveness.partitions_owned"),
        signature=(
            "in the quiet period, a member waits to be removed for keeping what was granted behind "
            "its back, and taken away before it heard"
        ),
        sign="unreported_revocation",
    ),
    KnownIssue(
        issue="D12",
        property_ids=(
            "classic.exclusive_consumption",
            "cross.assigned_is_held",
            "cross.current_fits_target",
            "cross.exclusive_consumption",
            "offsets.commit_of_owner",
        ),
        signature=(
            "an owned list left out what the client had accepted and was still to take over, "
            "and so the coordinator released that without a revocation"
        ),
        sign="was_lost_unrevoked",
    ),
    KnownIssue(
        issue="D13",
        property_ids=("offsets.of_this_topic",),
        signature="the request names a topic that has been created anew, by its name or its new id",
        recognises=_shows("goes_by_name"),
    ),
    KnownIssue(
        issue="D13",
        property_ids=("client.start.committed", "client.start.processed"),
        signature="the offset was reached in a deleted topic, and stored for its successor",
        sign="is_misplaced",
    ),
    KnownIssue(
        issue="D14",
        property_ids=("coordinator.removal_due",),
        signature="the timer was left armed by a batch that could not be written, and ran out",
        sign="left_by_failed_write",
    ),
    KnownIssue(
        issue="D14",
        property_ids=(
            "classic.timers_armed",
            "coordinator.timers_armed",
            "liveness.classic_settles",
            "liveness.converges",
            "liveness.stale_members_removed",
            "liveness.partitions_owned",
            "liveness.revocation_bounded",
            "liveness.target_computed",
        ),
        signature=(
            "a member has lost a timer with a batch that could not be written, and has not "
            "sent anything since"
        ),
        sign="lost_with_failed_write",
    ),
    KnownIssue(
        issue="sim-failed-callback",
        property_ids=(
            "client.lookup.completes",
            "client.stable.means_equal",
            "cross.assigned_is_held",
            "liveness.partitions_owned",
        ),
        signature=(
            "the assigned callback has failed after the new set was taken over, and a later "
            "target equal to the old set was acknowledged without taking that over"
        ),
        sign="has_failed_callback",
        recognises=_is_not_fetched,
    ),
    KnownIssue(
        issue="sim-late-answer",
        property_ids=(
            "client.fatal.cause",
            "client.join.cause",
            "cross.assigned_is_held",
            "cross.current_fits_target",
        ),
        signature="the answer to a heartbeat from before the last join came after that join",
        sign="took_late_answer",
    ),
    KnownIssue(
        issue="sim-retried-commit",
        property_ids=("client.commit.processed", "client.start.processed"),
        signature="a commit that was refused, or got lost, was repeated with newer positions",
        sign="is_repeated",
    ),
    KnownIssue(
        issue="sim-repeated-ack",
        property_ids=("liveness.partitions_owned",),
        signature="a librdkafka client has the right epoch, and was never told of all it holds",
        sign="was_sent_nothing",
    ),
    KnownIssue(
        issue="sim-overtaken-heartbeat",
        property_ids=("liveness.partitions_owned",),
        signature="a heartbeat that the client had given up was granted what it never heard of",
        sign="was_granted_unheard",
    ),
    KnownIssue(
        issue="sim-outlived-membership",
        property_ids=("classic.exclusive_consumption", "offsets.commit_of_owner"),
        signature="a librdkafka client joins anew, and keeps what it had under its former id",
        sign="has_outlived",
    ),
    KnownIssue(
        issue="sim-overtaken-commit",
        property_ids=("client.start.committed",),
        signature="a client has sent an older commit after a newer one, and the older one stayed",
        sign="was_overtaken",
    ),
)
"""All signatures."""


def explain(
    semantics: Semantics, property_id: str, finding: Finding, *, step: int, at_ms: int
) -> Explanation | None:
    """The known issue of the version that is the reason for a violation at this step, or None."""
    subjects = subjects_of(finding.evidence)
    for entry in KNOWN_ISSUES:
        if (
            property_id in entry.property_ids
            and entry.issue in semantics.shipped_defects
            and entry.issue not in semantics.defects
        ):
            moment = Moment(subjects, finding.evidence, step, at_ms)
            explanation = Explanation(
                issue=entry.issue, causes=entry.causes(moment), about=named(subjects)
            )
            if explanation.explains(subjects, step, rightful=finding.rightful):
                return explanation
    return None
