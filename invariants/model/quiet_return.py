"""A static member of a classic group that comes back without a rebalance (classic §2.5)."""

from __future__ import annotations

from typing import NamedTuple

from rebalance_sim.invariants.explanation import Seen


class QuietReturn(NamedTuple):
    """What it may leave unnoticed: ``topics`` that it subscribes to by now, what grew while its
    group had no leader (``is_leader``), what its predecessor was to give up before others could be
    given it (``withheld``: topic and number), and after a conversion everything
    (``is_conversion``). ``is_due``: its own join had a new target due."""

    topics: frozenset[str]
    withheld: frozenset[tuple[str, int]]
    is_leader: bool
    is_conversion: bool
    is_due: bool
    seen: Seen
