"""One import for researchers and notebooks.

    import rebalance_sim as rs

    result = rs.run(rs.generate("faulty", seed=7))
    rs.plot_case_study(rs.load_case_study("basic"))

Everything here is defined, and documented, in the package named beside it. ``sweep``, ``compare``
and what reads their results are imported when they are first used; the first two need the extra
``rebalance-sim[spark]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scenarios import (
    PROFILES,
    RunResult,
    Scenario,
    ScenarioError,
    ViolationRow,
    dump_scenario,
    generate,
    load_scenario,
    run,
)
from scenarios.case_studies import CASE_STUDIES, Promotion, load_case_study
from scenarios.case_studies import replay as replay_case_study
from scenarios.compare import DEFAULT_PROTOCOLS, with_protocol
from scenarios.compare import PROTOCOLS as COMPARED_PROTOCOLS
from scenarios.ownership import OwnershipInterval, OwnershipTrace, ownership_intervals
from scenarios.plots import plot_case_study, plot_ownership, plot_ownership_of
from scenarios.scenario import parse_scenario
from scenarios.series import metrics_frame
from scenarios.shrink import shrink
from scenarios.zoo import DEFECTS, zoo_scenario
from sim.injector import fault_kind
from sim.offsets_topic import partition_for
from sim.trace import FullTrace

if TYPE_CHECKING:
    import pandas as pd

    from spark import read_comparison, read_metrics, sweep

__all__ = [
    "CASE_STUDIES",
    "COMPARED_PROTOCOLS",
    "DEFAULT_PROTOCOLS",
    "DEFECTS",
    "PROFILES",
    "FullTrace",
    "OwnershipInterval",
    "OwnershipTrace",
    "Promotion",
    "RunResult",
    "Scenario",
    "ScenarioError",
    "ViolationRow",
    "compare",
    "dump_scenario",
    "fault_kind",
    "generate",
    "load_case_study",
    "load_scenario",
    "metrics_frame",
    "ownership_intervals",
    "parse_scenario",
    "partition_for",
    "plot_case_study",
    "plot_ownership",
    "plot_ownership_of",
    "read_comparison",
    "read_metrics",
    "replay_case_study",
    "run",
    "shrink",
    "sweep",
    "with_protocol",
    "zoo_scenario",
]


def compare(**options: Any) -> pd.DataFrame:
    """Run seeds under several protocols; a row for each metric and protocol.

    Options are those of ``spark.compare``: ``profile``, ``seeds``, ``out``, ``protocols``,
    ``base``, ``backend`` and more. The report stands in ``out``.
    """
    import spark

    return spark.compare(**options).frame()


def __getattr__(name: str) -> Any:
    if name in ("read_comparison", "read_metrics", "sweep"):
        import spark

        return getattr(spark, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
