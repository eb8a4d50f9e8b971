"""Decisions of a broker in which defects differ, one small method each.

The coordinator core and the member have rules of their own (``protocol/versions/semantics.py``).
What stands here is the runtime around the core: when an answer may go, when a shard is given up
(coordinator §9.4, §9.5; defects §9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.records import ConsumerGroupMemberMetadata, Record

__all__ = ["BROKER_DEFECTS", "BrokerRules", "broker_rules", "split_defects"]


class BrokerRules:
    """What a correct broker does."""

    serves_after_resignation = False
    """A deposed leader goes on serving, and takes its own writes for committed."""

    loads_strictly = False
    """A load takes a record that contradicts an earlier one for an error."""

    reverts_failed_batches = True
    """Memory goes back to where it was before a batch that could not be written
    (coordinator §9.4)."""

    unload_delay_ms = 0
    """How long after a resignation a shard is unloaded, whatever has happened meanwhile."""

    reads_newest = False
    """Describe and list show what is not committed yet."""

    def check_loaded(self, record: Record, coordinator: GroupCoordinator) -> None:
        """Look at a record before a load replays it. Raises ProtocolBug to fail the load."""

    def offset_to_await(self, end_offset: int, own_writes_end: int, record_count: int) -> int:
        """The high watermark at which an answer may go.

        ``end_offset`` is the end of the log after the operation, ``own_writes_end`` the end of what
        this shard has written itself since its load (0 if nothing). An answer without records
        waits too, so that it never shows what is not committed (coordinator §9.4, step 5).
        """
        return end_offset

    def gives_up(self, loaded_epoch: int, resigned_epoch: int) -> bool:
        """Whether a resignation with an epoch unloads a shard that was loaded with another."""
        return resigned_epoch > loaded_epoch


class RepliesBeforeCommit(BrokerRules):
    """mut-reply-before-commit."""

    def offset_to_await(self, end_offset: int, own_writes_end: int, record_count: int) -> int:
        return 0


class ReadsUncommitted(BrokerRules):
    """mut-reads-uncommitted."""

    reads_newest = True


class TrustsLoadedTail(BrokerRules):
    """KAFKA-16973: an answer without records waits only for writes of this shard's own."""

    def offset_to_await(self, end_offset: int, own_writes_end: int, record_count: int) -> int:
        return end_offset if record_count else own_writes_end


class IgnoresResignation(BrokerRules):
    """KAFKA-19274: the resignation does not carry a newer epoch, and is ignored."""

    def gives_up(self, loaded_epoch: int, resigned_epoch: int) -> bool:
        return False


class ServesAfterResignation(BrokerRules):
    """KafScale-121: nothing fences a broker that has lost the group to another one."""

    serves_after_resignation = True

    def gives_up(self, loaded_epoch: int, resigned_epoch: int) -> bool:
        return False


class ExpectsEntities(BrokerRules):
    """KAFKA-17306: a load fails at a tombstone without a target, and at a record of an unknown
    group unless it is a member's metadata."""

    def check_loaded(self, record: Record, coordinator: GroupCoordinator) -> None:
        group = coordinator.groups.get(record.group_id)
        if group is None:
            if record.value is None or not isinstance(record, ConsumerGroupMemberMetadata):
                raise ProtocolBug(f"group {record.group_id} not found")
        elif record.value is None:
            member_id = getattr(record, "member_id", None)
            if member_id is not None and member_id not in group.members:
                raise ProtocolBug(f"member {member_id} not found")


class LoadsStrictly(BrokerRules):
    """KAFKA-19862: a load insists that a partition is released before it is given away."""

    loads_strictly = True


class KeepsFailedBatches(BrokerRules):
    """mut-keeps-failed-batch: what could not be written stays in force in memory."""

    reverts_failed_batches = False


class UnloadsLate(BrokerRules):
    """KAFKA-10614: unloading is a task of its own, which looks at no epoch."""

    unload_delay_ms = 1_000


BROKER_DEFECTS: Mapping[str, type[BrokerRules]] = {
    "KAFKA-10614": UnloadsLate,
    "KAFKA-16973": TrustsLoadedTail,
    "KAFKA-17306": ExpectsEntities,
    "KAFKA-19274": IgnoresResignation,
    "KAFKA-19862": LoadsStrictly,
    "KafScale-121": ServesAfterResignation,
    "mut-keeps-failed-batch": KeepsFailedBatches,
    "mut-reads-uncommitted": ReadsUncommitted,
    "mut-reply-before-commit": RepliesBeforeCommit,
}
"""Id of the defect -> the rules with the defect."""


def split_defects(semantics: Semantics, names: Iterable[str]) -> tuple[Semantics, tuple[str, ...]]:
    """The version with its core and client defects switched on, and the names left for a broker.

    Raises ValueError for a name that is in neither table.
    """
    of_brokers = tuple(name for name in names if name in BROKER_DEFECTS)
    others = [name for name in names if name not in BROKER_DEFECTS]
    try:
        return semantics.with_defects(*others), of_brokers
    except ValueError as error:
        raise ValueError(f"defects: {error}; of brokers: {', '.join(BROKER_DEFECTS)}") from None


def broker_rules(names: Iterable[str]) -> BrokerRules:
    """Rules with the named defects of brokers switched on."""
    mixins = tuple(BROKER_DEFECTS[name] for name in names)
    if not mixins:
        return BrokerRules()
    rules: BrokerRules = type("DefectiveBrokerRules", mixins, {})()
    return rules
