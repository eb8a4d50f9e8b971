"""Nothing that was asked is forgotten: a coordinator answers every request in time.

Sources: coordinator §8.1, §9.4; classic §2.2-§2.6, §2.8.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.property import Finding, Property, notes
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.classic_messages import (
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

SLACK_MS = 10_000
"""Granted on top of each bound; a shard that is silent for longer is taken to be paused."""
_NEVER_MS = 1 << 62


class _Term:
    """What one shard has to answer, from its load until it gives the partition up."""

    __slots__ = ("due_ms", "last_ms", "none_before_ms", "parked")

    def __init__(self) -> None:
        self.due_ms: dict[int, tuple[int, type, str]] = {}
        """Operation -> by when it is to be answered, what it is, and of whom."""
        self.none_before_ms = _NEVER_MS
        """None is due earlier, so that until then no one has to look through them."""
        self.parked: dict[tuple[str, type], int] = {}
        """Member, or instance, and kind of request -> its newest operation that waits for others.
        """
        self.last_ms = 0

    def expect(self, operation: int, due_ms: int, kind: type, sender: str) -> None:
        """It is to be answered by then."""
        self.due_ms[operation] = due_ms, kind, sender
        if due_ms < self.none_before_ms:
            self.none_before_ms = due_ms

    def park(self, operation: int, request: JoinGroupRequest | SyncGroupRequest) -> None:
        """Who repeats a request gives up the first answer."""
        self.forget(request.member_id, type(request))
        self.forget(request.group_instance_id, type(request))
        for name in (request.member_id, request.group_instance_id):
            if name:
                self.parked[name, type(request)] = operation

    def forget(self, name: str | None, kind: type) -> None:
        """Its sender waits for that answer no more."""
        self.due_ms.pop(self.parked.pop((name or "", kind), 0), None)

    def take_late(self, at_ms: int) -> tuple[int, type, str] | None:
        """The oldest operation that should have been answered by now; it is reported once. If
        nothing happened for long until now, all bounds begin again."""
        silence_ms, self.last_ms = at_ms - self.last_ms, at_ms
        if silence_ms > SLACK_MS:
            for operation, (due_ms, kind, sender) in self.due_ms.items():
                self.due_ms[operation] = due_ms + silence_ms, kind, sender
            self.none_before_ms += silence_ms
            return None
        if at_ms <= self.none_before_ms:
            return None
        for operation, late in self.due_ms.items():
            if at_ms > late[0]:
                del self.due_ms[operation]
                return late
        self.none_before_ms = min(due_ms for due_ms, _, _ in self.due_ms.values())
        return None


class RequestAnswered(Property):
    """What is answered at once, and writes nothing, cannot be late; nor is who has given up its
    partition, or whose sender repeats the request or leaves."""

    id = "coordinator.request_answered"
    sentence = (
        "A coordinator answers a request within offsets.commit.timeout.ms; a JoinGroup or "
        "SyncGroup that waits for others within the longest rebalance timeout."
    )
    clauses = ("coordinator §9.4", "classic §2.5", "classic §2.6", "classic §2.8")
    violated_by = ("test:classic-refuses-silently",)
    judges_mixed = True
    _terms: dict[str, _Term] = notes(dict)
    _rebalance_ms = 0
    """The longest rebalance timeout of any JoinGroup."""

    def on_loaded(self, step: Step, ledger: GroupLedger) -> None:
        """A new term."""
        self._terms.pop(step.shard.name, None)

    def on_unloaded(self, step: Step) -> None:
        """Its broker answers in its place, or its connections are gone."""
        self._terms.pop(step.shard.name, None)

    def on_request(self, step: Step) -> Finding | None:
        """What is written, or waits, is answered later."""
        request, kind = step.request, type(step.request)
        term = self._terms.get(step.shard.name)
        if kind is LeaveGroupRequest and term is not None:
            for leaver in request.members:
                term.forget(leaver.member_id, SyncGroupRequest)
                term.forget(leaver.group_instance_id, SyncGroupRequest)
        if step.response is None or step.records:
            if term is None:
                term = self._terms[step.shard.name] = _Term()
                term.last_ms = step.at_ms
            wait_ms = self.model.config.offsets_commit_timeout_ms
            if kind is JoinGroupRequest:
                self._rebalance_ms = max(self._rebalance_ms, request.rebalance_timeout_ms)
            is_parked = step.response is None and kind in (JoinGroupRequest, SyncGroupRequest)
            if is_parked:
                delay_ms = self.model.config.group_initial_rebalance_delay_ms
                wait_ms += self._rebalance_ms + delay_ms
                term.park(step.operation, request)
            # A JoinGroup without a member id cannot be distinguished from the one that repeats it.
            if not is_parked or request.member_id:
                due_ms = step.at_ms + wait_ms + SLACK_MS
                term.expect(step.operation, due_ms, kind, self._who(request))
        return None if term is None else self._late(term, step)

    def on_timer_fired(self, step: Step, change: object) -> Finding | None:
        """Is there anything late?"""
        term = self._terms.get(step.shard.name)
        return None if term is None else self._late(term, step)

    @staticmethod
    def _late(term: _Term, step: Step) -> Finding | None:
        late = term.take_late(step.at_ms) if term.due_ms else None
        if late is None:
            return None
        due_ms, kind, sender = late
        what = f"{kind.__name__.removesuffix('Request')} of {sender}"
        return Finding(f"{what} should have been answered by {due_ms} ms, and was not")

    def on_released(self, step: Step) -> None:
        """It is answered."""
        term = self._terms.get(step.shard.name)
        if term is not None:
            term.due_ms.pop(step.operation, None)

    def _who(self, request: object) -> str:
        member_id = getattr(request, "member_id", "")
        return self.model.who(member_id) if member_id else "a new member"
