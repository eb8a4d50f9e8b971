"""What a large sweep must have visited, or its silence proves nothing: of groups and coordinators,
of clients and what applications do, and of classic groups."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.property import goal
from rebalance_sim.protocol.clients.common.member_states import LEGAL_TRANSITIONS
from rebalance_sim.protocol.clients.common.member_states import ClientState as _S
from rebalance_sim.protocol.consumer.reconciliation import TRANSITIONS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import MemberState

COMPUTATION_NOTIFIED = "computation.notified"
"""Coverage: a member was asked to compute a target (the text of KIP-848)."""

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
    "computation.stale_epoch": "A member that computed had to wait for its new epoch.",
    "computation.replaced": "Another member was asked to compute while one had been asked before.",
    "computation.refused_late": "A member that was replaced handed its target in.",
    "computation.failover": "A coordinator was lost while a member computed for it.",
}
"""What must happen in a sweep in which members compute at all."""

_E = ErrorCode
_ERRORS = (
    *(_E.UNKNOWN_MEMBER_ID, _E.FENCED_MEMBER_EPOCH, _E.UNRELEASED_INSTANCE_ID),
    *(_E.FENCED_INSTANCE_ID, _E.GROUP_MAX_SIZE_REACHED, _E.STALE_MEMBER_EPOCH),
    *(_E.NOT_COORDINATOR, _E.COORDINATOR_NOT_AVAILABLE, _E.COORDINATOR_LOAD_IN_PROGRESS),
    _E.UNSUPPORTED_ASSIGNOR,
)

_OF_ADMINISTRATORS = {
    "members_remove.NONE": "An administrator removed members.",
    "members_remove.UNKNOWN_MEMBER_ID": "An administrator removed a member that was none.",
    "group_delete.NONE": "An administrator deleted a group.",
    "group_delete.NON_EMPTY_GROUP": "An administrator was not to delete a group with members.",
    "offsets_alter.NONE": "An administrator set offsets.",
    "offsets_alter.UNKNOWN_MEMBER_ID": "An administrator was not to set offsets of a group.",
    "offsets_delete.NONE": "An administrator deleted offsets.",
    "offsets_delete.GROUP_SUBSCRIBED_TO_TOPIC": "Offsets of a subscribed topic were not deleted.",
}

GOALS = (
    *(
        goal(
            f"sometimes.reconciliation.{state.name.lower()}.{situation.name.lower()}",
            f"A member in {state.name} {situation.value}.",
            f"reconciliation.{state.name}.{situation.name}",
        )
        for state, situation in TRANSITIONS
        # The state byte of newer software is written by no simulated broker.
        if state is not MemberState.UNKNOWN
    ),
    *(goal(f"sometimes.{name}", sentence, name) for name, sentence in _SITUATIONS.items()),
    *(
        goal(f"sometimes.{name}", sentence, name, only_with=COMPUTATION_NOTIFIED)
        for name, sentence in _OF_COMPUTATIONS.items()
    ),
    *(
        goal(
            f"sometimes.error.{code.name.lower()}",
            f"Somebody was answered {code.name}.",
            f"error.{code.name}",
            f"refusal.{code.name}",
        )
        for code in _ERRORS
    ),
    goal(
        "sometimes.settings_altered",
        "An administrator altered the settings of a group.",
        "fault.group_config_change",
    ),
    goal("sometimes.write_failed", "A coordinator could not write.", "situation.failed_write"),
    *(
        goal(f"sometimes.admin.{counter.lower()}", sentence, f"admin.{counter}")
        for counter, sentence in _OF_ADMINISTRATORS.items()
    ),
)

_NEVER_SEEN = {
    (_S.JOINING, _S.STABLE),
    (_S.RECONCILING, _S.STABLE),
    (_S.LEAVING, _S.FENCED),
    (_S.PREPARE_LEAVING, _S.FENCED),
    (_S.PREPARE_LEAVING, _S.UNSUBSCRIBED),
    (_S.UNSUBSCRIBED, _S.PREPARE_LEAVING),
    (_S.JOINING, _S.FENCED),
}
"""Legal by the table, and never taken by a client (client §1.2, §1.3); the last one only where a
broker fences a join, as those of 4.1 do (KAFKA-19233)."""


def _is_expected(source: _S, target: _S) -> bool:
    if target is source or (source, target) in _NEVER_SEEN:
        return False
    # One fatal change stands for all.
    return target is not _S.FATAL or source is _S.JOINING


_OF_APPLICATIONS: Mapping[str, tuple[str, ...]] = {
    "A client came back with other settings.": ("redeployed", "fault.client_redeploy"),
    "An application committed by itself.": (
        "commits",
        *(f"client.{state.value}.CommitOffsets" for state in (_S.STABLE, _S.RECONCILING)),
    ),
    "An application committed by itself while the client had something to take over.": (
        "commits_while_reconciling",
        f"client.{_S.RECONCILING.value}.CommitOffsets",
    ),
    "An application changed its subscription while the client had something to take over.": (
        "subscribes_while_reconciling",
        f"client.{_S.RECONCILING.value}.Subscribe",
    ),
}
"""What happened -> the end of the id, and the counters."""

GOALS_OF_STATES = tuple(
    goal(
        f"sometimes.client.{source.value.lower()}.{target.value.lower()}",
        f"A client went from {source.value} to {target.value}.",
        f"client.transition.{source.value}>{target.value}",
    )
    for source in sorted(LEGAL_TRANSITIONS, key=lambda state: state.value)
    for target in sorted(LEGAL_TRANSITIONS[source], key=lambda state: state.value)
    if _is_expected(source, target)
)

GOALS_OF_APPLICATIONS = tuple(
    goal(f"sometimes.application.{name}", sentence, *counters)
    for sentence, (name, *counters) in _OF_APPLICATIONS.items()
)

CLASSIC_JOIN = "rebalance.classic.member_joined"
"""Coverage: a classic group began to rebalance for a new member."""

_OF_CLASSIC_GROUPS: Mapping[str, str] = {
    "rebalance.classic.member_left": "A classic member left.",
    "rebalance.classic.session_timeout": "A classic member sent no heartbeat for too long.",
    "rebalance.classic.sync_timeout": "A classic member joined, and did not sync in time.",
    "rebalance.classic.static_replacement": "A static member came back at a bad time.",
    "rebalance.classic.topics_changed": "A leader noticed that topics had changed.",
    "rebalance.classic.enforced": "An application asked for a rebalance.",
    "rebalance.classic.subscription_changed": "A classic member subscribed to something else.",
    "rebalance.classic.write_failed": "An assignment of a classic group could not be written.",
    "error.ILLEGAL_GENERATION": "Somebody was answered ILLEGAL_GENERATION.",
    "error.INVALID_SESSION_TIMEOUT": "A classic member wanted too short a session.",
    "error.MEMBER_ID_REQUIRED": "A classic member was to come again with the id it was given.",
}
"""What must happen in a sweep with classic groups; the other causes are for special scenarios."""

GOALS_OF_CLASSIC_GROUPS = tuple(
    goal(f"sometimes.{name.lower()}", sentence, name, only_with=CLASSIC_JOIN)
    for name, sentence in _OF_CLASSIC_GROUPS.items()
)
