"""What a machine decided, and what its reference decides in the same place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_sim.invariants.formatting import NameOf, fields_of, listed, plain
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two machines were fed the same, and decided differently.

    ``step_index`` and ``at_ms``: the step in which it showed. ``machine`` is "coordinator", or the
    kind of a client; ``name`` the coordinator by its term, or the client. ``about``: the member or
    group that the input names. ``given`` is the input in a word or two, ``what`` the part of the
    decision that differs, ``decided`` what it is in this run, ``reference`` what the reference has
    there.
    """

    step_index: int
    at_ms: int
    machine: str
    name: str
    about: str
    given: str
    what: str
    decided: str
    reference: str

    @property
    def decision(self) -> tuple[str, str, str]:
        """What is the same for differences that are alike: machine, input, part of the decision."""
        return self.machine, self.given, self.what

    @property
    def subject(self) -> str:
        """Who decided, about whom."""
        return f"{self.name}, about {self.about}" if self.about else self.name

    def __str__(self) -> str:
        return (
            f"at step {self.step_index} ({self.at_ms} ms) {self.subject}, given {self.given}: "
            f"{self.what} is {self.decided}, the reference has {self.reference}"
        )


def name_of_partitions(image: MetadataImage) -> NameOf:
    """Partitions by the names that the topics have in an image."""
    names = {topic.topic_id: name for name, topic in image.by_name.items()}

    def name_of(partition: TopicPartition) -> str:
        return f"{names.get(partition.topic_id, partition.topic_id)}-{partition.partition}"

    return name_of


def given(value: Any) -> str:
    """An input in a word or two: ``ConsumerGroupHeartbeat``, ``timer session``, ``Poll``."""
    if isinstance(value, TimerKey):
        return f"timer {value.kind.value}"
    return type(value).__name__.removesuffix("Request").lstrip("_")


def about(value: Any) -> str:
    """The member, or else the group, that an input names; empty if it names none."""
    for name in ("member_id", "group_instance_id", "group_id"):
        found = getattr(value, name, None)
        if found:
            return str(found)
    return ""


def parts(what: str, decided: Any, reference: Any, name_of: NameOf) -> tuple[str, str, str]:
    """The first part in which two decisions differ, by the names of its fields, and what either has
    there. Which partition or member of several it is stands in the values, not in the name."""
    if isinstance(decided, Exception) or isinstance(reference, Exception):
        return what, _outcome(decided), _outcome(reference)
    mine, theirs = fields_of(decided), fields_of(reference)
    if mine is not None and theirs is not None and mine.keys() == theirs.keys():
        odd = next((name for name in mine if mine[name] != theirs[name]), None)
        if odd is not None:
            return parts(f"{what}.{odd}", mine[odd], theirs[odd], name_of)
    if mine is None and isinstance(decided, tuple | list) and isinstance(reference, tuple | list):
        return _of_sequences(what, decided, reference, name_of)
    if isinstance(decided, Mapping) and isinstance(reference, Mapping):
        keys = sorted(
            key for key in {*decided, *reference} if decided.get(key) != reference.get(key)
        )
        shown = [
            plain({key: values[key] for key in keys if key in values}, name_of)
            for values in (decided, reference)
        ]
        return what, shown[0], shown[1]
    return what, plain(decided, name_of), plain(reference, name_of)


def _of_sequences(what: str, decided: Any, reference: Any, name_of: NameOf) -> tuple[str, str, str]:
    """Of values of named kinds the kinds come first: which records there are, then what is in
    them."""
    if [type(one).__name__ for one in decided] != [type(one).__name__ for one in reference]:
        return what, _kinds(decided), _kinds(reference)
    for mine, theirs in zip(decided, reference, strict=True):
        if mine != theirs and fields_of(mine) is not None:
            return parts(type(mine).__name__, mine, theirs, name_of)
    return what, plain(decided, name_of), plain(reference, name_of)


def _kinds(values: Any) -> str:
    counts = Counter(type(value).__name__ for value in values)
    return listed(name if count == 1 else f"{count} {name}" for name, count in counts.items())


def _outcome(value: Any) -> str:
    return f"{type(value).__name__} ({value})" if isinstance(value, Exception) else "no exception"
