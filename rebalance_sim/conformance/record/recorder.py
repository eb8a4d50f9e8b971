"""Recordings of a broker: one after the other, or several at once, each with a group of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rebalance_sim.conformance.record.errors import RecordError
from rebalance_sim.conformance.record.group_log import LogSpelling, read_batches
from rebalance_sim.conformance.record.script import Script
from rebalance_sim.conformance.record.session import Restart, Session
from rebalance_sim.conformance.record.topics import TopicChanges
from rebalance_sim.conformance.record.wide import WideScript
from rebalance_sim.conformance.record.wire import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The broker that is asked. ``version``: such as 4.4.0; ``configs``: its settings of groups."""

    address: Address
    version: str
    configs: Mapping[str, Any]
    restart: Restart | None = None


@dataclass(slots=True, kw_only=True)
class Recording:
    """What one recording has come to. The trace has no log before ``attach_logs``."""

    trace: dict[str, Any]
    session: Session

    @property
    def name(self) -> str:
        return str(self.trace["name"])


class BrokerGone(RecordError):
    """The broker does not answer; no other recording can be made of it."""


class Recorder:
    """Makes recordings of one broker; threads can share it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._changes = TopicChanges()

    def record(self, script: Script | WideScript, steps: int = 0) -> Recording:
        """Play a script to its end; a wide one until there are so many steps.

        Raises RecordError when the broker is gone, or refuses what every recording needs.
        """
        with self._session(script) as session:
            if isinstance(script, WideScript):
                script.play(session, steps)
            else:
                script.play(session)
        head = {
            "name": script.name,
            "broker": f"Apache Kafka {self._server.version}",
            "broker_configs": dict(self._server.configs),
            "about": script.about,
        }
        return Recording(trace={**head, **session.trace()}, session=session)

    @contextmanager
    def _session(self, script: Script | WideScript) -> Iterator[Session]:
        host, port = self._server.address
        try:
            session = Session(
                self._server.address,
                name=script.name,
                topics=script.topics,
                every=script.every_topic,
                changes=self._changes,
                restart=self._server.restart,
            )
            try:
                yield session
            finally:
                session.close()
        except OSError as problem:
            raise BrokerGone(
                f"{script.name}: no answer from the broker at {host}:{port} ({problem}): "
                "is it running?"
            ) from problem


def record_all(
    recorder: Recorder,
    scripts: Iterable[Script | WideScript],
    *,
    steps: int,
    jobs: int,
    done: Callable[[Recording], None],
    failed: Callable[[str], None],
) -> None:
    """Record scripts, ``jobs`` at a time, and tell of each that is done, and of each that could not
    be made. Returns when all are, or none can be any more; raises KeyboardInterrupt at Ctrl-C."""
    waiting = list(scripts)[::-1]
    lock = threading.Lock()

    def work() -> None:
        before: Recording | None = None
        while True:
            with lock:
                if not waiting:
                    return
                script = waiting.pop()
            try:
                recording = recorder.record(script, steps)
                with lock:
                    done(recording)
                # The group before has ended by now, so that nothing looks at its topics.
                if before is not None:
                    before.session.delete_topics()
                before = recording
            except RecordError as problem:
                with lock:
                    failed(str(problem))
                    if isinstance(problem, BrokerGone):
                        waiting.clear()

    if jobs == 1:
        work()  # here, since a broker that a step restarts ends with the thread that started it
        return
    escaped: list[Exception] = []

    def work_apart() -> None:
        # What escapes would end this thread alone, and the command as if all was well.
        try:
            work()
        except Exception as problem:
            escaped.append(problem)

    threads = [threading.Thread(target=work_apart, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if escaped:
        raise escaped[0]


def attach_logs(recordings: list[Recording], *, java: Path, jars: Path, data: Path) -> None:
    """Put into each trace what the coordinator wrote for its group. Raises RecordError."""
    groups = read_batches(java=java, jars=jars, data=data)
    for recording in recordings:
        session = recording.session
        spelling = LogSpelling(session.names, session.wall_ms)
        recording.trace["log"] = [
            spelling.batch(batch)
            for batch in groups.get(session.names.group, ())
            if session.deleted_wall_ms is None or batch.wall_ms < session.deleted_wall_ms
        ]


def encoded(trace: Mapping[str, Any]) -> str:
    """JSON with one step and one batch a line: easy to read, and to compare."""
    rows = []
    for key, value in trace.items():
        text = json.dumps(value)
        if key in ("steps", "log") and value:
            text = "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in value) + "\n ]"
        rows.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(rows) + "\n}\n"
