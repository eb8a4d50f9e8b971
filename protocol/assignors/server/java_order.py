"""The order in which a Java hash map gives back its string keys.

Real brokers visit members in this order (assignors §2); simulations visit them in ascending id. A
replay of recorded traces needs the real one: among chosen ids, "B2" comes before "A" and "Z" before
"K".
"""

from __future__ import annotations

from collections.abc import Collection

_INITIAL_SLOTS = 16
_LOAD_FACTOR = 0.75


def java_hash_map_order(ids: Collection[str]) -> list[str]:
    """``ids`` by slot of a ``java.util.HashMap`` that grew from its initial size.

    Ids in one slot stand in ascending order here. In Java they stand in the order of their
    insertion, which a broker takes from another map and nobody can predict.
    """
    slots = _INITIAL_SLOTS
    while len(ids) > slots * _LOAD_FACTOR:
        slots *= 2

    def slot_of(text: str) -> int:
        code = java_string_hash(text) & 0xFFFF_FFFF
        return (code ^ (code >> 16)) & (slots - 1)

    return sorted(ids, key=lambda text: (slot_of(text), text))


def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode``: signed, 32 bits, over UTF-16 units.

    Source: coordinator §2.1.
    """
    units = text.encode("utf-16-le", "surrogatepass")
    code = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFF_FFFF
    return code - (1 << 32) if code >> 31 else code
