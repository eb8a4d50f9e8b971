"""Settings of a group, read off what a broker has received, without asking the code that is judged.

Source: coordinator §10.2; classic §2.1.
"""

from __future__ import annotations

from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce, CoordinatorConfig


def session_timeout_ms(configs: ConfigsInForce, group_id: str) -> int:
    """The group's own, else the broker's."""
    own = configs.groups.get(group_id)
    value = None if own is None else own.consumer_session_timeout_ms
    return configs.broker.group_consumer_session_timeout_ms if value is None else value


def heartbeat_interval_ms(configs: ConfigsInForce, group_id: str) -> int:
    """The group's own, else the broker's."""
    own = configs.groups.get(group_id)
    value = None if own is None else own.consumer_heartbeat_interval_ms
    return configs.broker.group_consumer_heartbeat_interval_ms if value is None else value


def assignment_interval_ms(configs: ConfigsInForce, group_id: str) -> int:
    """The group's own, else the broker's."""
    own = configs.groups.get(group_id)
    value = None if own is None else own.consumer_assignment_interval_ms
    return configs.broker.group_consumer_assignment_interval_ms if value is None else value


def takes_session(broker: CoordinatorConfig, session_timeout_ms: int) -> bool:
    """Whether a broker lets a classic member have a session of this length."""
    shortest, longest = broker.group_min_session_timeout_ms, broker.group_max_session_timeout_ms
    return shortest <= session_timeout_ms <= longest
