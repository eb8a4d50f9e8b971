"""Run seeds in a forked child, so that no scenario can take the sweep down with it.

One child works through a whole batch and sends each result over a pipe. What the child cannot
report itself (it was killed, it left, it hangs in a C call) the parent sees from outside: it names
the seed in flight, forks again and continues at the next one (sweep §5).

Limits on wall time and memory depend on the machine. They give "no verdict", never a violation.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import os
import pickle
import re
import resource
import select
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.interrupts import held_back

PR_SET_PDEATHSIG = 1
STACK_DUMP_WAIT_S = 0.3
LEAVE_WAIT_S = 1.0
CHILD_BROKEN = 70
TIME_MOST_S = 100_000_000
MEMORY_MOST_MIB = 1_000_000_000
"""What timers and limits of the system can hold, by far."""
MACHINE_OUTCOMES = ("crash", "hang", "memory", "timeout")
"""What becomes of a run by the limits of this machine, and may not by those of another."""

_HEADER = struct.Struct("!Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one run on this machine: wall seconds, and MiB on top of the forked process.

    The soft limit interrupts Python code; the hard one kills what does not listen.
    """

    soft_s: float = 150.0
    hard_s: float = 300.0
    memory_mib: int = 1024

    def __post_init__(self) -> None:
        if not 0 < self.soft_s <= self.hard_s <= TIME_MOST_S:
            raise SweepError(
                f"time limits {self.soft_s:g} s and {self.hard_s:g} s: give a soft limit above 0 "
                f"and a hard one not below it, at most {TIME_MOST_S:_} s"
            )
        if not 1 <= self.memory_mib <= MEMORY_MOST_MIB:
            raise SweepError(
                f"memory limit {self.memory_mib} MiB: give at least 1, at most {MEMORY_MOST_MIB:_}"
            )

    def allows(self, other: Limits) -> bool:
        """Whether whatever ends within the other limits ends within these."""
        return (
            other.soft_s <= self.soft_s
            and other.hard_s <= self.hard_s
            and other.memory_mib <= self.memory_mib
        )


class Attempt(NamedTuple):
    """What became of one unit of work, mostly a seed. ``failure`` is empty exactly if ``result`` is
    what the body gave."""

    unit: Any
    result: Any
    failure: str  # "", or error, timeout, memory, crash, hang
    reason: str
    wall_ms: float


class _SoftLimit(BaseException):
    """Not an Exception, so that a body that catches those does not swallow it."""


def supervised(
    body: Callable[[Any], Any], units: Sequence[Any], limits: Limits
) -> Generator[Attempt, None, None]:
    """Call ``body(unit)`` for every unit, in order, in a child; exactly one Attempt per unit."""
    done = 0
    while done < len(units):
        child = _Child(body, units[done:], limits)
        try:
            alive = True
            while alive and done < len(units):
                attempt = child.next_attempt(units[done])
                # A child that met anything but a result may be in any state: use a new one.
                alive = not attempt.failure
                done += 1
                yield attempt
        finally:
            child.end()
            _load_too(child.loaded)


class _Child:
    """The parent's side of one forked child."""

    def __init__(self, body: Callable[[Any], Any], units: Sequence[Any], limits: Limits) -> None:
        self.loaded: list[str] = []
        """Modules that it has loaded and this process has not."""
        self._limits = limits
        self._buffer = bytearray()
        self._status: int | None = None
        self._stacks = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._read_fd, write_fd = os.pipe()
        parent_pid = os.getpid()
        with held_back():
            self._pid = os.fork()
            if self._pid == 0:
                os.close(self._read_fd)
                _child_main(body, units, limits, write_fd, self._stacks.fileno(), parent_pid)
        os.close(write_fd)
        self._poll = select.poll()
        self._poll.register(self._read_fd, select.POLLIN)

    def next_attempt(self, unit: Any) -> Attempt:
        """Wait for the result of ``unit``, at most the hard limit."""
        started_s = time.monotonic()
        try:
            message = self._receive(started_s + self._limits.hard_s)
            if message is not None:
                result, failure, reason, wall_ms, loaded = pickle.loads(message)
                self.loaded += loaded
                result = None if failure else pickle.loads(result)
                return Attempt(unit, result, failure, reason, wall_ms)
            failure, reason = "crash", self._cause_of_death()
        except TimeoutError:
            failure = "hang"
            reason = f"no result within {self._limits.hard_s:g} s{self._innermost_calls()}"
        return Attempt(unit, None, failure, reason, _ms_since(started_s))

    def end(self, *, patience_s: float = 0.0) -> int:
        """Wait so long for the child to leave, then kill it. Returns its wait status."""
        if self._status is not None:
            return self._status
        deadline_s = time.monotonic() + patience_s
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        while pid == 0 and time.monotonic() < deadline_s:
            time.sleep(0.002)
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0:
            os.kill(self._pid, signal.SIGKILL)
            status = os.waitpid(self._pid, 0)[1]
        self._status = status
        os.close(self._read_fd)
        self._stacks.close()
        return status

    def _receive(self, deadline_s: float) -> bytes | None:
        """The next whole message; None if the child closed the pipe. Raises TimeoutError."""
        while True:
            if len(self._buffer) >= _HEADER.size:
                end = _HEADER.size + _HEADER.unpack_from(self._buffer)[0]
                if len(self._buffer) >= end:
                    message = bytes(self._buffer[_HEADER.size : end])
                    del self._buffer[:end]
                    return message
            remaining_ms = (deadline_s - time.monotonic()) * 1000
            if remaining_ms <= 0 or not self._poll.poll(remaining_ms):
                raise TimeoutError
            chunk = os.read(self._read_fd, 1 << 16)
            if not chunk:
                return None
            self._buffer += chunk

    def _cause_of_death(self) -> str:
        code = os.waitstatus_to_exitcode(self.end(patience_s=LEAVE_WAIT_S))
        if code >= 0:
            return f"the process left with exit code {code}"
        return f"the process was killed by {signal.Signals(-code).name}"

    def _innermost_calls(self) -> str:
        """Where a silent child is, innermost call first; empty if it does not say."""
        os.kill(self._pid, signal.SIGUSR1)
        time.sleep(STACK_DUMP_WAIT_S)
        self._stacks.seek(0)
        frames = re.findall(
            r'File ".*?([^/"]+)", line (\d+) in (\S+)', self._stacks.read().decode(errors="replace")
        )
        own = Path(__file__).name
        calls = [f"; in {name} ({file}:{line})" for file, line, name in frames if file != own]
        return "".join(calls[:3])


