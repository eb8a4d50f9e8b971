"""Which settings were in force at a shard, and when, read off what its broker has received, without
asking the code that is judged.

Source: coordinator §10.2; classic §2.1.
"""

from __future__ import annotations

from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce, CoordinatorConfig


def setting_ms(configs: ConfigsInForce, group_id: str, name: str) -> int:
    """The group's own, else the broker's: ``session_timeout``, ``heartbeat_interval`` or
    ``assignment_interval``."""
    own = getattr(configs.groups.get(group_id), f"consumer_{name}_ms", None)
    value: int = getattr(configs.broker, f"group_consumer_{name}_ms") if own is None else own
    return value


def takes_session(broker: CoordinatorConfig, session_timeout_ms: int) -> bool:
    """Whether a broker lets a classic member have a session of this length."""
    shortest, longest = broker.group_min_session_timeout_ms, broker.group_max_session_timeout_ms
    return shortest <= session_timeout_ms <= longest


class ConfigHistory:
    """The settings of one group as the broker of each shard has heard of them."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._session_timeouts: dict[str, list[tuple[int, int]]] = {}
        """Shard -> (since when, session timeout), latest last."""
        self.longest_ms = dict.fromkeys(("heartbeat_interval", "assignment_interval"), 0)
        """The longest intervals that were in force anywhere."""

    def note(self, shard: ShardView, at_ms: int) -> None:
        """These settings are in force at the shard from now on."""
        configs, group_id = shard.configs, self._group_id
        timeouts = self._session_timeouts.setdefault(shard.name, [])
        timeout_ms = setting_ms(configs, group_id, "session_timeout")
        if not timeouts or timeouts[-1][1] != timeout_ms:
            timeouts.append((at_ms, timeout_ms))
        for name, longest_ms in self.longest_ms.items():
            self.longest_ms[name] = max(longest_ms, setting_ms(configs, group_id, name))

    def session_timeout_ms(self, shard: ShardView, at_ms: int) -> int:
        """What a session that began at this time was given; of two at one instant, the shorter."""
        known = self._session_timeouts.get(shard.name, [])
        before = [timeout_ms for since_ms, timeout_ms in known if since_ms < at_ms][-1:]
        candidates = before + [timeout_ms for since_ms, timeout_ms in known if since_ms == at_ms]
        now_ms = setting_ms(shard.configs, self._group_id, "session_timeout")
        return min(candidates, default=now_ms)
