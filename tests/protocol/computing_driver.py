"""A member that offers client-side assignors, and short ways to let it compute."""

from __future__ import annotations

from typing import Any

from member_driver import INTERVAL_MS, Story, partitions

from rebalance_sim.protocol.assignors.client_side import (
    ComputedAssignment,
    range_assignor,
    sticky_assignor,
)
from rebalance_sim.protocol.clients.common.effects import (
    ComputeAssignment,
    Effect,
    SendInstallAssignment,
    SendPrepareAssignment,
)
from rebalance_sim.protocol.clients.common.events import (
    AssignmentComputed,
    AssignmentInstalled,
    AssignmentPrepared,
    HeartbeatAnswered,
)
from rebalance_sim.protocol.clients.java.consumer.java_consumer import ConsumerMember
from rebalance_sim.protocol.wire.assignment_messages import (
    AssignmentMetadata,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode

STICKY, RANGE = sticky_assignor(), range_assignor()
REPORTED = AssignmentMetadata(metadata_version=1, metadata_bytes=b"told")
RESULT = ComputedAssignment(
    members=(InstalledMember(member_id="m1", partitions=partitions(0)),), error=3
)


class ComputingStory(Story):
    """A member with two assignors, at epoch 1, which can be told to compute."""

    member: ConsumerMember

    def __init__(self, **settings: Any) -> None:
        super().__init__(group_local_assignors=(STICKY, RANGE), **settings)

    def receive(
        self,
        *,
        epoch: int = 1,
        asks_to_compute: bool = False,
        assigned: tuple[int, ...] = (0,),
        pending: tuple[int, ...] = (),
        metadata: AssignmentMetadata | None = None,
    ) -> list[Effect]:
        """The next heartbeat is sent and answered."""
        if not self.member.answered_by_handler_in_flight:
            self.wait(INTERVAL_MS)
        response = ConsumerGroupHeartbeatResponse(
            member_id="m1",
            member_epoch=epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=partitions(*assigned) if epoch else None,
            pending_topic_partitions=partitions(*pending),
            should_compute_assignment=asks_to_compute,
            assignment_metadata=metadata,
        )
        return self.handle(
            HeartbeatAnswered(correlation_id=self.heartbeats[-1].correlation_id, response=response)
        )

    def answer_prepare(self, code: ErrorCode = ErrorCode.NONE, *, group_epoch: int = 7) -> Any:
        response = ConsumerGroupPrepareAssignmentResponse(
            error_code=code, group_epoch=group_epoch, assignor_name="sticky"
        )
        number = self.of(SendPrepareAssignment)[-1].correlation_id
        return self.handle(AssignmentPrepared(correlation_id=number, response=response))

    def compute(self) -> Any:
        number = self.of(ComputeAssignment)[-1].computation_id
        return self.handle(AssignmentComputed(computation_id=number, result=RESULT))

    def answer_install(self, code: ErrorCode = ErrorCode.NONE) -> Any:
        response = ConsumerGroupInstallAssignmentResponse(error_code=code)
        number = self.of(SendInstallAssignment)[-1].correlation_id
        return self.handle(AssignmentInstalled(correlation_id=number, response=response))

    def of(self, kind: type) -> list[Any]:
        """All effects of a kind so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def step(self) -> str:
        state = self.member.computing_state
        assert state is not None  # it offers assignors
        return state.name


def member_at_rest(**settings: Any) -> ComputingStory:
    story = ComputingStory(**settings)
    story.stabilise(0, consumed=False)
    return story
