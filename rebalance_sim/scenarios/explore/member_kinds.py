"""Members of each kind: how one is made for a search, and what may happen to it by itself.

Time is abstract: what ends only when that is chosen lasts ``NEVER_MS``, and what comes soon comes
in intervals that are all equally long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_sim.protocol.clients.common.client_kind import NewMember
from rebalance_sim.protocol.clients.common.effects import SendJoinGroup
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.java.classic.classic_core import ClassicCore
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.clients.kinds import KINDS
from rebalance_sim.scenarios.explore.actions import Stimulus
from rebalance_sim.scenarios.explore.scope import GROUP, Scope, member_id

NEVER_MS = 1_000_000_000
"""Length of what ends only when that is chosen: far beyond anything that a path can add up to."""

INTERVAL_MS = 5_000
"""Of heartbeats, and of every backoff: a member that waits for both continues with both."""

SESSION_MS = 1_900_000_000
"""A classic member's own session timeout, which never ends by itself."""

_FAR_MS = NEVER_MS // 2


class MemberKind:
    """Members of one kind under the rules of a scope."""

    def __init__(self, scope: Scope, name: str) -> None:
        self._name = name
        said = scope.kind_of(name)
        self._kind = KINDS[said.client]
        self.is_classic = self._kind.is_classic
        # One object for all processes: the rules are no part of a member's state.
        rules = self._kind.rules
        self._rules: Any = None if rules is None else scope.rules.rules(rules)()
        self._config = self._kind.config(
            group_id=GROUP,
            group_instance_id=scope.instance_of(name),
            max_poll_interval_ms=NEVER_MS,
            enable_auto_commit=scope.auto_commit,
            auto_commit_interval_ms=NEVER_MS,
            default_api_timeout_ms=NEVER_MS,
            retry_backoff_ms=INTERVAL_MS,
            retry_backoff_max_ms=INTERVAL_MS,
            **self._settings(scope, said.assignors),
        )

    def _settings(self, scope: Scope, assignors: tuple[str, ...]) -> Mapping[str, Any]:
        if not self.is_classic:
            return {"group_remote_assignor": scope.assignor}
        chosen = (self._kind.assignors[name] for name in assignors)
        return {
            "assignors": tuple(scope.rules.rules(type(one))() for one in chosen),
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": INTERVAL_MS,
        }

    def new(self, process: int) -> GroupMember:
        """The member of a process; the first is number 1."""
        return self._kind.make(
            NewMember(
                config=self._config,
                member_id=member_id(self._name, process),
                rules=self._rules,
                jitter=_no_jitter,
                now_ms=0,
            )
        )

    @property
    def free_times(self) -> tuple[str, ...]:
        """Fields with moments that come only when that is chosen, or never, and with what no one
        looks at: how many attempts there have been counts only where backoffs grow."""
        free = ["last_poll_at_ms", "_interval_due_ms", "deadline_ms", "attempts"]
        if self.is_classic:
            return (*free, "_session_due_ms", "_deadline_ms", "_attempts")
        if type(self._rules).forgets_request_in_flight is MemberRules.forgets_request_in_flight:
            free += ["_last_response_ms", "_sent_since_response"]
        return tuple(free)

    def is_idle(self, member: GroupMember) -> bool:
        """Whether it sends no heartbeats, so that the coordinator has every right to remove it."""
        if isinstance(member, ClassicCore):
            return member.is_fatal or member.classic_state is ClassicState.UNJOINED
        return not member.state.sends_heartbeats and member.state is not ClientState.FENCED

    def awaits_id(self, member: GroupMember) -> bool:
        """Whether a JoinGroup without member id is under way: the coordinator may have given it
        one by now."""
        return (
            isinstance(member, ClassicCore)
            and not member.member_id
            and member.requests.count(SendJoinGroup) > 0
        )

    def keeps_too_much(self, member: GroupMember) -> bool:
        """Whether it is eager, joins, and has not given everything up."""
        view = member.classic if member.assigned else None
        return view is not None and not view.is_cooperative and view.is_rebalancing

    def stimuli_of(self, member: GroupMember) -> list[Stimulus]:
        """What may happen by itself, and what the application may do."""
        found: list[Stimulus] = []
        deadline_ms = member.next_deadline_ms
        is_soon = deadline_ms is not None and deadline_ms - member.now_ms < _FAR_MS
        # Heartbeats of the classic protocol are sent whether the last one is answered or not: here
        # it is, before the next one is due.
        if is_soon and not (self.is_classic and member.heartbeats_in_flight):
            found.append(Stimulus.TICK)
        callback = member.running_callback
        if callback is not None:
            found += [Stimulus.CALLBACK_DONE, Stimulus.CALLBACK_FAILED]
        if member.state.takes_assignments and (member.is_polling or callback is not None):
            found.append(Stimulus.POLL_TIMEOUT)
        if member.open_requests:
            found.append(Stimulus.LOST)
        is_free = callback is None and member.blocked_in is None
        if is_free and not member.is_polling:
            found.append(Stimulus.POLL_AGAIN)
        elif is_free:
            poll_due_ms = member.poll_due_ms
            if poll_due_ms is not None and poll_due_ms <= member.now_ms:
                found.append(Stimulus.POLL)
            if member.has_subscription and member.state is not ClientState.FATAL:
                found += [Stimulus.UNSUBSCRIBE, Stimulus.CLOSE]
                if len(member.subscribed_topic_names) > 1:
                    found.append(Stimulus.SUBSCRIBE_LESS)
            elif not member.has_subscription:
                found.append(Stimulus.SUBSCRIBE)
        found.append(Stimulus.CRASH)
        return found


def _no_jitter() -> float:
    return 0.0
