"""Options that several commands share."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from rebalance_sim.cli.errors import BadInput
from rebalance_sim.scenarios.settings import Setting
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import Limits
from rebalance_sim.spark.supervised import MACHINE_OUTCOMES

HARD_LIMIT_FACTOR = 2
LIMITS = Limits()
"""Of one run, unless options say otherwise."""

_SEED_MAX = 2**63 - 1

ScenarioFile = Annotated[
    Path | None,
    typer.Argument(help="A scenario file, or a trace; instead, give --profile and --seed."),
]
_PROFILE_HELP = "Kind of scenario: a profile's name, or a TOML file."
OptionalProfile = Annotated[str | None, typer.Option("--profile", "-p", help=_PROFILE_HELP)]
OptionalSeed = Annotated[
    int | None, typer.Option("--seed", "-s", min=0, max=_SEED_MAX, help="Seed of the run.")
]
ProfileName = Annotated[str, typer.Option("--profile", "-p", help=_PROFILE_HELP)]
SemanticsName = Annotated[
    str | None,
    typer.Option(help="Version to simulate instead of the profile's own, such as kafka-4.1."),
]
Repairs = Annotated[
    list[str] | None,
    typer.Option(
        "--repair", help="Run it without this known issue of the version; may be repeated."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A value by its path, as in world.duration_ms=60_000; may be repeated."
    ),
]
Seed = Annotated[int, typer.Option("--seed", "-s", min=0, max=_SEED_MAX, help="Seed of the run.")]

Out = Annotated[
    str, typer.Option(help="Folder or URL (s3://, ...) for the results; new, or to continue in.")
]
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
Retry = Annotated[
    str | None,
    typer.Option(
        help="Try runs again that a limit of the machine ended: no-verdict, or outcomes by name."
    ),
]
Prove = Annotated[
    str,
    typer.Option(
        help="Which known issues are held against runs without them: sampled (doubtful ones, and "
        "all of one seed in eight), all, or none."
    ),
]
Leap = Annotated[
    bool,
    typer.Option(
        "--leap/--no-leap",
        help="Leave out the time in which nothing but heartbeats, polls and commits comes; one run "
        "in 64 is made both ways.",
    ),
]
TimeBudget = Annotated[str | None, typer.Option(help="Stop after this time, as in 90s, 30m or 2h.")]
StopAfter = Annotated[
    int | None, typer.Option(min=1, help="Stop when so many runs have found something new.")
]
TimeLimit = Annotated[float, typer.Option(help="Wall seconds after which a run is interrupted.")]
MemoryLimit = Annotated[int, typer.Option(help="MiB that a run may need on top of its worker.")]


def variant_of(
    profile: str,
    semantics: str | None,
    repairs: list[str] | None = None,
    settings: list[str] | None = None,
) -> Variant:
    """What ``--profile``, ``--semantics``, ``--repair`` and ``--set`` name. Raises
    ScenarioError."""
    variant = Variant.of(profile)
    if semantics is not None:
        variant = replace(variant, semantics=semantics)
    variant = replace(variant, repairs=(*variant.repairs, *(repairs or ())))
    return variant.setting(map(Setting.parse, settings or ()))


def spark_settings(pairs: list[str] | None) -> dict[str, str]:
    """What ``--conf`` says, by name. Raises BadInput."""
    settings = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise BadInput(f"--conf {pair!r}: write spark.name=value")
        settings[name] = value
    return settings


def retried(text: str | None) -> tuple[str, ...]:
    """The outcomes that ``--retry`` names."""
    if text is None:
        return ()
    if text == "no-verdict":
        return MACHINE_OUTCOMES
    return tuple(name.strip() for name in text.split(","))


def seconds_of(text: str | None) -> float | None:
    """What ``--time-budget`` says, in seconds. Raises BadInput."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if match is None:
        raise BadInput(f"--time-budget {text!r}: write a number and s, m or h, as in 2h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def limits_of(time_limit_s: float, memory_limit_mib: int) -> Limits:
    """The limits of one run, as a command line gives them."""
    return Limits(
        soft_s=time_limit_s,
        hard_s=HARD_LIMIT_FACTOR * time_limit_s,
        memory_mib=memory_limit_mib,
    )
