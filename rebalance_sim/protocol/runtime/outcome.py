"""What a coordinator hands back to its host: answers, records, timer commands.

The host owns log, clock and network. It must replay ``records`` into the coordinator before the
next call, and may release ``response`` only when they are committed
(coordinator §9.4).

A classic group answers differently (classic §2, §8.3). Its JoinGroup and SyncGroup can be *parked*:
the host passes a token with the request, and the answer comes under that token among the
``completions`` of this outcome or of a later one. Completions leave at once; what must wait for a
commit is announced by ``on_commit`` instead, which the host hands back to ``committed`` or
``write_failed`` of the coordinator; the outcome of that is handled like any other.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import StrEnum
from typing import Any, NamedTuple

from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance
from rebalance_sim.protocol.wire.consumer_messages import Response
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import Topic
from rebalance_sim.protocol.wire.transaction_messages import TxnMarker
from rebalance_sim.protocol.wire.value import value

Token = Hashable
"""The host's name for a request whose answer may come later; unique among those that wait."""


class TimerKind(StrEnum):
    """What a timer is for. Each group type has an enum of kinds of its own; the value is the name
    in traces."""

    @property
    def group_type(self) -> str:
        """The group type whose timers these are; empty for those of the whole shard."""
        return ""

    @property
    def is_retried(self) -> bool:
        """Is what the timer was to do tried again if its records cannot be written?"""
        return True

    @property
    def follows_soft_state(self) -> bool:
        """Does the timer go with a state that is no record, and stays when a write fails?"""
        return False

    @property
    def measures_silence(self) -> bool:
        """Does the timer count from when a member was heard of, whatever came of that?"""
        return False


class ShardTimer(TimerKind):
    """Timers that belong to no group."""

    EXPIRY = "expiry"
    """Expired offsets and empty groups are deleted (coordinator §8.5)."""
    TOPIC_DELETED = "topic-deleted"
    """The offsets of a topic go; name and id of the topic take the place of a member id."""


class TimerKey(NamedTuple):
    """Identity of a timer: scheduling an existing key replaces it (coordinator §4.1)."""

    kind: TimerKind
    group_id: str
    member_id: str = ""


def topic_deleted_key(topic: Topic) -> TimerKey:
    """The timer that has the offsets of this topic deleted."""
    return TimerKey(ShardTimer.TOPIC_DELETED, "", f"{topic.name} {topic.topic_id}")


def topic_deleted(key: TimerKey) -> tuple[str, str]:
    """Name and id of the topic that such a timer is about."""
    name, topic_id = key.member_id.split(" ")
    return name, topic_id


class ScheduleTimer(NamedTuple):
    """Arm, or re-arm, the timer to fire at ``at_ms``. ``epoch`` is handed back when it fires."""

    key: TimerKey
    at_ms: int
    epoch: int = 0


class CancelTimer(NamedTuple):
    """Disarm the timer; a no-op if it is not armed."""

    key: TimerKey


TimerCommand = ScheduleTimer | CancelTimer


class Completion(NamedTuple):
    """The answer to a JoinGroup or SyncGroup that came with this token. It leaves at once."""

    token: Token
    response: Response


@value(kw_only=False)
class Outcome:
    """Result of one operation.

    ``response`` answers the request when the records are committed. It is None for operations
    no one waits for (timers), and for requests that are answered by a completion.
    ``on_commit`` is None if the commit has no further effect. ``rebalances`` says what began
    with this operation, and why; ``timed_out`` how many members it removed because they let a
    time pass; ``acted`` which registered rules decided otherwise than what they replace. They are
    for counting, and ``acted`` for what the rule says it replaces. ``markers``: what a timer of
    transactions has sent to the coordinators of groups; their answers come as requests.
    """

    response: Response | None = None
    records: tuple[Record, ...] = ()
    timers: tuple[TimerCommand, ...] = ()
    completions: tuple[Completion, ...] = ()
    on_commit: Continuation | None = None
    rebalances: tuple[Rebalance, ...] = ()
    timed_out: int = 0
    acted: tuple[str, ...] = ()
    markers: tuple[TxnMarker, ...] = ()


class Continuation:
    """What happens when an outcome's records are committed."""

    __slots__ = ()

    def committed(self, context: CoordinatorContext[Any], *, now_ms: int) -> Outcome:
        """They are committed."""
        return Outcome()

    def write_failed(
        self, context: CoordinatorContext[Any], error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """They are not, as far as the host knows, and gone if ``is_undone``; ``error`` is what
        waiting clients are answered."""
        return Outcome()
