"""What a host of a coordinator brings, and what it may listen to.

A shard (``protocol/hosting/shard.py``) has no clock, no log and no network. Time enters as
``now_ms``; to wait, it asks the host for a wake-up; what it writes goes to a journal; what it
answers goes to the ``Reply`` that came with the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.runtime.context import CompileRegex
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerCommand, TimerKey
from rebalance_sim.protocol.wire.consumer_messages import Request, Response
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import Record

Wake = object
"""A value of the shard's own, which the host gives back; see ``Alarms``."""

Reply = Callable[[Any], None]
"""Takes the response to one request, once. The next request of the same sender may follow, which
is then handled before this returns."""

RegexEngine = CompileRegex
"""What matches patterns as brokers do (RE2): pattern -> test of a whole topic name; raises
ValueError, with the reason in a broker's words, for a pattern that does not compile."""


class Journal(Protocol):
    """The log of one shard, while its broker leads the partition. Offsets count records from 0."""

    @property
    def is_leading(self) -> bool:
        """Whether the broker still leads, as far as it knows itself."""

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """Everything below this offset is committed. When it moves, the host calls
        ``Shard.on_high_watermark``, but not from within ``append``."""

    def append(self, records: Sequence[Record]) -> WriteError | None:
        """Write one batch, all of it or nothing; returns why nothing could be written.

        No one else may see the records before ``publish``: the operation that decided on them is
        not complete.
        """

    def publish(self) -> None:
        """What was appended may be replicated, and committed, from now on."""


class Alarms(Protocol):
    """Wake-ups. None is ever taken back: one that is no longer wanted does nothing."""

    def wake_at(self, at_ms: int, wake: Wake) -> None:
        """Call ``Shard.on_wake`` with ``wake`` at this time, or as soon as possible after it."""


class ShardListener:
    """Learns of everything that a shard does, after it is complete. Does nothing by itself.

    A listener must not call the shard back.
    """

    def handled(self, operation: int, request: Request, outcome: Outcome, now_ms: int) -> None:
        """A request was handled; ``operation`` numbers those of a shard, from 1."""

    def fired(self, key: TimerKey, outcome: Outcome, now_ms: int) -> None:
        """A timer fired."""

    def written(self, on_commit: object, outcome: Outcome, detail: str) -> None:
        """The coordinator learned what became of a write; ``detail``: why it failed, or empty."""

    def escaped(self, request: Request | None, event: object, problem: Exception) -> None:
        """An exception escaped from a handler: of a request, or of an event (a TimerKey, the value
        that hung on a commit, None). Hard state is as before."""

    def released(self, operation: int, request: Request, response: Response) -> None:
        """An answer is about to go; operation 0 if the coordinator did not make it."""

    def refused(self, code: ErrorCode) -> None:
        """The shard answers an error in the coordinator's place."""

    def deferred(self, offset: int, now_ms: int) -> None:
        """An operation waits until everything below ``offset`` is committed."""

    def durable(self, on_commit: object, now_ms: int) -> None:
        """A write is committed, and the coordinator is about to learn of it."""

    def committed(self, high_watermark: int, now_ms: int) -> None:
        """The high watermark has moved; what waited for it goes next."""

    def reverted(self, offset: int, now_ms: int) -> None:
        """A batch that began at ``offset`` could not be written; all that waited for it fails."""

    def truncated(self) -> None:
        """Records that were in force are lost, and memory is back where the journal ends."""

    def loaded(self, timers: tuple[TimerCommand, ...], now_ms: int) -> None:
        """The log is read, and the shard is active."""

    def unloaded(self, detail: str, now_ms: int) -> None:
        """The shard gave up, crashed, or could not load."""

    def dropped(self, now_ms: int) -> None:
        """The shard is closed: nothing that waited for a commit is completed by one."""

    def activity_changed(self) -> None:
        """The shard became active, or is so no longer; ``loaded`` or ``unloaded`` follows."""

    def image_taken(self, timers: tuple[TimerCommand, ...]) -> None:
        """An active shard took a new metadata image."""

    def configs_taken(self) -> None:
        """An active shard took altered settings."""


@dataclass(frozen=True, slots=True)
class Escape:
    """An exception that escaped from the coordinator, as the reason why an operation failed."""

    problem: Exception


Failure = WriteError | Escape


def describe_escape(problem: Exception) -> str:
    """The exception's type and text."""
    return f"{type(problem).__name__}: {problem}"
