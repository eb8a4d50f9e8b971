"""The franz-go member: ``FranzMachine`` with the requests of the consumer protocol.

Source: franz §3.
"""

from __future__ import annotations

from typing import ClassVar

from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.franz.consumer.next_gen import NextGen
from rebalance_sim.protocol.clients.franz.franz_machine import FranzMachine

_S = ClientState


class FranzMember(FranzMachine):
    """One consumer process that speaks the consumer protocol: see ``FranzMachine``."""

    kind: ClassVar[str] = "franz"

    config: ConsumerConfig
    _manager: NextGen

    def _make_manager(self) -> NextGen:
        return NextGen(
            self,
            self._application,
            self._coordinator,
            self._session,
            self._fetches,
            on_known=self._commits.restart_interval,
            on_left=self.on_left,
        )

    def _state_shown(self) -> ClientState:
        manager, session = self._manager, self._session
        if self.is_leaving:
            if self._call is None:
                return _S.UNSUBSCRIBED
            return _S.LEAVING if manager.is_leave_open else _S.PREPARE_LEAVING
        if not self.subscription.exists:
            return _S.UNSUBSCRIBED
        if manager.is_giving_up:
            return _S.FENCED
        if not session.is_open or self.member_epoch <= 0:
            return _S.JOINING
        if not session.is_at_rest or self.target.partitions != (self.now_assigned or frozenset()):
            return _S.RECONCILING
        return _S.STABLE if manager.is_acknowledged else _S.ACKNOWLEDGING
