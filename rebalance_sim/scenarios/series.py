"""The series of a run as a table for people who work with pandas."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from rebalance_sim.sim.observe.sampling import MetricSample


def metrics_frame(samples: Iterable[MetricSample]) -> pd.DataFrame:
    """One row for each reading: ``at_ms``, ``node_id``, ``metric``, ``value``, then a column for
    each tag that any of them has, in ascending name.

    ``node_id`` is missing for what is no broker's, a tag where the metric does not have it.
    """
    rows = list(samples)
    columns: dict[str, list[object]] = {
        "at_ms": [row.at_ms for row in rows],
        "node_id": [row.node_id for row in rows],
        "metric": [row.metric for row in rows],
        "value": [row.value for row in rows],
    }
    for name in sorted({name for row in rows for name, _ in row.tags}):
        columns[name] = [dict(row.tags).get(name) for row in rows]
    types = {"at_ms": "int64", "node_id": "Int64", "value": "float64"}
    return pd.DataFrame(columns).astype(types)
