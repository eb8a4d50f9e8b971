"""The threads of a broker that handle the events of its coordinator shards, where that takes time.

Source: coordinator §9.4 (``MultiThreadedEventProcessor``, ``EventAccumulator``). Each shard has a
queue; a thread that is free takes the first event of a random shard that none works for. What an
event does, it does when its time is over: records are appended, and answers go, at the end. It
knows of a high watermark that moved meanwhile, so that reads show what is committed by then.

The assignor runs when its event is handled; so the time of a target comes after that. No one sees
the difference: its answer waits for the high watermark, of which the shard hears when it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.records import ConsumerGroupTargetAssignmentMetadata
from rebalance_sim.protocol.wire.topics import MetadataImage
from rebalance_sim.sim.broker.environment import BrokerEnvironment
from rebalance_sim.sim.broker.event_processing_spec import KEYS, EventProcessingSpec
from rebalance_sim.sim.broker.ports import Meters


class _Broker(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def meters(self) -> Meters | None: ...
    def defers(self, function: Callable[..., None], *arguments: Any) -> bool: ...


class _Shard(Protocol):
    @property
    def is_active(self) -> bool: ...
    @property
    def is_stalled(self) -> bool: ...


class _Event(NamedTuple):
    """``us``: how long it takes, if the shard is active; others only refuse."""

    handle: Callable[..., None]
    arguments: tuple[Any, ...]
    us: int
    since_ms: int


class EventProcessor:
    """The threads of one broker."""

    def __init__(
        self, broker: _Broker, spec: EventProcessingSpec, environment: BrokerEnvironment
    ) -> None:
        self._broker = broker
        self._spec = spec
        self._clock = environment.clock
        streams = environment.streams
        self._shard_draw = streams.get(f"event-processor/{broker.node_id}")
        self._tie_break = streams.get(f"schedule/event-processor/{broker.node_id}").random
        self._us = {kind: getattr(spec, key) for kind, key in KEYS.items()}
        self._free = spec.group_coordinator_threads
        self._queues: list[EventQueue] = []
        self._ready: list[EventQueue] = []
        self._generation = 0
        self._rest_ns = 0

    def new_queue(self, shard: _Shard) -> EventQueue:
        """The queue of one of the shards."""
        queue = EventQueue(shard, self)
        self._queues.append(queue)
        return queue

    def us_of(self, request: Any) -> int:
        """How long a request takes."""
        us = self._us.get(type(request))
        return self._spec.other_us if us is None else us

    @property
    def timer_us(self) -> int:
        """How long a timer takes that is due."""
        return self._spec.other_us

    @property
    def assignor_ns(self) -> int:
        """How long a target takes, for each member and partition."""
        return self._spec.assignor_ns

    @property
    def now_ms(self) -> int:
        """The time."""
        return self._clock.now_ms

    @property
    def thread_count(self) -> int:
        """How many threads there are."""
        return self._spec.group_coordinator_threads

    @property
    def has_queue(self) -> bool:
        """Whether an event waits for a thread."""
        return any(map(len, self._queues))

    def reset(self) -> None:
        """The process ends, and what its threads do with it."""
        self._generation += 1
        self._free = self._spec.group_coordinator_threads
        self._ready.clear()

    def offer(self, queue: EventQueue) -> None:
        """A queue has an event for which a thread may begin to work."""
        self._ready.append(queue)
        self._dispatch()

    def _dispatch(self) -> None:
        ready = self._ready
        while self._free and ready:
            index = self._shard_draw.randrange(len(ready)) if len(ready) > 1 else 0
            queue = ready.pop(index)
            event = queue.take()
            if event is None:
                continue
            self._free -= 1
            us = event.us if queue.shard.is_active else 0
            span_ms = self._whole_ms(us * 1_000)
            if span_ms:
                self._call_in(span_ms, self._on_end, (self._generation, queue, event))
            else:
                self._handle(queue, event)

    def _on_end(self, ended: tuple[int, EventQueue, _Event | None]) -> None:
        if self._broker.defers(self._on_end, ended):
            return
        generation, queue, event = ended
        if generation == self._generation:
            if event is None:
                self._release(queue)
            else:
                self._handle(queue, event)
            self._dispatch()

    def _handle(self, queue: EventQueue, event: _Event) -> None:
        queue.learn_high_watermark()
        event.handle(*event.arguments)
        span_ms = self._whole_ms(queue.take_assignor_ns())
        if (meters := self._broker.meters) is not None:
            busy_ms = self._clock.now_ms - queue.began_ms + span_ms
            meters.on_event(queue.began_ms - event.since_ms, busy_ms)
        if span_ms:
            self._call_in(span_ms, self._on_end, (self._generation, queue, None))
        else:
            self._release(queue)

    def _release(self, queue: EventQueue) -> None:
        self._free += 1
        queue.is_in_flight = False
        if queue.is_due:
            self._ready.append(queue)

    def _call_in(self, span_ms: int, function: Callable[[Any], None], argument: Any) -> None:
        self._clock.call_at(self._clock.now_ms + span_ms, self._tie_break(), function, argument)

    def _whole_ms(self, ns: int) -> int:
        if not ns:
            return 0
        span_ms, self._rest_ns = divmod(self._rest_ns + ns, 1_000_000)
        return span_ms


class EventQueue:
    """The events of one shard. ``is_in_flight``: a thread works for it, since ``began_ms``."""

    def __init__(self, shard: _Shard, processor: EventProcessor) -> None:
        self.shard = shard
        self.is_in_flight = False
        self.began_ms = 0
        self._processor = processor
        self._events: deque[_Event] = deque()
        self._is_high_watermark_due = False
        self._assignor_ns = 0

    def __len__(self) -> int:
        return len(self._events)

    @property
    def is_due(self) -> bool:
        """Whether there is an event that may be handled."""
        return bool(self._events) and not self.shard.is_stalled

    def put(self, handle: Callable[..., None], arguments: tuple[Any, ...], us: int) -> None:
        """An event comes last."""
        self._events.append(_Event(handle, arguments, us, self._processor.now_ms))
        self._offer(is_new=len(self._events) == 1)

    def put_high_watermark(self, handle: Callable[[], None]) -> None:
        """The high watermark has moved: that comes first, and once."""
        if not self._is_high_watermark_due:
            self._is_high_watermark_due = True
            self._events.appendleft(_Event(handle, (), 0, self._processor.now_ms))
            self._offer(is_new=len(self._events) == 1)

    def learn_high_watermark(self) -> None:
        """If it has moved, the shard learns that now."""
        if self._is_high_watermark_due:
            self._is_high_watermark_due = False
            self._events.popleft().handle()

    def resume(self) -> None:
        """The shard stalls no more."""
        self._offer(is_new=bool(self._events))

    def _offer(self, *, is_new: bool) -> None:
        if is_new and not self.is_in_flight and not self.shard.is_stalled:
            self._processor.offer(self)

    def take(self) -> _Event | None:
        """The first event, for which a thread begins to work; None: none may be handled now."""
        if self.is_in_flight or not self.is_due:
            return None
        self.is_in_flight = True
        self.began_ms = self._processor.now_ms
        self._is_high_watermark_due = False  # That would be the first.
        return self._events.popleft()

    def clear(self) -> None:
        """The process ends."""
        self._events.clear()
        self.is_in_flight = self._is_high_watermark_due = False
        self._assignor_ns = 0

    def note_target(
        self, outcome: Outcome, coordinator: GroupCoordinator, image: MetadataImage
    ) -> None:
        """What is handled now has computed a target, if it wrote one."""
        if not self._processor.assignor_ns:
            return
        for record in outcome.records:
            if type(record) is ConsumerGroupTargetAssignmentMetadata and record.value is not None:
                group = coordinator.groups_of(ConsumerGroup).get(record.group_id)
                if group is not None:
                    size = len(group.members) * _partition_count(group, image)
                    self._assignor_ns += size * self._processor.assignor_ns

    def take_assignor_ns(self) -> int:
        """For how long the assignor kept the thread."""
        ns, self._assignor_ns = self._assignor_ns, 0
        return ns


def _partition_count(group: ConsumerGroup, image: MetadataImage) -> int:
    names = group.all_subscribed_names()
    return sum(topic.partition_count for topic in image.by_id.values() if topic.name in names)
