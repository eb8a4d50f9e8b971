"""``classic_story`` with librdkafka's members: they are also told of their connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from classic_driver import ClassicStory

from rebalance_sim.protocol.assignors.classic import LIBRDKAFKA_ASSIGNORS, ClassicAssignor
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.effects import ConnectCoordinator
from rebalance_sim.protocol.clients.common.events import (
    CoordinatorConnected,
    CoordinatorConnectionClosed,
)
from rebalance_sim.protocol.clients.kinds import KINDS, LIBRDKAFKA_CLASSIC
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic import (
    LibrdkafkaClassicMember,
)
from rebalance_sim.protocol.clients.versions import client_rules
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS

__all__ = ["LibrdkafkaClassicStory"]


class LibrdkafkaClassicStory(ClassicStory):
    """See ``ClassicStory``. ``version``: a release of librdkafka."""

    version: str | None = None
    assignors_by_name: Mapping[str, ClassicAssignor] = LIBRDKAFKA_ASSIGNORS

    def make_member(self, config: ClassicConsumerConfig) -> LibrdkafkaClassicMember:
        """See ``ClassicStory``."""
        rules = client_rules(KINDS[LIBRDKAFKA_CLASSIC], self.version, DEFAULT_SEMANTICS)
        assert rules is not None
        return LibrdkafkaClassicMember(config=config, rules=rules, now_ms=self.now_ms)

    def _carry_out(self, process: Any, name: str, effect: Any) -> None:
        if type(effect) is ConnectCoordinator:
            self._handle_later(process, name, 1, CoordinatorConnected())
        else:
            super()._carry_out(process, name, effect)

    def _fail(self, process: Any, name: str, effect: Any) -> None:
        super()._fail(process, name, effect)
        self._handle_later(process, name, 1, CoordinatorConnectionClosed())
