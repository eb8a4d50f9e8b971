"""Timers of classic members in a consumer group run for as long as the member has said.

Sources: classic §7.4, §7.5, §7.7.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.migration.mixed import MixedJoin
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest, JoinGroupResponse
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 134


class HybridDeadlines(Property):
    """classic §7.4."""

    id = "hybrid.deadlines"
    sentence = (
        "A classic member of a consumer group is waited for as long as its own rebalance timeout: "
        "for its JoinGroup once it is called back, for its SyncGroup once it has joined; and when "
        "its group is converted it has a session as long as it has said."
    )
    clauses = ("classic §7.3", "classic §7.4", "classic §7.5", "classic §7.7")
    violated_by = ("PR-16290", "test:hybrid-long-wait", "test:hybrid-wait-for-nobody")
    judges_mixed = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._asked: dict[tuple[str, str], list[int]] = {}
        """Shard and member -> the rebalance timeouts that its JoinGroups found, or brought, as far
        as these are not committed; the first comes first."""

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Nothing waits for its commit."""
        name = step.shard.name
        for key in [key for key in self._asked if key[0] == name]:
            del self._asked[key]
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """A conversion gives everybody a session; who brings it about goes on with its own."""
        former = change.upgraded
        if former is None:
            return None
        for command in step.timers:
            member_id = command.key.member_id
            member = former.members.get(member_id)
            if (
                type(command) is ScheduleTimer
                and command.key.kind == "session"
                and member is not None
                and member_id != step.request.member_id
                and command.at_ms - step.at_ms != member.session_timeout_ms
            ):
                return Finding(
                    f"the session of {member_id} runs for {command.at_ms - step.at_ms} ms when its "
                    f"group is converted; it has asked for {member.session_timeout_ms} ms",
                    {"member": member_id},
                )
        return None

    def on_classic_request(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Only who is called back is waited for."""
        if type(step.request) is JoinGroupRequest and type(step.response) is JoinGroupResponse:
            self._note_join(step)
        finding = self._judge(step)
        if finding is not None or step.response is None:
            return finding
        waits = [c for c in step.timers if type(c) is ScheduleTimer and c.key.kind == "mixed-join"]
        code = getattr(step.response, "error_code", ErrorCode.NONE)
        if not waits or code is ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        return Finding(
            f"{waits[0].key.member_id} was answered {code.name}, and is waited for to rejoin"
        )

    def on_written(self, step: Step) -> Finding | None:
        """A JoinGroup is committed, or has failed: it waits for as long as that one said."""
        if type(step.event) is not MixedJoin:
            return None
        shard, member_id = step.shard, step.event.member_id
        asked = self._asked.get((shard.name, member_id))
        timeout_ms = asked.pop(0) if asked else None
        if asked == []:
            del self._asked[shard.name, member_id]
        return self._judge(step, timeout_ms)

    def _note_join(self, step: Step) -> None:
        shard, member_id = step.shard, step.response.member_id
        if step.response.error_code is not ErrorCode.NONE or self.model.group_in(shard) is None:
            return
        timeout_ms = _timeout_ms(self.model.ledger_of(shard).members.get(member_id))
        if timeout_ms is not None:
            self._asked.setdefault((shard.name, member_id), []).append(timeout_ms)

    def _judge(self, step: Step, asked_ms: int | None = None) -> Finding | None:
        for command in step.timers:
            if type(command) is not ScheduleTimer:
                continue
            if command.key.kind not in ("mixed-join", "mixed-sync"):
                continue
            member_id = command.key.member_id
            entry = self.model.ledger_of(step.shard).members.get(member_id)
            timeout_ms = _timeout_ms(entry) if asked_ms is None else asked_ms
            if timeout_ms is None:
                continue
            if command.at_ms - step.at_ms != timeout_ms:
                return Finding(
                    f"{member_id} is waited for {command.at_ms - step.at_ms} ms, its rebalance "
                    f"timeout is {timeout_ms} ms",
                    {"member": member_id},
                )
        return None


def _timeout_ms(entry: MemberEntry | None) -> int | None:
    return None if entry is None or entry.metadata is None else entry.metadata.rebalance_timeout_ms
