"""Record batches, as far as a broker looks at them: offsets, counts, and batches of its own.

Batches of producers are kept and handed out as they are; only the first offset and the leader's
epoch are set, which the checksum does not cover.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import crc32c

from rebalance_sim.gateway.errors import WireError
from rebalance_sim.gateway.wire.codec import write_varint

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET_AND_SIZE = struct.Struct(">qi")
_MAGIC = 2
_UNCHECKED = 21
"""What stands before the part that the checksum covers."""


class Batch(NamedTuple):
    """A batch in a partition: the offsets from ``first`` on, below ``end``."""

    first: int
    end: int
    data: bytes


def batches_in(data: bytes, first: int, leader_epoch: int) -> Iterator[Batch]:
    """The batches that a producer sent, at their offsets. Raises WireError for other bytes."""
    at = 0
    while at < len(data):
        if len(data) - at < _HEADER.size:
            raise WireError("a record batch is cut off")
        _, size, _, magic, _, _, last_delta, *_ = _HEADER.unpack_from(data, at)
        end = at + _OFFSET_AND_SIZE.size + size
        if magic != _MAGIC or size < _HEADER.size - _OFFSET_AND_SIZE.size or end > len(data):
            raise WireError("a record batch is cut off, or older than version 2")
        if last_delta < 0:
            raise WireError("a record batch without records")
        placed = _OFFSET_AND_SIZE.pack(first, size) + struct.pack(">i", leader_epoch)
        yield Batch(first, first + last_delta + 1, placed + data[at + len(placed) : end])
        first += last_delta + 1
        at = end


def batch_of(values: Sequence[bytes], now_ms: int) -> bytes:
    """A batch of records without keys, as a producer would send it."""
    body = bytearray()
    for delta, value in enumerate(values):
        record = bytearray(b"\0\0")
        _zigzag(record, delta)
        _zigzag(record, -1)
        _zigzag(record, len(value))
        record += value + b"\0"
        _zigzag(body, len(record))
        body += record
    count = len(values)
    after = struct.pack(">hiqqqhii", 0, count - 1, now_ms, now_ms, -1, -1, -1, count) + body
    size = _UNCHECKED + len(after) - _OFFSET_AND_SIZE.size
    return struct.pack(">qiibI", 0, size, -1, _MAGIC, crc32c.crc32c(after)) + after


def _zigzag(out: bytearray, value: int) -> None:
    write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
