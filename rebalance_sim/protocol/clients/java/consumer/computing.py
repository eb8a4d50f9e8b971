"""Computing a target for the group: Prepare, run the assignor, Install.

Source: coordinator §12.3, §12.5-§12.7 (the KIP's text; no client was ever shipped with this). The
assignor itself is run by the host, because it takes time.

Whatever goes wrong, but for a stale epoch, ends the process: the coordinator asks the member again
as long as it waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import ComputedAssignment
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.effects import (
    AssignmentReceived,
    ComputeAssignment,
    SendInstallAssignment,
    SendPrepareAssignment,
)
from rebalance_sim.protocol.clients.common.member_states import ComputingState
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.java.consumer.consumer_core import ConsumerCore
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode, IllegalTransition, ProtocolBug

_S = ComputingState
_NEXT: Mapping[ComputingState, frozenset[ComputingState]] = {
    _S.IDLE: frozenset({_S.PREPARING}),
    _S.PREPARING: frozenset({_S.COMPUTING, _S.PREPARE_LATER, _S.IDLE}),
    _S.PREPARE_LATER: frozenset({_S.PREPARING, _S.IDLE}),
    _S.COMPUTING: frozenset({_S.INSTALLING, _S.IDLE}),
    _S.INSTALLING: frozenset({_S.INSTALL_LATER, _S.IDLE}),
    _S.INSTALL_LATER: frozenset({_S.INSTALLING, _S.IDLE}),
}
COMPUTING_TRANSITIONS: Mapping[ComputingState, frozenset[ComputingState]] = MappingProxyType(_NEXT)
"""State -> the states it may change to. Every state may end in IDLE: the process is given up."""


class Computing:
    """One member's part in the assignment of its group, and what reaches its application."""

    def __init__(self, core: ConsumerCore, application: Application) -> None:
        self._core = core
        self._application = application
        self._request_count = 0
        self._awaited: int | None = None  # of these, the one whose answer the process waits for
        self._result: ComputedAssignment | None = None
        self._started_at_epoch = 0
        self._epoch_reported = 0
        self.state = ComputingState.IDLE
        self.computation_id = 0
        self.prepared: ConsumerGroupPrepareAssignmentResponse | None = None

    # --- what a heartbeat brings ------------------------------------------------------------------

    def on_heartbeat(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """A heartbeat was answered; membership has taken its epoch over already."""
        core = self._core
        if self._is_out:
            self._give_up()
        if response.error_code is not ErrorCode.NONE or not core.state.takes_assignments:
            return
        self._notify_application(response)
        if core.coordinator_id is None:
            return
        if self.state is _S.PREPARE_LATER:
            self._prepare()
        elif self.state is _S.INSTALL_LATER:
            self._install()
        elif self.state is _S.IDLE and response.should_compute_assignment:
            self._started_at_epoch = core.member_epoch
            self._prepare()

    def _notify_application(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """coordinator §12.7: once per epoch, with the whole target, of which some may not be
        free."""
        core, assigned = self._core, response.assignment
        metadata = response.assignment_metadata
        if core.member_epoch == 0:
            self._epoch_reported = 0
        if assigned is None or metadata is None or core.member_epoch == 0:
            return
        if core.member_epoch == self._epoch_reported and core.rules.reports_assignment_once:
            return
        self._epoch_reported = core.member_epoch
        core.effects.append(
            AssignmentReceived(
                member_epoch=core.member_epoch,
                partitions=assigned | (response.pending_topic_partitions or frozenset()),
                metadata=metadata,
            )
        )

    # --- the process ------------------------------------------------------------------------------

    def _prepare(self) -> None:
        core = self._core
        self._change(_S.PREPARING)
        self._send(
            SendPrepareAssignment,
            self._on_prepared,
            ConsumerGroupPrepareAssignmentRequest(
                group_id=core.config.group_id,
                member_id=core.member_id,
                member_epoch=core.member_epoch,
            ),
        )

    def _on_prepared(self, response: ConsumerGroupPrepareAssignmentResponse) -> None:
        if response.error_code is ErrorCode.STALE_MEMBER_EPOCH:
            self._change(_S.PREPARE_LATER)
        elif response.error_code is not ErrorCode.NONE:
            self._give_up()
        else:
            self._change(_S.COMPUTING)
            self.computation_id += 1
            self.prepared = response
            self._core.effects.append(
                ComputeAssignment(computation_id=self.computation_id, prepared=response)
            )

    def on_computed(self, computation_id: int, result: ComputedAssignment) -> None:
        """The assignor has returned; no one waits any more for one of a process given up."""
        if self.state is not _S.COMPUTING or computation_id != self.computation_id:
            return
        if self._is_out or self._core.coordinator_id is None:
            self._give_up()  # The next coordinator has not chosen it.
            return
        self._result = result
        self._install()

    def _install(self) -> None:
        core, result, prepared = self._core, self._result, self.prepared
        if result is None or prepared is None:
            raise ProtocolBug("there is nothing to install")
        self._change(_S.INSTALLING)
        self._send(
            SendInstallAssignment,
            self._on_installed,
            ConsumerGroupInstallAssignmentRequest(
                group_id=core.config.group_id,
                member_id=core.member_id,
                member_epoch=core.member_epoch,
                group_epoch=prepared.group_epoch,
                members=result.members,
                error=result.error,
            ),
        )

    def _on_installed(self, response: ConsumerGroupInstallAssignmentResponse) -> None:
        code = response.error_code
        if code is ErrorCode.INVALID_ASSIGNMENT:
            self._application.queue_error(code, response.error_message or code.name)
        if self._core.rules.installs_later(code):
            self._change(_S.INSTALL_LATER)
        else:
            self._give_up()

    # --- state ------------------------------------------------------------------------------------

    @property
    def _is_out(self) -> bool:
        """Whether the member has left or been expelled since the process began."""
        core = self._core
        return not core.state.takes_assignments or core.member_epoch < self._started_at_epoch

    def _send(
        self,
        kind: type[SendPrepareAssignment] | type[SendInstallAssignment],
        on_answered: Callable[[Any], None],
        request: Any,
    ) -> None:
        self._request_count += 1
        number = self._awaited = self._request_count

        def answered(response: Any) -> None:
            if self._is_awaited(number):
                on_answered(response)

        def lost(loss: Loss) -> None:
            if self._is_awaited(number):
                self._give_up()

        self._core.requests.send(kind, request=request, on_answered=answered, on_lost=lost)

    def _is_awaited(self, number: int) -> bool:
        """A request is over. Whether the process has waited for that, and continues."""
        if number != self._awaited:
            return False
        self._awaited = None
        if self._is_out:
            self._give_up()
        return self.state is not _S.IDLE

    def _give_up(self) -> None:
        if self.state is not _S.IDLE:
            self._change(_S.IDLE)
        self._awaited = None
        self._result = None
        self._started_at_epoch = 0

    def _change(self, state: ComputingState) -> None:
        if state not in COMPUTING_TRANSITIONS[self.state]:
            raise IllegalTransition(f"computing cannot go from {self.state.name} to {state.name}")
        self.state = state
