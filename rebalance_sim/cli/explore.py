"""``rebalance-sim explore``: every order of events in a small scope."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import FOUND, INTERRUPTED, OK
from rebalance_sim.cli.output import check_folder, print_json, say, stderr, write_text

if TYPE_CHECKING:
    from rebalance_sim.scenarios.explore.explored import Explored, Progress
    from rebalance_sim.scenarios.explore.explorer import Explorer
    from rebalance_sim.scenarios.explore.scope import Disturbance

SEMANTICS = "kafka-4.4-clean"
MAX_STATES = 20_000_000
MAX_MEMORY_MB = 4_000
"""As of ``scenarios.explore``, which is not imported for ``--help``; a test compares them."""


def explore(
    members: Annotated[int, typer.Option(help="Members, which join one after another.")] = 2,
    topics: Annotated[int, typer.Option(help="Topics that all of them subscribe to.")] = 2,
    partitions: Annotated[int, typer.Option(help="Partitions of each topic.")] = 1,
    disturbances: Annotated[int, typer.Option(help="So many at most in one run.")] = 1,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Of this kind, such as crash; may be repeated. Without it, all kinds."),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="And none of this kind; may be repeated.")
    ] = None,
    semantics: Annotated[str, typer.Option(help="Version to explore.")] = SEMANTICS,
    defect: Annotated[
        list[str] | None, typer.Option(help="Switch this defect on; may be repeated.")
    ] = None,
    repair: Annotated[
        list[str] | None,
        typer.Option(help="Without this known issue of the version; may be repeated."),
    ] = None,
    assignor: Annotated[str | None, typer.Option(help="The members' server assignor.")] = None,
    auto_commit: Annotated[
        bool, typer.Option("--auto-commit", help="Members commit before they give partitions up.")
    ] = False,
    assignment_interval: Annotated[
        bool, typer.Option("--assignment-interval", help="Targets may be put off.")
    ] = False,
    slow_lookups: Annotated[
        bool,
        typer.Option("--slow-lookups", help="Offset fetches and coordinator searches take time."),
    ] = False,
    slow_metadata: Annotated[
        bool,
        typer.Option("--slow-metadata", help="Members learn of topics some time after they start."),
    ] = False,
    instance: Annotated[
        list[str] | None,
        typer.Option(help="A member's group.instance.id, in their order; none: a dynamic member."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="What a member is, in their order: consumer, eager, cooperative."),
    ] = None,
    returns: Annotated[
        bool, typer.Option("--returns", help="A process that has ended is followed by a new one.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="The group takes no more members than there are.")
    ] = False,
    max_states: Annotated[int, typer.Option(min=1, help="Stop at so many states.")] = MAX_STATES,
    max_memory_mb: Annotated[
        int, typer.Option(min=1, help="Stop when the process has so much memory.")
    ] = MAX_MEMORY_MB,
    max_seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many wall seconds.")
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="Stop at the first violation.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for a scenario of each violated property.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> int:
    """Try every order of deliveries, losses, timeouts, joins, leaves, crashes and moves.

    Breadth first, so that each violated property is reported with a shortest way to it. It ends
    complete, or cut off at a bound, and says which. Exit code 1 if a property is violated that is
    no known issue, or if it was cut off. Ctrl-C cuts it off too, and what there is is said.
    """
    from rebalance_sim.scenarios.explore.explorer import INTERRUPTED as BY_CTRL_C
    from rebalance_sim.scenarios.explore.explorer import Explorer
    from rebalance_sim.scenarios.explore.scope import Scope
    from rebalance_sim.scenarios.explore.verdict import describe

    scope = Scope(
        members=members,
        topics=topics,
        partitions=partitions,
        max_disturbances=disturbances,
        disturbances=_kinds(only, without),
        semantics=semantics,
        defects=tuple(defect or ()),
        repairs=tuple(repair or ()),
        assignor=assignor,
        auto_commit=auto_commit,
        assignment_interval=assignment_interval,
        slow_lookups=slow_lookups,
        slow_metadata=slow_metadata,
        instances=tuple("" if one == "none" else one for one in instance or ()),
        returns=returns,
        full=full,
        kinds=tuple(kind or ()),
    )
    check_folder("explore", "--out", out)
    explorer = Explorer(scope)
    with _progress_line() as on_progress, _ctrl_c() as is_interrupted:
        explored = explorer.run(
            max_states=max_states,
            max_memory_mb=max_memory_mb,
            max_seconds=float("inf") if max_seconds is None else max_seconds,
            stops_at_first=first,
            on_progress=on_progress,
            is_interrupted=is_interrupted,
        )
    written = _write_scenarios(explorer, explored, out) if out and explored.paths else []
    if json:
        print_json(_as_json(explored, written))
    else:
        for line in describe(explored):
            say(line)
        for one in written:
            say(f"{one.file}: {one.steps} steps; {one.how}")
    if explored.cut_off == BY_CTRL_C:
        return INTERRUPTED
    return FOUND if explored.violated or explored.cut_off else OK


def _kinds(only: list[str] | None, without: list[str] | None) -> tuple[Disturbance, ...]:
    from rebalance_sim.scenarios.errors import did_you_mean
    from rebalance_sim.scenarios.explore.scope import Disturbance

    known = {one.value: one for one in Disturbance}
    for option, names in (("only", only), ("without", without)):
        for name in names or ():
            if name not in known:
                hint = did_you_mean(name, known)
                raise BadInput(f"explore: --{option} {name!r} is no kind of disturbance; {hint}")
    chosen = known if only is None else {name: known[name] for name in only}
    return tuple(one for name, one in chosen.items() if name not in (without or ()))


class _Written(NamedTuple):
    """The scenario of a path. ``how``: whether a run of it violates the same property."""

    file: Path
    steps: int
    is_confirmed: bool
    how: str


def _write_scenarios(explorer: Explorer, explored: Explored, out: Path) -> list[_Written]:
    """A file for each violated property; the folder is made if need be."""
    from rebalance_sim.scenarios.explore.scenario_of import scenario_of

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise BadInput(f"explore: --out {out}: {problem.strerror}") from problem
    written = []
    for path in explored.paths:
        concrete = scenario_of(explorer, path)
        file = out / f"{path.finding.property}.toml"
        write_text(file, concrete.text())
        how = "a run of it violates the same property"
        if not concrete.is_confirmed:
            how = f"near to the path, but a run of it ends {concrete.outcome}"
        written.append(_Written(file, len(path.actions), concrete.is_confirmed, how))
    return written


def _as_json(explored: Explored, written: Sequence[_Written]) -> dict[str, Any]:
    from rebalance_sim.scenarios.explore.verdict import describe_scope
    from rebalance_sim.scenarios.version import code_version

    progress = explored.progress
    return {
        "code": code_version(),
        "semantics": explored.scope.semantics,
        "scope": describe_scope(explored.scope),
        "is_complete": not explored.cut_off,
        "cut_off": explored.cut_off,
        "states": progress.states,
        "transitions": explored.transitions,
        "depth": progress.depth,
        "seconds": round(progress.seconds, 1),
        "memory_mb": progress.memory_mb,
        "calls": explored.calls,
        "violated": [
            {
                "property": path.finding.property,
                "suspects": path.finding.suspects,
                "detail": path.finding.detail,
                "steps": [str(action) for action in path.actions],
            }
            for path in explored.paths
        ],
        "scenarios": [{"file": str(one.file), "is_confirmed": one.is_confirmed} for one in written],
    }


@contextmanager
def _ctrl_c() -> Iterator[Callable[[], bool]]:
    """Whether there was a Ctrl-C; the second one does what it usually does."""
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        came.append(number)
        signal.signal(signal.SIGINT, before)

    if before is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress_line() -> Iterator[Callable[[Progress], None] | None]:
    """One line on a terminal that is written over; elsewhere nothing."""
    if not stderr().is_terminal:
        yield None
        return
    with stderr().status("exploring") as status:

        def show(progress: Progress) -> None:
            status.update(
                f"{progress.states:,} states, frontier {progress.frontier:,}, depth "
                f"{progress.depth}, {progress.rate:,.0f} states/s, {progress.memory_mb:,} MB"
            )

        yield show
