"""Where a member id that a trace does not show stands among the others.

A coordinator makes the ids of classic members, and a recording names them only symbolically. Two
places of such an id matter to the assignors: its slot in a hash map, and its rank when ids are
sorted (assignors §2). A replay has to try them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rebalance_sim.conformance.spelling import GENERATED

_SLOTS = 16


@dataclass(frozen=True, slots=True)
class Place:
    """``prefix`` decides the rank of an id. ``variant`` is its last letter: neighbouring letters
    have neighbouring hash codes, so that 16 of them cover all slots of a small map."""

    prefix: str = ""
    variant: int = 0


LAST = Place()
"""Behind all ids that scripts chose, which begin with capital letters."""


class PlacedIds:
    """Makes member ids for a coordinator, each in the place that was chosen for it.

    ``places`` are those of the first ids; later ones stand last. ``made`` counts the ids.
    """

    def __init__(self, places: Sequence[Place] = ()) -> None:
        self._places = places
        self.made = 0

    def __call__(self) -> str:
        place = self._places[self.made] if self.made < len(self._places) else LAST
        self.made += 1
        return f"{place.prefix}{GENERATED}{self.made:03d}{chr(ord('a') + place.variant)}"


def places_among(chosen_ids: Iterable[str]) -> Iterator[Place]:
    """Every slot at the last rank, every other rank, and then both together."""
    # "~" sorts behind, and "!" before, all that ids are made of.
    prefixes = ["!", *(f"{member_id}~" for member_id in sorted(set(chosen_ids))[:-1])]
    yield from (Place("", variant) for variant in range(_SLOTS))
    yield from (Place(prefix, 0) for prefix in prefixes)
    yield from (Place(prefix, variant) for prefix in prefixes for variant in range(1, _SLOTS))
