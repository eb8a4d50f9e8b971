"""What the coordinator wrote for a recorded group, taken from the broker's data folder."""

from __future__ import annotations

import base64
import binascii
import json
import re
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rebalance_sim.conformance.record.errors import RecordError
from rebalance_sim.conformance.record.names import Names

_TYPES = {
    "0": "OffsetCommit",
    "1": "OffsetCommit",
    "2": "GroupMetadata",
    "3": "ConsumerGroupMetadata",
    "4": "ConsumerGroupPartitionMetadata",
    "5": "ConsumerGroupMemberMetadata",
    "6": "ConsumerGroupTargetAssignmentMetadata",
    "7": "ConsumerGroupTargetAssignmentMember",
    "8": "ConsumerGroupCurrentMemberAssignment",
    "16": "ConsumerGroupRegularExpression",
}
_LEFT_OUT = ("clientHost", "version", "supportedProtocols")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_A_WALL_TIME = 10**12
"""Larger numbers in a field of time are milliseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records that were written together. ``wall_ms``: when, in milliseconds since 1970."""

    wall_ms: int
    records: tuple[tuple[Mapping[str, Any], Mapping[str, Any] | None], ...]


def read_batches(*, java: Path, jars: Path, data: Path) -> dict[str, list[Batch]]:
    """Group -> its batches, in order. Kafka's own tool reads the files.

    Raises RecordError if there are none, or it does not run.
    """
    files = sorted(map(str, data.glob("__consumer_offsets-*/*.log")))
    if not files:
        raise RecordError(f"{data} has no log of groups: give the broker's log.dirs with --data")
    tool = ("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--print-data-log")
    dump = subprocess.Popen(
        [java, "-cp", f"{jars}/*", *tool, "--files", ",".join(files)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert dump.stdout is not None
    groups: dict[str, list[Batch]] = {}
    for group, batch in _batches(dump.stdout):
        groups.setdefault(group, []).append(batch)
    if dump.wait():
        raise RecordError(f"Kafka's DumpLogSegments cannot read {data}: give its jars with --jars")
    return groups


def _batches(lines: Iterator[str]) -> Iterator[tuple[str, Batch]]:
    wall_ms, group = 0, ""
    records: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] = []
    for line in lines:
        if line.startswith("baseOffset:"):
            if records:
                yield group, Batch(wall_ms=wall_ms, records=tuple(records))
            created = re.search(r"CreateTime: (\d+)", line)
            wall_ms, records = int(created[1]) if created else 0, []
            continue
        found = re.search(r" key: (\{.*?) payload: (.*)$", line)
        if found is None:
            continue
        key = json.loads(found[1])
        value = json.loads(found[2]) if found[2].startswith("{") else None
        owner = key["data"].get("groupId") or key["data"].get("group")
        if owner is None:
            continue
        if records and owner != group:
            yield group, Batch(wall_ms=wall_ms, records=tuple(records))
            records = []
        group = owner
        records.append((key, value))
    if records:
        yield group, Batch(wall_ms=wall_ms, records=tuple(records))


class LogSpelling:
    """Records as a trace has them: symbolic names, and times since the start."""

    def __init__(self, names: Names, wall_ms: int) -> None:
        self._names = names
        self._wall_ms = wall_ms
        self._hashes = {0: 0}

    def batch(self, batch: Batch) -> dict[str, Any]:
        """A batch of the log."""
        records = []
        for key, value in batch.records:
            spelled_key = self._spelled(key["data"])
            spelled_key.pop("group_id", None)
            spelled_key.pop("group", None)
            spelled = None if value is None else self._spelled(value.get("data", value))
            kind = _TYPES.get(key["type"], key["type"])
            records.append({"type": kind, "key": spelled_key, "value": spelled})
        return {"at_ms": batch.wall_ms - self._wall_ms, "records": records}

    def _spelled(self, item: Any, field: str = "") -> Any:
        if isinstance(item, dict):
            return {
                _CAPITAL.sub("_", name).lower() if name[:1].islower() else name: self._spelled(
                    value, name
                )
                for name, value in item.items()
                if name not in _LEFT_OUT and (name != "classicMemberMetadata" or value)
            }
        if isinstance(item, list):
            return [self._spelled(value) for value in item]
        if isinstance(item, int):
            return self._number(item, field)
        if field == "topicId":
            return self._topic(item)
        if field in ("memberId", "leader") and isinstance(item, str):
            return self._names.symbolic(item)
        return self._names.tidy_all(item) if isinstance(item, str) else item

    def _number(self, value: int, field: str) -> int:
        if field in ("metadataHash", "hash"):
            return self._hashes.setdefault(value, len(self._hashes))
        if "imestamp" in field and value > _A_WALL_TIME:
            return value - self._wall_ms
        return value

    def _topic(self, text: str) -> str:
        """The symbolic name of a topic whose id stands here in Base64."""
        try:
            topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
        except (binascii.Error, ValueError):
            return text
        return self._names.topics.get(topic_id, text)
