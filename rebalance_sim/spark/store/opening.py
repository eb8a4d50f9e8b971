"""From what a user writes after ``--out`` to a store."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.store.store import Location, Store

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
HDFS_SCHEMES = ("hdfs", "viewfs")
KNOWN = "a folder, or file://, s3://, gs://, abfss:// or hdfs://"


def packages_for(out: Location) -> dict[str, str]:
    """What has to be installed, beside the rest, on every machine that uses the store at ``out``:
    modules with compiled parts -> the packages that have them."""
    return {"hdfs_native": "hdfs-native"} if _is_hdfs(out) else {}


def survives_fork(out: Location) -> bool:
    """Whether a process that has used the store at ``out`` may fork one that uses it too.

    The client of HDFS keeps connections for three seconds, which both would then read from.
    """
    return not _is_hdfs(out)


def _is_hdfs(out: Location) -> bool:
    match = _SCHEME.match(str(out))
    return match is not None and match[1].lower() in HDFS_SCHEMES


def open_store(out: Location) -> Store:
    """The store at a path or URL. Nothing is written or asked yet.

    Raises SweepError for a scheme that nothing here can write to, so that no folder of that name
    appears on this machine instead.
    """
    from rebalance_sim.spark.store.posix import PosixStore

    if not isinstance(out, str | PathLike):
        raise SweepError(f"{out!r} is no folder: give a path, or the URL of one")
    text = str(out)
    if "\0" in text:
        raise SweepError(f"{text!r} is no path: give a folder without NUL")
    match = _SCHEME.match(text)
    if match is None:
        scheme = text.partition(":")[0].lower()
        if ":" in text and f"{scheme}://" in KNOWN + "s3a://viewfs://":
            raise SweepError(f"{text}: write {scheme}://, with two slashes")
        return PosixStore(Path(out).expanduser())
    scheme = match[1].lower()
    if isinstance(out, Path):
        raise SweepError(f"--out {text}: a path has lost a slash of this URL: give it as text")
    if scheme == "file":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise SweepError(f"--out {text}: another machine: write file:///folder")
        if not parts.path:
            raise SweepError(f"--out {text}: no folder: write file:///folder")
        return PosixStore(Path(unquote(parts.path)))
    if scheme in HDFS_SCHEMES:
        from rebalance_sim.spark.store.hdfs import HdfsStore

        return HdfsStore(text)
    # pyarrow takes a third of a second to load, and a mistyped URL is to be refused at once.
    from rebalance_sim.spark.store.objects import SYSTEMS, ObjectStore

    if scheme not in SYSTEMS:
        raise SweepError(f"--out {text}: nothing here can write to {scheme}: give {KNOWN}")
    if not urlsplit(text).netloc:
        raise SweepError(f"--out {text}: no bucket: write {scheme}://bucket/folder")
    return ObjectStore.at(text)


@contextmanager
def local_copy(address: str) -> Iterator[Path]:
    """The file at a path, or a temporary copy of the object at a URL.

    Raises SweepError if the URL cannot be read.
    """
    if _SCHEME.match(address) is None:
        yield Path(address)
        return
    place, _, query = address.partition("?")
    folder, _, name = place.rpartition("/")
    with ExitStack() as stack:
        try:
            store = open_store(f"{folder}?{query}" if query else folder)
            copy = stack.enter_context(local_file(store, name))
        except OSError as problem:
            raise SweepError(f"cannot read {address} ({problem.strerror})") from problem
        yield copy


@contextmanager
def local_file(store: Store, name: str) -> Iterator[Path]:
    """A file of a store where it is, or a temporary copy of an object."""
    location = store.location(name)
    if isinstance(location, Path):
        yield location
        return
    with tempfile.TemporaryDirectory(prefix="rebalance-sim-") as scratch:
        copy = Path(scratch) / Path(name).name
        copy.write_bytes(store.get(name))
        yield copy
