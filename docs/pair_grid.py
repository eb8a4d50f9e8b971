"""The whole grid of pairs: which there are, so that those a search has not visited can be named.

A pair that rules exclude is none: a group that is empty has no members, and a group of one protocol
has no members in states of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.consumer.consumer_group import GroupState
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.scenarios.hunt.pairs import (
    AWAITS_JOIN,
    AWAITS_SYNC,
    EVENTS,
    FAULT,
    NO_GROUP,
    NO_MEMBER,
    NO_SENDER,
    OPERATIONS,
    REQUEST,
    SETTING,
    SETTLED,
)
from rebalance_sim.sim.faults.fault import Fault

OF_MEMBERS = (
    "ConsumerGroupHeartbeat",
    "ConsumerGroupHeartbeat(join)",
    "ConsumerGroupHeartbeat(leave)",
    "ConsumerGroupHeartbeat(static leave)",
    "ConsumerGroupPrepareAssignment",
    "ConsumerGroupInstallAssignment",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
)
"""Requests that name a member."""

OF_GROUPS = (
    "OffsetDelete",
    "DeleteGroups",
    "AlterGroupConfig",
    "ConsumerGroupDescribe",
    "DescribeGroups",
    "ListGroups",
)
"""Requests that name a group, or none."""

_ANY = (NO_MEMBER,)
_CONSUMER = tuple(state.name for state in MemberState if state is not MemberState.UNKNOWN)

STATES: Mapping[str, tuple[str, ...]] = {
    NO_GROUP: _ANY,
    f"consumer {GroupState.EMPTY.value}": _ANY,
    f"consumer {GroupState.ASSIGNING.value}": (*_ANY, *_CONSUMER),
    f"consumer {GroupState.RECONCILING.value}": (*_ANY, *_CONSUMER),
    f"consumer {GroupState.STABLE.value}": (*_ANY, MemberState.STABLE.name),
    f"classic {ClassicGroupState.EMPTY.value}": _ANY,
    f"classic {ClassicGroupState.PREPARING_REBALANCE.value}": (*_ANY, AWAITS_JOIN, SETTLED),
    f"classic {ClassicGroupState.COMPLETING_REBALANCE.value}": (*_ANY, AWAITS_SYNC, SETTLED),
    f"classic {ClassicGroupState.STABLE.value}": (*_ANY, SETTLED),
}
"""State of a group -> the states that the sender of a request may be in. No one meets a group that
is Dead: it is gone in the same step."""


class Grid(NamedTuple):
    """Rows, columns, and how often each pair was visited; a pair that rules exclude is not in
    ``counts``."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: Mapping[tuple[str, str], int]

    @property
    def visited(self) -> int:
        """How many pairs were visited."""
        return sum(count > 0 for count in self.counts.values())

    def missing(self, row: str) -> list[str]:
        """The columns that a row was not visited in."""
        return [one for one in self.columns if self.counts.get((row, one)) == 0]


def request_grid(reached: Mapping[str, int]) -> Grid:
    """Requests by the states of group and member that they found."""
    pairs = {
        (kind, f"{group}.{member}"): 0
        for kind in (*OF_MEMBERS, *OF_GROUPS)
        for group, members in STATES.items()
        for member in (members if kind in OF_MEMBERS else (NO_SENDER,))
    }
    return _grid("request x state of group and member", pairs, _counted(REQUEST, reached))


def fault_grid(reached: Mapping[str, int]) -> Grid:
    """Faults by the operation that was under way."""
    pairs = {(kind, operation): 0 for kind in Fault.kinds() for operation in OPERATIONS}
    return _grid("fault x operation under way", pairs, _counted(FAULT, reached))


def setting_grid(settings: Mapping[str, int]) -> Grid:
    """Settings by the events under them; of all settings and events that any run had."""
    counted = dict(_counted(SETTING, settings))
    rows = sorted({row for row, _ in counted})
    columns = sorted({column for _, column in counted})
    pairs = {(row, column): 0 for row in rows for column in columns}
    return _grid("setting x event", pairs, counted.items())


def _grid(
    title: str,
    pairs: dict[tuple[str, str], int],
    counted: Iterable[tuple[tuple[str, str], int]],
) -> Grid:
    """Pairs that no rule foresees have a place of their own: nothing that was seen is left out."""
    pairs.update(counted)
    rows = tuple(dict.fromkeys(row for row, _ in pairs))
    columns = tuple(dict.fromkeys(column for _, column in pairs))
    return Grid(title, rows, columns, pairs)


def _counted(prefix: str, counts: Mapping[str, int]) -> Iterator[tuple[tuple[str, str], int]]:
    for name, count in sorted(counts.items()):
        if name.startswith(prefix):
            yield _split(prefix, name.removeprefix(prefix)), count


def _split(prefix: str, pair: str) -> tuple[str, str]:
    if prefix == SETTING:
        for event in EVENTS:
            row, found, rest = pair.partition(f".{event}")
            if found:
                return row, f"{event}{rest}"
    row, _, column = pair.partition(".")
    return row, column
