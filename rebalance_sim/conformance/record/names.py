"""Real names of a recording, and the symbolic ones that its trace has instead.

Topics get a prefix of their own; member ids that the coordinator made get the name that a request
binds them to.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from rebalance_sim.conformance.codec import Message
from rebalance_sim.conformance.record.errors import RecordError

_MADE_BY_A_BROKER = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-|^[A-Za-z0-9_-]{22}$")


class Names:
    """Both directions. ``prefix`` is that of all topics of the recording, and of its group."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.group = f"{prefix}group"
        self.ids: dict[str, uuid.UUID] = {}
        """Topic -> the id it has now, or had last."""
        self.topics: dict[uuid.UUID, str] = {}
        """Every id a topic has had -> its symbolic name."""
        self.members: dict[str, str] = {}
        """Real member id -> its symbolic name, for those that requests bind."""
        self._real: dict[str, str] = {}
        self.producers: dict[int, str] = {}
        """Producer id -> its symbolic name."""

    # -- topics ----------------------------------------------------------------------------

    def topic(self, name: str) -> str:
        """A topic's real name."""
        return self.prefix + name

    def add_topic(self, name: str, topic_id: uuid.UUID) -> None:
        """The topic has this id from now on."""
        self.ids[name] = topic_id
        self.topics[topic_id] = name

    def topic_id(self, name: str) -> uuid.UUID:
        """The id it has now, or had last. Raises RecordError if it never existed."""
        if name not in self.ids:
            raise RecordError(f"topic {name!r} does not exist: give it in 'topics', or create it")
        return self.ids[name]

    def tidy(self, text: str) -> str:
        """A broker's text with the symbolic names of topics and group."""
        return text.replace(self.prefix, "")

    def tidy_all(self, text: str) -> str:
        """Likewise, and with the symbolic names of members."""
        for real, name in self.members.items():
            text = text.replace(real, name)
        return self.tidy(text)

    def by_id(self, rows: Iterable[Message]) -> dict[str, list[int]]:
        """Partitions under the symbolic names of their topics, both ascending."""
        named = {self.topics.get(row["topic_id"], "?"): sorted(row["partitions"]) for row in rows}
        return dict(sorted(named.items()))

    def by_name(self, parts: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
        """Likewise, for partitions under the real names of their topics."""
        named = {self.tidy(name): sorted(numbers) for name, numbers in parts}
        return dict(sorted(named.items()))

    def errors(self, answer: Message) -> dict[str, dict[str, str]]:
        """The error of each partition, of an answer with topics under their real names."""
        return {
            self.tidy(topic["name"]): {
                str(part["partition_index"]): error_name(part) for part in topic["partitions"]
            }
            for topic in answer["topics"]
        }

    # -- members ---------------------------------------------------------------------------

    def bind(self, name: str, real: str) -> None:
        """From now on ``name`` stands for this member id."""
        self._real[name] = real
        self.members[real] = name

    def real(self, name: str) -> str:
        """The member id that a symbolic name stands for."""
        return self._real.get(name, name)

    def symbolic(self, real: str) -> str:
        """The name of a member id; ``<generated>`` for one that has none yet."""
        if real in self.members:
            return self.members[real]
        return "<generated>" if _MADE_BY_A_BROKER.search(real) else real

    # -- producers -------------------------------------------------------------------------

    def producer(self, producer_id: int) -> str | None:
        """The name of a producer id, a new one where it has none; None for no producer."""
        if producer_id < 0:
            return None
        return self.producers.setdefault(producer_id, f"P{len(self.producers) + 1}")

    def producer_id(self, name: str, default: int) -> int:
        """The id that a symbolic name stands for."""
        return next((real for real, known in self.producers.items() if known == name), default)


def error_name(answer: Message) -> str:
    """The error of an answer, or of a part of one, as traces spell it."""
    return ErrorCode(answer["error_code"]).name


def hash_slot(topic_id: uuid.UUID, slots: int = 16) -> int:
    """Where a topic's id stands in a ``java.util.HashMap`` of so many slots (assignors §2)."""
    folded = (topic_id.int >> 64) ^ (topic_id.int & ((1 << 64) - 1))
    code = ((folded >> 32) ^ folded) & 0xFFFFFFFF
    return (code ^ (code >> 16)) & (slots - 1)


def id_rank(topic_id: uuid.UUID, count: int) -> int:
    """In which of ``count`` equal windows of Kafka's order of ids it is: as a signed number."""
    high = topic_id.int >> 64
    return (high ^ (1 << 63)) * count >> 64


def is_in_window(topic_id: uuid.UUID, rank: int, count: int) -> bool:
    """Whether the id is in the ``rank``-th of ``count`` windows, of ids and of hash slots.

    Real assignors break ties by the order of ids or of a hash map. With topics in windows of their
    own, both are the order of names, which a replay has too.
    """
    return id_rank(topic_id, count) == rank and hash_slot(topic_id) * count // 16 == rank
