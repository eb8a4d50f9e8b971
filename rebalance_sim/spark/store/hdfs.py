"""Results in HDFS, through ``hdfs-native``: no Java and no libhdfs is needed where this runs.

A file that is being written can be seen in HDFS. So an object is written beside its place and
renamed over it, which is one atomic step of the name node, whether or not there is one already.
"""

from __future__ import annotations

import contextlib
import errno
import io
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.store.store import Data, reason_of
from rebalance_sim.spark.store.temporary import is_abandoned, is_temporary, temporary_name

if TYPE_CHECKING:
    from hdfs_native import Client

ATTEMPTS = "dfs.client.failover.max.attempts"
ATTEMPTS_AT_START = "3"
"""Requests outlive a failover of the name node, which takes minutes; a mistyped one is to be
reported in seconds."""

# The exception of a server, with the trace inside; and one of the client.
_WRAPPED = re.compile(r'\w+\((?:"[\w.$]+", )?"(.*?)(?:\\n.*)?"\)')

_Result = TypeVar("_Result")


class HdfsStore:
    """Files under a folder of HDFS.

    The name node of a URL without one, name services and everything else of a cluster is read from
    ``core-site.xml`` and ``hdfs-site.xml`` in ``HADOOP_CONF_DIR``. The query of a URL sets single
    values: ``hdfs://name-node:8020/out?dfs.client.use.datanode.hostname=true``.
    """

    def __init__(self, url: str) -> None:
        """Raises SweepError if this machine cannot use it."""
        self.url = url
        parts = urlsplit(url)
        self._base = "/" + unquote(parts.path).strip("/")
        self._address = f"{parts.scheme}://{parts.netloc}" if parts.netloc else None
        self._settings = dict(parse_qsl(parts.query))
        self._client = self._connected(self._settings)

    def check(self) -> None:
        client = self._connected({ATTEMPTS: ATTEMPTS_AT_START} | self._settings)
        with contextlib.suppress(FileNotFoundError):
            if not self._ask(lambda: client.get_file_info(self._base)).isdir:
                raise NotADirectoryError(errno.ENOTDIR, "is a file, not a folder", self.url)

    def put(self, name: str, data: Data) -> None:
        path = self._path(name)
        temporary = f"{path.rpartition('/')[0]}/{temporary_name()}"
        try:
            self._ask(lambda: self._write(temporary, data))
            self._ask(lambda: self._client.rename(temporary, path, overwrite=True))
        except OSError:
            with contextlib.suppress(OSError):
                self._delete(temporary)
            raise

    def get(self, name: str) -> bytes:
        with self.open(name) as file:
            return bytes(file.read())

    def open(self, name: str) -> io.RawIOBase:
        return _Reader(self._ask(lambda: self._client.read(self._path(name))), self._ask)

    def exists(self, name: str) -> bool:
        try:
            return not self._ask(lambda: self._client.get_file_info(self._path(name))).isdir
        except FileNotFoundError:
            return False

    def list(self, folder: str = "") -> Iterator[str]:
        for status in self._files(self._path(folder)):
            name = status.path.rpartition("/")[2]
            if not is_temporary(name):
                yield name

    def delete(self, name: str) -> None:
        self._delete(self._path(name))

    def tidy(self) -> None:
        now_s = time.time()
        for status in self._files(self._base, recursive=True):
            name = status.path.rpartition("/")[2]
            if is_abandoned(name, now_s - status.modification_time / 1000):
                self._delete(status.path)

    def location(self, name: str = "") -> str:
        base = urlsplit(self.url)._replace(query="").geturl().rstrip("/")
        return f"{base}/{name}" if name else base

    def _connected(self, settings: dict[str, str]) -> Client:
        """A client; nothing is asked of the name node yet."""
        try:
            from hdfs_native import Client
        except ImportError as problem:
            raise SweepError(
                f"--out {self.url}: no client for HDFS ({problem}): "
                "pip install 'rebalance-sim[hdfs]' here and on all executors"
            ) from problem
        try:
            return Client(self._address, settings)
        except Exception as problem:
            raise SweepError(
                f"--out {self.url}: {_said(problem)}: name the name node in the URL, or the "
                "folder of core-site.xml and hdfs-site.xml in HADOOP_CONF_DIR"
            ) from problem

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}".replace("//", "/").rstrip("/") or "/"

    def _files(self, path: str, *, recursive: bool = False) -> Sequence[Any]:
        """What is in a folder; nothing if there is no such folder."""
        try:
            return self._ask(lambda: list(self._client.list_status(path, recursive)))
        except FileNotFoundError:
            return []

    def _write(self, path: str, data: Data) -> None:
        from hdfs_native import WriteOptions

        options = WriteOptions(overwrite=True, create_parent=True)
        with self._client.create(path, options) as file:
            file.write(memoryview(data).cast("B"))  # Arrow's buffers are of signed bytes.

    def _delete(self, path: str) -> None:
        self._ask(lambda: self._client.delete(path))

    def _ask(self, request: Callable[[], _Result]) -> _Result:
        """Whatever the client complains of is an OSError, in one line."""
        try:
            return request()
        except FileNotFoundError as problem:
            raise FileNotFoundError(errno.ENOENT, _said(problem), self.location()) from problem
        except Exception as problem:  # It has errors of the network, of Hadoop and of its own.
            reason = _said(problem)
            number = errno.ENOTDIR if "(is not a directory)" in reason else errno.EIO
            raise OSError(number, reason, self.location()) from problem


class _Reader(io.RawIOBase):
    """A file of HDFS, whose errors are an OSError."""

    def __init__(self, file: Any, ask: Callable[[Callable[[], Any]], Any]) -> None:
        self._file = file
        self._ask = ask

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self.tell()

    def read(self, size: int | None = -1) -> bytes:
        wanted = -1 if size is None else size
        return bytes(self._ask(lambda: self._file.read(wanted)))

    def readall(self) -> bytes:
        return self.read()


def _said(problem: Exception) -> str:
    """What the name node or the client says, without where in its code."""
    match = _WRAPPED.match(reason_of(problem))
    return match[1] if match else reason_of(problem)
