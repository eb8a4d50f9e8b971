"""Topics of a recording: made so that their order decides nothing, and waited for."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence

from rebalance_sim.conformance.record.errors import RecordError
from rebalance_sim.conformance.record.names import Names, error_name, is_in_window
from rebalance_sim.conformance.record.wire import Connections

_ADMIN_TIMEOUT_MS = 10_000
_MOST_TOPICS = 12
"""More would need a larger hash map than that in which ``Topics`` puts their ids in order."""
_ATTEMPTS = 5_000
_POLL_S, _POLLS = 0.02, 1_500


class TopicChanges:
    """When recordings that share a broker created or deleted topics: a broker resolves the patterns
    of all groups again then. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: list[tuple[float, str]] = []

    def note(self, owner: str) -> None:
        """The recording with this prefix has just changed the set of topics."""
        with self._lock:
            self._changes.append((time.monotonic(), owner))

    def of_others(self, owner: str, start_s: float, end_s: float) -> list[float]:
        """Times (``time.monotonic``) within a span at which other recordings did."""
        with self._lock:
            return [at for at, by in self._changes if by != owner and start_s <= at <= end_s]


class Topics:
    """The topics of one recording. ``every`` names all that it ever has."""

    def __init__(
        self, connections: Connections, names: Names, every: Iterable[str], changes: TopicChanges
    ) -> None:
        self._ranks = {name: rank for rank, name in enumerate(sorted(every))}
        if len(self._ranks) > _MOST_TOPICS:
            raise RecordError(
                f"{len(self._ranks)} topics: a recording can have up to {_MOST_TOPICS}"
            )
        self._connections = connections
        self._names = names
        self._changes = changes
        self._counts: dict[str, int] = {}

    def create(self, partitions: Mapping[str, int]) -> None:
        """Create topics, again and again until each has an id in its window, and wait for them.

        They have all their partitions at once: a coordinator that sees a topic grow acts on it.
        """
        missing = dict(partitions)
        for _ in range(_ATTEMPTS):
            ids = self._try_to_create(missing)
            for name, topic_id in ids.items():
                if is_in_window(topic_id, self._ranks[name], len(self._ranks)):
                    self._names.add_topic(name, topic_id)
                    self._counts[name] = missing.pop(name)
            self._changes.note(self._names.prefix)
            if not missing:
                break
            self._drop(sorted(ids.keys() & missing.keys()))
        else:
            raise RecordError(f"no topic id in its window after {_ATTEMPTS} attempts: try again")
        self.wait()

    def grow(self, name: str, count: int) -> None:
        """Give a topic more partitions, and wait until the broker's metadata have them."""
        topic = {"name": self._names.topic(name), "count": count, "assignments": None}
        request = {"topics": [topic], "timeout": _ADMIN_TIMEOUT_MS}
        (result,) = self._connections.admin.call("CreatePartitions", 3, request)["results"]
        _check(f"create_partitions of {name}", error_name(result))
        self._counts[name] = count
        self.wait()

    def delete(self, name: str) -> None:
        """Delete a topic, and wait until the broker's metadata have it no more."""
        self._drop([name])
        self._changes.note(self._names.prefix)
        self._counts[name] = 0
        self.wait()

    def delete_all(self) -> None:
        """Delete what is left of them: the broker has less to look through."""
        self._drop([name for name, count in self._counts.items() if count])
        self._changes.note(self._names.prefix)

    def wait(self) -> None:
        """Wait until the broker's metadata show all topics as they are to be."""
        for name, count in self._counts.items():
            self._wait_for(name, count)

    def _wait_for(self, name: str, count: int) -> None:
        """Wait until the metadata have the topic with so many partitions; 0: not at all."""
        request = {
            "topics": [{"topic_id": None, "name": self._names.topic(name)}],
            "allow_auto_topic_creation": False,
        }
        for _ in range(_POLLS):
            (topic,) = self._connections.admin.call("Metadata", 12, request)["topics"]
            error = error_name(topic)
            if error == "unknown_topic_or_partition":
                seen = 0
            elif error == "none" and topic["topic_id"] == self._names.ids[name]:
                seen = len(topic["partitions"])
            else:
                seen = -1  # not known yet, or still the topic that had this name before
            if seen == count:
                return
            time.sleep(_POLL_S)
        raise RecordError(f"the broker's metadata do not show {name} with {count} partitions")

    def _try_to_create(self, partitions: Mapping[str, int]) -> dict[str, uuid.UUID]:
        request = {
            "topics": [
                {
                    "name": self._names.topic(name),
                    "num_partitions": count,
                    "replication_factor": 1,
                }
                for name, count in partitions.items()
            ],
            "timeout": _ADMIN_TIMEOUT_MS,
        }
        ids = {}
        for topic in self._connections.admin.call("CreateTopics", 7, request)["topics"]:
            name, error = self._names.tidy(topic["name"]), error_name(topic)
            if error == "invalid_replication_factor":
                time.sleep(_POLL_S)  # the node has just started, and counts as a broker soon
                continue
            _check(f"create_topic of {name}", error)
            if topic["topic_id"].int:
                ids[name] = topic["topic_id"]
        return ids

    def _drop(self, names: Sequence[str]) -> None:
        request = {
            "topics": [{"name": self._names.topic(name), "topic_id": None} for name in names],
            "timeout": _ADMIN_TIMEOUT_MS,
        }
        for answer in self._connections.admin.call("DeleteTopics", 6, request)["responses"]:
            name = self._names.tidy(answer["name"] or "")
            _check(f"delete_topic of {name}", error_name(answer))


def _check(what: str, error: str) -> None:
    if error != "none":
        raise RecordError(f"the broker refuses {what}: {error}")
