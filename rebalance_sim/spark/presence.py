"""Drivers that work in the same folder report each other.

Two do no harm: rows depend on the plan alone. But they do the same work, and no one means that.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from rebalance_sim.spark.store.store import Store

FOLDER = "drivers"
BEAT_S = 30.0
GONE_S = 4 * BEAT_S
"""A driver that has not been heard of for so long was killed."""


@dataclass(slots=True)
class Presence:
    """A driver that says every half minute that it is here, and looks for others."""

    store: Store
    name: str
    _beaten_s: float = 0.0
    _reported: frozenset[str] = frozenset()

    def beat(self) -> str:
        """Say so if it is time; a sentence about others that are new, else empty."""
        now_s = time.time()
        if now_s - self._beaten_s < BEAT_S:
            return ""
        self._beaten_s = now_s
        text = json.dumps({"at_s": round(now_s), "host": socket.gethostname(), "pid": os.getpid()})
        self.store.put(f"{FOLDER}/{self.name}", text.encode())
        others = self._others(now_s)
        new = [what for name, what in others.items() if name not in self._reported]
        self._reported |= set(others)
        if not new:
            return ""
        return (
            f"{' and '.join(new)} works in this folder too: no harm to the results, "
            "but batches may be run twice"
        )

    def _others(self, now_s: float) -> dict[str, str]:
        found = {}
        for name in sorted(set(self.store.list(FOLDER)) - {self.name}):
            with contextlib.suppress(FileNotFoundError, ValueError):
                said = json.loads(self.store.get(f"{FOLDER}/{name}"))
                if now_s - said["at_s"] <= GONE_S:
                    found[name] = f"a driver on {said['host']} (process {said['pid']})"
                else:
                    self.store.delete(f"{FOLDER}/{name}")
        return found


@contextlib.contextmanager
def present(store: Store) -> Iterator[Presence]:
    """Be present in a store while the block runs."""
    presence = Presence(store, f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")
    try:
        yield presence
    finally:
        with contextlib.suppress(OSError):
            store.delete(f"{FOLDER}/{presence.name}")
