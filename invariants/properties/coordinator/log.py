"""The shape of what an operation writes: whole, in order, with tombstones, and not for ever.

Sources: coordinator §4.2, §9.1, §9.2, §14.1, §14.3.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping

from rebalance_sim.invariants.formatting import listed
from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.consumer_messages import STATIC_LEAVE_EPOCH
from rebalance_sim.protocol.wire.records import Record

ORDER = 70


MAX_IDLE_REWRITES = 4
"""Rewrites of a current assignment that move nothing, per member and target: reaching the target
epoch, the previous epoch of a member that waits, the same after an accepted retry, leaving the
waiting state (coordinator §2.8, §3.5)."""


class Tombstones(Property):
    """coordinator C16."""

    id = "log.tombstones"
    sentence = (
        "A member is removed by tombstones of its current assignment, its target and itself, "
        "in this order, in one batch with the next group epoch or with its static successor."
    )
    clauses = ("coordinator C16", "coordinator §4.2", "defects S5")
    violated_by = ("mut-no-assignment-tombstone", "mut-no-bump-on-leave")

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the records of every member that went, or lost its current assignment."""
        if change.is_group_removed:
            return None
        for member_id, (before, after) in change.members.items():
            if before is None or before.current is None:
                continue
            if after is not None:
                if after.current is None:
                    return Finding(f"{member_id} lost its current assignment and stays a member")
                continue
            written = "".join(
                _letter(r)
                for r in change.records
                if r.value is None and getattr(r, "member_id", None) == member_id
            )
            if "ESF" not in written:
                return Finding(
                    f"{member_id} was removed by tombstones of types "
                    f"{listed(_NUMBERS[letter] for letter in written)}, not of 8†, 7†, 5† "
                    "(† a tombstone)",
                    {"member": member_id},
                )
            if change.group_epoch[1] <= change.group_epoch[0] and not _has_successor(
                change, member_id
            ):
                return Finding(
                    f"{member_id} was removed, and the group epoch stays {change.group_epoch[1]}",
                    {"member": member_id},
                )
        return None


class BatchOrder(Property):
    """coordinator §9.2, as one regular expression over record types."""

    id = "log.batch_order"
    sentence = "The records of an operation come in the order that its kind prescribes."
    clauses = ("coordinator §9.2", "coordinator C17")
    violated_by = ("mut-no-assignment-tombstone", "mut-no-bump-on-leave", "test:shuffled-batch")

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        promotions = "8*" if model.rules.promotes_on_release else ""
        kinds = "|".join(
            (
                "C?(?:ESF578)?5?R?3?(?:7*6)?8?",  # a heartbeat, a target computed by itself
                "(?:ESF)+R*36?",  # the end of a member, or of several; of the last one the target, too
                "r+3?",  # patterns resolved
                "o*(?:TPG|C)?",  # offsets given up, and then the group
            )
        )
        self._order = re.compile(f"(?:{kinds}){promotions}")

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Match the types of the batch."""
        group_id = change.ledger.group_id
        letters = "".join([_letter(r) for r in change.records if r.group_id == group_id])
        if self._order.fullmatch(letters) is not None:
            return None
        return Finding(
            f"an operation wrote records of the types {listed(_NUMBERS[x] for x in letters)} "
            "(† a tombstone), an order that no operation has"
        )


class Linger(Property):
    """coordinator §9.4. A batch that is full is written sooner: where the limit is not the usual
    one, nothing is judged. The record behind the last committed one has opened its batch; if that
    is another group's, nothing is known of when.
    """

    id = "log.linger"
    sentence = (
        "What a shard writes is committed no sooner than group.coordinator.append.linger.ms after "
        "the operation that opened its batch."
    )
    clauses = ("coordinator §9.4",)
    violated_by = ("test:writes-at-once",)
    judges_mixed = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        config = model.config
        is_usual = config.message_max_bytes == CoordinatorConfig().message_max_bytes
        self._linger_ms = config.group_coordinator_append_linger_ms if is_usual else 0
        self._appended: dict[str, deque[tuple[int, int, int]]] = {}
        """Shard -> first offset, end offset and time of what it has written for this group, and is
        not committed yet."""
        self._committed: dict[str, int] = {}
        """Shard -> its high watermark when that was seen last."""

    def on_append(self, step: Step) -> Finding | None:
        """Note when."""
        if self._linger_ms > 0:
            shard = step.shard
            end = shard.log_end_offset
            written = end - len(step.records), end, step.at_ms
            appended = self._appended.setdefault(shard.name, deque())
            if not appended:
                self._committed[shard.name] = shard.high_watermark
            appended.append(written)
        return None

    def on_committed(self, step: Step) -> Finding | None:
        """Was it long enough ago?"""
        shard = step.shard
        appended, committed = self._appended.get(shard.name), shard.high_watermark
        if not appended:
            return None
        before, self._committed[shard.name] = self._committed[shard.name], committed
        if appended[0][1] > committed:
            return None
        first, _, opened_ms = appended[0]
        while appended and appended[0][1] <= committed:
            appended.popleft()
        if first != before or step.at_ms - opened_ms >= self._linger_ms:
            return None
        return Finding(
            f"{shard.name} has committed after {step.at_ms - opened_ms} ms what waits for "
            f"{self._linger_ms} ms before it is written"
        )

    def on_truncated(self, step: Step) -> Finding | None:
        """What could not be written is over."""
        self._appended.pop(step.shard.name, None)
        return None

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """So is all that was written in another term."""
        self._appended.pop(step.shard.name, None)
        return None


class BatchWhole(Property):
    """coordinator C17, as far as the log shows it; that memory follows is coordinator C18.

    What other groups of the partition have written since counts as growth, too: with them, a batch
    that was torn may pass.
    """

    id = "log.batch_whole"
    sentence = "All records of an operation are in the log, or none."
    clauses = ("coordinator C17",)
    violated_by = ("test:torn-batch",)
    judges_mixed = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._end: dict[str, int] = {}

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Remember where the log ends."""
        shard = step.shard
        self._end[shard.name] = shard.log_end_offset
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """Remember where the log ends now."""
        shard = step.shard
        self._end[shard.name] = shard.log_end_offset
        return None

    def on_append(self, step: Step) -> Finding | None:
        """Has the log grown by the batch?"""
        shard = step.shard
        end = shard.log_end_offset
        before = self._end.get(shard.name, end - len(step.records))
        self._end[shard.name] = end
        if end - before >= len(step.records):
            return None
        return Finding(
            f"an operation wrote {len(step.records)} records, the log of {shard.name} went from "
            f"{before} to {end}"
        )


