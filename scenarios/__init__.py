"""What to run: scenarios, where they come from, and what a run of one says.

- ``Scenario``: one frozen value with everything a run depends on (``scenario.py``, ``codec.py``).
- ``Variant``: a profile, with another version or protocol if one is named (``variant.py``).
- ``generate``: a variant and a seed make a scenario (``profile.py``, ``profiles/``, ``generate/``).
- ``run``: a scenario makes a result (``runner.py``, ``result.py``).
- ``shrinking/``: the smallest scenario that still fails.
- ``compare.py``: the same scenario for another rebalance protocol.
- ``case_studies/``: the walk-throughs of KIP-848, replayed.
- ``defects/``: a scenario for each defect that can be switched on, in which it shows.
- ``known_issues/``: what groups of classic members do by themselves, each with a small scenario.
- ``ownership.py``, ``plots.py``: who owned what, and pictures of it; not imported from here, since
  a worker of a sweep draws nothing.
"""

from __future__ import annotations

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.profile import PROFILES
from rebalance_sim.scenarios.result import OUTCOMES, RunResult, ViolationRow
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario, load_scenario

__all__ = [
    "OUTCOMES",
    "PROFILES",
    "RunResult",
    "Scenario",
    "ScenarioError",
    "ViolationRow",
    "dump_scenario",
    "generate",
    "load_scenario",
    "run",
]
