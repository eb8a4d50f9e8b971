"""Every property, in one list; the page docs/invariants.md is made from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rebalance_sim.invariants.engine.property import TRIGGERS, Property, PropertySpec
from rebalance_sim.invariants.engine.reachability import SOMETIMES
from rebalance_sim.invariants.properties.classic import (
    classic_answers,
    classic_clients,
    classic_state,
)
from rebalance_sim.invariants.properties.client import (
    client_assignment,
    client_heartbeat,
    client_offsets,
    client_reconcile,
    client_records,
    client_states,
    cross,
)
from rebalance_sim.invariants.properties.consumer import (
    client_side,
    counts,
    epochs,
    members,
    ownership,
    responses,
    target,
    timers,
)
from rebalance_sim.invariants.properties.consumer import streams_targets as streams
from rebalance_sim.invariants.properties.consumer import target_quality as assignors
from rebalance_sim.invariants.properties.consumer.liveness import LIVENESS
from rebalance_sim.invariants.properties.coordinator import configs, escapes, log, reads, replay
from rebalance_sim.invariants.properties.migration import conversions, mixed_groups
from rebalance_sim.invariants.properties.offsets import offset_life, offsets

__all__ = ["COVERED_BY_OTHERS", "PROPERTIES", "PROPERTY_CLASSES", "as_markdown"]

PROPERTY_CLASSES: tuple[type[Property], ...] = (
    ownership.ExclusiveOwnership,
    ownership.DisjointAssignment,
    ownership.OwnershipMap,
    ownership.GrantOnlyFree,
    ownership.ReleaseAcknowledged,
    ownership.SenderOnly,
    ownership.SubscribedOnly,
    epochs.TargetEpochBounded,
    epochs.GroupEpochsRise,
    epochs.MemberEpochBounded,
    epochs.MemberEpochRises,
    epochs.OwnerEpochUnique,
    epochs.EpochFence,
    members.PendingMeansUnrevoked,
    members.StableMeansTarget,
    members.RevokeBeforeAssign,
    members.AcknowledgementApplied,
    members.FreeIsGranted,
    members.GroupStateCorrect,
    target.TargetExclusive,
    target.TargetSubscribed,
    target.TargetMembersOnly,
    target.TargetComplete,
    target.TargetCurrent,
    target.InvertedTarget,
    assignors.BalancedTarget,
    assignors.StickyTarget,
    assignors.CoPartitionedTarget,
    counts.StaticMembers,
    counts.Counts,
    counts.GroupSize,
    log.Tombstones,
    log.BatchOrder,
    log.BatchWhole,
    log.BoundedRewrites,
    replay.ReplayEquivalence,
    replay.RollbackExact,
    replay.CommitBeforeResponse,
    replay.CommittedKept,
    reads.CommittedReads,
    timers.TimersArmed,
    timers.RebalanceDeadline,
    timers.RemovalDue,
    configs.ConfigInForce,
    escapes.NoEscape,
    responses.ResponseTruthful,
    responses.AssignmentReported,
    responses.RefusalBare,
    responses.RefusalWritesNothing,
    responses.RejoinAccepted,
    responses.LostResponseAccepted,
    responses.PresentEpochAccepted,
    responses.KnownMemberAccepted,
    responses.OwnInstanceAccepted,
    responses.FullGroupSeat,
    responses.ServerNeverFails,
    offsets.CommitFenced,
    offsets.CommitOfOwner,
    offsets.RightfulCommitAccepted,
    offset_life.OffsetsKept,
    offset_life.GroupGone,
    offset_life.FetchShown,
    offset_life.FetchFenced,
    offset_life.CommitOfTopic,
    classic_state.ClassicGenerationSteps,
    classic_state.ClassicLegalState,
    classic_state.ClassicAwaitingCounted,
    classic_state.ClassicIdsApart,
    classic_state.ClassicLeaderIsMember,
    classic_state.ClassicProtocolsCounted,
    classic_state.ClassicTimersArmed,
    classic_state.ClassicLoadedState,
    classic_answers.ClassicAnswersAgree,
    classic_answers.ClassicSyncIsDurable,
    classic_answers.ClassicCommitFenced,
    classic_answers.ClassicGoneStaysGone,
    classic_clients.EagerRevokesFirst,
    classic_clients.ExclusiveAmongKinds,
    classic_clients.ClassicDisjointAssignment,
    classic_clients.CooperativeTransfer,
    mixed_groups.HybridMembersCounted,
    mixed_groups.HybridSessions,
    mixed_groups.HybridAnswers,
    mixed_groups.HybridSyncNotBehind,
    mixed_groups.HybridTimers,
    conversions.OneGroupPerId,
    conversions.ConversionKeeps,
    conversions.NothingParkedAfterUpgrade,
    conversions.DowngradedWhenDue,
    conversions.ConversionUndone,
    client_states.LegalTransition,
    client_states.EpochFitsState,
    client_states.EpochRises,
    client_states.IdentityFitsEpoch,
    client_states.IdStable,
    client_states.EmptyOutside,
    client_states.StableMeansEqual,
    client_states.FatalIsFinal,
    client_reconcile.SingleReconciliation,
    client_reconcile.RevokeBeforeAck,
    client_reconcile.AckIsApplied,
    client_reconcile.FetchSubset,
    client_reconcile.DeliverOwned,
    client_reconcile.CallbackBalance,
    client_reconcile.CallbackIdentity,
    client_heartbeat.OneInFlight,
    client_heartbeat.HeartbeatPace,
    client_heartbeat.HeartbeatAlive,
    client_heartbeat.FullAfterFailure,
    client_heartbeat.JoinShape,
    client_heartbeat.SilentStates,
    client_heartbeat.LeaveOnce,
    client_heartbeat.EpochReceived,
    client_offsets.CommitEpoch,
    client_offsets.CommitPosition,
    client_offsets.CommitOwned,
    client_offsets.PositionSource,
    client_offsets.PollTimer,
    client_records.PositionFetched,
    client_records.CommitProcessed,
    client_records.RevocationCommitted,
    client_records.StartCommitted,
    client_records.StartProcessed,
    cross.ExclusiveConsumption,
    cross.OnlyZombiesShare,
    cross.AssignedIsHeld,
    cross.CurrentFitsTarget,
    client_side.OneComputingMember,
    client_side.ChosenMemberInstalls,
    client_side.EpochOfPreparation,
    client_side.TargetAsComputed,
    client_side.RightfulResultAccepted,
    client_side.ResultValid,
    client_side.OwnVersion,
    client_side.AssignorChangeHandled,
    client_side.MetadataOfEpoch,
    client_assignment.AssignmentReportedOnce,
    client_assignment.ResultHandedInOnce,
    streams.NoColdMove,
    streams.CopiesApart,
)
"""Safety, in the order in which the checker asks: the cause of trouble before its consequences."""

PROPERTIES: tuple[PropertySpec, ...] = (*(kind.spec for kind in PROPERTY_CLASSES), *LIVENESS)
"""All properties with an id: safety, then liveness."""

COVERED_BY_OTHERS: Mapping[str, str] = MappingProxyType(
    {
        "coordinator E2": (
            "a client gets only answers, and log.commit_before_response holds every answer back"
        ),
        "TLA+ TypeOK": "types are checked statically; states by client.transition.legal",
        "TLA+ EventuallyConverges": "bounded, as liveness.converges",
    }
)
"""Clause of a source -> why it has no property of its own."""


def as_markdown() -> str:
    """The page docs/invariants.md."""
    lines = [
        "# Properties",
        "",
        "Made from `invariants/engine/registry.py`; change that, then run"
        " `python -m rebalance_sim.invariants.engine.registry > docs/invariants.md`.",
        "",
        "A clause cites a document of [the reference](reference/README.md); `TLA+` the model of"
        " client §11.3, `KIP-848` a chapter of that text.",
        "*Full* marks properties about a state, which a full check can judge on a still picture.",
        "*Violated by* names defects and mutants that violate the property; `test:` ones exist in"
        " the tests only.",
        "",
        "## Safety: after every step",
        "",
        "| id | property | clauses | looked at when | full | violated by |",
        "|---|---|---|---|---|---|",
    ]
    for kind in PROPERTY_CLASSES:
        spec = kind.spec
        when = "; ".join(TRIGGERS[name] for name in kind.triggers())
        full = "yes" if kind.judges_states() else ""
        lines.append(
            _row(
                f"`{spec.id}`",
                spec.sentence,
                ", ".join(spec.clauses),
                when,
                full,
                ", ".join(spec.violated_by),
            )
        )
    lines += ["", "## Liveness: in the quiet period after the faults", ""]
    lines += ["| id | property | clauses | violated by |", "|---|---|---|---|"]
    lines += [
        _row(
            f"`{spec.id}`",
            spec.sentence,
            ", ".join(spec.clauses),
            ", ".join(spec.violated_by),
        )
        for spec in LIVENESS
    ]
    lines += ["", "## Reachability: sometimes, over a sweep", ""]
    lines += ["| id | must have happened |", "|---|---|"]
    lines += [_row(f"`{item.id}`", item.sentence) for item in SOMETIMES]
    lines += ["", "## Clauses without a property of their own", ""]
    lines += ["| clause | why |", "|---|---|"]
    lines += [_row(clause, why) for clause, why in COVERED_BY_OTHERS.items()]
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    escaped: Iterable[str] = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


if __name__ == "__main__":
    print(as_markdown(), end="")
