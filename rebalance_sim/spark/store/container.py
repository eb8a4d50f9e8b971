"""The object of a batch: all rows of its runs, and their summary, in one Parquet file.

The rows of ``violations``, ``known_issues``, ``metrics`` and ``timing`` lie inside those of
``runs``; so a batch is one object, that is there whole or not at all. The summary is in the
metadata of the file, which can be read without the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rebalance_sim.spark.store.parquet import table_of
from rebalance_sim.spark.store.summary import Summary
from rebalance_sim.spark.store.tables import BATCH, NESTED, SCHEMAS

SUMMARY_KEY = "rebalance_sim.summary"
# Elsewhere values differ from row to row, or zstd finds repetitions better than a dictionary does.
DICTIONARIES = ["coverage.key_value.key", "coverage.key_value.value"]
LEVEL = 15  # 1 % less than 12, for 0.1 ms a seed; 19 takes 0.4 % off that, for 0.2 ms.


def to_bytes(rows: Sequence[Mapping[str, Any]]) -> memoryview:
    """The object of a batch with these rows (``tables.batch_row``), at least one."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        BATCH,
        compression="zstd",
        compression_level=LEVEL,
        # A batch is small: what describes columns would take more room than what is in them.
        use_dictionary=DICTIONARIES,
        write_statistics=["seed"],
        store_schema=False,
    ) as writer:
        writer.write_table(pa.Table.from_pylist(list(rows), schema=BATCH))
        writer.add_key_value_metadata({SUMMARY_KEY: Summary.of(rows).to_text()})
    return memoryview(sink.getvalue())


def read_rows(file: IO[bytes]) -> list[dict[str, Any]]:
    """The rows of a batch. Raises OSError or ValueError if it is damaged."""
    rows: list[dict[str, Any]] = _read(file, BATCH.names).to_pylist()
    return rows


def read_summary(file: IO[bytes]) -> Summary:
    """The summary of a batch, from the end of its object alone.

    Raises OSError or ValueError if it is damaged.
    """
    metadata = pq.read_metadata(file)
    text = (metadata.metadata or {}).get(SUMMARY_KEY.encode())
    if text is None:
        raise ValueError("no batch of a sweep")
    return Summary.from_text(text.decode())


def read_kind(file: IO[bytes], kind: str) -> pa.Table:
    """The rows of one table in a batch, by ascending seed."""
    schema = SCHEMAS[kind]
    if kind == "runs":
        return _read(file, schema.names).cast(schema)
    column = NESTED[kind][0] if kind in NESTED else kind
    outer = [name for name in schema.names if name in SCHEMAS["runs"].names]
    table = _read(file, [*outer, column]).combine_chunks()
    nested = table.column(column)
    inner = nested.chunk(0) if nested.num_chunks else pa.array([], nested.type)
    table = table.select(outer)
    if kind in NESTED:
        table = table.take(pc.list_parent_indices(inner))
        inner = inner.flatten()
    columns = {name: table.column(name) for name in outer}
    columns |= {name: pc.struct_field(inner, name) for name in schema.names if name not in outer}
    return pa.table([columns[name] for name in schema.names], names=schema.names).cast(schema)


def _read(file: IO[bytes], columns: list[str]) -> pa.Table:
    table = table_of(file, columns)
    return table.select(columns).cast(pa.schema([BATCH.field(name) for name in columns]))
