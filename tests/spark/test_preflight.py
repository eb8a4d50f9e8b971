"""Before the first batch: what workers lack is said at once, in full, with machine and remedy."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_sim.spark.preflight import NEEDED, WorkerReport, lacks
from rebalance_sim.spark.shipping import shipped_packages

ROOT = Path(__file__).parents[2]
FAKE = "fake_scenarios:run_seed"


def report(host: str, *missing: str) -> WorkerReport:
    return WorkerReport(host=host, interpreter="/usr/bin/python3", python="3.11", missing=missing)


def test_all_that_is_missing_is_listed_by_machine_with_the_remedy() -> None:
    message = lacks([report("a", "google-re2", "pyarrow"), report("b", "pyarrow"), report("c")])
    assert message is not None and "\n" not in message
    assert message.startswith(
        "executors lack google-re2, pyarrow on a (/usr/bin/python3, Python 3.11); "
        "pyarrow on b (/usr/bin/python3, Python 3.11): pip install google-re2=="
    )
    assert re.search(r"pip install google-re2==[\d.]+ pyarrow==[\d.]+ there", message)
    assert "spark.archives" in message and "PYSPARK_PYTHON" in message
    assert lacks([report("c")]) is None


BATCH_WITH_LITTLE = """
import importlib.abc, sys
ALLOWED = set(sys.argv[2].split(","))
class OthersAreMissing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        known = top in ALLOWED or top in sys.stdlib_module_names or top.startswith("_sysconfig")
        if not known:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, OthersAreMissing())
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.batch import Batch, run_batch
from rebalance_sim.spark.plan import SeedRange, SweepPlan
from rebalance_sim.spark.runner import DEFAULT_RUNNER
from rebalance_sim.spark.supervised import Limits
plan = SweepPlan(variants=(Variant("calm"),), seeds=SeedRange(0, 1), batch_size=1,
                 runner=DEFAULT_RUNNER, code_digest="", limits=Limits())
print(run_batch(Batch(0), plan=plan, out=sys.argv[1]).outcomes)
"""


@pytest.mark.parametrize("left_out", ["", "simpy", "tomli_w", "pyarrow", "re2"])
def test_what_a_batch_imports_of_others_is_sent_or_asked_for(tmp_path: Path, left_out: str) -> None:
    """With nothing else it runs, and with less it does not."""
    sent = {name for name in shipped_packages(FAKE) if "." not in name} - {"fake_scenarios"}
    allowed = {"rebalance_sim", "_re2", *sent, *NEEDED} - {left_out}
    done = subprocess.run(
        [sys.executable, "-c", BATCH_WITH_LITTLE, str(tmp_path / "out"), ",".join(allowed)],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if left_out:
        assert f"ModuleNotFoundError: {left_out}" in done.stderr or "'error'" in done.stdout
    else:
        assert done.stdout == "{'ok': 1}\n", done.stderr


@pytest.mark.slow
@pytest.mark.spark
def test_executors_that_lack_everything_say_so_in_one_line(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from rebalance_sim.spark import SweepError, SweepOptions, sweep\n"
        "try:\n"
        "    sweep(profile='calm', seeds='0:4', out=sys.argv[1],\n"
        "          options=SweepOptions(master='local[2]', batch_size=2))\n"
        "except SweepError as problem:\n"
        "    print(problem)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    printed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out"), str(ROOT)],
        capture_output=True, text=True, check=True, timeout=300,
        env=environment | {"PYSPARK_PYTHON": str(bare)},
    ).stdout  # fmt: skip
    assert re.match(
        r"executors lack pyarrow, google-re2 on .*Python 3\.\d+\): pip install", printed
    )
