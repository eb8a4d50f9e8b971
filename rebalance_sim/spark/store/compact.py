"""From many small objects to few large ones: a folder of Parquet files for each table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.store import container
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import (
    MANIFEST_FILE,
    RUNS_FOLDER,
    TABLES_FOLDER,
    Manifest,
    batch_name,
    batches_of,
    manifest_of,
    opened,
    plan_of,
)
from rebalance_sim.spark.store.store import Location, Store
from rebalance_sim.spark.store.summary import Summary
from rebalance_sim.spark.store.tables import SCHEMAS

FILE_BYTES = 128 * 1024 * 1024
GROUP_ROWS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a call has put together: so many batches into so many files."""

    batches: int
    files: int


def compact(
    out: Location,
    *,
    file_bytes: int = FILE_BYTES,
    on_batch: Callable[[int, int], None] = lambda done, planned: None,
) -> Compacted:
    """Put the batches of a sweep together: ``tables/runs/part-00000.parquet`` and so on, a folder
    for each table, with files of ``file_bytes``. Every reader here sees the same rows as before.

    It takes the finished batches from the first on, up to the first that is missing or short, and
    needs memory for one file of each table. ``on_batch`` gets how many are done, of how many.
    The manifest is written when the files are there, and the objects of the batches go after that:
    a call that was killed is simply made again. Raises SweepError.
    """
    store = open_store(out)
    plan = plan_of(store)
    before = manifest_of(store)
    first = before.batches if before else 0
    names = batches_of(store)
    end = first
    while end in names and names[end] == batch_name(plan, end) and "-" not in names[end]:
        end += 1
    total = Summary.from_text(before.summary) if before else Summary()
    old = before.files if before else {kind: [] for kind in SCHEMAS}
    writers = {kind: _Parts(store, kind, len(old[kind]), file_bytes) for kind in SCHEMAS}
    try:
        for index in range(first, end):
            on_batch(index - first, end - first)
            total.add(opened(store, names[index], container.read_summary))
            for kind, parts in writers.items():
                parts.add(opened(store, names[index], lambda f, kind=kind: _kind(f, kind)))
        if end > first:
            files = {kind: [*old[kind], *parts.finish()] for kind, parts in writers.items()}
            manifest = Manifest(batches=end, files=files, summary=total.to_text())
            store.put(MANIFEST_FILE, manifest.to_json().encode())
        for index in [index for index in names if index < end]:
            store.delete(f"{RUNS_FOLDER}/{names[index]}")
    except OSError as problem:
        raise SweepError(
            f"cannot compact {out} ({problem}): nothing is lost, the same command continues"
        ) from problem
    return Compacted(batches=end - first, files=sum(len(parts.names) for parts in writers.values()))


def _kind(file: object, kind: str) -> pa.Table:
    return container.read_kind(file, kind)  # type: ignore[arg-type]


@dataclass(slots=True)
class _Parts:
    """The files of one table, one after the other."""

    store: Store
    kind: str
    number: int
    """Of the next file."""
    file_bytes: int
    names: list[str] = field(default_factory=list)
    _waiting: list[pa.Table] = field(default_factory=list)
    _sink: pa.BufferOutputStream | None = None
    _writer: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        """Take in the rows of the next batch."""
        if table.num_rows:
            self._waiting.append(table)
        if sum(waiting.num_rows for waiting in self._waiting) >= GROUP_ROWS:
            self._write_group()
            if self._sink is not None and self._sink.tell() >= self.file_bytes:
                self._close()

    def finish(self) -> list[str]:
        """Write what is left; the names of all files."""
        self._write_group()
        self._close()
        return self.names

    def _write_group(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            self._sink = pa.BufferOutputStream()
            self._writer = pq.ParquetWriter(
                self._sink, SCHEMAS[self.kind], compression="zstd", compression_level=9
            )
        self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=GROUP_ROWS)
        self._waiting = []

    def _close(self) -> None:
        if self._writer is None or self._sink is None:
            return
        self._writer.close()
        name = f"part-{self.number:05d}.parquet"
        self.store.put(f"{TABLES_FOLDER}/{self.kind}/{name}", memoryview(self._sink.getvalue()))
        self.names.append(f"{self.kind}/{name}")
        self.number += 1
        self._sink = self._writer = None
