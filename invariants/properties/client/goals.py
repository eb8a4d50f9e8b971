"""The state changes of clients that a large sweep must have visited."""

from __future__ import annotations

from rebalance_sim.invariants.property import goal
from rebalance_sim.protocol.clients import LEGAL_TRANSITIONS, ClientState

ORDER = 410

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


GOALS = tuple(
    goal(
        f"sometimes.client.{source.value.lower()}.{target.value.lower()}",
        f"A client went from {source.value} to {target.value}.",
        f"client.transition.{source.value}>{target.value}",
    )
    for source in sorted(LEGAL_TRANSITIONS, key=lambda state: state.value)
    for target in sorted(LEGAL_TRANSITIONS[source], key=lambda state: state.value)
    if _is_expected(source, target)
)
