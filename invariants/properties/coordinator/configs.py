"""Settings: what brokers have been told is what they go by.

Source: coordinator §4.1, §4.3, §9.5, §10.2.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.group_settings import (
    assignment_interval_is_over,
    assignment_interval_ms,
    heartbeat_interval_ms,
    session_timeout_ms,
)
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step, StepKind, wall_ms
from rebalance_sim.protocol.consumer.timer_keys import session_key
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer, TimerKey

ORDER = 110

_LONGEST = 1_000
"""Characters of a number that somebody might mean."""


class ConfigInForce(Property):
    """coordinator §10.2: altered settings count from the next heartbeat on, and at a load."""

    id = "coordinator.config_in_force"
    sentence = (
        "Heartbeat intervals, session timeouts and the time between two targets are those that "
        "the broker has received last."
    )
    clauses = ("coordinator §10.2", "coordinator §4.3", "coordinator §9.5")
    violated_by = ("mut-config-at-load",)

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Look at the answer and at the sender's new session."""
        if not self.model.is_heartbeat_success(step):
            return None
        shard, group_id = step.shard, self.model.group_id
        interval_ms = heartbeat_interval_ms(shard.configs, group_id)
        response = step.response
        if response.heartbeat_interval_ms != interval_ms:
            return Finding(
                f"{shard.name} answered {self.model.who(response.member_id)} with a heartbeat "
                f"interval of {response.heartbeat_interval_ms} ms; it is {interval_ms} ms",
                {"member": response.member_id},
            )
        key = session_key(group_id, response.member_id)
        for command in reversed(step.timers):
            # A conversion gives a session to all; the sender is given its own after that.
            if command.key == key and isinstance(command, ScheduleTimer):
                return self._judge_session(step, key, command.at_ms)
        return None

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Look at every session."""
        armed = step.shard.armed_timers
        for member_id in sorted(ledger.members):
            key = session_key(ledger.group_id, member_id)
            if key in armed:
                finding = self._judge_session(step, key, armed[key].at_ms)
                if finding is not None:
                    return finding
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the time since the target before."""
        before_ms = change.target_timestamp
        if (
            not change.is_new_target
            or not before_ms  # 0 stands for a time that is not known.
            or step.kind is not StepKind.COORDINATOR_REQUEST
            or not change.ledger.members  # An emptied group is settled; nothing is computed.
            or not self.model.rules.has_assignment_interval
        ):
            return None
        shard = step.shard
        configs, group_id, now_ms = shard.configs, self.model.group_id, wall_ms(step)
        if assignment_interval_is_over(configs, group_id, since_ms=before_ms, at_ms=now_ms):
            return None
        after_ms, interval_ms = now_ms - before_ms, assignment_interval_ms(configs, group_id)
        return Finding(
            f"{shard.name} computed a target {after_ms} ms after the last one; the "
            f"assignment interval is {interval_ms} ms"
        )

    def _judge_session(self, step: Step, key: TimerKey, at_ms: int) -> Finding | None:
        shard = step.shard
        timeout_ms = session_timeout_ms(shard.configs, self.model.group_id)
        if at_ms == step.at_ms + timeout_ms:
            return None
        return Finding(
            f"{shard.name} gave {self.model.who(key.member_id)} a session of "
            f"{at_ms - step.at_ms} ms; the session timeout is {timeout_ms} ms",
            {"member": key.member_id},
        )


def _number(value: int | str) -> str:
    """A number as it is printed: text may have a sign, zeros and blanks around it."""
    text = str(value).strip()
    return str(int(text)) if text.lstrip("+-").isdecimal() and len(text) < _LONGEST else text


def _shown(value: int | None) -> str:
    return "not set" if value is None else f"{value} ms"
