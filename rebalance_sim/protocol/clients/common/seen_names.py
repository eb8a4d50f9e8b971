"""Names and ids of topics as clients of the classic protocol have them that forget no name.

The client itself knows topics by name alone; ids stand here for what a name means in the newest
metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rebalance_sim.protocol.wire.topics import TopicPartition

_NOTHING: Mapping[str, str] = {}


class SeenNames:
    """``KnownTopicNames`` out of every name that metadata have ever shown, which ``names`` keeps:
    id -> name. ``owned``: what the member has been given."""

    def __init__(
        self, names: dict[str, str], owned: Callable[[], frozenset[TopicPartition]]
    ) -> None:
        self._names = names
        self._owned = owned
        self._newest = _NOTHING

    def on_metadata(self, topic_names: Mapping[str, str]) -> None:
        """The client's metadata has been refreshed."""
        self._newest = topic_names
        self._names.update(topic_names)

    def ids_by_name(self) -> Mapping[str, str]:
        """Name -> id, as the newest metadata have it."""
        return {name: topic_id for topic_id, name in self._newest.items()}

    def ids_in_use(self) -> Mapping[str, str]:
        """Name -> id of owned topics, which the newest metadata need not have any more."""
        names = self._names
        ids = sorted({partition.topic_id for partition in self._owned()})
        return {names[topic_id]: topic_id for topic_id in ids if topic_id in names}

    def knows(self, topic_id: str) -> bool:
        """Whether somebody has said the name of this topic."""
        return topic_id in self._names

    def name_of(self, topic_id: str) -> str:
        """The name of a topic; what stands under its name already is that."""
        return self._names.get(topic_id, topic_id)

    def keep(self, partitions: frozenset[TopicPartition]) -> None:
        """No name is ever forgotten."""
