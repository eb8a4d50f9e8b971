"""One import for researchers and notebooks.

    import rebalance_sim as rs

    result = rs.run(rs.generate("faulty", seed=7))
    rs.plot_case_study(rs.load_case_study("basic"))

Everything here is defined, and documented, in the module named beside it in ``_PUBLIC``, and is
imported when it is first used: workers of a sweep draw nothing, and a notebook without Spark needs
none. ``sweep`` and ``compare`` on Spark need the extra ``rebalance-sim[spark]``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from rebalance_sim.cli.testing import assert_ok, each_scenario, scenarios_from
    from rebalance_sim.gateway.broker import Gateway
    from rebalance_sim.protocol.defects import DEFECTS
    from rebalance_sim.protocol.hosting.offsets_topic import partition_for
    from rebalance_sim.scenarios.case_studies import CASE_STUDIES, Promotion, load_case_study
    from rebalance_sim.scenarios.case_studies import replay as replay_case_study
    from rebalance_sim.scenarios.compare import PROTOCOLS as COMPARED_PROTOCOLS
    from rebalance_sim.scenarios.compare import with_protocol
    from rebalance_sim.scenarios.defects import defect_scenario
    from rebalance_sim.scenarios.errors import ScenarioError
    from rebalance_sim.scenarios.generate.generator import generate
    from rebalance_sim.scenarios.ownership import (
        OwnershipInterval,
        OwnershipTrace,
        ownership_intervals,
    )
    from rebalance_sim.scenarios.pages.timeline import Timeline, timeline_of
    from rebalance_sim.scenarios.plots import plot_case_study, plot_ownership, plot_ownership_of
    from rebalance_sim.scenarios.plugins import load_plugins
    from rebalance_sim.scenarios.profile_file import PROFILES
    from rebalance_sim.scenarios.result import RunResult, ViolationRow
    from rebalance_sim.scenarios.runner import run
    from rebalance_sim.scenarios.scenario import (
        Scenario,
        dump_scenario,
        load_scenario,
        parse_scenario,
    )
    from rebalance_sim.scenarios.series import metrics_frame
    from rebalance_sim.scenarios.shrinking.shrink import shrink
    from rebalance_sim.scenarios.variant import DEFAULT_PROTOCOLS, Variant
    from rebalance_sim.sim.faults.fault import Fault
    from rebalance_sim.sim.trace import FullTrace
    from rebalance_sim.spark import (
        SweepOptions,
        experiment,
        paired_runs,
        read_comparison,
        read_experiment,
        read_metrics,
        read_rebalances,
        sweep,
    )
    from rebalance_sim.spark.store.frames import read_frame as read_table

__version__ = "0.2.0"

__all__ = [
    "CASE_STUDIES",
    "COMPARED_PROTOCOLS",
    "DEFAULT_PROTOCOLS",
    "DEFECTS",
    "PROFILES",
    "Fault",
    "FullTrace",
    "Gateway",
    "OwnershipInterval",
    "OwnershipTrace",
    "Promotion",
    "RunPage",
    "RunResult",
    "Scenario",
    "ScenarioError",
    "SweepOptions",
    "Timeline",
    "Variant",
    "ViolationRow",
    "__version__",
    "assert_ok",
    "compare",
    "defect_scenario",
    "dump_scenario",
    "each_scenario",
    "experiment",
    "generate",
    "load_case_study",
    "load_plugins",
    "load_scenario",
    "metrics_frame",
    "ownership_intervals",
    "paired_runs",
    "parse_scenario",
    "partition_for",
    "plot_case_study",
    "plot_ownership",
    "plot_ownership_of",
    "read_comparison",
    "read_experiment",
    "read_metrics",
    "read_rebalances",
    "read_table",
    "replay_case_study",
    "run",
    "run_page",
    "scenarios_from",
    "shrink",
    "sweep",
    "timeline_of",
    "with_protocol",
]

_PUBLIC = {
    "cli.testing": ("assert_ok", "each_scenario", "scenarios_from"),
    "gateway.broker": ("Gateway",),
    "scenarios.case_studies": ("CASE_STUDIES", "Promotion", "load_case_study"),
    "scenarios.compare": ("with_protocol",),
    "scenarios.defects": ("defect_scenario",),
    "scenarios.errors": ("ScenarioError",),
    "scenarios.generate.generator": ("generate",),
    "scenarios.ownership": ("OwnershipInterval", "OwnershipTrace", "ownership_intervals"),
    "scenarios.plots": ("plot_case_study", "plot_ownership", "plot_ownership_of"),
    "scenarios.plugins": ("load_plugins",),
    "scenarios.profile_file": ("PROFILES",),
    "scenarios.result": ("RunResult", "ViolationRow"),
    "scenarios.runner": ("run",),
    "scenarios.scenario": ("Scenario", "dump_scenario", "load_scenario", "parse_scenario"),
    "scenarios.series": ("metrics_frame",),
    "scenarios.shrinking.shrink": ("shrink",),
    "scenarios.pages.run_page": ("RunPage", "run_page"),
    "scenarios.pages.timeline": ("Timeline", "timeline_of"),
    "protocol.defects": ("DEFECTS",),
    "protocol.hosting.offsets_topic": ("partition_for",),
    "sim.faults.fault": ("Fault",),
    "sim.trace": ("FullTrace",),
    "scenarios.variant": ("DEFAULT_PROTOCOLS", "Variant"),
    "spark": (
        "SweepOptions",
        "experiment",
        "paired_runs",
        "read_comparison",
        "read_experiment",
        "read_metrics",
        "read_rebalances",
        "sweep",
    ),
}
_HOMES = {name: (module, name) for module, names in _PUBLIC.items() for name in names} | {
    "COMPARED_PROTOCOLS": ("scenarios.compare", "PROTOCOLS"),
    "read_table": ("spark.store.frames", "read_frame"),
    "replay_case_study": ("scenarios.case_studies", "replay"),
}


def compare(**options: Any) -> pd.DataFrame:
    """Run seeds under several protocols; a row for each metric and protocol.

    Arguments are those of ``rebalance_sim.spark.compare``: ``profile``, ``seeds``, ``out``,
    ``protocols``, ``base``, ``options`` and more. The report stands in ``out``.
    """
    from rebalance_sim import spark

    return spark.compare(**options).frame()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, defined_as = _HOMES[name]
    value = getattr(importlib.import_module(f"{__name__}.{module}"), defined_as)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
