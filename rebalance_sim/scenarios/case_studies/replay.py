"""Replay of a case study against the coordinator of semantics ``kip-848``.

The driver plays the members: it sends what the chapter's member would send, and fires what the
coordinator has armed. After each step the coordinator's state is projected to the chapter's words:

- ``partitions`` of a member are what it holds, those still to be revoked included;
- ``pending`` is the part of its target that it has been assigned and not been given, which the
  chapter shows from the moment the member has reached the target epoch.

A member that comes back with the other protocol, and loses nothing by it, is a static one here:
only those keep their place in real groups (classic §7.9).

One thing is not compared. The chapter lets an old target name a removed member until the next
target is computed; brokers, and we, drop its share with the member (coordinator §4.2). Nothing
depends on it: the share of a member that is gone is given to no member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rebalance_sim.protocol.assignors.server import Assignor, GroupSpec
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.timer_keys import (
    assignment_key,
    metadata_key,
    session_key,
    sync_key,
)
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerKey
from rebalance_sim.protocol.versions.kip_848 import VERSION as KIP_848
from rebalance_sim.protocol.versions.kip_848 import LazyPromotion
from rebalance_sim.protocol.versions.semantics import Semantics, semantics_named
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.embedded import Assignment, Subscription
from rebalance_sim.protocol.wire.embedded import partitions_of as embedded_partitions
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import MemberState, Record
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.case_studies.draft import DraftGroup
from rebalance_sim.scenarios.case_studies.initial import (
    CLIENT_ASSIGNOR,
    GROUP_ID,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    classic_id,
    image_of,
    initial_records,
    names_of,
    owned_by_name,
    partitions_of,
)
from rebalance_sim.scenarios.case_studies.model import (
    DRAFT,
    CaseResponse,
    CaseState,
    CaseStep,
    CaseStudy,
    Current,
    Promotion,
    load_case_study,
)

__all__ = ["GROUP_ID", "CaseStudyReplay", "ReplayedStep", "differences", "replay"]

_ASSIGNOR = "scripted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedStep:
    """A step of the chapter, and what the coordinator made of it.

    ``records`` are those that the step wrote. ``differences`` is empty where the two agree.
    """

    step: CaseStep
    state: CaseState
    response: CaseResponse | None
    records: tuple[Record, ...]
    differences: tuple[str, ...]


class ReplayError(Exception):
    """The coordinator refused what the chapter's member sends, or armed no timer for a step."""


def replay(case: CaseStudy | str, promotion: Promotion = Promotion.EAGER) -> Iterator[ReplayedStep]:
    """Play the case study, or that of a name, step by step; that of the draft against the group of
    the draft. Raises ReplayError where it cannot continue, and ScenarioError for an unknown
    name."""
    if isinstance(case, str):
        case = load_case_study(case)
    if case.name == DRAFT:
        yield from _replay_draft(case)
        return
    player = CaseStudyReplay(case, promotion)
    for step in case.steps:
        yield player.play(step)


def _replay_draft(case: CaseStudy) -> Iterator[ReplayedStep]:
    group = DraftGroup(case)
    for step in case.steps:
        response = group.act(step)
        yield ReplayedStep(
            step=step,
            state=group.state,
            response=response,
            records=(),
            differences=tuple(_differences(step, step.eager, group.state, response)),
        )


