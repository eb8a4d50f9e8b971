"""Results in a folder of a file system that all machines see."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rebalance_sim.spark.store.store import Data
from rebalance_sim.spark.store.temporary import (
    PREFIX,
    is_abandoned,
    is_temporary,
    temporary_name,
)

# What mounts of object stores (/dbfs, /Volumes, s3fs) answer to calls that they do not have.
_NOT_THERE = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM})


class PosixStore:
    """Objects are files: written beside their place, synced and renamed into it.

    On a mount that has no rename an object is written in place; such mounts publish it when it is
    closed. One that cannot sync a folder is taken at its word.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def url(self) -> str:
        return str(self.path)

    def check(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is a file, not a folder", str(self.path))

    def put(self, name: str, data: Data) -> None:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / temporary_name()
        try:
            _write_synced(temporary, data)
            try:
                temporary.replace(target)
            except OSError as problem:
                if problem.errno not in _NOT_THERE:
                    raise
                _write_synced(target, data)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)

    def get(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def open(self, name: str) -> IO[bytes]:
        return (self.path / name).open("rb")

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()

    def list(self, folder: str = "") -> Iterator[str]:
        try:
            with os.scandir(self.path / folder) as entries:
                yield from [e.name for e in entries if not is_temporary(e.name)]
        except FileNotFoundError:
            return

    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def tidy(self) -> None:
        for path in (*self.path.glob(f"{PREFIX}*"), *self.path.glob(f"*/{PREFIX}*")):
            with contextlib.suppress(FileNotFoundError):
                if is_abandoned(path.name, time.time() - path.stat().st_mtime):
                    path.unlink()

    def location(self, name: str = "") -> Path:
        return self.path / name


def _write_synced(path: Path, data: Data) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    try:
        folder = os.open(path, os.O_RDONLY)
    except OSError as problem:
        if problem.errno in _NOT_THERE:
            return
        raise
    try:
        os.fsync(folder)
    except OSError as problem:
        if problem.errno not in _NOT_THERE:
            raise
    finally:
        os.close(folder)
