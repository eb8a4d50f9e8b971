"""What a sweep must have visited at least once, or its silence proves nothing.

Names are those that ``Checker.coverage`` and the simulator's own coverage count; a sweep merges the
counts of all its runs by adding them up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rebalance_sim.protocol.clients import LEGAL_TRANSITIONS, ClientState
from rebalance_sim.protocol.consumer.reconciliation import TRANSITIONS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import MemberState

__all__ = ["CLASSIC_JOIN", "COMPUTATION_NOTIFIED", "SOMETIMES", "Sometimes", "sometimes"]


COMPUTATION_NOTIFIED = "computation.told"
"""Coverage: a member was told to compute a target (the text of KIP-848)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sometimes:
    """Something that must happen now and then: any of ``counters`` is above 0.

    ``only_with``: a counter without which a sweep has nothing to do with it.
    """

    id: str
    sentence: str
    counters: tuple[str, ...]
    only_with: str | None = None

    def is_met(self, coverage: Mapping[str, int]) -> bool:
        """Whether it happened, or was not to be expected."""
        if self.only_with is not None and not coverage.get(self.only_with, 0):
            return True
        return any(coverage.get(name, 0) > 0 for name in self.counters)


def _rows() -> Iterable[Sometimes]:
    for state, situation in TRANSITIONS:
        if state is MemberState.UNKNOWN:
            continue  # The state byte of newer software, which no simulated broker writes.
        yield Sometimes(
            id=f"sometimes.reconciliation.{state.name.lower()}.{situation.name.lower()}",
            sentence=f"A member in {state.name} {situation.value}.",
            counters=(f"reconciliation.{state.name}.{situation.name}",),
        )


_ERRORS = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


def _errors() -> Iterable[Sometimes]:
    for code in _ERRORS:
        yield Sometimes(
            id=f"sometimes.error.{code.wire_name}",
            sentence=f"Somebody was answered {code.name}.",
            counters=(f"error.{code.name}", f"refusal.{code.name}"),
        )


_NEVER_SEEN = {
    (ClientState.JOINING, ClientState.STABLE),
    (ClientState.RECONCILING, ClientState.STABLE),
    (ClientState.LEAVING, ClientState.FENCED),
    (ClientState.PREPARE_LEAVING, ClientState.FENCED),
    (ClientState.PREPARE_LEAVING, ClientState.UNSUBSCRIBED),
    (ClientState.UNSUBSCRIBED, ClientState.PREPARE_LEAVING),
    (ClientState.JOINING, ClientState.FENCED),
}
"""Legal by the table, and never taken by a client (client §1.2, §1.3); the last one only where a
broker fences a join, as those of 4.1 do (KAFKA-19233)."""


def _client_transitions() -> Iterable[Sometimes]:
    for source, targets in LEGAL_TRANSITIONS.items():
        for goal in targets:
            if goal is source or (source, goal) in _NEVER_SEEN:
                continue
            if goal is ClientState.FATAL and source is not ClientState.JOINING:
                continue  # One fatal change stands for all.
            yield Sometimes(
                id=f"sometimes.client.{source.value.lower()}.{goal.value.lower()}",
                sentence=f"A client went from {source.value} to {goal.value}.",
                counters=(f"client.transition.{source.value}>{goal.value}",),
            )


_SITUATIONS: Mapping[str, str] = {
    "situation.new_target": "A target was computed.",
    "situation.epochs_skipped": "One target served several group epochs.",
    "situation.target_during_revocation": "A new target came while a member was revoking.",
    "situation.leave": "A member left for good.",
    "situation.leave_during_revocation": "A member left while it was revoking.",
    "situation.static_leave": "A static member left for a while.",
    "situation.static_replacement": "A static member took the place of its predecessor.",
    "situation.rejoin_accepted": "A registered member joined again and was accepted.",
    "situation.lost_response_accepted": "A member was accepted at its previous epoch.",
    "situation.load": "A coordinator was loaded.",
    "situation.load_beyond_high_watermark": "A load read records that were not committed yet.",
    "situation.failover_during_revocation": "A load met a member that was revoking.",
    "situation.failover_while_waiting": "A load met a member that waited for partitions.",
    "situation.failover_before_target": "A load met a group epoch ahead of its target.",
    "situation.truncation": "A log lost a tail that was not committed.",
    "situation.crash_in_reconciling": "A client crashed while it reconciled.",
    "situation.fenced_while_leaving": "A client that gave its partitions up to leave was fenced.",
    "situation.zombie_fetches": "A removed client and the new owner could fetch one partition.",
    "timer.session": "A session timer removed a member.",
    "timer.rebalance": "A rebalance timer removed a member.",
    "schedule.tie": "Events of the same instant were put in an order by lot.",
}

_OF_COMPUTATIONS: Mapping[str, str] = {
    "computation.installed": "A target that a member had computed was installed.",
    "computation.installed_late": "The group had moved on when its computed target was installed.",
    "computation.to_heir": "A static successor was given what its predecessor was assigned.",
    "computation.stale_epoch": "A member that computed had to wait for its new epoch.",
    "computation.replaced": "Another member took the place of one that was too slow.",
    "computation.refused_late": "A member that was replaced handed its target in.",
    "computation.failover": "A coordinator was lost while a member computed for it.",
    "computation.by_broker_instead": "The broker computed for a group that had computed itself.",
    "computation.mixed_versions": "Members of different metadata versions were assigned together.",
    "computation.warm_up_moved": "A Streams task moved to a member that had warmed it up.",
}
"""What must happen in a sweep in which members compute at all."""

CLASSIC_JOIN = "rebalance.classic.member_joined"
"""Coverage: a classic group began to rebalance for a new member."""

_OF_CLASSIC_GROUPS: Mapping[str, str] = {
    "rebalance.classic.member_left": "A classic member left.",
    "rebalance.classic.session_timeout": "A classic member sent no heartbeat for too long.",
    "rebalance.classic.sync_timeout": "A classic member joined, and did not sync in time.",
    "rebalance.classic.static_replacement": "A static member came back at a bad time.",
    "rebalance.classic.topics_changed": "A leader noticed that topics had changed.",
}
"""What must happen in a sweep with classic groups; the other causes are for special scenarios."""

SOMETIMES: tuple[Sometimes, ...] = (
    *_rows(),
    *sorted(_client_transitions(), key=lambda item: item.id),
    *_errors(),
    *(
        Sometimes(id=f"sometimes.{name}", sentence=sentence, counters=(name,))
        for name, sentence in _SITUATIONS.items()
    ),
    *(
        Sometimes(
            id=f"sometimes.{name}",
            sentence=sentence,
            counters=(name,),
            only_with=COMPUTATION_NOTIFIED,
        )
        for name, sentence in _OF_COMPUTATIONS.items()
    ),
    *(
        Sometimes(
            id=f"sometimes.{name}", sentence=sentence, counters=(name,), only_with=CLASSIC_JOIN
        )
        for name, sentence in _OF_CLASSIC_GROUPS.items()
    ),
)
"""Everything a large sweep must have visited."""


def sometimes(coverage: Mapping[str, int]) -> list[Sometimes]:
    """What the merged coverage of a sweep has not met."""
    return [item for item in SOMETIMES if not item.is_met(coverage)]
