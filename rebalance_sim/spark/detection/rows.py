"""What is kept of a measurement: one line for each run, in a folder or in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rebalance_sim.spark.detection.oracles import DIFFERS, Oracle
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.supervised import MACHINE_OUTCOMES

NOTICING = frozenset({"violation", "stuck", "error", "budget", DIFFERS})
"""Outcomes that say that something is wrong. ``known`` does not; nor does a limit of this
machine."""

REFUSED = "refused"
"""Outcome of a scenario that cannot have the defect."""


Key = tuple[str, int, Oracle]
"""Defect, place in the mix, oracle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """Run ``index`` of the mix, with a defect or, for ``""``, without, judged by an oracle.

    ``what`` is the first violated property, or the first decision that differs, else the reason.
    ``asked``, of a run without a defect: those that may have decided something otherwise in it.
    """

    defect: str
    index: int
    oracle: Oracle
    outcome: str
    digest: str
    what: str = ""
    asked: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """What tells it from every other run of the measurement."""
        return self.defect, self.index, self.oracle

    @property
    def is_bad(self) -> bool:
        """Whether something was found to be wrong in it."""
        return self.outcome in NOTICING


class RunStore:
    """The runs of a measurement. With a folder they are kept, and the measurement can continue."""

    def __init__(self, folder: Path | None, begun_with: Mapping[str, Any]) -> None:
        """Raises SweepError if the folder has a measurement of something else."""
        self._runs: dict[Key, MeasuredRun] = {}
        self._file: Path | None = None
        if folder is None:
            return
        plan = folder / "measurement.json"
        text = json.dumps(begun_with, indent=2) + "\n"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if plan.exists():
                _check_same(json.loads(plan.read_text(encoding="utf-8")), begun_with, folder)
            elif any(folder.iterdir()):
                raise ValueError(f"has other content and no {plan.name}")
            else:
                plan.write_text(text, encoding="utf-8")
            self._file = folder / "runs.jsonl"
            self._read(self._file)
        except (OSError, ValueError) as problem:
            raise SweepError(f"--out {folder}: {problem}: give a new folder") from problem

    def __contains__(self, key: Key) -> bool:
        return key in self._runs

    def __getitem__(self, key: Key) -> MeasuredRun:
        return self._runs[key]

    def add(self, runs: Iterable[MeasuredRun]) -> None:
        """Keep finished runs. Raises OSError if the folder takes no more."""
        runs = list(runs)
        if self._file is not None:
            lines = [json.dumps(asdict(run), ensure_ascii=False) + "\n" for run in runs]
            with self._file.open("a", encoding="utf-8") as file:
                file.write("".join(lines))
        self._runs.update((run.key, run) for run in runs)

    def _read(self, file: Path) -> None:
        if not file.exists():
            return
        text = file.read_text(encoding="utf-8")
        whole, newline, rest = text.rpartition("\n")
        if rest:  # the process was killed in the middle of a line
            file.write_text(whole + newline, encoding="utf-8")
        for line in whole.splitlines():
            row = json.loads(line)
            typed = {"asked": tuple(row["asked"]), "oracle": Oracle(row["oracle"])}
            run = MeasuredRun(**row | typed)
            if run.outcome not in MACHINE_OUTCOMES:  # what a limit ended is tried again
                self._runs[run.key] = run


def _check_same(begun: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> None:
    for name, value in asked.items():
        if begun.get(name) != value:
            raise SweepError(
                f"--out {folder} holds a measurement with another {name} ({begun.get(name)}, not "
                f"{value}): give the code it was begun with to continue, or a new folder"
            )
