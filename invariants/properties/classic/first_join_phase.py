"""How long the first join phase of a classic group lasts: newcomers prolong it, and nothing that a
member asks for cuts it short.

Source: classic §1.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rebalance_sim.invariants.model.classic_model import ClassicLook
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import join_key
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest, LeaveGroupRequest

ORDER = 164

_PREPARING = ClassicGroupState.PREPARING_REBALANCE
_COMPLETING = ClassicGroupState.COMPLETING_REBALANCE


@dataclass(frozen=True, slots=True)
class _Phase:
    """A first join phase. ``has_newcomer``: whether somebody has come since it began, or was
    prolonged last; ``remaining_ms``: by how much it may still be prolonged."""

    group: ClassicGroup
    generation_id: int
    ends_ms: int
    delay_ms: int
    remaining_ms: int
    has_newcomer: bool


class FirstJoinPhase(Property):
    """classic §1.5. An expired session ends such a phase early, if all others are there."""

    id = "classic.first_join_phase"
    sentence = (
        "The first join phase of a classic group lasts for the initial delay, and again for as "
        "long each time that somebody has come meanwhile, until the rebalance timeout of whoever "
        "came first is used up; neither a join nor a leave ends it before."
    )
    clauses = ("classic §1.5",)
    violated_by = (
        "test:newcomers-prolong-nothing",
        "test:first-phase-prolonged-for-nobody",
        "test:first-phase-cut-short",
    )
    interest = Interest(is_in_changes=True)

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._phases: dict[str, _Phase] = {}
        """Shard -> the first join phase of its group, while that goes on."""
        self._leaks: dict[str, ClassicGroup] = {}
        """Shard -> group of which somebody came in a first join phase that could not be prolonged:
        that counts in the next one (classic §1.5, the second quirk)."""
        self._unsure: dict[str, ClassicGroup] = {}
        """Shard -> group of which it is not known whether that is so."""

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """No join phase outlives its coordinator."""
        for kept in (self._phases, self._leaks, self._unsure):
            kept.pop(step.shard.name, None)
        return None

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Follow a first join phase, and look at how it goes on."""
        name, group, now = look.shard.name, look.group, look.now
        phase = self._phases.get(name)
        if group is None or now is None or step.kind is StepKind.LOG_TRUNCATED:
            self._lose(name, phase)
            return None
        if phase is not None and (
            phase.group is not group
            or (now.state is _PREPARING and now.generation_id != phase.generation_id)
            or step.at_ms > phase.ends_ms
        ):
            # A conversion that is taken back, or an end that nobody was shown.
            self._lose(name, phase)
            phase = None
        if phase is None:
            return self._begin(step, look, group)
        if step.kind is StepKind.COORDINATOR_TIMER and step.event == join_key(group.group_id):
            return self._judge_tick(step, look, phase)
        if now.state is _PREPARING:
            if (
                isinstance(step.request, JoinGroupRequest)
                and look.before is not None
                and look.before.member_count < now.member_count
            ):
                self._phases[name] = replace(phase, has_newcomer=True)
            return None
        self._end(name, phase)
        if now.state is _COMPLETING and isinstance(
            step.request, (JoinGroupRequest, LeaveGroupRequest)
        ):
            return Finding(
                f"the first join phase ended at {step.at_ms} ms with a "
                f"{type(step.request).__name__}; it was to last until {phase.ends_ms} ms"
            )
        return None

    def _begin(self, step: Step, look: ClassicLook, group: ClassicGroup) -> Finding | None:
        """Does somebody open a group that nobody is in?"""
        before, now, name = look.before, look.now, look.shard.name
        if (
            now is None
            or now.state is not _PREPARING
            or (look.is_same_group and before and before.state is not ClassicGroupState.EMPTY)
        ):
            return None
        if now.member_count != 1 or step.records or not isinstance(step.request, JoinGroupRequest):
            self._unsure[name] = group  # One that cannot be followed, and may leave something.
            return None
        delay_ms = look.shard.configs.broker.group_initial_rebalance_delay_ms
        if not delay_ms or self._unsure.get(name) is group:
            return None
        timeout_ms = step.request.effective_rebalance_timeout_ms
        self._phases[name] = _Phase(
            group=group,
            generation_id=now.generation_id,
            ends_ms=step.at_ms + delay_ms,
            delay_ms=delay_ms,
            remaining_ms=max(timeout_ms - delay_ms, 0),
            has_newcomer=self._leaks.pop(name, None) is group,
        )
        return self._judge_timer(step, group, delay_ms)

    def _judge_tick(self, step: Step, look: ClassicLook, phase: _Phase) -> Finding | None:
        """The delay is over: is the phase, too?"""
        name, now, group = look.shard.name, look.now, phase.group
        goes_on = now is not None and now.state is _PREPARING
        if goes_on and not look.classic_model.awaiting_count:
            # Nobody waits, and static members that are silent remain: they are waited for.
            self._lose(name, phase)
            return None
        is_due = phase.has_newcomer and phase.remaining_ms > 0
        if goes_on is not is_due:
            self._lose(name, phase)
            if is_due:
                return Finding(
                    f"the first join phase ended at {step.at_ms} ms, though somebody has come, and "
                    f"it could go on for {phase.remaining_ms} ms"
                )
            return Finding(
                f"the first join phase goes on at {step.at_ms} ms, and nobody has come who "
                "could prolong it"
            )
        if not goes_on:
            self._end(name, phase)
            return None
        full_ms = look.shard.configs.broker.group_initial_rebalance_delay_ms
        delay_ms = min(full_ms, phase.remaining_ms)
        self._phases[name] = replace(
            phase,
            has_newcomer=False,
            delay_ms=delay_ms,
            remaining_ms=max(phase.remaining_ms - phase.delay_ms, 0),
            ends_ms=step.at_ms + delay_ms,
        )
        return self._judge_timer(step, group, delay_ms)

    @staticmethod
    def _judge_timer(step: Step, group: ClassicGroup, delay_ms: int) -> Finding | None:
        key = join_key(group.group_id)
        for command in step.timers:
            if type(command) is ScheduleTimer and command.key == key:
                runs_ms = command.at_ms - step.at_ms
                if runs_ms != delay_ms:
                    return Finding(
                        f"the first join phase is to go on for {runs_ms} ms; it should be "
                        f"{delay_ms} ms"
                    )
        return None

    def _end(self, name: str, phase: _Phase) -> None:
        del self._phases[name]
        if phase.has_newcomer:
            self._leaks[name] = phase.group

    def _lose(self, name: str, phase: _Phase | None) -> None:
        """It cannot be followed any more: of this group nothing is judged until the next load."""
        if phase is not None:
            self._unsure[name] = phase.group
            del self._phases[name]
