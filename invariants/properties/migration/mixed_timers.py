"""Timers of classic members in a consumer group run for as long as the member has said.

Sources: classic §7.4, §7.5, §7.7.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step, shard_of
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 134


class HybridDeadlines(Property):
    """classic §7.4."""

    id = "hybrid.deadlines"
    sentence = (
        "A classic member of a consumer group is waited for as long as its own rebalance timeout: "
        "for its JoinGroup once it is called back, for its SyncGroup once it has joined."
    )
    clauses = ("classic §7.4", "classic §7.5", "classic §7.7")
    violated_by = ("test:hybrid-long-wait", "test:hybrid-wait-for-nobody")
    judges_mixed = True

    def on_classic_request(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Only who is called back is waited for."""
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
        """A JoinGroup is committed."""
        return self._judge(step)

    def _judge(self, step: Step) -> Finding | None:
        for command in step.timers:
            if type(command) is not ScheduleTimer:
                continue
            if command.key.kind not in ("mixed-join", "mixed-sync"):
                continue
            member_id = command.key.member_id
            entry = self.model.ledger_of(shard_of(step)).members.get(member_id)
            if entry is None or entry.metadata is None:
                continue
            timeout_ms = entry.metadata.rebalance_timeout_ms
            if command.at_ms - step.at_ms != timeout_ms:
                return Finding(
                    f"{member_id} is waited for {command.at_ms - step.at_ms} ms, its rebalance "
                    f"timeout is {timeout_ms} ms",
                    {"member": member_id},
                )
        return None
