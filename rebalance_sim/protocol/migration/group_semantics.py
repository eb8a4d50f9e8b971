"""The group types of Kafka's consumers, transactions, and their rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from rebalance_sim.protocol.classic.classic_type import ClassicGroupType
from rebalance_sim.protocol.consumer.consumer_type import ConsumerGroupType
from rebalance_sim.protocol.migration.bridge import Migration
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.runtime.group_type import Component
from rebalance_sim.protocol.runtime.rule_set import RuleSet
from rebalance_sim.protocol.transactions.transaction_coordinator import TransactionCoordinator
from rebalance_sim.protocol.transactions.transactional_offsets import TransactionalOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSemantics(RuleSet):
    """What a coordinator is built from; another group type is one more of ``group_types``."""

    group_types: tuple[type[Component[Any]], ...] = (
        ConsumerGroupType,
        ClassicGroupType,
        Migration,
        TransactionalOffsets,
    )

    @property
    def of_transactions(self) -> Self:
        """What is in a partition of ``__transaction_state``, in place of groups."""
        return replace(self, group_types=(TransactionCoordinator,))

    @property
    def of_both(self) -> Self:
        """One coordinator for groups and transactions, for a host that has but one log."""
        return replace(self, group_types=(*self.group_types, TransactionCoordinator))

    @property
    def coordinator(self) -> type[MigrationRules]:
        """The rules of a group coordinator."""
        return self.rules(MigrationRules)


CORRECT_GROUPS = GroupSemantics()
"""No version's peculiarities, and no defect."""
