"""Groups whose members offer client-side assignors, and short ways to compute for them."""

from __future__ import annotations

from typing import Any

from coordinator_builders import GROUP_ID, Bench, assert_accepted, parts

from rebalance_sim.protocol.wire.assignment_messages import (
    ClientAssignor,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode

REBALANCE_TIMEOUT_MS = 30_000


def offer(name: str = "own", **fields: Any) -> ClientAssignor:
    """An assignor that reads versions 0 and 1, with metadata of version 0."""
    return ClientAssignor(**{"name": name, "minimum_version": 0, "maximum_version": 1, **fields})


class ComputingBench(Bench):
    """A bench for the text of the KIP. Heartbeats bring no time with them: ``wait`` does."""

    def __init__(self, semantics: Any = "kip-848", **settings: Any) -> None:
        super().__init__(semantics, **settings)

    def join_with(
        self, member_id: str, *offers: ClientAssignor, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """A member joins with these assignors; the coordinator looks at once what is to be done."""
        response = self.join(
            member_id,
            client_assignors=offers or (offer(),),
            **{"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, **fields},
        )
        self.wait(0)
        return response

    def prepare(
        self, member_id: str, *, epoch: int | None = None
    ) -> ConsumerGroupPrepareAssignmentResponse:
        """The member asks for the group, at its stored epoch unless one is given."""
        return self.ask(
            ConsumerGroupPrepareAssignmentRequest(
                group_id=GROUP_ID,
                member_id=member_id,
                member_epoch=self.epoch_of(member_id) if epoch is None else epoch,
            ),
            ConsumerGroupPrepareAssignmentResponse,
        )

    def install(
        self,
        member_id: str,
        group_epoch: int,
        shares: dict[str, str],
        *,
        epoch: int | None = None,
        **fields: Any,
    ) -> ConsumerGroupInstallAssignmentResponse:
        """The member hands in ``{"A": "foo[0-2]"}``, each with the member's name as metadata."""
        response = self.ask(
            ConsumerGroupInstallAssignmentRequest(
                group_id=GROUP_ID,
                member_id=member_id,
                member_epoch=self.epoch_of(member_id) if epoch is None else epoch,
                group_epoch=group_epoch,
                members=tuple(
                    InstalledMember(
                        member_id=receiver, partitions=parts(share), metadata_bytes=b"to " + name
                    )
                    for receiver, share in shares.items()
                    for name in [receiver.encode()]
                ),
                **fields,
            ),
            ConsumerGroupInstallAssignmentResponse,
        )
        wrote = self.records
        self.wait(0)
        self.records = wrote
        return response

    def epoch_of(self, member_id: str) -> int:
        """The stored epoch; that of a member which never was there is 0."""
        member = self.group.members.get(member_id)
        return 0 if member is None else member.member_epoch

    def asks_to_compute(self, member_id: str) -> bool:
        """A heartbeat of the member: is it told to compute?"""
        is_in = self.member(member_id).member_epoch > 0
        response = self.beat(member_id) if is_in else self.join_with(member_id)
        assert_accepted(response)
        return response.should_compute_assignment

    @property
    def chosen(self) -> str | None:
        """The member that is to compute."""
        return None if self.group.computation is None else self.group.computation.member_id


def computing(*others: str, **settings: Any) -> ComputingBench:
    """A, and others after it by name, have joined; A has been told, and has prepared."""
    bench = ComputingBench(**settings)
    for member_id in ("A", *others):
        bench.join_with(member_id)
    assert bench.asks_to_compute("A")
    assert bench.prepare("A").error_code is ErrorCode.NONE
    return bench


def assigned(**settings: Any) -> ComputingBench:
    """A has everything at epoch 1, by an assignment of its own."""
    bench = computing(**settings)
    assert_accepted(bench.install("A", 1, {"A": "foo[0-2]"}))
    bench.join_with("A")
    assert bench.view("A") == "1/0 STABLE foo-0 foo-1 foo-2"
    return bench