class BoundedRewrites(Property):
    """coordinator L5, where a loop would show at once."""

    id = "log.bounded_rewrites"
    sentence = (
        "Between two targets, a member's current assignment is rewritten only a few times "
        "without moving a partition."
    )
    clauses = ("coordinator L5", "defects L7")
    violated_by = ("test:rewrites-for-ever",)
    judges_mixed = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._count: dict[tuple[str, str], tuple[int, int]] = {}

    def on_truncated(self, step: Step) -> Finding | None:
        """What is not in the log any more was not rewritten."""
        name = step.shard.name
        self._count = {key: count for key, count in self._count.items() if key[0] != name}
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Count rewrites that move nothing, anew with each target and each word of the member."""
        shard_name = step.shard.name
        target_epoch = change.ledger.target_epoch
        for member_id, (before, after) in change.members.items():
            if after is None:
                self._count.pop((shard_name, member_id), None)
                continue
            if before is None or before.current is after.current:
                continue
            moves = (
                member_id in change.moved
                or before.metadata is not after.metadata
                or STATIC_LEAVE_EPOCH in (before.epoch, after.epoch)
                or (
                    before.current is not None
                    and after.current is not None
                    and before.current.assigned.keys() != after.current.assigned.keys()
                )
            )
            epoch, count = self._count.get((shard_name, member_id), (target_epoch, 0))
            count = 0 if moves or epoch != target_epoch else count + 1
            self._count[shard_name, member_id] = target_epoch, count
            if count > MAX_IDLE_REWRITES:
                return Finding(
                    f"the current assignment of {self.model.who(member_id)} was rewritten {count} "
                    f"times at target epoch {target_epoch} without moving anything",
                    {"member": member_id},
                )
        return None


_VALUE_LETTERS: Mapping[int, str] = {
    1: "O",
    2: "c",
    3: "3",
    4: "4",
    5: "5",
    6: "6",
    7: "7",
    8: "8",
    16: "r",
}
_TOMBSTONE_LETTERS: Mapping[int, str] = {
    1: "o",
    2: "C",
    3: "G",
    4: "P",
    5: "F",
    6: "T",
    7: "S",
    8: "E",
    16: "R",
}
_NUMBERS: Mapping[str, str] = {
    **{letter: str(number) for number, letter in _VALUE_LETTERS.items()},
    **{letter: f"{number}†" for number, letter in _TOMBSTONE_LETTERS.items()},
}


def _letter(record: Record) -> str:
    """One letter for the type of a record; tombstones have their own."""
    letters = _TOMBSTONE_LETTERS if record.value is None else _VALUE_LETTERS
    return letters[record.type_id]


def _has_successor(change: Change, member_id: str) -> bool:
    """Whether a static successor took the place of this member in the same batch."""
    gone = change.members[member_id][0]
    if gone is None or gone.instance_id is None:
        return False
    return any(
        before is None and after is not None and after.instance_id == gone.instance_id
        for before, after in change.members.values()
    )
