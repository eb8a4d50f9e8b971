"""Configuration of a coordinator, with Kafka's names, defaults and start-up checks.

Source: consumer-group-coordinator.md, section 10.1. All times are milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CoordinatorConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """Broker-level settings that group coordination reads.

    Raises ValueError where a broker would refuse to start.
    """

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_check_interval_ms: int = 600_000

    def __post_init__(self) -> None:
        session = self.group_consumer_session_timeout_ms
        interval = self.group_consumer_heartbeat_interval_ms
        for name in self.__slots__:
            value = getattr(self, name)
            lower = 0 if name == "group_consumer_assignment_interval_ms" else 1
            if isinstance(value, int) and value < lower:
                raise ValueError(f"{name} must be >= {lower}, got {value}")
        if not (
            self.group_consumer_min_session_timeout_ms
            <= session
            <= self.group_consumer_max_session_timeout_ms
        ):
            raise ValueError(
                f"group_consumer_session_timeout_ms ({session}) must lie within "
                f"[{self.group_consumer_min_session_timeout_ms}, "
                f"{self.group_consumer_max_session_timeout_ms}]"
            )
        if not (
            self.group_consumer_min_heartbeat_interval_ms
            <= interval
            <= self.group_consumer_max_heartbeat_interval_ms
        ):
            raise ValueError(
                f"group_consumer_heartbeat_interval_ms ({interval}) must lie within "
                f"[{self.group_consumer_min_heartbeat_interval_ms}, "
                f"{self.group_consumer_max_heartbeat_interval_ms}]"
            )
        if interval >= session:
            raise ValueError(
                f"group_consumer_heartbeat_interval_ms ({interval}) must be less than "
                f"group_consumer_session_timeout_ms ({session})"
            )
        if not self.group_consumer_assignors:
            raise ValueError("group_consumer_assignors must name at least one assignor")
