"""A coordinator with classic members under a checker: one verb for each request, one step each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from coordinator_world import FIRST, GROUP, CoordinatorWorld, unchanged

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.events import Tick
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["CLASSIC_CONFIG", "ClassicWorld", "StubClient", "assignment", "refused", "subscription"]

CLASSIC_CONFIG = CoordinatorConfig(
    group_consumer_assignment_interval_ms=0,
    group_min_session_timeout_ms=1_000,
    group_initial_rebalance_delay_ms=0,
)


def subscription(
    topics: Iterable[str] = ("orders",),
    owned: Mapping[str, tuple[int, ...]] | None = None,
    generation: int = -1,
) -> Subscription:
    """Embedded metadata."""
    return Subscription(
        topics=tuple(topics),
        owned_partitions=tuple(NamedPartitions(t, ns) for t, ns in (owned or {}).items()),
        generation_id=generation,
    )


def assignment(*numbers: int) -> Assignment:
    """Partitions of ``orders``."""
    return Assignment(partitions=(NamedPartitions("orders", numbers),) if numbers else ())


class ClassicWorld(CoordinatorWorld):
    """Members go by names, and get their ids from the coordinator."""

    def __init__(self, semantics: Any = "kafka-4.3", **options: Any) -> None:
        self.ids: dict[str, str] = {}
        self.joins: dict[int, str] = {}
        self.stubs: dict[str, Any] = {}
        options.setdefault("config", CLASSIC_CONFIG)
        super().__init__(semantics, **options)

    def clients(self) -> Mapping[str, Any]:
        """Those that a test has put there."""
        return getattr(self, "stubs", {})

    def show_client(self, client: StubClient) -> None:
        """A client is as a test says."""
        self.stubs[client.name] = client
        self.show(StepKind.CLIENT_EVENT, client=client, event=Tick())

    @property
    def classic(self) -> ClassicGroup:
        """The coordinator's classic group."""
        return self.shard.coordinator.groups_of(ClassicGroup)[GROUP]

    def classic_or_none(self) -> ClassicGroup | None:
        """The same, where there may be none."""
        return self.shard.coordinator.groups_of(ClassicGroup).get(GROUP)

    def join_group(
        self,
        name: str,
        *,
        instance: str | None = None,
        member_id: str | None = None,
        protocols: Iterable[str] = ("range",),
        metadata: Subscription | None = None,
        change: Any = unchanged,
        **fields: Any,
    ) -> Any:
        """One JoinGroup; None if it is parked."""
        fields = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 20_000, **fields}
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=self.ids.get(name, "") if member_id is None else member_id,
            group_instance_id=instance,
            protocols=tuple(JoinGroupProtocol(p, metadata or subscription()) for p in protocols),
            **fields,
        )
        self.joins[self._operations + 1] = name
        response = self.request(request, change=change, client_id=name)
        self._bind(name, response)
        return response

    def enter(self, name: str, **fields: Any) -> Any:
        """Join as a client does: a dynamic newcomer fetches its id first."""
        response = self.join_group(name, **fields)
        if response is not None and response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            response = self.join_group(name, **fields)
        return response

    def _bind(self, name: str, response: Any) -> None:
        if response is not None and response.error_code in (
            ErrorCode.NONE,
            ErrorCode.MEMBER_ID_REQUIRED,
        ):
            self.ids[name] = response.member_id

    def complete(self, outcome: Outcome) -> None:
        """Parked members learn their ids, too."""
        for operation, response in outcome.completions:
            if operation in self.joins:
                self._bind(self.joins.pop(operation), response)

    def sync_group(
        self,
        name: str,
        give: Mapping[str, tuple[int, ...]] | None = None,
        *,
        change: Any = unchanged,
        **signed: Any,
    ) -> Any:
        """One SyncGroup, signed as a Heartbeat is; None if it is parked."""
        shares = {self.ids.get(n, n): assignment(*ps) for n, ps in (give or {}).items()}
        request = SyncGroupRequest(**self._signed(name, **signed), assignments=shares)
        return self.request(request, change=change)

    def beat(self, name: str, *, change: Any = unchanged, **signed: Any) -> ErrorCode:
        """One Heartbeat, at the present generation unless it is signed otherwise."""
        request = HeartbeatRequest(**self._signed(name, **signed))
        return ErrorCode(self.request(request, change=change).error_code)

    def _signed(
        self, name: str, *, generation: int | None = None, instance: str | None = None
    ) -> dict[str, Any]:
        at = self.generation if generation is None else generation
        who = {"member_id": self.ids.get(name, name), "group_instance_id": instance}
        return {"group_id": GROUP, "generation_id": at, **who}

    def leave_group(self, name: str, *, instance: str | None = None) -> ErrorCode:
        """One LeaveGroup."""
        identity = MemberIdentity(self.ids.get(name, name), instance)
        response = self.request(LeaveGroupRequest(group_id=GROUP, members=(identity,)))
        return ErrorCode(response.members[0].error_code if response.members else 0)

    def commit_offset(
        self,
        name: str,
        generation: int,
        *,
        partition: TopicPartition = FIRST,
        change: Any = unchanged,
    ) -> ErrorCode:
        """One OffsetCommit, for the first partition of ``orders`` unless set otherwise."""
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=self.ids.get(name, name),
            generation_id_or_member_epoch=generation,
            offsets={partition: 5},
        )
        return ErrorCode(self.request(request, change=change).errors[partition])

    @property
    def generation(self) -> int:
        """Generation of the classic group; 0 without one."""
        group = self.classic_or_none()
        return 0 if group is None else group.generation_id

    def stable(self, *names: str, **fields: Any) -> ClassicWorld:
        """These members, led by the first, in a stable group; partitions of ``orders`` go round."""
        for name in names:
            self.enter(name, **fields)
            for other in sorted(self.ids):
                member = self.classic.members.get(self.ids[other])
                if member is not None and member.awaiting_join is None and other != name:
                    self.join_group(other, **fields)
        give = {name: tuple(range(4))[n :: len(names)] for n, name in enumerate(names)}
        leader = next(n for n in names if self.ids[n] == self.classic.leader_id)
        for name in [*(n for n in names if n != leader), leader]:
            self.sync_group(name, give if name == leader else None)
        assert self.classic.state.value == "Stable"
        assert self.violated == []
        return self


