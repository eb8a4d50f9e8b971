"""What a sweep of ever more seeds costs the driver: memory, time and bytes a seed.

    python benchmarks/scale.py --counts 10_000 100_000 1_000_000
    python benchmarks/scale.py --counts 1_000_000 --backend spark --batch-size 10_000

The runs simulate nothing (``trivial_runner.py``), so that what is left is the sweep: planning,
children, rows and their objects, the check that all are there, and the report. Each sweep has a
process of its own, whose highest resident memory is that of the driver; children and executors are
not in it. ``report`` is the time of writing the report once more, of all that is stored.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import BACKENDS, SweepOptions, summarise, sweep, write_report

RUNNER = "trivial_runner:run_seed"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--backend", choices=BACKENDS, default="pool")
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(_sweep(options, options.counts[0], Path(options.one))))
        return
    print("seeds       driver MiB  seconds  us a seed  report s  bytes a seed  objects")
    for count in options.counts:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "sweep"
            command = [sys.executable, __file__, "--counts", str(count), "--one", str(out)]
            command += ["--backend", options.backend]
            if options.batch_size is not None:
                command += ["--batch-size", str(options.batch_size)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            row = json.loads(done.stdout.splitlines()[-1])
            files = [file for file in out.rglob("*") if file.is_file()]
            size = sum(file.stat().st_size for file in files)
        print(
            f"{count:<11,} {row['peak_mib']:10,.0f} {row['seconds']:8,.1f} "
            f"{1e6 * row['seconds'] / count:10,.1f} {row['report_s']:9,.2f} "
            f"{size / count:13,.1f} {len(files):8,}",
            flush=True,
        )


def _sweep(options: argparse.Namespace, count: int, out: Path) -> dict[str, float]:
    chosen = SweepOptions(
        backend=options.backend,
        batch_size=options.batch_size,
        runner=RUNNER,
        metrics_seeds=0,
        traces=0,
    )
    started_s = perf_counter()
    sweep(profile=Variant("calm"), seeds=f"0:{count}", out=out, options=chosen)
    seconds = perf_counter() - started_s
    started_s = perf_counter()
    write_report(out, summarise(out))
    return {
        "seconds": seconds,
        "report_s": perf_counter() - started_s,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    main()
