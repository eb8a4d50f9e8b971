"""Record batches, as far as a broker looks at them: offsets, counts, and batches of its own.

Batches of producers are kept and handed out as they are; only the first offset and the leader's
epoch are set, which the checksum does not cover.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import crc32c

from rebalance_sim.conformance.codec import write_varint
from rebalance_sim.conformance.errors import WireError

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET_AND_SIZE = struct.Struct(">qi")
_MAGIC = 2
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_NO_PRODUCER = -1
_UNCHECKED = 21
"""What stands before the part that the checksum covers."""


class Batch(NamedTuple):
    """A batch in a partition: the offsets from ``first`` on, below ``end``. ``sequence``: the
    number that its producer gave its first record; -1: the producer is not idempotent."""

    first: int
    end: int
    data: bytes
    producer_id: int = _NO_PRODUCER
    producer_epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False


def batches_in(
    data: bytes, first: int, leader_epoch: int, *, has_markers: bool = False
) -> Iterator[Batch]:
    """The batches that a producer sent, at their offsets, or a coordinator, which sends markers.
    Raises WireError for other bytes."""
    at = 0
    while at < len(data):
        if len(data) - at < _HEADER.size:
            raise WireError("a record batch is cut off")
        header = _HEADER.unpack_from(data, at)
        _, size, _, magic, _, attributes, last_delta, _, _, producer_id, epoch, sequence, _ = header
        end = at + _OFFSET_AND_SIZE.size + size
        if magic != _MAGIC or size < _HEADER.size - _OFFSET_AND_SIZE.size or end > len(data):
            raise WireError("a record batch is cut off, or older than version 2")
        is_marker = bool(attributes & _CONTROL)
        if last_delta < 0 or is_marker is not has_markers:
            raise WireError("a record batch without records, or a marker")
        placed = _OFFSET_AND_SIZE.pack(first, size) + struct.pack(">i", leader_epoch)
        placed += data[at + len(placed) : end]
        is_transactional = bool(attributes & _TRANSACTIONAL) and not is_marker
        end_offset = first + last_delta + 1
        yield Batch(first, end_offset, placed, producer_id, epoch, sequence, is_transactional)
        first += last_delta + 1
        at = end


def batch_of(values: Sequence[bytes], now_ms: int) -> bytes:
    """A batch of records without keys, as a producer would send it."""
    return _batch([(None, value) for value in values], now_ms)


def marker_of(
    producer_id: int, producer_epoch: int, now_ms: int, *, committed: bool, coordinator_epoch: int
) -> bytes:
    """The batch that ends a transaction in a partition."""
    key = struct.pack(">hh", 0, committed)
    value = struct.pack(">hi", 0, coordinator_epoch)
    of_producer = _TRANSACTIONAL | _CONTROL, producer_id, producer_epoch
    return _batch([(key, value)], now_ms, *of_producer)


def _batch(
    rows: Sequence[tuple[bytes | None, bytes]],
    now_ms: int,
    attributes: int = 0,
    producer_id: int = _NO_PRODUCER,
    producer_epoch: int = -1,
) -> bytes:
    body = bytearray()
    for delta, (key, value) in enumerate(rows):
        record = bytearray(b"\0\0")
        _zigzag(record, delta)
        _zigzag(record, -1 if key is None else len(key))
        record += key or b""
        _zigzag(record, len(value))
        record += value + b"\0"
        _zigzag(body, len(record))
        body += record
    count = len(rows)
    of_producer = producer_id, producer_epoch, -1
    head = struct.pack(">hiqqqhii", attributes, count - 1, now_ms, now_ms, *of_producer, count)
    after = head + body
    size = _UNCHECKED + len(after) - _OFFSET_AND_SIZE.size
    return struct.pack(">qiibI", 0, size, -1, _MAGIC, crc32c.crc32c(after)) + after


def _zigzag(out: bytearray, value: int) -> None:
    write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
