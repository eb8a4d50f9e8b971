"""Member ids that a coordinator makes, in a replay.

A recording may tell the real ones (``generated``), by the requests that they were made for. One
that names them only symbolically leaves open where such an id stands among the others. Two places
matter to the assignors: its slot in a hash map, and its rank when ids are sorted (assignors §2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_SLOTS = 16
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_BASE64_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_AFTER_A_NAME = re.compile(rf"(?<=-){_BASE64_UUID.pattern}$")
_GENERATED = "generated-"
"""Part of every member id that is made here."""


@dataclass(frozen=True, slots=True)
class Place:
    """``prefix`` decides the rank of an id. ``variant`` is its last letter: neighbouring letters
    have neighbouring hash codes, so that 16 of them cover all slots of a small map."""

    prefix: str = ""
    variant: int = 0


def is_generated(member_id: str) -> bool:
    """Whether a coordinator made this id, here or on a real broker."""
    return (
        _GENERATED in member_id
        or _UUID.search(member_id) is not None
        or _BASE64_UUID.fullmatch(member_id) is not None
    )


def real_suffix(member_id: str) -> str:
    """What a coordinator made of an id, which for classic members begins with their client, or
    with their instance id. The gateway makes short ones for them, too."""
    made = _UUID.search(member_id) or _AFTER_A_NAME.search(member_id)
    return member_id if made is None else made[0]


def made_id(number: int, place: Place) -> str:
    """An id in the place that was chosen for it."""
    return f"{place.prefix}{_GENERATED}{number:03d}{chr(ord('a') + place.variant)}"


def places_among(chosen_ids: Iterable[str]) -> Iterator[Place]:
    """First the last rank, behind all ids that scripts chose, which begin with capital letters, in
    every slot; then every other rank, and then both together."""
    # "~" sorts behind, and "!" before, all that ids are made of.
    prefixes = ["!", *(f"{member_id}~" for member_id in sorted(set(chosen_ids))[:-1])]
    yield from (Place("", variant) for variant in range(_SLOTS))
    yield from (Place(prefix, 0) for prefix in prefixes)
    yield from (Place(prefix, variant) for prefix in prefixes for variant in range(1, _SLOTS))
