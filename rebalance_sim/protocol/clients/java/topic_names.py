"""Names of assigned topics: the client's metadata, and a cache of names in use.

Source: client §4.1, R1.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.clients.common.effects import RequestMetadata
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.wire.topics import TopicPartition

_NOTHING: Mapping[str, str] = {}


class TopicNames:
    """Resolves ids of subscribed topics; the cache survives the loss of metadata."""

    def __init__(self, core: MemberCore) -> None:
        self._core = core
        self._metadata = _NOTHING
        self._cache: dict[str, str] = {}
        self._unresolved: frozenset[TopicPartition] = frozenset()
        self._requested_at_ms: int | None = None
        self.is_missing = False  # whether the last resolution left something over

    def on_metadata(self, topic_names: Mapping[str, str]) -> None:
        """The client's metadata has been refreshed."""
        self._metadata = topic_names

    def name_of(self, topic_id: str) -> str:
        """The name of a topic that is, or was, assigned; the id itself if no one ever said."""
        return self._metadata.get(topic_id) or self._cache.get(topic_id, topic_id)

    def ids_by_name(self) -> Mapping[str, str]:
        """Name -> id, as the newest metadata have it."""
        return {name: topic_id for topic_id, name in self._metadata.items()}

    def knows(self, topic_id: str) -> bool:
        """Whether somebody has said the name of this topic."""
        return topic_id in self._metadata or topic_id in self._cache

    def ids_in_use(self) -> Mapping[str, str]:
        """Name -> id of assigned topics, which the newest metadata need not have any more."""
        return {name: topic_id for topic_id, name in self._cache.items()}

    def forget(self) -> None:
        """Nothing is assigned any more: the cache has no purpose."""
        self._cache.clear()
        self._unresolved = frozenset()
        self.is_missing = False

    def prune(self) -> None:
        """Keep the names of assigned topics only."""
        in_use = {partition.topic_id for partition in self._core.subscription.assigned}
        self._cache = {
            topic_id: self._cache[topic_id] for topic_id in self._cache if topic_id in in_use
        }

    def resolve(self, partitions: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """The part of ``partitions`` whose topics have a name."""
        known: dict[str, bool] = {}
        for topic_id, _ in partitions:
            if topic_id not in known:
                known[topic_id] = self._has_name(topic_id)
        self.is_missing = not all(known.values())
        if not self.is_missing:
            return partitions
        return frozenset(partition for partition in partitions if known[partition.topic_id])

    def keep(self, partitions: frozenset[TopicPartition]) -> None:
        """Remember the names of what is assigned from now on, and no other."""
        self.resolve(partitions)
        self.prune()

    def take_late(
        self, partitions: frozenset[TopicPartition], resolved: frozenset[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Which of ``resolved`` had no name at the last call; remembers what has none now."""
        late = self._unresolved & resolved
        self._unresolved = partitions - resolved
        return late

    def request_if_missing(self) -> None:
        """Ask for metadata if a name is missing, at most once per ``retry_backoff_ms``."""
        if self.is_missing:
            self.request()

    def request(self) -> None:
        """Ask for metadata, at most once per ``retry_backoff_ms``."""
        now_ms = self._core.now_ms
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms >= deadline_ms:
            self._requested_at_ms = now_ms
            self._core.effects.append(RequestMetadata())

    @property
    def deadline_ms(self) -> int | None:
        """When metadata may be asked for again; None if it has not been asked for."""
        if self._requested_at_ms is None:
            return None
        return self._requested_at_ms + self._core.config.retry_backoff_ms

    def _has_name(self, topic_id: str) -> bool:
        name = self._metadata.get(topic_id)
        if name is None:
            return topic_id in self._cache
        subscription = self._core.subscription
        # With a pattern that the broker matches, the client cannot know which names it asked for.
        if subscription.topic_regex is None and name not in subscription.topic_names:
            return topic_id in self._cache
        self._cache[topic_id] = name
        return True
