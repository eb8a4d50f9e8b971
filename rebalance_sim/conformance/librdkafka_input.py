"""What librdkafka logs besides: its way to the coordinator, and when its poll timer ran out.

Source: client §13. From this follows what else a trace does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.conformance.client_bodies import by_partition
from rebalance_sim.conformance.client_input import own_events
from rebalance_sim.conformance.client_trace import ClientProcess
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import COORDINATOR_STATE, JOIN_STATE
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.clients.librdkafka.poll_timer import POLL_CHECK_INTERVAL_MS

_FORGETS = "coordinator changed"
_SAME_MOMENT_MS = 3
_CAUSED_WITHIN_MS = 10


@dataclass(frozen=True, slots=True)
class CoordinatorChange:
    """A change of librdkafka's coordinator state that is no consequence of what is fed otherwise.

    ``forgets_coordinator``: it says at the same moment that there is another coordinator now, none.
    """

    at_ms: int
    from_state: str
    to_state: str
    forgets_coordinator: bool

    def leads(self, from_state: str, to_state: str) -> bool:
        """Whether it is the change between these two."""
        return (self.from_state, self.to_state) == (from_state, to_state)


def coordinator_changes(process: ClientProcess) -> list[CoordinatorChange]:
    """Changes of the coordinator state, in order, without those that a failed commit has caused:
    back to searching, and perhaps once more in the same moment."""
    forgotten_ms = [e["at_ms"] for e in own_events(process, "note") if e["text"].endswith(_FORGETS)]
    failed_ms = _failed_commits_ms(process)
    changes: list[CoordinatorChange] = []
    for event in own_events(process, "state"):
        if event["what"] != COORDINATOR_STATE:
            continue
        at_ms = event["at_ms"]
        goes_back = event["from"] in ("up", "wait-coord") and event["to"] == "query-coord"
        is_same_moment = bool(changes) and changes[-1].at_ms == at_ms
        if goes_back and any(
            -1 <= at_ms - failed <= (1 if is_same_moment else _CAUSED_WITHIN_MS)
            for failed in failed_ms
        ):
            continue
        is_forgotten = any(abs(at_ms - other) <= _SAME_MOMENT_MS for other in forgotten_ms)
        changes.append(CoordinatorChange(at_ms, event["from"], event["to"], is_forgotten))
    return changes


def _failed_commits_ms(process: ClientProcess) -> list[int]:
    """When a commit was refused because the coordinator had moved, or its connection was lost."""
    return [
        event["at_ms"]
        for event in own_events(process, "response")
        if event["api"] == "OffsetCommit"
        and (
            not event.get("delivered", True)
            or "not_coordinator" in by_partition(event["body"]["topics"]).values()
        )
    ]


# --- the poll timer ------------------------------------------------------------------------------

_MISSED_POLLS = "Application maximum poll interval"


def poll_check_lag_ms(process: ClientProcess, from_ms: int) -> int:
    """How late the look was that noticed an application that has been away since ``from_ms``:
    looks are counted from when the member became steady. 0 if none did."""
    noticed_ms = next(
        (
            event["at_ms"]
            for event in own_events(process, "note")
            if event["at_ms"] >= from_ms and event["text"].startswith(_MISSED_POLLS)
        ),
        None,
    )
    steady_ms = [
        event["at_ms"]
        for event in own_events(process, "state")
        if (event["what"], event["to"]) == (JOIN_STATE, JoinState.STEADY.value)
    ]
    since_ms = max((at_ms for at_ms in steady_ms if at_ms <= from_ms), default=None)
    if noticed_ms is None or since_ms is None:
        return 0
    return int(noticed_ms - since_ms) % POLL_CHECK_INTERVAL_MS
