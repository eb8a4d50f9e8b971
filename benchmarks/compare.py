"""How fast the fixed workloads run, compared with another checkout or with the last release.

    python benchmarks/compare.py ../other    # CPU time, this checkout against that one
    python benchmarks/compare.py v0.3        # the same with a commit, in a work tree
    python benchmarks/compare.py --released  # against workloads/released.json, as CI does
    python benchmarks/compare.py --store     # write that file, for a release
    python benchmarks/compare.py v0.3 --sweep production --seeds 32   # seeds of one profile alone

Three things are compared, each as a ratio that is above 1 where this checkout is the better one:

- the CPU time of a **step**, summed over the scenario files in ``benchmarks/workloads``, ten of
  each of four profiles: files, so that a change of the generator does not change the work. Digests
  that differ are named: what those workloads cost is not the same work;
- the CPU time of a **seed** of a sweep of the mix of profiles (``SEEDS`` of each), with the runs
  that prove known issues; and the steps of one;
- **detections** for the same CPU time: of ``DEFECTS``, with ``SEEDS`` seeds each, the runs that
  notice the defect.

Each checkout has a process; they take turns, and the least CPU time of the rounds counts.
A stored result is in bare SimPy events of the machine and the Python that it was measured with, and
so compares with other machines, roughly. With any ratio below ``--at-least`` the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORKLOADS = ROOT / "benchmarks" / "workloads"
RELEASED = WORKLOADS / "released.json"
RUNNER = ROOT / "benchmarks" / "run_workloads.py"
BARE = "bare"
SEEDS = 6
MIX = (
    *("calm", "faulty", "chaos", "operations", "groups", "whole", "classic", "cooperative"),
    *("migration", "client_assignors", "librdkafka_classic"),
)
DEFECTS = {
    "KAFKA-16215": "chaos",
    "KAFKA-16249-ack": "faulty",
    "KAFKA-17293": "faulty",
    "KAFKA-17306": "operations",
    "KAFKA-18931": "chaos",
    "KAFKA-12890": "classic",
    "KAFKA-7824": "classic",
    "KAFKA-13214": "cooperative",
    "KAFKA-20066": "operations",
    "mut-ack-before-stop": "whole",
    "mut-early-grant": "faulty",
    "mut-expire-keeps-ownership": "whole",
    "mut-no-bump-on-metadata": "faulty",
}
"""Bugs and mutants that some runs notice and others do not, each with the profile it is looked for
in (docs/detection.md)."""


@dataclass
class Measured:
    """The least CPU time of each workload in microseconds, its steps and digest; ``bare_us``: that
    of a bare SimPy event, beside them."""

    us: dict[str, float] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    bare_us: float = float("inf")

    seed_us: dict[str, float] = field(default_factory=dict)
    seed_steps: dict[str, int] = field(default_factory=dict)
    defect_us: dict[str, float] = field(default_factory=dict)
    noticed: dict[str, bool] = field(default_factory=dict)

    @property
    def seed_events(self) -> float:
        """What a seed of a sweep costs in bare SimPy events."""
        return sum(self.seed_us.values()) / len(self.seed_us) / self.bare_us

    @property
    def steps_a_seed(self) -> float:
        """Steps of a run of a sweep."""
        return sum(self.seed_steps.values()) / len(self.seed_steps)

    @property
    def detection_events(self) -> float:
        """What a detection costs in bare SimPy events; infinite if there is none."""
        count = sum(self.noticed.values())
        return sum(self.defect_us.values()) / count / self.bare_us if count else float("inf")

    @property
    def step_us(self) -> float:
        """CPU time of a step, over all workloads."""
        return sum(self.us.values()) / sum(self.steps.values())

    @property
    def step_events(self) -> float:
        """What a step costs in bare SimPy events."""
        return self.step_us / self.bare_us


class Checkout:
    """A process that runs workloads with the sources of one checkout."""

    def __init__(self, root: Path) -> None:
        self.measured = Measured()
        self._process = subprocess.Popen(
            (sys.executable, str(RUNNER)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
            cwd=root,
        )

    def run(self, file: Path) -> None:
        """Run one workload once more."""
        answer = self._ask(str(file))
        measured, name = self.measured, file.stem
        measured.us[name] = min(answer["us"], measured.us.get(name, answer["us"]))
        measured.steps[name] = answer["steps"]
        measured.digests[name] = answer["digest"]

    def run_seed(self, what: str) -> float:
        """Run a seed of a sweep once more, and say what it took this time, in microseconds."""
        answer, measured = self._ask(what), self.measured
        us: float = answer["us"]
        measured.seed_us[what] = min(us, measured.seed_us.get(what, us))
        measured.seed_steps[what] = answer["steps"]
        return us

    def run_defect(self, what: str) -> None:
        """Run a scenario with a defect once more."""
        answer, measured = self._ask(what), self.measured
        measured.defect_us[what] = min(answer["us"], measured.defect_us.get(what, answer["us"]))
        measured.noticed[what] = answer["is_noticed"]

    def run_bare(self) -> None:
        """Measure a bare event once more."""
        self.measured.bare_us = min(self.measured.bare_us, self._ask(BARE)["us"])

    def close(self) -> None:
        """Let the process end."""
        self._process.communicate()

    def _ask(self, what: str) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"compare: the process that was to run {what} ended; see above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def sweep_times_s(roots: Sequence[Path], profile: str, seeds: int, rounds: int) -> list[float]:
    """CPU seconds of so many seeds of a profile, for each checkout: of each seed the median of the
    rounds. Of 16 seeds one is run both ways, and two are proven in full, as in any sweep."""
    with ExitStack() as stack:
        checkouts = [Checkout(root) for root in roots]
        times: dict[tuple[int, int], list[float]] = {}
        for checkout in checkouts:
            stack.callback(checkout.close)
            checkout.run_seed(f"{profile} {seeds}")  # what is made once is not measured
        for number in range(rounds * seeds):
            for place, checkout in enumerate(checkouts):
                us = checkout.run_seed(f"{profile} {number % seeds}")
                times.setdefault((place, number % seeds), []).append(us)
    sums = [0.0] * len(roots)
    for (place, _), found in times.items():
        sums[place] += statistics.median(found) / 1e6
    return sums


def measure(
    roots: Sequence[Path], files: Sequence[Path], rounds: int, *, seeds: int = 0
) -> list[Measured]:
    """Run all files with all checkouts, which take turns; then so many seeds of each profile of the
    mix, and of each defect, in half the rounds."""
    drawn = [f"{profile} {seed}" for profile in MIX for seed in range(seeds)]
    defects = [f"{p} {seed} {defect}" for defect, p in DEFECTS.items() for seed in range(seeds)]
    with ExitStack() as stack:
        checkouts = [Checkout(root) for root in roots]
        for checkout in checkouts:
            stack.callback(checkout.close)
            checkout.run(files[0])  # what is made once is not measured with the first workload
        for number in range(rounds):
            for place, file in enumerate(files):
                first = (number + place) % len(checkouts)
                for checkout in (*checkouts[first:], *checkouts[:first]):
                    checkout.run(file)
            for checkout in checkouts:
                checkout.run_bare()
        for _ in range(-(-rounds // 2)):
            for what in drawn:
                for checkout in checkouts:
                    checkout.run_seed(what)
            for what in defects:
                for checkout in checkouts:
                    checkout.run_defect(what)
            for checkout in checkouts:
                checkout.run_bare()
    return [checkout.measured for checkout in checkouts]


@contextmanager
def checkout_of(base: str) -> Iterator[Path]:
    """The folder ``base``, or a work tree of that commit for as long as it is needed."""
    if Path(base).is_dir():
        yield Path(base).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "base"
        git = ("git", "-C", str(ROOT), "worktree")
        added = subprocess.run((*git, "add", "--quiet", "--detach", str(tree), base), check=False)
        if added.returncode:
            raise SystemExit(f"compare: {base!r} is neither a folder nor a commit of this checkout")
        try:
            yield tree
        finally:
            subprocess.run((*git, "remove", "--force", str(tree)), check=True)


def digests_differ(ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """The workloads that went another way."""
    return [name for name, digest in ours.items() if theirs.get(name) != digest]


def main() -> None:
    """Measure, print, and say by the exit code whether that is fast enough."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", nargs="?", help="a checkout's folder, or a commit")
    parser.add_argument("--released", action="store_true", help="against the last release's result")
    parser.add_argument("--store", action="store_true", help="write the result of this checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sweep", metavar="PROFILE", help="only seeds of this profile")
    parser.add_argument("--seeds", type=int, default=32, help="how many, with --sweep")
    parser.add_argument("--at-least", type=float, default=0.95, metavar="RATIO")
    arguments = parser.parse_args()
    if (arguments.base is not None) + arguments.released + arguments.store != 1:
        parser.error("name a checkout or a commit, or say --released or --store")
    if arguments.sweep and arguments.base is None:
        parser.error("--sweep compares with a checkout or a commit: name one")
    files = sorted(WORKLOADS.glob("*.toml"))
    with ExitStack() as stack:
        roots = [ROOT]
        if arguments.base is not None:
            roots.append(stack.enter_context(checkout_of(arguments.base)))
        if arguments.sweep:
            here_s, there_s = sweep_times_s(
                roots, arguments.sweep, arguments.seeds, arguments.rounds
            )
            print(
                f"{arguments.seeds} seeds of {arguments.sweep}: {here_s:.2f} s here, "
                f"{there_s:.2f} s there, ratio {there_s / here_s:.2f}"
            )
            return
        ours, *others = measure(roots, files, arguments.rounds, seeds=SEEDS)
    if arguments.store:
        RELEASED.write_text(as_stored(ours), encoding="utf-8")
        print(as_stored(ours))
        return
    if others:
        name, base = arguments.base, json.loads(as_stored(others[0]))
    else:
        name, base = "last release", json.loads(RELEASED.read_text(encoding="utf-8"))
    print(f"bare SimPy events ({ours.bare_us:.2f} us), here and {name}:")
    present = json.loads(as_stored(ours))
    ratios = {figure: base[figure] / present[figure] for figure in FIGURES}
    for figure, ratio in ratios.items():
        words = figure.replace("_", " ")
        print(f"{words:<20} {present[figure]:12,.1f} {base[figure]:12,.1f}  ratio {ratio:.3f}")
    print(f"{'steps a seed':<20} {present['steps_a_seed']:12,.1f} {base['steps_a_seed']:12,.1f}")
    different = digests_differ(present["digests"], base["digests"])
    print(f"digests of {', '.join(different)} differ" if different else "all digests are equal")
    slower = [f"{name} {r:.3f}" for name, r in ratios.items() if r < arguments.at_least]
    if slower:
        raise SystemExit(f"compare: below {arguments.at_least}: {', '.join(slower)}")


FIGURES = ("events_a_step", "events_a_seed", "events_a_detection")


def as_stored(measured: Measured) -> str:
    """A result as a release keeps it."""
    stored = {
        "events_a_step": round(measured.step_events, 2),
        "events_a_seed": round(measured.seed_events, 1),
        "events_a_detection": round(measured.detection_events, 1),
        "steps_a_seed": round(measured.steps_a_seed, 1),
        "digests": measured.digests,
    }
    return json.dumps(stored, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    main()
