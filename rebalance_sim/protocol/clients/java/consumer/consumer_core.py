"""The variables of one asynchronous consumer that its parts share.

Source: client §0.2.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import advertise
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.member_states import ClientState, check_transition
from rebalance_sim.protocol.clients.java.consumer.consumer_subscription import ConsumerSubscription
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules


class ConsumerCore(MemberCore):
    """``MemberCore`` with the rules, and what client-side assignors say of themselves."""

    config: ConsumerConfig

    subscription: ConsumerSubscription

    def __init__(
        self,
        *,
        config: ConsumerConfig,
        member_id: str,
        rules: MemberRules,
        jitter: Callable[[], float],
        now_ms: int,
    ) -> None:
        super().__init__(
            config=config,
            member_id=rules.initial_member_id(member_id),
            jitter=jitter,
            now_ms=now_ms,
        )
        self.rules = rules
        self.subscription = ConsumerSubscription(rules)
        self.client_assignors = tuple(advertise(one) for one in config.group_local_assignors)

    def change_state(self, state: ClientState) -> None:
        """Go to ``state``. Raises IllegalTransition if the table does not list the change."""
        check_transition(self.state, state)
        self._change_state(state)
