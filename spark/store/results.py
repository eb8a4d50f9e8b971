"""The folder of a sweep: its plan, and one file per batch and table.

::

    plan.json
    violations/b000123.parquet
    known_issues/b000123.parquet
    timing/b000123.parquet
    metrics/b000123.parquet     only where the batch has seeds that are sampled
    runs/b000123.parquet        written last: where it exists, the batch is done
    traces/seed-26.jsonl.gz     every step of a run that failed; written by the driver, at the end

Files appear whole (written beside, synced, renamed), with a name and a content that do not depend
on who wrote them. So a retry, a second attempt or a second driver do no harm, and what is done is
a listing of ``runs/``.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.store.tables import SCHEMAS

if TYPE_CHECKING:
    import pandas as pd

PLAN_FILE = "plan.json"
TRACE_FOLDER = "traces"
_TEMPORARY = re.compile(r"_tmp-(?P<host>.+)-(?P<pid>\d+)-[0-9a-f]{8}")


class ResultFolder:
    """A folder that holds, or is to hold, the results of exactly one sweep."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def plan(self) -> SweepPlan | None:
        """The plan of the sweep that is here; None if the folder is empty or missing.

        Raises SweepError if there is anything else.
        """
        if self.path.exists() and not self.path.is_dir():
            raise SweepError(f"{self.path} is a file: give a folder for --out")
        if (self.path / PLAN_FILE).exists():
            return read_plan(self.path)
        if self.path.exists() and any(self.path.iterdir()):
            raise SweepError(
                f"{self.path} has other content and no {PLAN_FILE}: give a new --out folder"
            )
        return None

    def create(self, plan: SweepPlan) -> None:
        """Make the folder ready for ``plan``. Raises SweepError if it cannot be written."""
        try:
            for kind in SCHEMAS:
                (self.path / kind).mkdir(parents=True, exist_ok=True)
            self._remove_dead_temporaries()
            if not (self.path / PLAN_FILE).exists():
                _write_whole(self.path / PLAN_FILE, plan.to_json().encode())
        except OSError as problem:
            raise SweepError(f"cannot write to {self.path} ({problem.strerror})") from problem

    def batches_done(self) -> set[int]:
        """The batches whose rows are all there."""
        matches = (
            re.fullmatch(r"b(\d+)\.parquet", file.name) for file in self.path.glob("runs/b*")
        )
        return {int(match.group(1)) for match in matches if match}

    def write(self, kind: str, batch: int, *parts: pa.Table) -> None:
        """Publish the rows of one batch in one table; each part can be read without the others."""
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, SCHEMAS[kind], compression="zstd") as writer:
            for part in parts:
                writer.write_table(part)
        _write_whole(self.path / kind / f"b{batch:06d}.parquet", sink.getvalue())

    def write_trace(self, name: str, data: bytes) -> Path:
        """Publish the trace of a run; where it is."""
        folder = self.path / TRACE_FOLDER
        folder.mkdir(exist_ok=True)
        _write_whole(folder / name, data)
        return folder / name

    def _remove_dead_temporaries(self) -> None:
        """Delete files that a writer on this host left behind when it died."""
        for path in self.path.glob("*/_tmp-*"):
            match = _TEMPORARY.fullmatch(path.name)
            if match and match["host"] == _host() and not _is_alive(int(match["pid"])):
                path.unlink(missing_ok=True)


def read_plan(path: Path) -> SweepPlan:
    """The plan of the sweep in ``path``. Raises SweepError if there is none that can be read."""
    file = path / PLAN_FILE
    try:
        return SweepPlan.from_json(file.read_text())
    except OSError as problem:
        raise SweepError(f"cannot read {file} ({problem.strerror}): is it a sweep?") from problem
    except SweepError as problem:
        raise SweepError(f"{file}: {problem}: give a new --out folder") from problem


def read_table(path: Path, kind: str) -> pa.Table:
    """All rows of one table of the sweep in ``path``, by ascending seed."""
    return _read(path, kind, None)


def read_metrics(path: Path | str, metrics: Iterable[str] | None = None) -> pd.DataFrame:
    """The series of the sweep in ``path``, or some of its ``metrics``, as a pandas frame.

    Columns are ``seed``, ``at_ms``, ``node_id``, ``metric``, ``value``, then one for each tag, in
    ascending name; a tag is missing where the metric does not have it. Raises SweepError if there
    is no sweep.
    """
    folder = Path(path)
    read_plan(folder)
    wanted = None if metrics is None else pc.field("metric").isin(sorted(metrics))
    table = _read(folder, "metrics", wanted)
    tags = table.column("tags")
    names = {name for chunk in tags.chunks for name in chunk.keys.unique().to_pylist()}
    table = table.select(["seed", "at_ms", "node_id", "metric", "value"])
    for name in sorted(names):
        table = table.append_column(name, pc.map_lookup(tags, pa.scalar(name), "first"))
    return table.to_pandas().astype({"node_id": "Int64"})


def _read(path: Path, kind: str, wanted: pc.Expression | None) -> pa.Table:
    files = sorted((path / kind).glob("b*.parquet"))
    # Only what a rows file vouches for: a batch in progress may have published its violations.
    files = [file for file in files if (path / "runs" / file.name).exists()]
    tables = [pq.read_table(file, schema=SCHEMAS[kind], filters=wanted) for file in files]
    return pa.concat_tables(tables) if tables else SCHEMAS[kind].empty_table()


def _write_whole(path: Path, data: bytes | pa.Buffer) -> None:
    temporary = path.parent / f"_tmp-{_host()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _host() -> str:
    return socket.gethostname()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
