"""How fast the fixed workloads run, compared with another checkout or with the last release.

    python benchmarks/compare.py ../other    # CPU time, this checkout against that one
    python benchmarks/compare.py v0.3        # the same with a commit, in a work tree
    python benchmarks/compare.py --released  # against workloads/released.json, as CI does
    python benchmarks/compare.py --store     # write that file, for a release

The workloads are the scenario files in ``benchmarks/workloads``, ten of each of four profiles:
files, so that a change of the generator does not change the work. Each checkout has a process; they
take turns at each workload, and the least CPU time of the rounds counts. The ratio is that of the
CPU time of a step, summed over the workloads: above 1, this checkout is the faster one.

A stored result is in bare SimPy events of the machine and the Python that it was measured with, and
so compares with other machines, roughly. With a ratio below ``--at-least`` the exit code is 1.
Digests that differ are counted: what those workloads cost is not the same work.
"""

from __future__ import annotations

import argparse
import json
import os
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


@dataclass
class Measured:
    """The least CPU time of each workload in microseconds, its steps and digest; ``bare_us``: that
    of a bare SimPy event, beside them."""

    us: dict[str, float] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    bare_us: float = float("inf")

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


def measure(roots: Sequence[Path], files: Sequence[Path], rounds: int) -> list[Measured]:
    """Run all files with all checkouts, which take turns."""
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
    parser.add_argument("--at-least", type=float, default=0.9, metavar="RATIO")
    arguments = parser.parse_args()
    if (arguments.base is not None) + arguments.released + arguments.store != 1:
        parser.error("name a checkout or a commit, or say --released or --store")
    files = sorted(WORKLOADS.glob("*.toml"))
    with ExitStack() as stack:
        roots = [ROOT]
        if arguments.base is not None:
            roots.append(stack.enter_context(checkout_of(arguments.base)))
        ours, *others = measure(roots, files, arguments.rounds)
    steps = f"{len(files)} workloads, {sum(ours.steps.values())} steps"
    print(f"{steps}: {ours.step_us:.1f} us or {ours.step_events:.1f} bare SimPy events a step")
    if arguments.store:
        RELEASED.write_text(as_stored(ours), encoding="utf-8")
        return
    if others:
        base = others[0]
        ratio = base.step_us / ours.step_us
        print(f"{arguments.base}: {base.step_us:.1f} us a step")
        different = digests_differ(ours.digests, base.digests)
    else:
        stored = json.loads(RELEASED.read_text(encoding="utf-8"))
        ratio = stored["events_a_step"] / ours.step_events
        print(f"last release: {stored['events_a_step']:.1f} bare SimPy events a step")
        different = digests_differ(ours.digests, stored["digests"])
    told = f"digests of {', '.join(different)} differ" if different else "all digests are equal"
    print(f"ratio {ratio:.3f}, {told}")
    if ratio < arguments.at_least:
        raise SystemExit(f"compare: slower than allowed: {ratio:.3f} < {arguments.at_least}")


def as_stored(measured: Measured) -> str:
    """A result as a release keeps it."""
    stored = {"events_a_step": round(measured.step_events, 2), "digests": measured.digests}
    return json.dumps(stored, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    main()
