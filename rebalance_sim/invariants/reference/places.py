"""Where rules decide, and so which machines show that they are others."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from rebalance_sim.invariants.reference.tree import PROTOCOL


class Place(Enum):
    """A part of a world that rules decide in."""

    COORDINATOR = "coordinator"
    CLIENT = "client"
    """Members, with the assignors that the leader of a classic group runs."""
    HOST = "host"
    """What is around machines, and so is seen by no reference: brokers, and assignors that an
    application runs by itself."""


def places_of(changes: Iterable[type]) -> frozenset[Place]:
    """Where these changes of rules decide."""
    return frozenset(_place_of(change.__bases__[0].__module__) for change in changes)


def _place_of(module: str) -> Place:
    for folder, place in _PLACES.items():
        if module.startswith(f"{PROTOCOL}.{folder}."):
            return place
    return Place.COORDINATOR


_PLACES = {
    "clients": Place.CLIENT,
    "assignors.classic": Place.CLIENT,
    "assignors.client_side": Place.HOST,
    "hosting": Place.HOST,
}
