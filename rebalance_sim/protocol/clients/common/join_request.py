"""What a JoinGroup says, in clients of either library.

Source: classic §3.1, §3.4.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.wire.classic_messages import JoinGroupProtocol, JoinGroupRequest
from rebalance_sim.protocol.wire.embedded import NamedPartitions, Subscription


def join_request(
    config: ClassicConsumerConfig,
    member_id: str,
    subscription: Subscription,
    *,
    last_assigned: tuple[NamedPartitions, ...] | None,
    last_generation_id: int,
    reason: str = "",
    eager_say_owned: bool = True,
) -> JoinGroupRequest:
    """The request with one protocol for each assignor, which adds what it has to say itself: about
    what was assigned last, in which generation. ``eager_say_owned``: eager ones say what the
    subscription has for owned, too."""
    return JoinGroupRequest(
        group_id=config.group_id,
        member_id=member_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        group_instance_id=config.group_instance_id,
        reason=reason,
        protocols=tuple(
            JoinGroupProtocol(
                assignor.name,
                replace(
                    subscription,
                    owned_partitions=(
                        subscription.owned_partitions
                        if eager_say_owned or assignor.supports_cooperative
                        else ()
                    ),
                    user_data=assignor.user_data(
                        last_assigned=last_assigned, last_generation_id=last_generation_id
                    ),
                ),
            )
            for assignor in config.assignors
        ),
    )
