"""The folder of a hunt: scenario files, and an index that is written last.

``corpus/HASH.toml``    a scenario that reached something new; ``HASH.json`` is what is known of it
``findings/WHAT-HASH.toml``  a scenario that failed; ``run``, ``shrink`` and ``regress`` take it
``hunt.json``           the plan, and all that the rounds came to; written when a round has ended
``rounds.json``         how far each round came, with its times: what curves are drawn from

A hunt that is killed continues after the last round that is in ``hunt.json``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.hunt.gains import Gain
from rebalance_sim.scenarios.hunt.hunt import Corpus, Found, Kept
from rebalance_sim.scenarios.hunt.pairs import Interval
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario, parse_scenario
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.store import Location

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYOUT = 2
INDEX, ROUNDS = "hunt.json", "rounds.json"
_OF_A_ROUND = {"corpus", "findings", ROUNDS}
"""What a first round that was interrupted leaves without an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow:
    """How far a hunt was after a round. ``cpu_s`` and ``wall_s`` are those of all rounds so far,
    ``reached`` counts situations, ``findings`` runs that failed."""

    round: int
    runs: int
    steps: int
    cpu_s: float
    wall_s: float
    reached: int
    kept: int
    findings: int


class HuntFolder:
    """Reads and writes the folder. Raises SweepError for what is no folder of a hunt, and for one
    of another plan."""

    def __init__(self, location: Location) -> None:
        self._store = open_store(location)
        self._written: set[str] = set()
        self.rows: list[RoundRow] = []

    def load(self, plan: Mapping[str, Any]) -> Corpus:
        """What the hunt of this plan has come to; an empty corpus if it has not begun."""
        with self._errors():
            self._store.check()
            if not self._store.exists(INDEX):
                others = {name.partition("/")[0] for name in self._store.list()} - _OF_A_ROUND
                if others:
                    raise SweepError(
                        f"{self._where('')} has other content and no {INDEX}: give a new folder"
                    )
                return Corpus()
            index = self._json(INDEX)
            if index.get("layout") != LAYOUT:
                raise SweepError(f"{self._where(INDEX)} is no index of a hunt: give a new folder")
            self._check_plan(index["plan"], plan)
            self.rows = [RoundRow(**row) for row in self._json(ROUNDS)][: index["rounds"]]
            return self._corpus(index)

    def save(self, plan: Mapping[str, Any], corpus: Corpus, row: RoundRow) -> None:
        """Write what a round has added, and then the index."""
        with self._errors():
            for kept in corpus.kept:
                self._put_kept(kept)
            for found in corpus.found:
                self._put_scenario(finding_file(found), found.scenario, _about(found))
            self.rows.append(row)
            self._put(ROUNDS, [asdict(row) for row in self.rows])
            self._put(INDEX, {"layout": LAYOUT, "plan": dict(plan), **_index_of(corpus)})

    def location_of(self, found: Found) -> str:
        """Where the scenario of a finding is."""
        return self._where(finding_file(found))

    # -- reading -----------------------------------------------------------------------------------

    def _corpus(self, index: Mapping[str, Any]) -> Corpus:
        return Corpus(
            rounds=index["rounds"],
            runs=index["runs"],
            steps=index["steps"],
            fresh=index["fresh"],
            discarded=index["discarded"],
            reached=Counter(index["reached"]),
            settings=Counter(index["settings"]),
            outcomes=Counter(index["outcomes"]),
            findings=Counter({(one, what): n for one, what, n in index["findings"]}),
            kept=[self._kept(key) for key in index["corpus"]],
            found=[self._found(row) for row in index["found"]],
            tried=set(index["tried"]),
            seeds=Gain(**index["seeds"]),
            mutants=Gain(**index["mutants"]),
        )

    def _kept(self, key: str) -> Kept:
        about = self._json(f"corpus/{key}.json")
        return Kept(
            scenario=self._scenario(f"corpus/{key}.toml"),
            made=about["made"],
            steps=about["steps"],
            first_to=tuple(about["first_to"]),
            intervals=tuple(Interval(*one) for one in about["intervals"]),
        )

    def _found(self, row: Mapping[str, Any]) -> Found:
        return Found(scenario=self._scenario(row["file"]), **{k: row[k] for k in _FOUND})

    def _scenario(self, name: str) -> Scenario:
        self._written.add(name)
        try:
            return parse_scenario(self._store.get(name).decode())
        except ScenarioError as problem:
            raise problem.within(self._where(name)) from None

    def _json(self, name: str) -> Any:
        return json.loads(self._store.get(name))

    def _check_plan(self, begun: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        for name, value in asked.items():
            if begun.get(name) != value:
                raise SweepError(
                    f"the --corpus folder holds a hunt with another {name} ({begun.get(name)}, not "
                    f"{value}): give what it was begun with to continue, or a new folder"
                )

    # -- writing -----------------------------------------------------------------------------------

    def _put_kept(self, kept: Kept) -> None:
        key = kept.scenario.hash
        if f"corpus/{key}.toml" in self._written:
            return
        about = {
            "made": kept.made,
            "steps": kept.steps,
            "first_to": kept.first_to,
            "intervals": kept.intervals,
        }
        self._put(f"corpus/{key}.json", about)
        self._put_scenario(f"corpus/{key}.toml", kept.scenario, f"# {kept.made}\n")

    def _put_scenario(self, name: str, scenario: Scenario, about: str) -> None:
        if name not in self._written:
            self._store.put(name, (about + dump_scenario(scenario)).encode())
            self._written.add(name)

    def _put(self, name: str, value: Any) -> None:
        self._store.put(name, (json.dumps(value, ensure_ascii=False) + "\n").encode())

    def _where(self, name: str) -> str:
        return str(self._store.location(name))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise SweepError(
                f"--corpus {self._store.location()}: {problem.strerror or problem}: "
                "give another folder"
            ) from problem
        except (ValueError, KeyError, TypeError) as problem:
            if isinstance(problem, ScenarioError):
                raise
            raise SweepError(
                f"{self._where(INDEX)} cannot be read ({problem}): give a new folder"
            ) from problem


_FOUND = ("made", "round", "outcome", "what", "reason")


def finding_file(found: Found) -> str:
    """The name of a finding's scenario in the folder."""
    what = re.sub(r"[^A-Za-z0-9._-]+", "-", found.what or found.outcome)
    return f"findings/{what}-{found.scenario.hash}.toml"


def _about(found: Found) -> str:
    reason = " ".join(found.reason.split())
    return f"# Found by a hunt, made by {found.made}; the run ends {found.outcome}: {reason}\n"


def _index_of(corpus: Corpus) -> dict[str, Any]:
    return {
        "rounds": corpus.rounds,
        "runs": corpus.runs,
        "steps": corpus.steps,
        "fresh": corpus.fresh,
        "discarded": corpus.discarded,
        "outcomes": dict(sorted(corpus.outcomes.items())),
        "findings": [[*kind, count] for kind, count in sorted(corpus.findings.items())],
        "found": [
            {"file": finding_file(one), **{name: getattr(one, name) for name in _FOUND}}
            for one in corpus.found
        ],
        "corpus": [kept.scenario.hash for kept in corpus.kept],
        "tried": sorted(corpus.tried),
        "seeds": asdict(corpus.seeds),
        "mutants": asdict(corpus.mutants),
        "reached": dict(sorted(corpus.reached.items())),
        "settings": dict(sorted(corpus.settings.items())),
    }


def rows_of(rows: Sequence[RoundRow]) -> tuple[float, float]:
    """CPU and wall seconds of all rounds so far."""
    return (rows[-1].cpu_s, rows[-1].wall_s) if rows else (0.0, 0.0)
