"""What results are put into: whole objects by name, on a file system or an object store.

An object appears whole or not at all, under a name that does not depend on who wrote it, and may be
written again with the same meaning. Nothing else is asked of a store: no rename, no append and no
lock. So an object can be the record that a batch is done, and a retry, a second attempt or a second
driver does no harm.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

Location = Path | str
"""Where something is: a path on this machine, or the URL of an object."""

Data = bytes | memoryview


class Store(Protocol):
    """Whole objects by name. Names are relative and have one folder, seldom two: ``runs/b000001``.

    Every method raises OSError if the store refuses or cannot be reached.
    """

    @property
    def url(self) -> str:
        """What opens the same store in another process: an absolute path, or a URL."""

    def check(self) -> None:
        """Raise OSError if there cannot be a store here, such as a file in place of a folder."""

    def put(self, name: str, data: Data) -> None:
        """Publish an object; one of this name is replaced as a whole."""

    def get(self, name: str) -> bytes:
        """The content. Raises FileNotFoundError if there is no such object."""

    def open(self, name: str) -> IO[bytes] | Any:
        """The content as a file to seek in. Raises FileNotFoundError, at once or when read."""

    def exists(self, name: str) -> bool:
        """Whether there is such an object."""

    def list(self, folder: str = "") -> Iterator[str]:
        """The names of all objects in a folder, without the folder, in no order."""

    def delete(self, name: str) -> None:
        """Remove an object; it need not exist."""

    def tidy(self) -> None:
        """Remove what writers that are dead left behind."""

    def location(self, name: str = "") -> Location:
        """Where an object is, or the whole, to be shown to people."""


def shown(location: Location) -> str:
    """A location as people like to read it: a path from here, or a URL as it is."""
    return os.path.relpath(location) if isinstance(location, Path) else location


def reason_of(problem: Exception) -> str:
    """What an exception says, in one line: some libraries append a trace of their own."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
