"""Configuration of a consumer of the classic protocol, with Kafka's names, defaults and checks.

Source: classic §2.10, §3.1. All times are milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.protocol.assignors.classic import ClassicAssignor
from rebalance_sim.protocol.clients.common.member_config import MemberConfig

_JOIN_GRACE_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicConsumerConfig(MemberConfig):
    """Settings of one consumer process that speaks the classic protocol.

    ``assignors`` is ``partition.assignment.strategy``, most preferred first. The rebalance timeout
    is ``max_poll_interval_ms``. Raises ValueError where a consumer would refuse to start.
    """

    assignors: tuple[ClassicAssignor, ...]
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000

    def __post_init__(self) -> None:
        MemberConfig.__post_init__(self)
        if not self.assignors:
            raise ValueError("assignors must not be empty")
        names = [assignor.name for assignor in self.assignors]
        if len(set(names)) != len(names):
            raise ValueError(f"assignors must have different names, got {', '.join(names)}")
        if self.heartbeat_interval_ms < 1:
            raise ValueError(
                f"heartbeat_interval_ms must be >= 1, got {self.heartbeat_interval_ms}"
            )
        if self.session_timeout_ms <= self.heartbeat_interval_ms:
            raise ValueError(
                f"session_timeout_ms must be greater than heartbeat_interval_ms, got "
                f"{self.session_timeout_ms} and {self.heartbeat_interval_ms}"
            )

    @property
    def is_cooperative(self) -> bool:
        """The most advanced mode that every configured assignor supports (classic §3.1)."""
        return all(assignor.supports_cooperative for assignor in self.assignors)

    @property
    def join_timeout_ms(self) -> int:
        """How long a JoinGroup may go without an answer (classic §4.2)."""
        return max(self.request_timeout_ms, self.max_poll_interval_ms + _JOIN_GRACE_MS)
