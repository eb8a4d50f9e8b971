"""A broker of one version: a single KRaft node on loopback, which ends with this process."""

from __future__ import annotations

import ctypes
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rebalance_sim.conformance.record.errors import RecordError

DEFAULTS: Mapping[str, Any] = {
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.heartbeat.interval.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.migration.policy": "bidirectional",
    "offsets.topic.num.partitions": 4,
}
"""Settings of groups as recordings have them: sessions that end soon, and no waiting for others."""

_NODE = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "auto.create.topics.enable": False,
    "log.cleaner.enable": False,
}
_LOGGING = """<Configuration status="WARN"><Appenders><Console name="c">
<PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="c"/></Root></Loggers></Configuration>
"""
_CLUSTER_ID = "cmViYWxhbmNlLXNpbS0wMQ"
"""16 bytes. One drawn at random begins with "-" once in 64, and is taken for an option."""
_PR_SET_PDEATHSIG = 1
_START_S, _STOP_S, _POLL_S = 180, 30, 0.2


class Broker:
    """The process and its folder, which is deleted with it. To be used in ``with``.

    ``configs``: settings beside or instead of those that a single node needs.
    """

    def __init__(self, *, java: Path, jars: Path, configs: Mapping[str, Any]) -> None:
        self._java = java
        self._jars = jars
        self._configs = configs
        self._folder = Path(tempfile.mkdtemp(prefix="rebalance-sim-broker-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ("127.0.0.1", 0)

    @property
    def data(self) -> Path:
        """The folder of its log."""
        return self._folder / "data"

    def __enter__(self) -> Broker:
        try:
            self._format()
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop(hard=True)  # its data go with it, so nothing has to be written
        shutil.rmtree(self._folder, ignore_errors=True)

    def restart(self, hard: bool) -> None:
        """Stop it and start it again on its data; ``hard``: it is killed."""
        self._stop(hard)
        self._start()

    def _format(self) -> None:
        port, controller_port = _free_ports()
        self.address = ("127.0.0.1", port)
        listener = f"PLAINTEXT://127.0.0.1:{port}"
        properties = {
            **_NODE,
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": listener,
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": self.data,
            **self._configs,
        }
        lines = [f"{name}={_spelled(value)}\n" for name, value in properties.items()]
        (self._folder / "server.properties").write_text("".join(lines))
        (self._folder / "log4j2.xml").write_text(_LOGGING)
        formatted = subprocess.run(
            self._command(
                "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", "server.properties"
            ),
            cwd=self._folder,
            capture_output=True,
            text=True,
        )
        if formatted.returncode:
            raise RecordError(f"the broker refuses its settings: {_complaint(formatted.stderr)}")

    def _start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", "server.properties"),
                cwd=self._folder,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for this process, which then stops the broker
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                text = self._output.read_text(errors="replace")
                raise RecordError(f"the broker does not start: {_complaint(text)}")
            try:
                socket.create_connection(self.address, timeout=1).close()
                return
            except OSError:
                time.sleep(_POLL_S)
        raise RecordError(f"the broker has not started within {_START_S} s: is the machine busy?")

    def _stop(self, hard: bool) -> None:
        if self._process is None:
            return
        if hard:
            self._process.kill()
        else:
            self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def _output(self) -> Path:
        return self._folder / "server.log"

    def _command(self, *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.xml'}"
        return [str(self._java), "-Xmx1g", "-cp", f"{self._jars}/*", logging, *arguments]


def _end_with_parent() -> None:
    """In the new process: be killed when the one that started it is, in whatever way."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _complaint(output: str) -> str:
    """The line of a Java program's output that says what is wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "ERROR" in line or "FATAL" in line]
    return (telling or lines or ["it said nothing"])[0][:300]
