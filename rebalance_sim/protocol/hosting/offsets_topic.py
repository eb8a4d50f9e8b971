"""Which partition of ``__consumer_offsets`` holds a group.

Source: coordinator §9.4 (one state machine for each partition that a broker leads); the rule was
read off the logs of a broker (Apache Kafka 4.3.1).
"""

from __future__ import annotations


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition that holds a group: Java's hash of its id, made positive, modulo the count.

    Kafka takes the absolute value (0 for the least integer, which has none); it does not mask the
    sign away, which would give other partitions. Raises ValueError for a topic without partitions.
    """
    if partition_count < 1:
        raise ValueError(f"partition_count must be >= 1, got {partition_count}")
    return _positive(_java_hash(group_id)) % partition_count


class GroupPartitions(dict[str, int]):
    """The same for a topic of so many partitions, by group id; what was computed is kept."""

    def __init__(self, partition_count: int) -> None:
        super().__init__()
        self._count = partition_count

    def __missing__(self, group_id: str) -> int:
        partition = self[group_id] = partition_for(group_id, self._count)
        return partition


def _java_hash(text: str) -> int:
    """``String.hashCode`` of Java, over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _positive(number: int) -> int:
    """Kafka's absolute value of a 32-bit integer."""
    return 0 if number == -(1 << 31) else abs(number)
