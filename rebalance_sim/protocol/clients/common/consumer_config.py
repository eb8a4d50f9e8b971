"""Configuration of a consumer of the consumer protocol.

Source: client §9.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import PartitionAssignor
from rebalance_sim.protocol.clients.common.member_config import MemberConfig, check_not_empty


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(MemberConfig):
    """Settings of one consumer process that speaks the consumer protocol.

    ``group_remote_assignor`` None means "not configured". ``group_local_assignors`` are client-side
    assignors, most preferred first (the KIP's text only). Raises ValueError where a consumer would
    refuse to start.
    """

    group_remote_assignor: str | None = None
    group_local_assignors: tuple[PartitionAssignor, ...] = ()

    def __post_init__(self) -> None:
        MemberConfig.__post_init__(self)
        check_not_empty(self, "group_remote_assignor")
        if self.group_remote_assignor is not None and self.group_local_assignors:
            raise ValueError("group_remote_assignor and group_local_assignors exclude each other")