class CaseStudyReplay:
    """A coordinator in the initial state of a case study, and the members that talk to it."""

    def __init__(self, case: CaseStudy, promotion: Promotion = Promotion.EAGER) -> None:
        self.promotion = promotion
        self.assignor = _ScriptedAssignor()
        self._topics = dict(case.topics)
        self._reported: dict[str, frozenset[TopicPartition]] = {}
        self._returning = {s.member for s in case.steps if s.action == "rejoin_upgraded"}
        self.shard = MinimalShard(
            config=CoordinatorConfig(group_consumer_assignors=(_ASSIGNOR,)),
            semantics=_semantics(promotion, self.assignor),
            image=image_of(self._topics),
        )
        if case.initial.members:
            records = initial_records(case.initial, self._topics, self._returning)
            self.shard.take(Outcome(None, tuple(records)))
            for member_id, current in case.initial.current.items():
                self._reported[member_id] = partitions_of(current.partitions)
            for command in self.shard.coordinator.on_loaded(now_ms=0):
                self.shard.take(Outcome(None, (), (command,)))

    @property
    def group(self) -> ConsumerGroup:
        """The group as the coordinator holds it."""
        return self.shard.coordinator.groups_of(ConsumerGroup)[GROUP_ID]

    def play(self, step: CaseStep) -> ReplayedStep:
        """Carry out one step and compare."""
        written = len(self.shard.batches)
        response = self._act(step)
        records = tuple(r for _, batch in self.shard.batches[written:] for r in batch)
        state = self.state()
        expected = _without_departed(step.expect(self.promotion))
        return ReplayedStep(
            step=step,
            state=state,
            response=response,
            records=records,
            differences=tuple(_differences(step, expected, state, response)),
        )

    def state(self) -> CaseState:
        """The coordinator's state in the words of the chapter."""
        group = self.group
        target_epoch = group.target_assignment_epoch
        current: dict[str, Current] = {}
        for member_id in sorted(group.members):
            member = group.members[member_id]
            waits = member.member_epoch == target_epoch
            pending = group.target_of(member_id) - frozenset(member.assigned) if waits else ()
            current[member_id] = Current(
                epoch=member.member_epoch,
                partitions=names_of([*member.assigned, *member.pending_revocation]),
                pending=names_of(pending),
            )
        return CaseState(
            group_epoch=group.group_epoch,
            members=frozenset(group.members),
            target_epoch=target_epoch,
            target={m: names_of(ps) for m, ps in sorted(group.target_assignment.items())},
            current=current,
            classic_members={
                member_id: self._classic_state(group.members[member_id])
                for member_id in sorted(group.members)
                if group.members[member_id].classic_metadata is not None
            },
        )

    def _classic_state(self, member: Member) -> str:
        """What brokers do not store, but a timer and the epochs tell (classic §7.4)."""
        if sync_key(GROUP_ID, member.member_id) in self.shard.timers:
            return "CompletingRebalance"
        is_behind = member.member_epoch < self.group.target_assignment_epoch
        is_called = is_behind or member.state is not MemberState.STABLE
        return "PrepareRebalance" if is_called else "Stable"

    # -- actions ---------------------------------------------------------------------------

    def _act(self, step: CaseStep) -> CaseResponse | None:
        match step.action:
            case "join":
                self._reported[step.member] = frozenset()
                self._heartbeat(step.member)
            case "heartbeat":
                return self._heartbeat(step.member)
            case "ack_revocation":
                return self._heartbeat(step.member, acknowledges=True)
            case "leave":
                self._leave(step.member)
            case "rejoin_upgraded":
                self._reported[step.member] = frozenset()
                self._heartbeat(step.member)
            case "classic_heartbeat":
                return self._classic_heartbeat(step.member)
            case "classic_join":
                return self._classic_join(step.member, step.owned)
            case "classic_sync":
                return self._classic_sync(step.member)
            case "session_timeout":
                self._fire(session_key(GROUP_ID, step.member))
            case "compute_target":
                self.assignor.script = {
                    member: partitions_of(names)
                    for member, names in step.expect(self.promotion).target.items()
                }
                self._fire(assignment_key(GROUP_ID))
            case "partitions_created":
                self._topics[step.topic] = step.total
                self.shard.update_image(image_of(self._topics))
                self._fire(metadata_key(GROUP_ID))
            case _:
                raise ReplayError(f"step {step.number}: no such action: {step.action}")
        return None

    def _heartbeat(self, member_id: str, *, acknowledges: bool = False) -> CaseResponse:
        """One heartbeat; the owned list goes along when joining and when it has shrunk."""
        member = self.group.members.get(member_id) if self._has_group() else None
        epoch = JOIN_EPOCH if member is None else member.member_epoch
        before = self._reported[member_id]
        owned = before if acknowledges or epoch == JOIN_EPOCH else None
        answer = self._send(member_id, epoch, owned=owned)
        assigned = before if answer.assignment is None else answer.assignment
        self._reported[member_id] = assigned
        after = self.group.members[member_id]
        held = frozenset([*after.assigned, *after.pending_revocation])
        return CaseResponse(
            epoch=answer.member_epoch,
            assigned=names_of(assigned),
            revoke=names_of(held - assigned),
            pending=names_of(answer.pending_topic_partitions or ()),
        )

    def _send(
        self, member_id: str, epoch: int, *, owned: frozenset[TopicPartition] | None
    ) -> ConsumerGroupHeartbeatResponse:
        joins = epoch == JOIN_EPOCH
        answer = self.shard.request(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP_ID,
                member_id=member_id,
                instance_id=member_id if member_id in self._returning else None,
                member_epoch=epoch,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
                subscribed_topic_names=tuple(self._topics) if joins else None,
                topic_partitions=owned,
            )
        )
        if not isinstance(answer, ConsumerGroupHeartbeatResponse):
            raise ReplayError(f"member {member_id}: no answer to a heartbeat: {answer}")
        if answer.error_code is not ErrorCode.NONE:
            raise ReplayError(f"member {member_id}: {answer.error_code.name}")
        return answer

    def _leave(self, member: str) -> None:
        """With the request of its own protocol."""
        if self.group.members[member].classic_metadata is None:
            self._send(member, LEAVE_EPOCH, owned=None)
            return
        leaver = MemberIdentity(member)
        self.shard.request(LeaveGroupRequest(group_id=GROUP_ID, members=(leaver,)))

    # -- classic members -------------------------------------------------------------------

    def _classic_heartbeat(self, member: str) -> CaseResponse:
        answer = self.shard.request(
            HeartbeatRequest(
                group_id=GROUP_ID,
                generation_id=self.group.members[member].member_epoch,
                member_id=classic_id(member, self._returning),
            )
        )
        assert isinstance(answer, HeartbeatResponse)
        return CaseResponse(error=answer.error_code.name)

    def _classic_join(self, member: str, owned: tuple[str, ...]) -> CaseResponse:
        metadata = Subscription(
            topics=tuple(sorted(self._topics)),
            owned_partitions=owned_by_name(owned, self._topics),
            generation_id=self.group.members[member].member_epoch,
        )
        answer = self.shard.request(
            JoinGroupRequest(
                group_id=GROUP_ID,
                member_id=classic_id(member, self._returning),
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                protocols=(JoinGroupProtocol(CLIENT_ASSIGNOR, metadata),),
            ),
            token=member,
        )
        assert isinstance(answer, JoinGroupResponse)
        return CaseResponse(epoch=answer.generation_id)

    def _classic_sync(self, member: str) -> CaseResponse:
        answer = self.shard.request(
            SyncGroupRequest(
                group_id=GROUP_ID,
                generation_id=self.group.members[member].member_epoch,
                member_id=classic_id(member, self._returning),
            ),
            token=member,
        )
        assert isinstance(answer, SyncGroupResponse)
        assignment = answer.assignment
        assert isinstance(assignment, Assignment)
        image = self.shard.coordinator.image
        return CaseResponse(assigned=names_of(embedded_partitions(assignment.partitions, image)))

    def _fire(self, key: TimerKey) -> None:
        if key not in self.shard.timers:
            raise ReplayError(f"the coordinator has not armed {key}")
        self.shard.fire(key)

    def _has_group(self) -> bool:
        return GROUP_ID in self.shard.coordinator.groups_of(ConsumerGroup)


