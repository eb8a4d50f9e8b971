"""One scenario under way: a gateway, processes of the client, and what is expected of them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rebalance_sim.gateway.broker import Gateway

GROUP, TOPIC = "certify", "orders"
PARTITIONS = 4
_POLL_S = 0.05
REPORT_TO = "REBALANCE_SIM_REPORT"
"""The variable that tells clients where to report."""
_SILENT = "callbacks, deliveries and positions: a client did not report them"
_STOP_S = 15.0
_RULES_S = 10.0
"""Many intervals of heartbeats, and some of commits."""


class DidNotHold(Exception):
    """What was expected and did not happen, in a line."""


class NotConcerned(Exception):
    """The client sends nothing that the rules of a scenario are about."""


@dataclass(frozen=True, slots=True)
class Command:
    """How a client is started. ``static``: the same with ``{instance_id}``, if it can be static."""

    plain: str
    static: str | None = None

    def words(self, *, bootstrap: str, instance_id: str | None) -> list[str]:
        """The command line of one process."""
        text = self.plain if instance_id is None else self.static or self.plain
        values = {"bootstrap": bootstrap, "group": GROUP, "topic": TOPIC}
        values["instance_id"] = instance_id or ""
        words = shlex.split(text)
        for name, value in values.items():
            words = [word.replace(f"{{{name}}}", value) for word in words]
        return words


class Trial:
    """Verbs of scenarios. ``clients`` are numbered in the order of their start."""

    def __init__(self, broker: Gateway, command: Command, *, deadline_s: float, out: Path) -> None:
        self.broker = broker
        self._command = command
        self._deadline_s = deadline_s
        self._out = out
        self._clients: list[subprocess.Popen[bytes]] = []
        self._is_to_run: list[bool] = []
        self._records = 0

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            if client.poll() is None:
                client.send_signal(signal.SIGCONT)
                client.kill()
                client.wait()

    # -- clients ---------------------------------------------------------------------------------

    @property
    def running(self) -> Sequence[int]:
        """The numbers of the clients that were started and neither stopped nor killed."""
        return [number for number, is_to_run in enumerate(self._is_to_run) if is_to_run]

    def start(self, count: int = 1, *, instance_id: str | None = None) -> None:
        """Start processes of the client."""
        for _ in range(count):
            words = self._command.words(bootstrap=self.broker.bootstrap, instance_id=instance_id)
            with self._output(len(self._clients)).open("wb") as output:
                self._clients.append(
                    subprocess.Popen(
                        words,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        env={**os.environ, REPORT_TO: self.broker.bootstrap},
                    )
                )
            self._is_to_run.append(True)

    def stop(self, number: int = 0) -> None:
        """Let a client end in good order (SIGTERM). Raises DidNotHold if it does not."""
        self._is_to_run[number] = False
        self._clients[number].terminate()
        try:
            self._clients[number].wait(_STOP_S)
        except subprocess.TimeoutExpired:
            raise DidNotHold(
                f"client {number + 1} has not ended {_STOP_S:g} s after SIGTERM"
            ) from None

    def kill(self, number: int = 0) -> None:
        """Kill a client."""
        self._is_to_run[number] = False
        self._clients[number].kill()
        self._clients[number].wait()

    def pause(self, number: int, seconds: float) -> None:
        """Let a client do nothing for a time (SIGSTOP)."""
        self._clients[number].send_signal(signal.SIGSTOP)
        self.sleep(seconds)
        self._clients[number].send_signal(signal.SIGCONT)

    def sleep(self, seconds: float) -> None:
        """Wait. Raises DidNotHold if a client ends meanwhile that was to run on."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._check_clients()
            time.sleep(_POLL_S)

    def meets_rules(self) -> None:
        """Wait until a rule was applied, and see that all is well then. Raises NotConcerned if that
        takes too long."""
        end = time.monotonic() + _RULES_S
        while not any(self.broker.rules.hits):
            self._check_clients()
            if time.monotonic() > end:
                raise NotConcerned
            time.sleep(_POLL_S)
        self.settles(len(self.running))

    def not_judged(self) -> tuple[str, ...]:
        """What of this scenario would not have been noticed."""
        silent = self.broker.reporter_count < len(self._clients)
        return (*([_SILENT] if silent else ()), *self.broker.not_judged(GROUP))

    # -- what is expected ------------------------------------------------------------------------

    def has_members(self, count: int, within_s: float | None = None) -> None:
        """The group comes to rest with so many members."""
        self._until(
            lambda: (len(self.broker.members(GROUP)), self.broker.state(GROUP)),
            lambda seen: seen == (count, "Stable"),
            f"the group is Stable with {count} members",
            within_s,
        )

    def settles(self, count: int) -> None:
        """The group comes to rest with so many members, which read what is added then; and so do
        its clients, if they report."""
        self.has_members(count)
        self.consumes()
        self._until(
            lambda: self.broker.unsettled(GROUP),
            lambda seen: not seen,
            "clients and group have come to rest, and read everything",
            None,
        )

    def is_empty(self, within_s: float) -> None:
        """The group has no members any more, soon: they have left, and not timed out."""
        self._until(
            lambda: len(self.broker.members(GROUP)),
            lambda seen: not seen,
            f"the group is empty {within_s:g} s after its last member has ended",
            within_s,
        )

    def consumes(self, records: int = 40) -> None:
        """Records are added, and all that there are come to be committed."""
        self.add_records(records)
        self.commits_everything()

    def add_records(self, count: int) -> None:
        """Add so many records, to all partitions in turn."""
        rows = [b"%d" % number for number in range(self._records, self._records + count)]
        self._records += count
        self.broker.add_records(TOPIC, rows)

    def commits_everything(self) -> None:
        """The committed offsets come to be the ends of all partitions that have records."""

        def open_partitions() -> Sequence[tuple[str, int]]:
            committed = self.broker.committed(GROUP)
            ends = self.broker.end_offsets(TOPIC)
            return [one for one, end in ends.items() if end and committed.get(one, 0) != end]

        self._until(
            open_partitions, lambda seen: not seen, "every record is read and committed", None
        )

    def _until(
        self,
        look: Callable[[], object],
        holds: Callable[[object], bool],
        what: str,
        within_s: float | None,
    ) -> None:
        end = time.monotonic() + (within_s or self._deadline_s)
        while not holds(seen := look()):
            self._check_clients()
            if time.monotonic() > end:
                raise DidNotHold(f"not within {within_s or self._deadline_s:g} s: {what}: {seen}")
            time.sleep(_POLL_S)

    def _check_clients(self) -> None:
        for found in self.broker.violations:
            raise DidNotHold(str(found).partition("\n")[0])
        for number, (client, is_to_run) in enumerate(
            zip(self._clients, self._is_to_run, strict=True)
        ):
            if is_to_run and client.poll() is not None:
                lines = self._output(number).read_text(errors="replace").strip().splitlines()
                last = f": {lines[-1][:200]}" if lines else ""
                raise DidNotHold(
                    f"client {number + 1} ended by itself with {client.returncode}{last}"
                )

    def _output(self, number: int) -> Path:
        return self._out / f"client-{number + 1}.log"
