"""How much of random wrongness is noticed? Mutants of a folder, each judged by runs and by tests.

    python benchmarks/mutation.py --count 300 --seed 1 --jobs 2 --out results/mutants.jsonl
    python benchmarks/mutation.py --within sim/observe,scenarios/experiment* --count 40 \\
        --out results/figures.jsonl

Each mutant changes one expression or drops one statement of a function. The seeds of the plan run
with it until one ends in violation, stuck, error or budget that the same seed does not without it,
or is vacuous where it is ok or known without. ``known`` never counts, but is counted. Then the same
seeds run beside a reference, machines of the unchanged sources that are fed the same, until a
decision differs. Then come the tests that concern the folder (``JUDGES`` of mutation_tests.py),
until one fails. What no run depends on is left to tests.

  detected    such a seed or test was found; ``by`` says which judge was the first to
  explained   none, but mutation_explained.toml says why this one changes nothing that matters
  unnoticed   none, though the digest of some run differs, or a test reaches it
  unreached   every digest is as before, and no test gets there (or the mutation changes nothing)

Runs and tests that do not reach the changed statement without the mutation are the same with it,
and are skipped. With an empty ``--plan`` tests judge alone. The same command continues where it was
interrupted; with ``--again`` it judges those once more that were unnoticed. The last line is
``detected D, explained E, unnoticed U, unreached R of N``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import pickle
import random
import resource
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

# Not rebalance_sim: each mutant is imported in a process of its own. What it imports is shared.
import re2  # noqa: F401
import simpy  # noqa: F401
import tomli_w  # noqa: F401

sys.path.insert(0, str(Path(__file__).parent))
from mutants import Mutant, find_mutants, install, noting_reached
from mutation_tests import (
    Test,
    chosen_tests,
    decides_runs,
    files_by_judge,
    first_failure,
    note_tests,
)

CHECKOUT = Path(__file__).resolve().parent.parent
PLAN = "faulty:60,whole:60,classic:40,migration:40,cooperative:30,franz:40,transactions:20"
EXPLAINED = Path(__file__).with_name("mutation_explained.toml")
BAD = frozenset({"violation", "stuck", "error", "budget"})
GOOD = frozenset({"ok", "known"})
REFERENCE = "reference"
"""The judge that compares decisions."""
RUN_CPU_S = 100
"""Processor time after which a run hangs: a thousand times what most take."""
MEMORY_BYTES = 3 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, with or without a mutant."""

    profile: str
    seed: int
    outcome: str
    digest: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The runs of the plan without any mutant, and the statements that each reached; ``tests`` by
    judge, each of which runs as many of them as take ``test_cpu_s``."""

    runs: Sequence[Run]
    reached: Sequence[frozenset[tuple[str, int]]]
    tests: Mapping[str, Sequence[Test]] = field(default_factory=dict)
    test_cpu_s: float = 0.0

    def case(self, mutant: Mutant) -> Case:
        """What can differ with this mutant."""
        statement = (mutant.path, mutant.statement)
        pairs = zip(self.runs, self.reached, strict=True)
        tests = {
            judge: chosen_tests(
                [test for test in self.tests[judge] if test.file in files],
                statement,
                cpu_s=self.test_cpu_s,
            )
            for judge, files in files_by_judge(CHECKOUT, [mutant.path]).items()
        }
        return Case(
            mutant=mutant,
            runs=[run for run, seen in pairs if statement in seen and decides_runs(mutant.path)],
            tests={judge: ids for judge, (ids, _) in tests.items() if ids},
            left_out=sum(more for _, more in tests.values()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A mutant, with the runs and, by judge, the tests that reach it; ``left_out``: more tests."""

    mutant: Mutant
    runs: Sequence[Run]
    tests: Mapping[str, Sequence[str]]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Tests of a judge begin; or, with the id of one, it has failed."""

    judge: str
    failed: str = ""


def main() -> int:
    options = _options()
    work = _work(options.plan)
    within = options.within.split(",")
    try:
        pool = find_mutants(CHECKOUT, within, rng := random.Random(options.seed))
    except FileNotFoundError as problem:
        raise SystemExit(f"mutation: error: --within: there is no {problem}") from None
    rng.shuffle(pool)
    chosen = _chosen(pool, options.count)
    print(f"{len(pool)} possible mutations, {len(chosen)} chosen, {len(work)} runs", flush=True)
    header = {"seed": options.seed, "plan": options.plan, "code": _code_version()}
    done = _done(options.out, header)
    if options.again:
        done = {key: row for key, row in done.items() if row["verdict"] != "unnoticed"}
    baseline = replace(
        _baseline(pool, work, options.out, header),
        tests=_tests(pool, within, options.tests, options.out, header),
        test_cpu_s=options.test_seconds,
    )
    print(f"without any: {dict(Counter(run.outcome for run in baseline.runs))}", flush=True)
    todo = [mutant for mutant in chosen if _key(mutant) not in done]
    for row in _verdicts(todo, baseline, options.jobs):
        done[row["place"], row["code"], row["change"]] = row
        _append(options.out, row)
        print(_line(row), flush=True)
    return _report([done[_key(mutant)] for mutant in chosen], options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60, help="mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="which mutants")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--plan", default=PLAN, help="profiles, each with its number of seeds")
    parser.add_argument("--within", default="protocol", help="files or folders, by comma; also *")
    parser.add_argument(
        "--test-seconds", type=float, default=60.0, help="of tests for each judge and mutant"
    )
    parser.add_argument("--tests", default="*", help="only test files whose path is like this")
    parser.add_argument("--again", action="store_true", help="judge again what was unnoticed")
    parser.add_argument("--out", type=Path, required=True, help="results as JSON lines")
    parser.add_argument(
        "--least", type=float, default=0.0, help="least share of those reached to be noticed"
    )
    return parser.parse_args()


def _work(plan: str) -> list[tuple[str, int]]:
    """The runs of a plan, the profiles in turn."""
    parts = [part.partition(":") for part in plan.split(",") if part]
    counts = {name: int(n) for name, _, n in parts}
    return [
        (name, seed)
        for seed in range(max(counts.values(), default=0))
        for name, count in counts.items()
        if seed < count
    ]


def _chosen(pool: Sequence[Mutant], count: int) -> list[Mutant]:
    """The first of the shuffled pool, not too many of one file."""
    taken: Counter[str] = Counter()
    chosen: dict[tuple[str, str, str], Mutant] = {}
    for mutant in pool:
        if len(chosen) == count:
            break
        if taken[mutant.path] < max(2, count // 15) and _key(mutant) not in chosen:
            taken[mutant.path] += 1
            chosen[_key(mutant)] = mutant
    return list(chosen.values())


def _key(mutant: Mutant) -> tuple[str, str, str]:
    return mutant.place, mutant.code, mutant.change


# -- running -------------------------------------------------------------------------------------


def _baseline(
    pool: Sequence[Mutant],
    work: Sequence[tuple[str, int]],
    out: Path,
    header: Mapping[str, Any],
) -> Baseline:
    """The runs without any mutant: measured once, and kept beside the results."""
    if not work:
        return Baseline(runs=[], reached=[])
    kept = out.with_suffix(".baseline")
    if kept.exists():
        stored, baseline = pickle.loads(kept.read_bytes())
        if stored == header:
            return baseline  # type: ignore[no-any-return]

    def body(send: Callable[[Any], None]) -> None:
        sources, reached = noting_reached(CHECKOUT, pool)
        install(sources)
        run = _runner()
        for profile, seed in work:
            reached.clear()
            send((run(profile, seed), frozenset(reached)))

    child = _Child(body)
    results = list(child.messages())
    if child.failure or len(results) != len(work):
        raise SystemExit(f"mutation: error: the runs without a mutant failed: {child.failure}")
    baseline = Baseline(
        runs=[run for run, _ in results], reached=[reached for _, reached in results]
    )
    # A reference that differs from what it is a copy of would notice every mutant there.
    child = _Child(lambda send: send(_first_difference(baseline.runs)))
    if list(child.messages()) != [""]:
        raise SystemExit("mutation: error: the reference differs without a mutant: see diff-rules")
    kept.write_bytes(pickle.dumps((header, baseline)))
    return baseline


def _tests(
    pool: Sequence[Mutant], within: Sequence[str], like: str, out: Path, header: Mapping[str, Any]
) -> dict[str, list[Test]]:
    """By judge, the tests without any mutant, of files ``like`` this: measured once, and again for
    a file that changes."""
    kept = out.with_suffix(".tests")
    stored, of_files = pickle.loads(kept.read_bytes()) if kept.exists() else (header, {})
    if stored != header:
        of_files = {}
    judges = {
        judge: {file: digest for file, digest in files.items() if fnmatch(file, like)}
        for judge, files in files_by_judge(CHECKOUT, within).items()
    }
    wanted = {file: digest for files in judges.values() for file, digest in files.items()}

    changed = [file for file in wanted if of_files.get(file, ("",))[0] != wanted[file]]

    def body(send: Callable[[Any], None]) -> None:
        sources, reached = noting_reached(CHECKOUT, pool)
        install(sources)
        note_tests(changed, reached, send)

    if changed:
        print(f"noting what {len(changed)} test files reach", flush=True)
        of_files |= {file: (wanted[file], []) for file in changed}
        child = _Child(body)
        for test in child.messages():
            of_files[test.file][1].append(test)
        if child.failure:
            raise SystemExit(f"mutation: error: the tests without a mutant: {child.failure}")
        kept.write_bytes(pickle.dumps((header, of_files)))
    failing = [test.id for file in wanted for test in of_files[file][1] if not test.passed]
    if failing:
        print("fail without any, and do not judge:", *failing, sep="\n  ", flush=True)
    return {
        judge: [t for file in files for t in of_files[file][1]] for judge, files in judges.items()
    }


def _verdicts(mutants: Sequence[Mutant], baseline: Baseline, jobs: int) -> Iterator[dict[str, Any]]:
    """The row of each mutant, as they come; so many at a time."""
    waiting = list(reversed(mutants))
    working: dict[Any, tuple[Case, _Child]] = {}
    while waiting or working:
        while waiting and len(working) < jobs:
            case = baseline.case(waiting.pop())
            if not case.runs and not case.tests:
                yield _row(case.mutant, "unreached", "", [])
                continue
            child = _Child(_trial(case))
            working[child.sentinel] = (case, child)
        for sentinel in multiprocessing.connection.wait(list(working)):
            case, child = working.pop(sentinel)
            yield _verdict(case, list(child.messages()), child.failure)


def _trial(case: Case) -> Callable[[Callable[[Any], None]], None]:
    def body(send: Callable[[Any], None]) -> None:
        path = (CHECKOUT / case.mutant.path).resolve()
        install({path: case.mutant.mutate(path.read_bytes())})
        if case.runs:
            run = _runner()
        for old in case.runs:
            new = run(old.profile, old.seed)
            send(new)
            if is_worse_than(old, new):
                return
        if case.runs:
            send(Judged(judge=REFERENCE))
            if failed := _first_difference(case.runs):
                send(Judged(judge=REFERENCE, failed=failed))
                return
        signal.setitimer(signal.ITIMER_PROF, 0)
        for judge, ids in case.tests.items():
            send(Judged(judge=judge))
            if failed := first_failure(ids):
                send(Judged(judge=judge, failed=failed))
                return

    return body


def _first_difference(runs: Sequence[Run]) -> str:
    """The first run in which the mutant decides otherwise than the sources as they are; empty if
    there is none."""
    import rebalance_sim as rs
    from rebalance_sim.invariants.reference.tree import frozen_tree
    from rebalance_sim.scenarios.rule_differences import watched_by

    frozen = frozen_tree(CHECKOUT / "protocol")
    for run in runs:
        signal.setitimer(signal.ITIMER_PROF, RUN_CPU_S)
        lock_step = watched_by(rs.generate(run.profile, seed=run.seed), None, frozen)
        if lock_step.count:
            return f"{run.profile} {run.seed} {lock_step.differences[0].what}"
    return ""


def is_worse_than(old: Run, new: Run) -> bool:
    if new.outcome == "vacuous":
        return old.outcome in GOOD
    return new.outcome in BAD and old.outcome not in BAD


def _runner() -> Callable[[str, int], Run]:
    """What runs a seed, in a process that has its mutant."""
    import rebalance_sim as rs

    if Path(rs.__file__).parent.parent != CHECKOUT:
        raise RuntimeError(f"{rs.__file__} is not of {CHECKOUT}: set PYTHONPATH to that")

    def run(profile: str, seed: int) -> Run:
        signal.setitimer(signal.ITIMER_PROF, RUN_CPU_S)  # ends the process
        try:
            result = rs.run(rs.generate(profile, seed=seed))
            outcome, digest, reason = result.outcome, result.digest, result.reason
            if result.violations:
                reason = result.violations[0].property
        except Exception as problem:
            outcome, digest, reason = "error", "", repr(problem)
        return Run(profile=profile, seed=seed, outcome=outcome, digest=digest, reason=reason[:120])

    return run


class _Child:
    """A forked process that sends messages until its body is done."""

    def __init__(self, body: Callable[[Callable[[Any], None]], None]) -> None:
        self.failure = ""
        context = multiprocessing.get_context("fork")
        self._receiver, sender = context.Pipe(duplex=False)
        self._messages: list[Any] = []
        self._process: BaseProcess = context.Process(target=_child_main, args=(body, sender))
        self._process.start()
        sender.close()

    @property
    def sentinel(self) -> Any:
        """Is ready whenever the process has something to be read, or has ended."""
        return self._receiver

    def messages(self) -> Iterator[Any]:
        """What it sends, to its end; then ``failure`` says what ended it before its time."""
        while True:
            try:
                kind, message = self._receiver.recv()
            except EOFError:
                break
            if kind == "failure":
                self.failure = message
            else:
                yield message
        self._process.join()
        code = self._process.exitcode or 0
        if code < 0:
            name = signal.Signals(-code).name
            self.failure = "hang" if name == "SIGPROF" else f"killed by {name}"


def _child_main(body: Callable[[Callable[[Any], None]], None], sender: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        body(lambda message: sender.send(("result", message)))
    except BaseException as problem:
        sender.send(("failure", repr(problem)[:120]))
    finally:
        sender.close()


# -- rows ----------------------------------------------------------------------------------------


def _verdict(case: Case, messages: Sequence[Run | Judged], failure: str) -> dict[str, Any]:
    mutant = case.mutant
    after = [message for message in messages if isinstance(message, Run)]
    judged = [message for message in messages if isinstance(message, Judged)]
    pairs = list(zip(case.runs, after, strict=False))
    if pairs and is_worse_than(*pairs[-1]):
        last = pairs[-1][1]
        why = f"{last.profile} {last.seed} {last.outcome} {last.reason} after {len(after)} runs"
        return _row(mutant, "detected", why, after, by="runs")
    if failure or (judged and judged[-1].failed):
        by = judged[-1].judge if judged else "runs"
        return _row(mutant, "detected", failure or judged[-1].failed, after, by=by)
    tests = sum(map(len, case.tests.values()))
    differing = [(old, new) for old, new in pairs if old.digest != new.digest]
    if not differing and not tests:
        return _row(mutant, "unreached", f"runs without a difference: {len(after)}", after)
    whys = []
    if differing:
        first = differing[0][1]
        whys.append(f"{len(differing)} runs differ, the first {first.profile} {first.seed}")
    known = sum(new.outcome == "known" and old.outcome == "ok" for old, new in pairs)
    if known:
        whys.append(f"newly known in {known}")
    if tests:
        whys.append(f"{tests} tests pass" + f" of {tests + case.left_out}" * bool(case.left_out))
    return _row(mutant, "unnoticed", "; ".join(whys), after)


def _row(
    mutant: Mutant, verdict: str, why: str, after: Sequence[Run], *, by: str = ""
) -> dict[str, Any]:
    return {
        "place": mutant.place,
        "line": mutant.line,
        "code": mutant.code,
        "change": mutant.change,
        "verdict": verdict,
        "by": by,
        "why": why,
        "runs": len(after),
    }


def _line(row: Mapping[str, Any]) -> str:
    verdict = f"{row['verdict']:10} {row['by']:7}"
    return f"{verdict} {row['place']} ({row['line']}) {row['change']}   {row['why']}"


def _explained() -> set[tuple[str, str, str]]:
    """The mutants that change nothing that matters."""
    if not EXPLAINED.exists():
        return set()
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("mutant", [])
    return {
        (entry["place"], entry["code"], change) for entry in entries for change in entry["changes"]
    }


def _report(rows: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> int:
    explained = _explained()
    counts: Counter[str] = Counter()
    for row in rows:
        verdict = row["verdict"]
        if verdict == "unnoticed" and (row["place"], row["code"], row["change"]) in explained:
            verdict = "explained"
        counts[verdict] += 1
        if verdict == "unnoticed":
            print(_line(row))
    by = Counter(row["by"] for row in rows if row["verdict"] == "detected")
    print(", ".join(f"by {judge} {count}" for judge, count in by.items()))
    names = ("detected", "explained", "unnoticed", "unreached")
    print(", ".join(f"{name} {counts[name]}" for name in names) + f" of {len(rows)}")
    reached = len(rows) - counts["unreached"]
    noticed = counts["detected"] + counts["explained"]
    return 0 if noticed >= options.least * reached else 1


# -- files ---------------------------------------------------------------------------------------


def _code_version() -> str:
    """Of all that decides a run. Asked of a child: the package must not be imported here."""

    def body(send: Callable[[Any], None]) -> None:
        from rebalance_sim.scenarios.version import code_version

        send(code_version())

    child = _Child(body)
    answers = list(child.messages())
    if not answers:
        raise SystemExit(f"mutation: error: the package cannot be imported: {child.failure}")
    return str(answers[0])


def _done(out: Path, header: Mapping[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The rows that are there already. Leaves with one line if they are of something else."""
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        _append(out, header)
        return {}
    first, *rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    if first != header:
        raise SystemExit(
            f"mutation: error: {out} was begun with other code, seed or plan ({first}): "
            "give another file"
        )
    return {(row["place"], row["code"], row["change"]): row for row in rows}


def _append(out: Path, row: Mapping[str, Any]) -> None:
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    os.chdir(CHECKOUT)
    sys.exit(main())
