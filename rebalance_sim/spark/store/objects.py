"""Results in an object store, through ``pyarrow.fs``."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import pyarrow as pa
from pyarrow import fs as arrow_fs

from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.store.store import Data, reason_of

_Result = TypeVar("_Result")

SYSTEMS: Mapping[str, tuple[str, str]] = {
    "s3": ("s3", "S3FileSystem"),
    "s3a": ("s3", "S3FileSystem"),
    "s3n": ("s3", "S3FileSystem"),
    "gs": ("gs", "GcsFileSystem"),
    "gcs": ("gs", "GcsFileSystem"),
    "abfs": ("abfs", "AzureFileSystem"),
    "abfss": ("abfss", "AzureFileSystem"),
}
"""Scheme of a URL -> what pyarrow calls it, and the class that it must have been built with."""

# A small object is one PUT, and not the three requests of an upload in parts.
_S3_OPTIONS = {"allow_delayed_open": "true"}


class ObjectStore:
    """Objects under a prefix; one PUT publishes one."""

    def __init__(self, url: str, system: Any, base: str) -> None:
        self.url = url
        self._system = system
        self._base = base.rstrip("/")

    @classmethod
    def at(cls, url: str) -> ObjectStore:
        """The store that a URL names. Raises SweepError if this machine cannot use it."""
        parts = urlsplit(url)
        name, class_name = SYSTEMS[parts.scheme]
        if not hasattr(arrow_fs, class_name):
            raise SweepError(f"--out {url}: the installed pyarrow has no {class_name}")
        options = dict(parse_qsl(parts.query))
        if name == "s3":
            options = _S3_OPTIONS | options
        address = parts._replace(scheme=name, query=urlencode(options)).geturl()
        try:
            system, base = arrow_fs.FileSystem.from_uri(address)
        except (OSError, pa.ArrowException) as problem:
            raise SweepError(f"--out {url}: {reason_of(problem)}: correct the URL") from problem
        return cls(url, system, base)

    def check(self) -> None:
        info = self._ask(lambda: self._system.get_file_info(self._base))
        if info.type == arrow_fs.FileType.File:
            raise NotADirectoryError(errno.ENOTDIR, "is an object, not a folder", self.url)

    def put(self, name: str, data: Data) -> None:
        path = self._path(name)
        self._ask(lambda: self._write(path, data))

    def get(self, name: str) -> bytes:
        with self.open(name) as file:
            return bytes(self._ask(file.read))

    def open(self, name: str) -> Any:
        return self._ask(lambda: self._system.open_input_file(self._path(name)))

    def exists(self, name: str) -> bool:
        info = self._ask(lambda: self._system.get_file_info(self._path(name)))
        return bool(info.type == arrow_fs.FileType.File)

    def list(self, folder: str = "") -> Iterator[str]:
        path = self._path(folder)
        selector = arrow_fs.FileSelector(path, allow_not_found=True)
        for info in self._ask(lambda: self._system.get_file_info(selector)):
            yield info.base_name

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._ask(lambda: self._system.delete_file(self._path(name)))

    def tidy(self) -> None:
        """An upload that broke off leaves no object."""

    def location(self, name: str = "") -> str:
        base = urlsplit(self.url)._replace(query="").geturl().rstrip("/")
        return f"{base}/{name}" if name else base

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}".rstrip("/")

    def _write(self, path: str, data: Data) -> None:
        with self._system.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    def _ask(self, request: Callable[[], _Result]) -> _Result:
        """Whatever a store complains of is an OSError, in one line."""
        try:
            return request()
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as problem:
            raise OSError(errno.EIO, reason_of(problem), self.location()) from problem
