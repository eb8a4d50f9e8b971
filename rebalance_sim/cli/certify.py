"""``rebalance-sim certify``: what a client keeps to, found out at a gateway."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_sim.cli.errors import BadInput, need_libraries
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.output import check_folder, print_json, say
from rebalance_sim.spark.plan import SeedRange

if TYPE_CHECKING:
    from rebalance_sim.gateway.certify.certify import Result
    from rebalance_sim.gateway.certify.scenarios import Scenario

_NEEDED = ("{bootstrap}", "{group}", "{topic}")
_INSTANCE_ID = "{instance_id}"
_SEEDS_MOST = 10_000
_LIMITS = (
    "The gateway coordinates groups and keeps a few records in memory. It is no broker for data: "
    "one node, no TLS or SASL, no quotas or share groups. What held, held once."
)


def certify(
    command: Annotated[
        str,
        typer.Option(
            help="Starts one consumer that commits what it has read, and leaves the group at "
            "SIGTERM: './my-client {bootstrap} {group} {topic}'."
        ),
    ],
    static_command: Annotated[
        str | None, typer.Option(help="The same as a static member, with {instance_id}.")
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="Only these, as in join.one or 'move.*'; may be repeated."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Scenarios that these seeds draw, as in 0:20; beside them only what --scenario "
            "names."
        ),
    ] = None,
    deadline: Annotated[
        float,
        typer.Option(min=1, help="Seconds that each thing may take; more than its timeouts."),
    ] = 60,
    jobs: Annotated[int, typer.Option(min=1, help="Scenarios at a time.")] = 2,
    out: Annotated[
        Path | None, typer.Option(help="Folder for traces and for what clients write.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> int:
    """Run scenarios with any Kafka consumer, and report what held."""
    need_libraries("certify", "kio", "h11", extra="gateway")
    check_folder("certify", "--out", out)
    _check_command("--command", command, _NEEDED)
    if static_command is not None:
        _check_command("--static-command", static_command, (_INSTANCE_ID, *_NEEDED))
    from rebalance_sim.gateway.certify.certify import Outcome
    from rebalance_sim.gateway.certify.certify import certify as run_all
    from rebalance_sim.gateway.certify.trial import Command

    chosen = _chosen(scenario or ([] if seeds else ["*"]), seeds)
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        results = run_all(
            Command(command, static_command),
            chosen,
            out=folder,
            deadline_s=deadline,
            jobs=jobs,
            done=(lambda result: None) if as_json else _show,
        )
    counts = Counter(result.outcome for result in results)
    if as_json:
        rows = [asdict(result) for result in results]
        print_json({"scenarios": rows, "counts": dict(sorted(counts.items())), "limits": _LIMITS})
    else:
        say(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
        for line, times in Counter(one for row in results for one in row.not_judged).items():
            say(f"not judged in {times} of {len(results)}: {line}")
        say(_LIMITS)
    return FOUND if counts[Outcome.FAILED] else OK


def _check_command(option: str, text: str, needed: tuple[str, ...]) -> None:
    def wrong(what: str) -> BadInput:
        return BadInput(f"{option} {text!r}: {what}")

    for one in needed:
        if one not in text:
            raise wrong(f"has no {one}")
    known = (*_NEEDED, _INSTANCE_ID)
    for name in re.findall(r"(?<!\$)\{\w+\}", text):
        if name not in known:
            raise wrong(f"{name} stands for nothing; known: {', '.join(known)}")
    try:
        program = shlex.split(text)[0]
    except ValueError:
        raise wrong("a quotation mark is open; close it") from None
    if shutil.which(program) is None:
        raise wrong(f"there is no program {program!r}; give its path, or build it first")


def _chosen(patterns: Sequence[str], seeds: str | None) -> list[Scenario]:
    from rebalance_sim.gateway.certify.drawn import drawn
    from rebalance_sim.gateway.certify.scenarios import SCENARIOS

    for pattern in patterns:
        if not any(fnmatchcase(one.name, pattern) for one in SCENARIOS):
            names = ", ".join(one.name for one in SCENARIOS)
            raise BadInput(f"--scenario {pattern!r}: there is none of: {names}")
    named = [one for one in SCENARIOS if any(fnmatchcase(one.name, each) for each in patterns)]
    if seeds is None:
        return named
    numbers = SeedRange.parse(seeds)
    if len(numbers) > _SEEDS_MOST:
        raise BadInput(f"--seeds {seeds}: at most {_SEEDS_MOST:,} at a time")
    return named + [drawn(seed) for seed in range(numbers.first, numbers.end)]


def _show(result: Result) -> None:
    detail = f": {result.detail}" if result.detail else ""
    say(f"{result.outcome:<8} {result.name:<16} {result.about} ({result.seconds:g} s){detail}")
