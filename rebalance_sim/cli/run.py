"""``rebalance-sim run``: scenarios, and the first screen of a failure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.choice import choose
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.expectations import Expect, FailOn, expectation
from rebalance_sim.cli.output import check_outputs, print_json, say, write_text
from rebalance_sim.scenarios.failure_screen import describe, led_to, replay_command
from rebalance_sim.scenarios.profile_file import is_file
from rebalance_sim.scenarios.result import PASSING
from rebalance_sim.sim.observe.sampling import DEFAULT_INTERVAL_MS

if TYPE_CHECKING:
    from rebalance_sim.scenarios.result import RunResult
    from rebalance_sim.scenarios.scenario import Scenario
    from rebalance_sim.sim.observe.sampling import MetricSample

_SHOWS = {".html": "tells the run: verdict, figures, owners, series, and every step"}


def run(
    scenarios: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Scenario files, or traces, one or more; instead, give --profile and --seed."
        ),
    ] = None,
    profile: cli_options.OptionalProfile = None,
    seed: cli_options.OptionalSeed = None,
    semantics: cli_options.SemanticsName = None,
    repair: cli_options.Repairs = None,
    set_: cli_options.Settings = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write every step to this file, one JSON object a line.")
    ] = None,
    metrics: Annotated[
        Path | None, typer.Option(help="Write the run's series to this file, as CSV.")
    ] = None,
    metrics_interval_ms: Annotated[
        int, typer.Option(min=1, help="How often they are sampled, in simulated ms.")
    ] = DEFAULT_INTERVAL_MS,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw who owned what into this file: .svg, .png or .pdf; "
            "into .html, a page with all of the run, to step through."
        ),
    ] = None,
    expect: Expect = None,
    fail_on: FailOn = None,
    leap: Annotated[
        bool,
        typer.Option(
            "--leap/--no-leap",
            help="Leave out the time in which nothing but heartbeats, polls and commits comes, as "
            "a sweep does.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing of runs in which nothing is found.")
    ] = False,
) -> int:
    """Run one scenario, or several files of them, and check every property after every step.

    Of several, --json prints a list, and the exit code is 1 if something was found in any.
    """
    files = _Files(trace=trace, metrics=metrics, plot=plot, interval_ms=metrics_interval_ms)
    from rebalance_sim.scenarios.happened import what_happened

    paths: Sequence[Path | None] = scenarios or [None]
    if len(paths) > 1 and files.are_asked_for:
        raise BadInput("run: --trace, --metrics and --plot are of one run: give one scenario")
    every = [
        choose(
            "run",
            path,
            profile=profile,
            seed=seed,
            semantics=semantics,
            repairs=repair,
            settings=set_,
        )
        for path in paths
    ]
    expected = expectation(expect, fail_on)
    files.check([*paths, *(Path(name) for name in (profile,) if name and is_file(name))])
    found = False
    values: list[dict[str, Any]] = []
    for chosen in every:
        result = _run(chosen.scenario, chosen.words, files, leap=leap)
        objections = expected.objections(result.known, result.unproven, result.not_judged)
        objections += filter(None, (one.objection(result.metrics) for one in expected.limits))
        passed = result.outcome in PASSING and not objections
        found = found or not passed
        if json:
            values.append({**_as_json(result), "unexpected": objections})
        elif not (passed and quiet):
            story = led_to(chosen.scenario, result)
            where = f"{chosen.words}: " if len(every) > 1 else ""
            first, *rest = describe(
                result, replay_command=replay_command(chosen.words), story=story
            )
            happened = what_happened(result) if len(every) == 1 else []
            for line in (where + first, *happened, *rest, *objections):
                say(line)
            if plot is not None:
                say(f"  {plot} {_SHOWS.get(plot.suffix, 'shows who owned what')}")
    if json:
        print_json(values if len(every) > 1 else values[0])
    return FOUND if found else OK


def _as_json(result: RunResult) -> dict[str, Any]:
    values = {name: value for name, value in asdict(result).items() if name != "samples"}
    values["rebalances"] = [one._asdict() for one in result.rebalances]
    values["leaps"] = [{"at_ms": at_ms, "left_out_ms": ms} for at_ms, ms in result.leaps]
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """What a run leaves behind."""

    trace: Path | None
    metrics: Path | None
    plot: Path | None
    interval_ms: int

    @property
    def are_asked_for(self) -> bool:
        return any(file is not None for file in (self.trace, self.metrics, self.plot))

    def check(self, inputs: Iterable[Path | None]) -> None:
        """Find out before the run what cannot be written. Raises BadInput and ScenarioError."""
        outputs = {"--trace": self.trace, "--metrics": self.metrics, "--plot": self.plot}
        check_outputs(outputs, inputs)
        if self.plot is not None:
            from rebalance_sim.scenarios.pages.timeline import check_plot_file

            check_plot_file(self.plot)
        for file in (self.trace, self.metrics, self.plot):
            if file is not None:
                write_text(file, "")


def _run(scenario: Scenario, words: str, files: _Files, *, leap: bool) -> RunResult:
    from rebalance_sim.scenarios.counterfactual import Prove
    from rebalance_sim.scenarios.leaping import run_leaping
    from rebalance_sim.scenarios.runner import run as run_scenario
    from rebalance_sim.scenarios.traces.run_trace import trace_lines
    from rebalance_sim.sim.trace import FullTrace

    trace = None if files.trace is None else FullTrace()
    if leap and trace is None and files.metrics is None:
        result = run_leaping(scenario, prove=Prove.CAUSES)
    else:
        result = run_scenario(
            scenario,
            trace=trace,
            metrics_interval_ms=None if files.metrics is None else files.interval_ms,
            leaps=leap,
        )
    if files.trace is not None and trace is not None:
        write_text(files.trace, "".join(line + "\n" for line in trace_lines(trace, result)))
    if files.metrics is not None:
        write_text(files.metrics, _csv(result.samples))
    if files.plot is not None:
        _draw(scenario, files.plot, words)
    return result


def _draw(scenario: Scenario, file: Path, words: str) -> None:
    """A plot of who owned what, or the page of the run."""
    from rebalance_sim.scenarios.pages.run_page import run_page
    from rebalance_sim.scenarios.pages.timeline import PAGE, timeline_of

    if file.suffix == PAGE:
        run_page(scenario, command=replay_command(words)).save(file)
    else:
        timeline_of(scenario).save(file)


def _csv(samples: Iterable[MetricSample]) -> str:
    """A row for each reading; tags as ``name=value``, separated by semicolons."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("at_ms", "node_id", "metric", "tags", "value"))
    for at_ms, node_id, metric, tags, value in samples:
        writer.writerow((at_ms, node_id, metric, ";".join(map("=".join, tags)), value))
    return text.getvalue()
