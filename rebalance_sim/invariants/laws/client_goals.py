"""The state changes of clients, and what applications do, that a large sweep must have visited."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.property import goal
from rebalance_sim.protocol.clients.common.member_states import LEGAL_TRANSITIONS, ClientState
from rebalance_sim.protocol.clients.common.member_states import ClientState as _S

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


def _is_expected(source: ClientState, target: ClientState) -> bool:
    if target is source or (source, target) in _NEVER_SEEN:
        return False
    # One fatal change stands for all.
    return target is not ClientState.FATAL or source is ClientState.JOINING


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
