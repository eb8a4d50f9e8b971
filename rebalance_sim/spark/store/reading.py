"""What a sweep has written, read again: its plan, its tables, and its summary."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.store import container
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.parquet import frame_of, table_of
from rebalance_sim.spark.store.store import Location, Store
from rebalance_sim.spark.store.summary import Summary
from rebalance_sim.spark.store.tables import SCHEMAS

if TYPE_CHECKING:
    import pandas as pd

PLAN_FILE = "plan.json"
MANIFEST_FILE = "manifest.json"
RUNS_FOLDER = "runs"
TABLES_FOLDER = "tables"
TRACE_FOLDER = "traces"
# Requests in flight: an object store answers each in tens of milliseconds.
READERS = 8
_READ_AHEAD = 4 * READERS

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What has been compacted: the batches below ``batches``, into these files of each table, which
    lie in ``tables/``. ``summary`` is that of all of them. It is written last: without it the
    files do not count, and with it the objects of these batches do not."""

    batches: int
    files: dict[str, list[str]]
    summary: str

    def to_json(self) -> str:
        """The text of ``manifest.json``."""
        return json.dumps(asdict(self), indent=2) + "\n"


def batch_name(plan: SweepPlan, index: int) -> str:
    """The name of a batch's object. That of the last batch says how many seeds it has, if it is
    short: so it does not count any more once the sweep is extended."""
    count = len(plan.batch_seeds(index))
    return f"b{index:06d}{'' if count == plan.batch_size else f'-{count}'}.parquet"


def batches_of(store: Store) -> dict[int, str]:
    """Batch -> name of its object, for all that are there; of two the one with more seeds."""
    found: dict[int, tuple[float, str]] = {}
    for name in store.list(RUNS_FOLDER):
        match = re.fullmatch(r"b(\d+)(?:-(\d+))?\.parquet", name)
        if match:
            seeds = float(match[2] or "inf")
            found[int(match[1])] = max(found.get(int(match[1]), (0.0, "")), (seeds, name))
    return {index: name for index, (_, name) in sorted(found.items())}


def plan_of(store: Store) -> SweepPlan:
    """The plan in a store. Raises SweepError if there is none that can be read."""
    try:
        return SweepPlan.from_json(store.get(PLAN_FILE).decode())
    except OSError as problem:
        file = store.location(PLAN_FILE)
        raise SweepError(f"cannot read {file} ({problem.strerror}): is it a sweep?") from problem
    except SweepError as problem:
        file = store.location(PLAN_FILE)
        raise SweepError(f"{file}: {problem}: give a new --out folder") from problem


def manifest_of(store: Store) -> Manifest | None:
    """What has been compacted; None if nothing has. Raises SweepError if it cannot be read."""
    try:
        return Manifest(**json.loads(store.get(MANIFEST_FILE)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as problem:
        raise SweepError(f"{store.location(MANIFEST_FILE)}: {problem}: restore it") from problem


def read_plan(out: Location) -> SweepPlan:
    """The plan of the sweep in ``out``. Raises SweepError if there is none that can be read."""
    store = open_store(out)
    try:
        store.check()
    except OSError as problem:
        raise SweepError(
            f"cannot read {store.location()} ({problem.strerror}): is it a sweep?"
        ) from problem
    return plan_of(store)


def read_table(out: Location, kind: str) -> pa.Table:
    """All rows of one table of the sweep in ``out``, by ascending seed.

    Raises SweepError if they cannot be read.
    """
    tables = list(_tables(open_store(out), kind))
    return pa.concat_tables(tables) if tables else SCHEMAS[kind].empty_table()


def read_summary(out: Location, on_batch: Callable[[int, Summary], None] | None = None) -> Summary:
    """What all runs that are there come to, in memory that does not grow with their number.

    ``on_batch`` gets the summary of each batch that is not compacted. Raises SweepError.
    """
    store = open_store(out)
    manifest = manifest_of(store)
    total = Summary.from_text(manifest.summary) if manifest else Summary()
    done = manifest.batches if manifest else 0
    names = [(index, name) for index, name in batches_of(store).items() if index >= done]

    def read(one: tuple[int, str]) -> Summary:
        return opened(store, one[1], container.read_summary)

    for (index, _), summary in zip(names, _in_order(read, names), strict=True):
        if on_batch is not None:
            on_batch(index, summary)
        total.add(summary)
    return total


def read_metrics(out: Location, metrics: Iterable[str] | None = None) -> pd.DataFrame:
    """The series of the sweep in ``out``, or some of its ``metrics``, as a pandas frame.

    Columns are ``seed``, ``at_ms``, ``node_id``, ``metric``, ``value``, then one for each tag, in
    ascending name; a tag is missing where the metric does not have it. Raises SweepError if there
    is no sweep.
    """
    store = open_store(out)
    plan = plan_of(store)
    tables = [SCHEMAS["metrics"].empty_table(), *_tables(store, "metrics", plan.is_sampled)]
    if metrics is not None:
        wanted = pc.field("metric").isin(sorted(metrics))
        tables = [table.filter(wanted) for table in tables]
    table = pa.concat_tables(tables)
    tags = table.column("tags")
    names = {name for chunk in tags.chunks for name in chunk.keys.unique().to_pylist()}
    table = table.select(["seed", "at_ms", "node_id", "metric", "value"])
    for name in sorted(names):
        table = table.append_column(name, pc.map_lookup(tags, pa.scalar(name), "first"))
    return frame_of(table).astype({"node_id": "Int64"})


def compacted_tables(store: Store, kind: str) -> Iterator[pa.Table]:
    """The files of a table that ``compact`` has written, in order."""
    manifest = manifest_of(store)
    for name in manifest.files[kind] if manifest else ():
        with store.open(f"{TABLES_FOLDER}/{name}") as file:
            yield table_of(file).cast(SCHEMAS[kind])


def _tables(
    store: Store, kind: str, is_wanted: Callable[[int], bool] = lambda batch: True
) -> Iterator[pa.Table]:
    """The rows of a table: what is compacted, then batch by batch, of those that are wanted."""
    try:
        yield from compacted_tables(store, kind)
        manifest = manifest_of(store)
        done = manifest.batches if manifest else 0
        names = [n for i, n in batches_of(store).items() if i >= done and is_wanted(i)]
        yield from _in_order(
            lambda name: opened(store, name, lambda file: container.read_kind(file, kind)), names
        )
    except OSError as problem:
        raise SweepError(f"cannot read {store.location()} ({problem})") from problem


def opened(store: Store, name: str, read: Callable[..., _Result]) -> _Result:
    """What ``read`` makes of a batch's object. Raises SweepError, with its name."""
    try:
        with store.open(f"{RUNS_FOLDER}/{name}") as file:
            return read(file)
    except (OSError, ValueError, pa.ArrowException) as problem:
        place = store.location(f"{RUNS_FOLDER}/{name}")
        raise SweepError(
            f"{place} cannot be read ({problem}): delete it and run the sweep again"
        ) from problem


def _in_order(read: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
    """Call ``read`` for all items, several at a time, and give what it returns in their order."""
    with ThreadPoolExecutor(READERS) as readers:
        for first in range(0, len(items), _READ_AHEAD):
            yield from readers.map(read, items[first : first + _READ_AHEAD])
