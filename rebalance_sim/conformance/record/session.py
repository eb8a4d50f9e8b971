"""One recording: a new group and new topics, steps and what the broker answered."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from rebalance_sim.conformance.record.classic import Classic
from rebalance_sim.conformance.record.errors import RecordError
from rebalance_sim.conformance.record.names import Names, error_name
from rebalance_sim.conformance.record.operations import Answer, Operations, Step
from rebalance_sim.conformance.record.topics import TopicChanges, Topics
from rebalance_sim.conformance.record.transactions import Transactions
from rebalance_sim.conformance.record.wire import Address, Connections

_SETTLE_S = 1.0
"""How long after a change of topics the coordinator has surely seen it."""
_POLL_S, _POLLS = 0.1, 600
_NOT_YET = ("not_coordinator", "coordinator_load_in_progress", "coordinator_not_available")

Restart = Callable[[bool], None]
"""Stops the broker and starts it again on the same data; True: without letting it end in order."""


class Session:
    """The group's life from its start, which is when the object is made.

    ``topics``: partitions at the start; ``every``: names of all topics that it ever has.
    Raises RecordError when the broker does not do what is needed for a recording at all.
    """

    def __init__(
        self,
        address: Address,
        *,
        name: str,
        topics: Mapping[str, int],
        every: set[str],
        changes: TopicChanges,
        restart: Restart | None = None,
    ) -> None:
        self.names = Names(f"{name}-{uuid.uuid4().hex[:6]}-")
        self._connections = Connections(address)
        self._changes = changes
        self._restart = restart
        self._topics = Topics(self._connections, self.names, {*topics, *every}, changes)
        self._topics.create(topics)
        self._initial = dict(topics)
        self._topic_ids = {name: str(self.names.ids[name]) for name in topics}
        operations = Operations(self._connections, self.names)
        self._classic = Classic(self._connections, self.names)
        self._answered: Mapping[str, Callable[[Step], Answer | None]] = {
            **operations.by_name,
            **self._classic.by_name,
            **Transactions(self._connections, self.names).by_name,
            "sleep": self._sleep,
            "create_topic": self._create_topic,
            "create_partitions": self._create_partitions,
            "delete_topic": self._delete_topic,
            "restart_broker": self._restart_broker,
        }
        self.deleted_wall_ms: int | None = None
        """When its topics were deleted: what the coordinator wrote then is not the script's."""
        self.steps: list[dict[str, Any]] = []
        self._seen_ms: dict[str, int] = {}
        self._end_ms: list[int] = []
        self._wait_for_coordinator()
        time.sleep(_SETTLE_S)
        self._start_s = time.monotonic()
        self.wall_ms = round(time.time() * 1000)

    # -- what a script or a generator does -------------------------------------------------

    def do(self, step: Step) -> Answer | None:
        """Carry out a step now, and note it with its answer."""
        noted = {"at_ms": self.now_ms(), **step}
        answer = self._answered[step["op"]](step)
        self._end_ms.append(self.now_ms())
        if answer is not None:
            noted["response"] = answer
        self.steps.append(noted)
        return answer

    def now_ms(self) -> int:
        """Milliseconds since the start."""
        return round((time.monotonic() - self._start_s) * 1000)

    def wait_until(self, at_ms: int) -> None:
        """Do nothing until then."""
        time.sleep(max(0.0, self._start_s + at_ms / 1000 - time.monotonic()))

    def has_answer(self, ticket: str, wait_s: float = 0.0) -> bool:
        """Whether the answer to the step with this ``async`` is there."""
        return self._classic.has_answer(ticket, wait_s)

    # -- the end ---------------------------------------------------------------------------

    def trace(self) -> dict[str, Any]:
        """What a trace has of this recording, beside its name and the broker's; without its log."""
        others = self._changes.of_others(self.names.prefix, self._start_s, time.monotonic())
        trace = {
            "topics": self._initial,
            "topic_ids": self._topic_ids,
            "generated": self._classic.generated,
            "seen_ms": self._seen_ms,
            "end_ms": self._end_ms,
            "steps": self.steps,
            "log": [],
        }
        if others:
            trace["others_topics_ms"] = [round((at - self._start_s) * 1000) for at in others]
        return trace

    def close(self) -> None:
        """Close the connections. Topics stay: timers of the group still look at them."""
        self._connections.close()

    def delete_topics(self) -> None:
        """Delete the topics, once nothing of the group is of interest any more."""
        self.deleted_wall_ms = round(time.time() * 1000)
        self._topics.delete_all()
        self._connections.close()

    # -- operations on the surroundings ----------------------------------------------------

    def _sleep(self, step: Step) -> None:
        time.sleep(step.get("ms", 0) / 1000)

    def _create_topic(self, step: Step) -> Answer:
        self._topics.create({step["topic"]: step["partitions"]})
        self._settle(step)
        return {"topic_id": str(self.names.ids[step["topic"]])}

    def _create_partitions(self, step: Step) -> None:
        self._topics.grow(step["topic"], step["count"])
        self._settle(step)

    def _delete_topic(self, step: Step) -> None:
        self._topics.delete(step["topic"])
        self._settle(step)

    def _settle(self, step: Step) -> None:
        self._seen_ms[str(len(self.steps))] = self.now_ms()
        time.sleep(step.get("settle_ms", _SETTLE_S * 1000) / 1000)

    def _restart_broker(self, step: Step) -> None:
        if self._restart is None:
            raise RecordError(
                "restart_broker: only a broker that this command has started can be restarted: "
                "leave out --bootstrap"
            )
        self._restart(step.get("hard", False))
        self._connections.close()
        self._wait_for_coordinator()
        self._topics.wait()

    def _wait_for_coordinator(self) -> None:
        """Ask for the group's coordinator until it answers; this also makes the offsets topic."""
        find = {"key_type": 0, "coordinator_keys": [self.names.group]}
        describe = {"group_ids": [self.names.group]}
        for _ in range(_POLLS):
            admin = self._connections.admin
            (found,) = admin.call("FindCoordinator", 4, find)["coordinators"]
            if error_name(found) == "none":
                (row,) = admin.call("ConsumerGroupDescribe", 1, describe)["groups"]
                if error_name(row) not in _NOT_YET:
                    return
            time.sleep(_POLL_S)
        raise RecordError("the broker has no coordinator for groups")
