"""Which settings were in force at a shard, and when: for properties about timers and intervals."""

from __future__ import annotations

from rebalance_sim.invariants.model.group_settings import (
    assignment_interval_ms,
    heartbeat_interval_ms,
    session_timeout_ms,
)
from rebalance_sim.invariants.step import ShardView


class ConfigHistory:
    """The settings of one group as the broker of each shard has heard of them."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._session_timeouts: dict[str, list[tuple[int, int]]] = {}
        """Shard -> (since when, session timeout), latest last."""
        self.longest_heartbeat_interval_ms = 0
        self.longest_assignment_interval_ms = 0

    def note(self, shard: ShardView, at_ms: int) -> None:
        """These settings are in force at the shard from now on."""
        configs, group_id = shard.configs, self._group_id
        timeouts = self._session_timeouts.setdefault(shard.name, [])
        timeout_ms = session_timeout_ms(configs, group_id)
        if not timeouts or timeouts[-1][1] != timeout_ms:
            timeouts.append((at_ms, timeout_ms))
        self.longest_heartbeat_interval_ms = max(
            self.longest_heartbeat_interval_ms, heartbeat_interval_ms(configs, group_id)
        )
        self.longest_assignment_interval_ms = max(
            self.longest_assignment_interval_ms, assignment_interval_ms(configs, group_id)
        )

    def session_timeout_ms(self, shard: ShardView, at_ms: int) -> int:
        """What a session that began at this time was given; of two at one instant, the shorter."""
        timeouts = self._session_timeouts.get(shard.name, [])
        candidates: list[int] = []
        for since_ms, timeout_ms in reversed(timeouts):
            if since_ms <= at_ms:
                candidates.append(timeout_ms)
            if since_ms < at_ms:
                break
        return min(candidates, default=session_timeout_ms(shard.configs, self._group_id))
