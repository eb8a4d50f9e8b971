"""What may happen, by name."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from rebalance_sim.scenarios.explore.scope import Disturbance


class Stimulus(Enum):
    """What may happen to a member, but for an answer."""

    START = "start"
    METADATA = "metadata"
    TICK = "tick"
    POLL = "poll"
    CALLBACK_DONE = "callback done"
    CALLBACK_FAILED = "callback failed"
    POLL_TIMEOUT = "poll timeout"
    POLL_AGAIN = "poll again"
    LOST = "lost"
    UNSUBSCRIBE = "unsubscribe"
    SUBSCRIBE = "subscribe"
    SUBSCRIBE_LESS = "subscribe less"
    CLOSE = "close"
    CRASH = "crash"


COSTS: Mapping[Stimulus, Disturbance] = MappingProxyType(
    {
        Stimulus.CALLBACK_FAILED: Disturbance.CALLBACK_FAILURE,
        Stimulus.POLL_TIMEOUT: Disturbance.POLL_TIMEOUT,
        Stimulus.LOST: Disturbance.CONNECTION_LOST,
        Stimulus.UNSUBSCRIBE: Disturbance.UNSUBSCRIBE,
        Stimulus.SUBSCRIBE_LESS: Disturbance.SUBSCRIPTION_CHANGE,
        Stimulus.CLOSE: Disturbance.CLOSE,
        Stimulus.CRASH: Disturbance.CRASH,
    }
)
"""What counts as a disturbance."""


class Doing(Enum):
    """What may happen to the whole. The value says it in words, of a member if it is about one."""

    START = "{} starts"
    METADATA = "{} learns of one more topic"
    TICK = "{} comes to its next deadline"
    POLL = "{} polls"
    CALLBACK_DONE = "{} returns from its callback"
    CALLBACK_FAILED = "{} fails in its callback"
    POLL_TIMEOUT = "{} has not polled for max.poll.interval.ms"
    POLL_AGAIN = "{} polls again"
    LOST = "{} loses its connection"
    LOST_LATE = "{} loses its connection, and its request is still on the way"
    EXPIRED = "{} gives up a request that no one answers, and its connection"
    UNSUBSCRIBE = "{} unsubscribes"
    SUBSCRIBE = "{} subscribes to all topics"
    SUBSCRIBE_LESS = "{} subscribes to the first topic only"
    CLOSE = "{} closes its consumer"
    CRASH = "{} crashes"
    ANSWERED = "{} is answered"
    FOUND = "{} finds its coordinator"
    HANDLED = "the coordinator handles a request of {}"
    HANDLED_LATE = "the coordinator handles a request of {} that came late"
    TIMER = "a timer of {} fires"
    WAIT = "the assignment interval is over"
    MOVE = "another broker becomes coordinator"
    GROWTH = "the last topic gets one more partition"

    @classmethod
    def of(cls, stimulus: Stimulus) -> Doing:
        """What a stimulus of a member is to the whole."""
        return cls[stimulus.name]


class Action(NamedTuple):
    """One thing that happened: what, to whom (a member, or no one), and of a timer its kind, and
    whether it is one of a process that has ended."""

    doing: Doing
    who: str = ""
    kind: str = ""
    is_former: bool = False

    def __str__(self) -> str:
        who = f"the former process of {self.who}" if self.is_former else self.who
        text = self.doing.value.format(who or "the group")
        return text.replace("a timer", f"the {self.kind} timer") if self.kind else text
