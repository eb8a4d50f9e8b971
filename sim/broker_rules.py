"""Decisions of a broker in which known defects differ, one small method each.

The coordinator core and the member have rules of their own (``protocol/semantics.py``). What stands
here is the runtime around the core: when an answer may go, when a shard is given up
(consumer-group-coordinator.md, sections 9.4 and 9.5; bug-zoo.md, part "Failover").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from protocol.semantics import Semantics

__all__ = ["BROKER_DEFECTS", "BrokerRules", "broker_rules", "split_defects"]


class BrokerRules:
    """What a correct broker does."""

    serves_after_resignation = False
    """A deposed leader goes on serving, and takes its own writes for committed."""

    def offset_to_await(self, end_offset: int, own_writes_end: int, record_count: int) -> int:
        """The high watermark at which an answer may go.

        ``end_offset`` is the end of the log after the operation, ``own_writes_end`` the end of what
        this shard has written itself since its load (0 if nothing). An answer without records
        waits too, so that it never shows what is not committed (section 9.4, step 5).
        """
        return end_offset

    def gives_up(self, loaded_epoch: int, resigned_epoch: int) -> bool:
        """Whether a resignation with an epoch unloads a shard that was loaded with another."""
        return resigned_epoch > loaded_epoch


class RepliesBeforeCommit(BrokerRules):
    """mut-reply-before-commit."""

    def offset_to_await(self, end_offset: int, own_writes_end: int, record_count: int) -> int:
        return 0


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


BROKER_DEFECTS: Mapping[str, type[BrokerRules]] = {
    "KAFKA-16973": TrustsLoadedTail,
    "KAFKA-19274": IgnoresResignation,
    "KafScale-121": ServesAfterResignation,
    "mut-reply-before-commit": RepliesBeforeCommit,
}
"""Name in the bug zoo -> the rules with the defect."""


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
