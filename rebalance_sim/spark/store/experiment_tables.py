"""The tables of an experiment: those of its sweep, with a typed column for each parameter.

``experiment_runs.parquet`` has a row for each run, with a column for each metric;
``experiment_rebalances.parquet`` a row for each rebalance. Both have the same first columns:
``seed``, ``cell``, one for each parameter, ``semantics`` and ``protocol``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_sim.scenarios.experiment import Experiment
from rebalance_sim.scenarios.settings import Setting
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.parquet import frame_of, table_of
from rebalance_sim.spark.store.reading import read_plan, read_table
from rebalance_sim.spark.store.store import Location

RUNS_FILE = "experiment_runs.parquet"
REBALANCES_FILE = "experiment_rebalances.parquet"
_OF_RUN = ("outcome", "reason", "scenario_hash", "digest", "steps", "simulated_ms")
_OF_REBALANCE = (
    "group_id", "at_ms", "duration_ms", "cause", "began", "moved", "unowned_partition_ms",
    "partition_ms",
)  # fmt: skip


def write_experiment_tables(out: Location, experiment: Experiment) -> None:
    """Write both tables, from those of the finished sweep in ``out``; equal rows, equal bytes."""
    cells = _cell_columns(read_plan(out), experiment)
    runs = read_table(out, "runs")
    names = sorted({name for pairs in runs.column("metrics").to_pylist() for name, _ in pairs})
    rows = [dict(pairs) for pairs in runs.column("metrics").to_pylist()]
    metrics = {name: pa.array([row.get(name) for row in rows], pa.float64()) for name in names}
    write_file(out, RUNS_FILE, _joined(runs, cells, _OF_RUN, metrics))
    rebalances = read_table(out, "rebalances")
    write_file(out, REBALANCES_FILE, _joined(rebalances, cells, _OF_REBALANCE, {}))


def read_experiment(out: Location) -> pd.DataFrame:
    """The runs of an experiment as a pandas frame, a row for each. Raises SweepError if the folder
    holds none."""
    return read_file(out, RUNS_FILE)


def read_rebalances(out: Location) -> pd.DataFrame:
    """The rebalances of an experiment as a pandas frame, a row for each. Raises SweepError if the
    folder holds none."""
    return read_file(out, REBALANCES_FILE)


def read_file(out: Location, name: str, kind: str = "an experiment") -> pd.DataFrame:
    """A table that is one file of a finished folder. Raises SweepError if it is not there."""
    try:
        data = open_store(out).get(name)
    except OSError as problem:
        raise SweepError(f"{out} has no {name}: is it {kind}, and complete?") from problem
    return frame_of(table_of(BytesIO(data)))


_Key = tuple[str, str, tuple[tuple[str, str], ...]]


def _cell_columns(plan: SweepPlan, experiment: Experiment) -> dict[_Key, dict[str, Any]]:
    """What is typed of each variant: its cell's number, and the value of each parameter."""
    return {
        _key(variant.semantics, variant.protocol, variant.settings): {
            "cell": cell.number,
            **cell.values,
        }
        for (cell, _), variant in zip(experiment.cell_variants, plan.variants, strict=True)
    }


def _key(semantics: str, protocol: str, settings: Sequence[tuple[str, str]]) -> _Key:
    return semantics, protocol, tuple((path, value) for path, value in settings)


def _joined(
    table: pa.Table,
    cells: Mapping[_Key, Mapping[str, Any]],
    columns: Sequence[str],
    more: Mapping[str, pa.Array],
) -> pa.Table:
    of_rows = zip(
        *(table.column(name).to_pylist() for name in ("semantics", "protocol", "settings")),
        strict=True,
    )
    found = [cells[_key(*row)] for row in of_rows]
    names = list(next(iter(cells.values())))
    typed = {name: _typed([cell[name] for cell in cells.values()]) for name in names}
    arrays = {"seed": table.column("seed")}
    for name in names:
        values = [_plain(row[name], typed[name]) for row in found]
        arrays[name] = pa.array(values, typed[name])
    for name in ("semantics", "protocol", *columns):
        arrays[name] = table.column(name)
    return pa.table({**arrays, **{name: more[name] for name in more if name not in arrays}})


def _typed(values: Sequence[Any]) -> pa.DataType:
    """The type of a parameter's column; what is neither number nor text is TOML text."""
    kinds = {type(value) for value in values}
    if kinds <= {bool}:
        return pa.bool_()
    if kinds <= {int}:
        return pa.int64()
    return pa.float64() if kinds <= {int, float} else pa.string()


def _plain(value: Any, kind: pa.DataType) -> Any:
    if kind != pa.string() or isinstance(value, str):
        return value
    return Setting.of("value", value).value


def write_file(out: Location, name: str, table: pa.Table) -> None:
    """Write such a table; equal tables are equal bytes."""
    content = BytesIO()
    pq.write_table(table, content, compression="zstd")
    open_store(out).put(name, content.getvalue())
