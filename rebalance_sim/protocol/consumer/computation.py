"""Who computes a target for the group, and how far it has come: one value and one table.

Source: coordinator §12.3. A computation is soft state of the group: no record has it, and a
failover forgets it. ``COMPUTATION_TRANSITIONS`` says for each step and event what comes next; a
pair that is not in the table cannot happen, and raises IllegalTransition if it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from rebalance_sim.protocol.wire.assignment_messages import ConsumerGroupPrepareAssignmentResponse
from rebalance_sim.protocol.wire.errors import IllegalTransition


class ComputationStep(Enum):
    """How far a computation has come; the value says what that means."""

    NONE = (
        "no member computes: the target is that of the group epoch, or a broker's assignor is used"
    )
    CHOSEN = "a member is chosen, and is asked with its next heartbeat"
    NOTIFIED = "the member has been asked; its rebalance timeout runs"
    PREPARED = "the member has been given the group as it is to be assigned"


class ComputationEvent(Enum):
    """What happens to a computation; the value says when."""

    NEEDED = "the group epoch is above the target epoch, and a member can compute"
    ANSWERED = "a heartbeat of the member is answered, with should_compute_assignment"
    PREPARED = "ConsumerGroupPrepareAssignment is answered"
    INSTALLED = "ConsumerGroupInstallAssignment is accepted"
    EXPIRED = "the rebalance timeout is over, and another member can compute"
    UNFIT = "the member is gone, or cannot read all metadata, or a broker's assignor takes over"


_STEP = ComputationStep
_EVENT = ComputationEvent

COMPUTATION_TRANSITIONS: Mapping[tuple[ComputationStep, ComputationEvent], ComputationStep] = {
    (_STEP.NONE, _EVENT.NEEDED): _STEP.CHOSEN,
    (_STEP.CHOSEN, _EVENT.ANSWERED): _STEP.NOTIFIED,
    (_STEP.CHOSEN, _EVENT.PREPARED): _STEP.PREPARED,
    (_STEP.CHOSEN, _EVENT.UNFIT): _STEP.NONE,
    (_STEP.NOTIFIED, _EVENT.ANSWERED): _STEP.NOTIFIED,
    (_STEP.NOTIFIED, _EVENT.PREPARED): _STEP.PREPARED,
    (_STEP.NOTIFIED, _EVENT.EXPIRED): _STEP.NONE,
    (_STEP.NOTIFIED, _EVENT.UNFIT): _STEP.NONE,
    (_STEP.PREPARED, _EVENT.ANSWERED): _STEP.PREPARED,
    (_STEP.PREPARED, _EVENT.PREPARED): _STEP.PREPARED,
    (_STEP.PREPARED, _EVENT.INSTALLED): _STEP.NONE,
    (_STEP.PREPARED, _EVENT.EXPIRED): _STEP.NONE,
    (_STEP.PREPARED, _EVENT.UNFIT): _STEP.NONE,
}
"""Step and event -> next step. From NONE the next member is chosen at once if one is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """A member that was chosen to compute a target, and its progress.

    ``prepared`` is the answer that it was given: what it hands in is judged by that.
    """

    member_id: str
    assignor_name: str
    step: ComputationStep = ComputationStep.CHOSEN
    prepared: ConsumerGroupPrepareAssignmentResponse | None = None

    def after(
        self,
        event: ComputationEvent,
        *,
        prepared: ConsumerGroupPrepareAssignmentResponse | None = None,
    ) -> Computation | None:
        """The computation after ``event``; None when it is over.

        Raises IllegalTransition for a pair outside the table.
        """
        step = COMPUTATION_TRANSITIONS.get((self.step, event))
        if step is None:
            raise IllegalTransition(f"{self.step.name} x {event.name}")
        if step is ComputationStep.NONE:
            return None
        if step is self.step and prepared is None:
            return self
        return replace(self, step=step, prepared=prepared or self.prepared)
