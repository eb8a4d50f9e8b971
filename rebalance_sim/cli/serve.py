"""``rebalance-sim serve``: a gateway for real clients."""

from __future__ import annotations

import asyncio
import signal
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import quote

import typer

from rebalance_sim.cli.errors import BadInput, need_libraries
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.options import SemanticsName
from rebalance_sim.cli.output import check_folder, flush, say, stderr, write_text

if TYPE_CHECKING:
    from rebalance_sim.gateway.server import Found, Server
    from rebalance_sim.gateway.settings import GatewaySettings

_LONGEST_NAME = 200
"""Of a file; group ids may be longer."""


def serve(
    file: Annotated[
        Path | None, typer.Argument(help="Topics, settings and rules in TOML (docs/gateway.md).")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic, as in orders=4 for four partitions; may be repeated."),
    ] = None,
    records: Annotated[
        int, typer.Option(min=0, help="How many records each partition has at the start.")
    ] = 0,
    semantics: SemanticsName = None,
    defect: Annotated[
        list[str] | None, typer.Option(help="A defect to be switched on; may be repeated.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 is every one of the machine.")
    ] = "127.0.0.1",
    advertised_host: Annotated[
        str | None,
        typer.Option(help="Where clients are to connect, if that is not --host."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="End after this time, instead of with Ctrl-C.")
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Folder for a trace of each group, which conformance replays."),
    ] = None,
    stop_at_violation: Annotated[
        bool, typer.Option("--stop-at-violation", help="End with the first violation.")
    ] = False,
) -> int:
    """Serve Kafka clients on this machine by the simulated coordinator, with faults by rule."""
    need_libraries("serve", "kio", "h11", extra="gateway")
    settings = _settings(file, topic or [], semantics, defect or [])
    check_folder("serve", "--record", record)
    if host == "0.0.0.0" and advertised_host is None:
        raise BadInput("--host 0.0.0.0: give --advertised-host, the name that clients connect to")
    asked = _Asked(port, host, advertised_host or host, records, seconds, record, stop_at_violation)
    return asyncio.run(_serve(settings, asked))


class _Asked(NamedTuple):
    """What the command line wants beside the settings."""

    port: int
    host: str
    advertised_host: str
    records: int
    seconds: float | None
    record: Path | None
    stop_at_violation: bool


def _settings(
    file: Path | None, topics: list[str], semantics: str | None, defects: list[str]
) -> GatewaySettings:
    from rebalance_sim.gateway.settings import GatewaySettings, load_settings

    settings = GatewaySettings() if file is None else load_settings(file)
    counts = dict(settings.topics)
    for text in topics:
        name, _, count = text.partition("=")
        if not name or not count.isdecimal():
            raise BadInput(f"--topic {text!r}: write name=partitions, as in orders=4")
        counts[name] = int(count)
    return replace(
        settings,
        topics=counts,
        semantics=semantics or settings.semantics,
        defects=(*settings.defects, *defects),
    )


async def _serve(settings: GatewaySettings, asked: _Asked) -> int:
    from rebalance_sim.gateway.server import Server

    ended = asyncio.Event()
    # Before anything else: the first process of a container is not ended by a signal without this.
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, ended.set)

    def violated(found: Found) -> None:
        stderr().print(f"rebalance-sim: violated: {found}")
        if asked.stop_at_violation:
            ended.set()

    server = Server(settings, on_violation=violated, records_traces=asked.record is not None)
    if asked.record is not None and not server.recordings.is_of_release:
        raise BadInput(f"--record: {settings.semantics} is no release of Kafka: there is no trace")
    _fill(server, asked.records)
    try:
        await server.start(asked.port, host=asked.host, advertised_host=asked.advertised_host)
    except socket.gaierror as problem:
        raise BadInput(f"--host {asked.host}: {problem.strerror}") from problem
    except OSError as problem:
        reason = problem.strerror or problem
        raise BadInput(
            f"--port {asked.port} of {asked.host}: {reason}; give another, or 0 for any free one"
        ) from problem
    host, taken = server.address
    say(f"{host}:{taken}")
    flush()
    try:
        await asyncio.wait_for(ended.wait(), asked.seconds)
    except TimeoutError:
        pass
    finally:
        await server.stop()
    if asked.record is not None:
        _write_traces(server, asked.record)
    return FOUND if server.violations else OK


def _write_traces(server: Server, folder: Path) -> None:
    from rebalance_sim.conformance.record.recorder import encoded

    folder.mkdir(parents=True, exist_ok=True)
    for group_id in server.recordings.group_ids:
        path = folder / f"{quote(group_id, safe='')[:_LONGEST_NAME]}.json"
        write_text(path, encoded(server.recordings.trace(group_id)))


def _fill(server: Server, records: int) -> None:
    for topic, count in server.topics.counts.items():
        for partition in range(count if records else 0):
            rows = [f"{topic}-{partition}-{number}".encode() for number in range(records)]
            server.add_records(topic, rows, partition)
