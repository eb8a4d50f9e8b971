"""What concerns client-side assignors in requests, responses and records, as frozen values.

Only the text of KIP-848 has them (coordinator §12); no broker was ever shipped with any of this. As
in ``messages.py``, what a coordinator must refuse can be expressed, as long as it fits the fields
of the wire.
"""

from __future__ import annotations

from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition
from rebalance_sim.protocol.wire.value import value

CLASSIC_METADATA_VERSION = -1
"""Version that marks the user data of a classic member (coordinator §12.4)."""


@value
class ClientAssignor:
    """One assignor that a member offers, with the member's metadata for it (coordinator §12.1).

    ``reason`` other than 0 asks for a new assignment; it says why the metadata was updated. Raises
    ValueError for a number that does not fit its field.
    """

    name: str
    minimum_version: int
    maximum_version: int
    reason: int = 0
    metadata_version: int = 0
    metadata_bytes: bytes = b""

    def __post_init__(self) -> None:
        _check_width(self, 8, "reason")
        _check_width(self, 16, "minimum_version", "maximum_version", "metadata_version")

    def reads(self, lowest_version: int, highest_version: int) -> bool:
        """Does the range of this assignor cover all metadata between these versions?"""
        return self.minimum_version <= lowest_version and highest_version <= self.maximum_version


@value
class AssignmentMetadata:
    """What an assignor hands a member beside its partitions (coordinator §12.7).

    ``error`` is the assignor's own, 0 for success, and the same for all members of one assignment.
    Raises ValueError for a number that does not fit its field.
    """

    error: int = 0
    metadata_version: int = 0
    metadata_bytes: bytes = b""

    def __post_init__(self) -> None:
        _check_width(self, 8, "error")
        _check_width(self, 16, "metadata_version")


@value
class ConsumerGroupPrepareAssignmentRequest:
    """The chosen member asks for what its assignor needs (coordinator §12.5)."""

    group_id: str
    member_id: str
    member_epoch: int


@value
class PreparedMember:
    """One member as an assignor sees it; ``topic_partitions`` is its *target*, and ``reason``,
    ``metadata_version`` and ``metadata_bytes`` are what it says to the chosen assignor."""

    member_id: str
    member_epoch: int
    subscribed_topic_ids: frozenset[str]
    topic_partitions: frozenset[TopicPartition]
    instance_id: str | None = None
    rack_id: str | None = None
    reason: int = 0
    metadata_version: int = 0
    metadata_bytes: bytes = b""


@value
class ConsumerGroupPrepareAssignmentResponse:
    """The group at ``group_epoch``: its members in ascending id, its subscribed topics by name."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_epoch: int = 0
    assignor_name: str = ""
    members: tuple[PreparedMember, ...] = ()
    topics: tuple[Topic, ...] = ()
    throttle_time_ms: int = 0


@value
class InstalledMember:
    """One member's share of a computed assignment, with metadata in that member's version.

    Raises ValueError for a version that does not fit its field (int32 here).
    """

    member_id: str
    partitions: frozenset[TopicPartition]
    metadata_version: int = 0
    metadata_bytes: bytes = b""

    def __post_init__(self) -> None:
        _check_width(self, 32, "metadata_version")


@value
class ConsumerGroupInstallAssignmentRequest:
    """The chosen member hands in what it computed from the group at ``group_epoch``
    (coordinator §12.6).

    Raises ValueError for an ``error`` that does not fit its field.
    """

    group_id: str
    member_id: str
    member_epoch: int
    group_epoch: int
    members: tuple[InstalledMember, ...]
    error: int = 0

    def __post_init__(self) -> None:
        _check_width(self, 8, "error")


@value
class ConsumerGroupInstallAssignmentResponse:
    """Answer to ConsumerGroupInstallAssignment."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    throttle_time_ms: int = 0


def _check_width(value: object, bits: int, *names: str) -> None:
    limit = 1 << (bits - 1)
    for name in names:
        number = getattr(value, name)
        if not -limit <= number < limit:
            raise ValueError(f"{name} must fit {bits} bits, got {number}")
