"""Mutants of the Streams assignor, each one replaced rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import (
    AssignmentSpec,
    ComputedAssignment,
)
from rebalance_sim.protocol.assignors.client_side.streams import StreamsAssignor
from rebalance_sim.protocol.assignors.client_side.streams_placement import Placement
from rebalance_sim.protocol.wire.assignment_messages import PreparedMember
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["STREAMS_DEFECTS"]


class _ColdPlacement(Placement):
    def runner_of(self, task: TopicPartition, wanted: str, holder: str | None) -> str:
        return wanted


class _CarelessPlacement(Placement):
    def standby_candidates(self, task: TopicPartition, placed: Iterable[str]) -> list[str]:
        taken = {*placed}
        return [m for m in super().standby_candidates(task, ()) if m not in taken]


class MovesCold(StreamsAssignor):
    """mut-streams-moves-cold: balance comes before state."""

    placement = _ColdPlacement


class StandbyBesideActive(StreamsAssignor):
    """mut-streams-standby-beside-active: another member of the same process counts as apart."""

    placement = _CarelessPlacement


class WritesOwnVersion(StreamsAssignor):
    """mut-streams-own-version: everybody is written to in the version of whoever computes."""

    def version_for(self, member: PreparedMember) -> int:
        return self.metadata_version


class AssignsTwice(StreamsAssignor):
    """mut-streams-double-active: the first task is given to everybody."""

    def assign(self, spec: AssignmentSpec) -> ComputedAssignment:
        result = super().assign(spec)
        first = min((p for row in result.members for p in row.partitions), default=None)
        if first is None:
            return result
        rows = (replace(row, partitions=row.partitions | {first}) for row in result.members)
        return replace(result, members=tuple(rows))


STREAMS_DEFECTS: Mapping[str, type[StreamsAssignor]] = {
    "mut-streams-double-active": AssignsTwice,
    "mut-streams-moves-cold": MovesCold,
    "mut-streams-own-version": WritesOwnVersion,
    "mut-streams-standby-beside-active": StandbyBesideActive,
}
"""Id of the defect -> the assignor with the defect."""