def _load_too(modules: Iterable[str]) -> None:
    """Load what a child has loaded, so that the next ones are born with it: a run needs some two
    hundred modules, which takes as long as several runs."""
    for name in modules:
        # What cannot be loaded here is loaded by the next child, and it is that one's to complain.
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _child_main(
    body: Callable[[Any], Any],
    units: Sequence[Any],
    limits: Limits,
    write_fd: int,
    stacks_fd: int,
    parent_pid: int,
) -> NoReturn:
    """The whole life of a child. It leaves by ``os._exit``: nothing of the parent's runs twice."""
    status = CHILD_BROKEN
    try:
        keep_what_is_inherited()
        die_with_parent(parent_pid)
        faulthandler.register(signal.SIGUSR1, file=stacks_fd, all_threads=False)
        signal.signal(signal.SIGALRM, _on_alarm)
        # Ctrl-C is the driver's to handle; it ends the children.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _cap_memory(limits.memory_mib)
        known = set(sys.modules)
        for unit in units:
            result = _attempt(body, unit, limits)
            loaded = []
            if len(sys.modules) != len(known):
                loaded = [name for name in sys.modules if name not in known]
                known = set(sys.modules)
            _send(write_fd, (*result, loaded))
            if result[1]:
                break
        status = 0
    finally:
        os._exit(status)


def _attempt(
    body: Callable[[Any], Any], unit: Any, limits: Limits
) -> tuple[bytes | None, str, str, float]:
    """Result (pickled), failure, reason and wall milliseconds of one unit."""
    started_s = time.monotonic()
    result, failure, reason = None, "", ""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, limits.soft_s)
            result = pickle.dumps(body(unit), protocol=pickle.HIGHEST_PROTOCOL)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _SoftLimit:
        failure, reason = "timeout", f"interrupted after {limits.soft_s:g} s"
    except MemoryError:
        failure, reason = "memory", f"needed more than {limits.memory_mib} MiB on top"
    except BaseException as problem:
        failure, reason = "error", _describe(problem)
    return result, failure, reason, _ms_since(started_s)


def _ms_since(started_s: float) -> float:
    # To the microsecond: what is below is noise, and takes half the room of the column.
    return round((time.monotonic() - started_s) * 1000, 3)


def _describe(problem: BaseException) -> str:
    """The exception and the place that raised it, without paths of this machine."""
    text = "".join(traceback.format_exception_only(problem)).strip()
    frames = traceback.extract_tb(problem.__traceback__)
    if not frames:
        return text
    last = frames[-1]
    return f"{text}; in {last.name} ({Path(last.filename).name}:{last.lineno})"


def _send(write_fd: int, message: tuple[Any, ...]) -> None:
    data = pickle.dumps(message)
    view = memoryview(_HEADER.pack(len(data)) + data)
    while view:
        view = view[os.write(write_fd, view) :]


def _on_alarm(_signal_number: int, _frame: object) -> NoReturn:
    raise _SoftLimit


def die_with_parent(parent_pid: int) -> None:
    """In a child: ask the kernel to kill this process when its parent dies (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # it died before we asked
            os._exit(1)


def keep_what_is_inherited() -> None:
    """In a fork: never look for garbage in what there was before it. That would copy memory that is
    shared, and destroy objects that need threads to end, which a fork has not: the client of HDFS
    waits for its own for ever."""
    gc.freeze()


def _cap_memory(extra_mib: int) -> None:
    """Limit the address space to what the process has now and ``extra_mib`` more (Linux only)."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size = pages * resource.getpagesize() + extra_mib * (1 << 20)
        hard_limit = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard_limit != resource.RLIM_INFINITY:
            size = min(size, hard_limit)
        resource.setrlimit(resource.RLIMIT_AS, (size, hard_limit))
