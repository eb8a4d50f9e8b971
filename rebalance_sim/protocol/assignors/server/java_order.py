"""The order in which a Java hash map gives back its string keys.

Real brokers visit members in this order (assignors §2); simulations visit them in ascending id. A
replay of recorded traces needs the real one: among chosen ids, "B2" comes before "A" and "Z" before
"K".
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

_INITIAL_SLOTS = 16
_LOAD_FACTOR = 0.75


def java_hash_map_order(ids: Collection[str]) -> list[str]:
    """``ids`` by slot of a ``java.util.HashMap`` that grew from its initial size.

    Ids in one slot stand in ascending order here. In Java they stand in the order of their
    insertion, which a broker takes from another map and no one can predict.
    """
    return [text for slot in java_hash_map_slots(ids) for text in slot]


def java_hash_map_slots(ids: Collection[str]) -> list[list[str]]:
    """``ids`` of each slot that is not empty, slots and ids in ascending order."""
    slot_count = _INITIAL_SLOTS
    while len(ids) > slot_count * _LOAD_FACTOR:
        slot_count *= 2
    slots: dict[int, list[str]] = {}
    for text in sorted(ids):
        code = java_string_hash(text) & 0xFFFF_FFFF
        slots.setdefault((code ^ (code >> 16)) & (slot_count - 1), []).append(text)
    return [slots[number] for number in sorted(slots)]


@lru_cache(maxsize=4096)
def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode``: signed, 32 bits, over UTF-16 units.

    Source: coordinator §2.1.
    """
    units = text.encode("utf-16-le", "surrogatepass")
    code = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFF_FFFF
    return code - (1 << 32) if code >> 31 else code
