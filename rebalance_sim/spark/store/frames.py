"""The tables of a sweep as pandas frames, with a column for each metric."""

from __future__ import annotations

import pandas as pd

from rebalance_sim.scenarios.errors import did_you_mean
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.store.parquet import frame_of
from rebalance_sim.spark.store.reading import read_plan, read_table
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.store.tables import SCHEMAS

_MAPS = ("known", "coverage", "settings", "tags")


def read_frame(out: Location, kind: str) -> pd.DataFrame:
    """One table of the sweep in ``out``, such as ``runs``.

    The metrics of a run are columns of their own; what counts by name (``known``, ``coverage``) is
    a dict. Raises SweepError if there is no sweep, or no such table.
    """
    if kind not in SCHEMAS:
        raise SweepError(f"no table {kind!r}; {did_you_mean(str(kind), SCHEMAS)}")
    read_plan(out)
    frame = frame_of(read_table(out, kind))
    for name in _MAPS:
        if name in frame:
            frame[name] = [dict(pairs) for pairs in frame[name]]
    if "metrics" not in frame:
        return frame
    metrics = pd.DataFrame([dict(pairs) for pairs in frame["metrics"]], index=frame.index)
    return pd.concat([frame.drop(columns="metrics"), metrics[sorted(metrics)]], axis=1)
