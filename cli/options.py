"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebalance_sim.scenarios.compare import label_of, split_label

__all__ = [
    "Backend",
    "Batch",
    "Master",
    "MemoryLimit",
    "OptionalProfile",
    "OptionalSeed",
    "Out",
    "ProfileName",
    "ScenarioFile",
    "Seed",
    "SemanticsName",
    "SparkSetting",
    "TimeLimit",
    "with_semantics",
]

_SEED_MAX = 2**63 - 1

ScenarioFile = Annotated[
    Path | None, typer.Argument(help="A scenario file; instead, give --profile and --seed.")
]
OptionalProfile = Annotated[str | None, typer.Option("--profile", "-p", help="Kind of scenario.")]
OptionalSeed = Annotated[
    int | None, typer.Option("--seed", "-s", min=0, max=_SEED_MAX, help="Seed of the run.")
]
ProfileName = Annotated[str, typer.Option("--profile", "-p", help="Kind of scenario.")]
SemanticsName = Annotated[
    str | None,
    typer.Option(help="Version to simulate instead of the profile's own, such as kafka-4.1."),
]
Seed = Annotated[int, typer.Option("--seed", "-s", min=0, max=_SEED_MAX, help="Seed of the run.")]

Out = Annotated[Path, typer.Option(help="Folder for the results; new, or to go on in.")]
Backend = Annotated[str, typer.Option(help="spark, or pool: processes here.")]
Master = Annotated[
    str | None, typer.Option(help="Spark master URL; without one, all cores of this machine.")
]
Batch = Annotated[
    int | None, typer.Option(help="Seeds a task; without it, what fits a few seconds.")
]
SparkSetting = Annotated[
    list[str] | None, typer.Option(help="A Spark setting, as in spark.executor.memory=2g.")
]
TimeLimit = Annotated[float, typer.Option(help="Wall seconds after which a run is interrupted.")]
MemoryLimit = Annotated[int, typer.Option(help="MiB that a run may need on top of its worker.")]


def with_semantics(profile: str, semantics: str | None) -> str:
    """The profile for another version: its name and that of the version around an @."""
    if semantics is None:
        return profile
    name, protocol = split_label(profile)
    return label_of(f"{name}@{semantics}", protocol)
