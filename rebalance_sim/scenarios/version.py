"""The version of the code that a result depends on, as a digest of its sources.

A release number would call two different states of a checkout by one name, and an archive that was
shipped to an executor has none. Whatever can change a run is in the digest: the four layers that
take part in it, and the profiles.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

_PACKAGES = ("protocol", "invariants", "sim", "scenarios")
_SUFFIXES = (".py", ".toml")


@functools.cache
def code_version() -> str:
    """Twelve hexadecimal digits; equal for equal sources, on any machine."""
    digest = hashlib.blake2b(digest_size=6)
    sources = [("re2_engine.py", files("rebalance_sim") / "re2_engine.py")]
    for package in _PACKAGES:
        sources += _sources(files(f"rebalance_sim.{package}"), package)
    for name, source in sources:
        digest.update(f"{name}\n".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _sources(entry, path)
        elif entry.name.endswith(_SUFFIXES):
            yield path, entry
