"""Mutants of a data plane that exist in these tests only: what a client takes in is made up."""

from __future__ import annotations

from typing import Any

from client_world import ClientWorld
from falsified_classic import FALSIFIED
from falsified_coordinator import mutant

from rebalance_sim.protocol.clients.common.effects import SendCommit
from rebalance_sim.protocol.clients.common.events import (
    CommitAnswered,
    PositionsKnown,
    RecordsReturned,
    Tick,
)
from rebalance_sim.protocol.clients.common.values import FetchState, PartitionState
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetCommitResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["FALSIFIED"]


class MadeUpIntake:
    """The same offsets for every partition."""

    def __init__(self) -> None:
        self.fetched = 0
        self.processed = 0
        self.log_end = 0
        self.longest_batch_ms = 0

    def fetched_offset(self, partition: TopicPartition) -> int | None:
        return self.fetched

    def handed_out_offset(self, partition: TopicPartition) -> int | None:
        return self.processed

    def processed_offset(self, partition: TopicPartition) -> int | None:
        return self.processed

    def log_end_offset(self, partition: TopicPartition) -> int:
        return self.log_end


class RecordsWorld(ClientWorld):
    """Clients show what they take in."""

    has_data_plane = True
    commits_by_itself = True

    def __init__(self, *names: str) -> None:
        self.intakes: dict[str, MadeUpIntake] = {}
        super().__init__(*names, stop_at_first=False)
        assert self.violated == []

    def new_intake(self, name: str) -> Any:
        intake = self.intakes[name] = MadeUpIntake()
        return intake

    def partition_of(self, name: str) -> TopicPartition:
        return min(self.member(name).assigned)

    def acknowledge_commit(self, name: str, offset: int) -> None:
        """A commit of one partition is sent, and acknowledged."""
        partition = self.partition_of(name)
        member = self.member(name)
        request = OffsetCommitRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            generation_id_or_member_epoch=member.member_epoch,
            offsets={partition: offset},
        )
        self.falsify(name, Tick(), (SendCommit(correlation_id=901, request=request),))
        response = OffsetCommitResponse(errors={partition: ErrorCode.NONE})
        self.falsify(name, CommitAnswered(correlation_id=901, response=response))


def hand_out(world: RecordsWorld, name: str, position: int) -> None:
    world.handle(name, RecordsReturned(positions={world.partition_of(name): position}))


@mutant(lambda: RecordsWorld("a", "b"))
def hands_out_unfetched(world: RecordsWorld) -> None:
    world.intakes["a"].fetched = world.intakes["a"].log_end = 10
    hand_out(world, "a", 10)
    assert world.violated == []
    hand_out(world, "a", 11)


@mutant(lambda: RecordsWorld("a", "b"))
def forgets_commit(world: RecordsWorld) -> None:
    for intake in world.intakes.values():
        intake.fetched = intake.log_end = intake.processed = 50
    hand_out(world, "a", 50)
    world.acknowledge_commit("a", 50)
    partition = world.partition_of("a")
    start_at(world, partition, 50)
    assert world.violated == []
    start_at(world, partition, 49)


def start_at(world: RecordsWorld, partition: TopicPartition, position: int) -> None:
    """As if the other client had been given the partition."""
    assigned = world.member("b").assigned
    assert isinstance(assigned, dict)  # the machine's own
    assigned[partition] = PartitionState(fetch_state=FetchState.FETCHING, position=position)
    world.falsify("b", PositionsKnown(positions={partition: position}))
    del assigned[partition]
