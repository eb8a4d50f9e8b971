"""As what the topics of offset requests stand on the wire: by id or by name.

What kafka-clients 4.3.1 was seen to do, with a topic deleted, and one recreated under its name,
beneath a running consumer: positions belong to topic *names*. A request is of version 10, with ids,
if the client's newest metadata have an id for each name, and of version 9, with names, if not. So
what was reached in a topic that is gone can be committed for the one that has its name by now
(coordinator D13), unless a commit has the id of the topic that was consumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rebalance_sim.protocol.clients.common.commit_rules import CommitRules
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.java.topic_names import TopicNames
from rebalance_sim.protocol.wire.offset_messages import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    OffsetCommitRequest,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_VERSION_WITH_NAMES = FIRST_VERSION_WITH_TOPIC_IDS - 1


class Wire(NamedTuple):
    """Version of a request, and its ``wire_topics`` (``messages_offsets.py``)."""

    api_version: int
    topics: Mapping[str, str]


_AS_THEY_ARE = Wire(_VERSION_WITH_NAMES, {})
_BY_ID = Wire(FIRST_VERSION_WITH_TOPIC_IDS, {})


class WireTopics:
    """What one consumer writes, by its setting ``uses_topic_ids``."""

    def __init__(self, core: MemberCore, topic_names: TopicNames, *, rules: CommitRules) -> None:
        self._core = core
        self._rules = rules
        self._topic_names = topic_names

    def refresh(self) -> None:
        """A broker does not know a topic id: look again which topics there are."""
        self._topic_names.request()

    def commit_request(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        member_id: str,
        member_epoch: int,
        instance_id: str | None,
    ) -> OffsetCommitRequest:
        """A commit under this identity; a classic member has a generation for an epoch."""
        api_version, wire_topics = self._of_commit(offsets)
        return OffsetCommitRequest(
            group_id=self._core.config.group_id,
            member_id=member_id,
            generation_id_or_member_epoch=member_epoch,
            group_instance_id=instance_id,
            offsets=offsets,
            api_version=api_version,
            wire_topics=wire_topics,
        )

    def _of_commit(self, offsets: Mapping[TopicPartition, int]) -> Wire:
        if self._rules.names_topics_of_commits:
            return self.of(offsets)
        return _BY_ID if self._core.config.uses_topic_ids else _AS_THEY_ARE

    def of(self, partitions: Iterable[TopicPartition]) -> Wire:
        """How a request for these partitions is sent, if topics are identified by name."""
        uses_topic_ids = self._core.config.uses_topic_ids
        if uses_topic_ids is None:
            return _AS_THEY_ARE
        names = {
            topic_id: self._topic_names.name_of(topic_id)
            for topic_id in sorted({partition.topic_id for partition in partitions})
        }
        if uses_topic_ids:
            ids = self._topic_names.ids_by_name()
            if all(name in ids for name in names.values()):
                others = {old: ids[name] for old, name in names.items() if ids[name] != old}
                return Wire(FIRST_VERSION_WITH_TOPIC_IDS, others)
        return Wire(_VERSION_WITH_NAMES, names)
