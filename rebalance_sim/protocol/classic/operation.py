"""One operation of a classic group in the making: what it answers, writes, arms and cancels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import lru_cache

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_member import ClassicMember
from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import (
    CancelTimer,
    Completion,
    Continuation,
    Outcome,
    ScheduleTimer,
    TimerCommand,
    TimerKey,
    TimerKind,
    Token,
)
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance, RebalanceCause
from rebalance_sim.protocol.wire.classic_messages import JoinGroupResponse, SyncGroupResponse
from rebalance_sim.protocol.wire.consumer_messages import Response
from rebalance_sim.protocol.wire.embedded import EmbeddedAssignment
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import GroupMetadata, Record

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a JoinGroup of a new member may be parked: it cannot send heartbeats yet."""


class ClassicTimer(TimerKind):
    """What the timers of a classic group are for."""

    SESSION = "classic-session"
    JOIN = "classic-join"
    SYNC = "classic-sync"

    @property
    def group_type(self) -> str:
        """``classic``."""
        return "classic"

    @property
    def is_retried(self) -> bool:
        """classic §2.9: they are not."""
        return False

    @property
    def follows_soft_state(self) -> bool:
        """Members, phases and who waits are in memory only (classic §1)."""
        return True

    @property
    def measures_silence(self) -> bool:
        """The session of a member does."""
        return self is ClassicTimer.SESSION


@lru_cache(maxsize=4096)
def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a silent member, or an id that no one has used (classic §2.9)."""
    return TimerKey(ClassicTimer.SESSION, group_id, member_id)


def join_key(group_id: str) -> TimerKey:
    """The timer that ends the join phase (classic §1.5)."""
    return TimerKey(ClassicTimer.JOIN, group_id)


def sync_key(group_id: str) -> TimerKey:
    """The timer that ends the wait for SyncGroups; its epoch is the generation (classic §2.9)."""
    return TimerKey(ClassicTimer.SYNC, group_id)


@dataclass(slots=True, eq=False)
class Operation:
    """Collects an Outcome while handlers change groups in place.

    ``wall_ms`` is ``now_ms`` by the wall clock.
    """

    context: InitVar[CoordinatorContext[ClassicGroupRules]]
    _: KW_ONLY
    now_ms: int
    wall_ms: int = field(init=False)
    config: CoordinatorConfig = field(init=False)
    rules: ClassicGroupRules = field(init=False)
    completions: list[Completion] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    timers: list[TimerCommand] = field(default_factory=list)
    on_commit: Continuation | None = None
    rebalances: list[Rebalance] = field(default_factory=list)
    timed_out: int = 0

    def __post_init__(self, context: CoordinatorContext[ClassicGroupRules]) -> None:
        self.wall_ms = self.now_ms + context.wall_offset_ms
        self.config = context.config
        self.rules = context.rules

    def outcome(self, response: Response | None = None) -> Outcome:
        """What has been collected."""
        return Outcome(
            response,
            tuple(self.records),
            tuple(self.timers),
            tuple(self.completions),
            self.on_commit,
            tuple(self.rebalances),
            self.timed_out,
        )

    def begins(self, group: ClassicGroup, cause: RebalanceCause) -> None:
        """The classic group begins to rebalance."""
        group.rebalance_cause = cause
        self.rebalances.append(Rebalance("classic", cause))

    # -- answers ---------------------------------------------------------------------------

    def answer(self, token: Token, response: Response) -> None:
        """Let an answer go at once."""
        self.completions.append(Completion(token, response))

    def refuse_join(self, token: Token, code: ErrorCode, member_id: str) -> None:
        """Answer a JoinGroup with an error."""
        self.answer(token, JoinGroupResponse(error_code=code, member_id=member_id))

    def complete_join(
        self, group: ClassicGroup, member: ClassicMember, response: JoinGroupResponse
    ) -> None:
        """Answer the member's parked JoinGroup; nothing happens if there is none."""
        token = group.take_join_token(member)
        if token is not None:
            self.answer(token, response)

    def complete_sync(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        *,
        error: ErrorCode = ErrorCode.NONE,
        assignment: EmbeddedAssignment = None,
    ) -> bool:
        """Answer the member's parked SyncGroup; False if there is none."""
        token = member.awaiting_sync
        if token is None:
            return False
        member.awaiting_sync = None
        self.answer(token, sync_response(group, error=error, assignment=assignment))
        return True

    def answer_parked(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Answer everybody who waits in this group with an error."""
        for member_id in sorted(group.members):
            member = group.members[member_id]
            refusal = JoinGroupResponse(error_code=error, member_id=member_id)
            self.complete_join(group, member, refusal)
            self.complete_sync(group, member, error=error)

    def refuse_parked_join(self, group: ClassicGroup, token: Token, error: ErrorCode) -> None:
        """Answer one JoinGroup with an error, if it is parked. Its sender stays in the group, and
        counts as if it still waited."""
        for member_id in sorted(group.members):
            if group.members[member_id].awaiting_join == token:
                self.refuse_join(token, error, member_id)

    # -- timers ----------------------------------------------------------------------------

    def arm(self, key: TimerKey, after_ms: int, epoch: int = 0) -> None:
        """Arm, or re-arm, a timer."""
        self.timers.append(ScheduleTimer(key, self.now_ms + after_ms, epoch))

    def cancel(self, key: TimerKey) -> None:
        """Disarm a timer."""
        self.timers.append(CancelTimer(key))

    def renew_session(self, group: ClassicGroup, member: ClassicMember) -> None:
        """The member has sent something."""
        self.arm(session_key(group.group_id, member.member_id), member.session_timeout_ms)

    # -- records ---------------------------------------------------------------------------

    def write(
        self, group: ClassicGroup, assignments: Mapping[str, EmbeddedAssignment] | None = None
    ) -> None:
        """Persist the group as it stands, or with these assignments instead of its own."""
        group.written = group.to_record(assignments)
        self.records.append(GroupMetadata(group.group_id, group.written))


def sync_response(
    group: ClassicGroup,
    *,
    error: ErrorCode = ErrorCode.NONE,
    assignment: EmbeddedAssignment = None,
) -> SyncGroupResponse:
    """The answer to a SyncGroup; an error carries neither protocol nor assignment."""
    if error is not ErrorCode.NONE:
        return SyncGroupResponse(error_code=error)
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )
