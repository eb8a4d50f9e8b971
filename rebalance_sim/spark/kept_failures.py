"""Failing scenarios of a regression, kept from one call to the next: run first, dropped when they
pass.

A folder with a scenario file for each. Its first line names the case that it was, so that a seed
of the same profile is run again though the command names others.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.regress import FAILED, Case, Checked, scenario_of

_FIRST_LINE = re.compile(r"# regress: (\S.*)\n")


def read_failures(
    folder: Path, *, asked: Container[str] = (), options: str | None = None
) -> dict[str, Case]:
    """The failures that are kept, by the id of their case, of the cases that are ``asked`` for, and
    of all seeds of the profile with these ``options``; none if there is no folder. Those of other
    profiles and files stay where they are.

    Raises SweepError for a file in it that is none.
    """
    found: dict[str, Case] = {}
    for file in sorted(folder.glob("*.toml")):
        try:
            named = _FIRST_LINE.match(file.read_text(encoding="utf-8"))
            if named is None:
                raise ScenarioError("its first line does not say # regress: and a case")
            case = Case(id=named[1], words=str(file), file=file)
            scenario_of(case)
        except (ScenarioError, OSError, UnicodeError) as problem:
            reason = " ".join(str(problem).split()).removeprefix(f"{file}: ")
            raise SweepError(
                f"{file} is no failure that regress has kept ({reason}): delete it, or name its "
                "--plugin"
            ) from None
        is_seed = options is not None and case.id.startswith(f"{options} --seed ")
        if is_seed or case.id in asked:
            found[case.id] = case
    return found


def failures_first(cases: Iterable[Case], kept: Mapping[str, Case]) -> list[Case]:
    """The cases, those that failed the last time before all others; what is kept and not among
    them is run from its file."""
    current = {case.id: case for case in cases}
    first = [current.pop(case_id, case) for case_id, case in kept.items()]
    return [*first, *current.values()]


def keep_failures(
    folder: Path, checked: Sequence[Checked], kept: Mapping[str, Case], accepted: Iterable[str] = ()
) -> tuple[list[str], list[str]]:
    """Write what fails to the folder, and drop what was there and passes, or is ``accepted``, as it
    stands in the lock now: ids of the cases that are kept, and of those that are dropped.

    What a limit of the machine ended is neither. Raises OSError where nothing can be written.
    """
    stay, dropped = dict(kept), []
    is_accepted = frozenset(accepted)
    for one in checked:
        if not one.is_judged:
            continue
        if one.verdict == FAILED and one.case.id not in is_accepted:
            stay[one.case.id] = _written(folder, one)
        elif one.case.id in stay:
            file = stay.pop(one.case.id).file
            if file is not None:
                file.unlink(missing_ok=True)
            dropped.append(one.case.id)
    return list(stay), dropped


def _written(folder: Path, failed: Checked) -> Case:
    from rebalance_sim.scenarios.scenario import dump_scenario

    case = failed.case
    words = re.sub(r"[^\w.]+", "-", case.id).strip("-")[-60:].removesuffix(".toml")
    digest = blake2b(case.id.encode(), digest_size=4).hexdigest()
    file = folder / f"{words}-{digest}.toml"
    if case.file == file:
        return case
    folder.mkdir(parents=True, exist_ok=True)
    ended = " ".join([failed.got.outcome, *failed.got.properties])
    text = dump_scenario(scenario_of(case), defaults=False)
    file.write_text(f"# regress: {case.id}\n# {ended}\n{text}", encoding="utf-8")
    return replace(case, file=file)
