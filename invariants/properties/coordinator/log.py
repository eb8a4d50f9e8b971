"""The shape of what an operation writes: whole, in order, with tombstones, and not for ever.

Sources: coordinator §4.2, §9.1, §9.2, §14.1, §14.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rebalance_sim.invariants.formatting import listed
from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.records import Record

ORDER = 70


class Tombstones(Property):
    """coordinator C16."""

    id = "log.tombstones"
    sentence = (
        "A member is removed by tombstones of its current assignment, its target and itself, "
        "in this order, in one batch with the next group epoch or with its static successor."
    )
    clauses = ("coordinator C16", "coordinator §4.2", "defects S5")
    violated_by = (
        "mut-no-assignment-tombstone",
        "mut-no-bump-on-leave",
    )

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
                    member=member_id,
                )
            if change.group_epoch[1] <= change.group_epoch[0] and not _has_successor(
                change, member_id
            ):
                return Finding(
                    f"{member_id} was removed, and the group epoch stays {change.group_epoch[1]}",
                    member=member_id,
                )
        return None


class BatchOrder(Property):
    """coordinator §9.2, as one regular expression over record types."""

    id = "log.batch_order"
    sentence = "The records of an operation come in the order that its kind prescribes."
    clauses = ("coordinator §9.2", "coordinator C17")
    violated_by = (
        "mut-no-assignment-tombstone",
        "mut-no-bump-on-leave",
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        promotions = "8*" if model.rules.promotes_on_release else ""
        kinds = "|".join(
            (
                "C?(?:ESF578)?5?R?3?(?:7*6)?8?",  # a heartbeat, a target computed by itself
                "(?:ESF)+R*36?",  # the end of members; where none is left, with the target epoch
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