_CONFIG = ClassicConsumerConfig(group_id=GROUP, assignors=(CLASSIC_ASSIGNORS["range"],))


class StubClient:
    """A client process that does nothing by itself: its machine is what a test says."""

    intake = None
    is_alive = True
    incarnation = 0
    metadata_max_age_ms = 1_000
    transaction_timeout_ms = 0
    processing_ms = 0
    misled_until_ms = -1
    clock_was_set = False

    def __init__(self, name: str, **fields: Any) -> None:
        fetchable = fields.get("fetchable", frozenset())
        never_read = dict.fromkeys(("target", "current", "commit_identity"))
        values: dict[str, Any] = {
            "kind": "classic", "ownership_version": 1, "assigned": {}, "fetchable": fetchable,
            "deliverable": fetchable, "is_polling": True, "skips_poll_events": False,
            "classic": None, "computing_state": None, "local_assignors": (),
            "state": ClientState.STABLE, "member_id": name, "running_callback": None,
            "coordinator_id": None, "leave_is_pending": False, "member_epoch": 1, "config": _CONFIG,
            "has_failed": False, "joins_without_topics": False, "subscribed_topic_regex": None,
            "signs_once": False,
        }  # fmt: skip
        self.name = name
        self.member: Any = SimpleNamespace(**{**never_read, **values, **fields})


def refused(error: ErrorCode) -> Any:
    """Turns an outcome's answer into an error."""
    return lambda outcome: replace(outcome, response=replace(outcome.response, error_code=error))