def _differences(
    step: CaseStep, expected: CaseState, state: CaseState, response: CaseResponse | None
) -> Iterator[str]:
    yield from differences(expected, state)
    if step.response is not None and response != step.response:
        yield f"response: expected {step.response}, got {response}"


def differences(expected: CaseState, actual: CaseState) -> Iterator[str]:
    """One line for each thing in which two states differ."""
    for name in ("group_epoch", "members", "target_epoch", "classic_members"):
        want, have = getattr(expected, name), getattr(actual, name)
        if want != have:
            yield f"{name}: expected {_shown(want)}, got {_shown(have)}"
    for member in sorted({*expected.target, *actual.target}):
        target, found = expected.target.get(member), actual.target.get(member)
        if target != found:
            yield f"target of {member}: expected {_shown(target)}, got {_shown(found)}"
    for member in sorted({*expected.current, *actual.current}):
        row, seen = expected.current.get(member), actual.current.get(member)
        if row != seen:
            yield f"member {member}: expected {row}, got {seen}"


def _without_departed(state: CaseState) -> CaseState:
    return replace(state, target={m: ps for m, ps in state.target.items() if m in state.members})


class _ScriptedAssignor:
    """Gives out what the chapter prints; no stock assignor has to agree with it."""

    def __init__(self) -> None:
        self.name = _ASSIGNOR
        self.script: dict[str, frozenset[TopicPartition]] = {}

    def assign(
        self, spec: GroupSpec, partition_counts: Mapping[str, int]
    ) -> dict[str, frozenset[TopicPartition]]:
        return self.script


def _semantics(promotion: Promotion, assignor: Assignor) -> Semantics:
    scripted = type("ScriptedRules", (MigrationRules,), {"assignors": {_ASSIGNOR: assignor}})
    text = semantics_named(KIP_848.name).changed_by(scripted)
    return text if promotion is Promotion.EAGER else text.changed_by(LazyPromotion)


def _shown(value: object) -> str:
    return ", ".join(sorted(value)) if isinstance(value, frozenset) else str(value)
