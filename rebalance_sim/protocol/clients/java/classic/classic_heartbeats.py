"""The heartbeat thread: what continues while the application is away from ``poll``.

Source: classic §4.4. It runs from the answer to a JoinGroup until the next JoinGroup is sent, or
membership ends. Heartbeats go out on the interval whether the last one is answered or not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.effects import SendClassicHeartbeat, SendLeaveGroup
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import nobody_listens
from rebalance_sim.protocol.clients.java.classic.classic_core import ClassicCore, Generation
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.java.classic.classic_search import ClassicCoordinatorSearch
from rebalance_sim.protocol.clients.java.classic.reactions import Api, Reset, Then, reaction_to
from rebalance_sim.protocol.runtime.rebalance_causes import REASONS, RebalanceCause
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    MemberIdentity,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

_LEFT = "consumer pro-actively leaving the group"
_REBALANCING = "group is already rebalancing"


class HeartbeatThread:
    """Heartbeats, the client's own session timer, the poll timer, and leaving."""

    def __init__(
        self, core: ClassicCore, application: Application, search: ClassicCoordinatorSearch
    ) -> None:
        self._core = core
        self._application = application
        self._search = search
        self._is_enabled = False
        self._due_ms = core.now_ms
        self._session_due_ms = core.now_ms
        self._attempts = 0  # failures in a row

    # --- on and off -------------------------------------------------------------------------------

    def enable(self) -> None:
        """A JoinGroup was answered: all timers restart."""
        config = self._core.config
        self._is_enabled = True
        self._due_ms = self._core.now_ms + config.heartbeat_interval_ms
        self._session_due_ms = self._core.now_ms + config.session_timeout_ms

    def disable(self) -> None:
        """A JoinGroup is about to be sent, or nothing will be sent any more."""
        self._is_enabled = False

    def is_running(self) -> bool:
        """Whether it takes part in anything: not while unjoined, or between JoinGroup and its
        answer."""
        return self._is_enabled and self._core.classic_state.has_joined

    def on_coordinator_found(self) -> None:
        """The client's own session restarts with every coordinator that is found."""
        self._session_due_ms = self._core.now_ms + self._core.config.session_timeout_ms

    # --- the thread -------------------------------------------------------------------------------

    def run(self) -> None:
        """What is due now, in the order of classic §4.4."""
        core = self._core
        if core.coordinator_id is None or not self.is_running():
            return  # the search continues by itself
        if core.now_ms >= self._session_due_ms:
            self._search.mark_unknown()
            return
        poll_due_ms = self._application.poll_timer_deadline_ms
        if poll_due_ms is not None and core.now_ms >= poll_due_ms:
            self.leave(REASONS[RebalanceCause.POLL_TIMEOUT])
            core.poll_expired = True
            return
        if core.now_ms >= self._due_ms:
            self._send()

    @property
    def next_due_ms(self) -> int | None:
        """When the next heartbeat is due, answered or not the last one; None if none is sent."""
        if not self.is_running() or self._core.coordinator_id is None:
            return None
        return self._due_ms

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        if not self.is_running() or self._core.coordinator_id is None:
            return None
        due_ms = min(self._session_due_ms, self._due_ms)
        poll_due_ms = self._application.poll_timer_deadline_ms
        return due_ms if poll_due_ms is None or due_ms < poll_due_ms else poll_due_ms

    def _send(self) -> None:
        core = self._core
        self._due_ms = core.now_ms + core.config.heartbeat_interval_ms
        core.requests.send(
            SendClassicHeartbeat,
            request=HeartbeatRequest(
                group_id=core.config.group_id,
                generation_id=core.generation.generation_id,
                member_id=core.generation.member_id,
                group_instance_id=core.config.group_instance_id,
            ),
            on_answered=partial(self._on_answered, core.generation),
            on_lost=self._on_lost,
        )

    # --- leaving ----------------------------------------------------------------------------------

    def leave(
        self,
        reason: str,
        *,
        is_wanted: bool | None = None,
        on_sent: Callable[[], None] = nobody_listens,
    ) -> None:
        """Forget the membership; send a leave before that, if it is wanted: by default of dynamic
        members only (classic §4.5). ``on_sent`` is called in between."""
        core = self._core
        if (
            (self._leaves_by_default if is_wanted is None else is_wanted)
            and core.coordinator_id is not None
            and core.classic_state is not ClassicState.UNJOINED
            and core.generation.member_id
        ):
            member = MemberIdentity(
                core.generation.member_id, core.config.group_instance_id, reason
            )
            core.requests.send(
                SendLeaveGroup,
                request=LeaveGroupRequest(group_id=core.config.group_id, members=(member,)),
                on_answered=nobody_listens,
                on_lost=nobody_listens,
            )
            on_sent()
        core.reset(Reset.MEMBER_ID, reason=_LEFT)
        self.disable()

    @property
    def _leaves_by_default(self) -> bool:
        return self._core.is_dynamic or not self._core.rules.static_members_stay

    # --- answers ----------------------------------------------------------------------------------

    def _on_answered(self, sent_in: Generation, response: HeartbeatResponse) -> None:
        core = self._core
        error_code = response.error_code
        if error_code is ErrorCode.NONE:
            self._succeed()
            return
        reaction = reaction_to(Api.HEARTBEAT, error_code)
        if reaction.then is Then.REJOIN:
            if core.classic_state is ClassicState.STABLE:
                core.request_rejoin(_REBALANCING)
                if not core.rules.beats_while_the_group_rebalances:
                    self.disable()
            self._succeed()
            return
        if reaction.reset is not Reset.NOTHING and sent_in != core.generation:
            self._succeed()  # it is about a generation that is over
            return
        if reaction.forgets_coordinator:
            self._search.mark_unknown()
        core.reset(reaction.reset, reason=f"encountered {error_code.name} from HEARTBEAT response")
        self._fail()
        if reaction.then is Then.RAISE:
            core.is_fatal = True
            self._application.queue_error(error_code, "the heartbeat failed")

    def _on_lost(self, loss: Loss) -> None:
        self._fail()

    def _succeed(self) -> None:
        self._attempts = 0
        self._session_due_ms = self._core.now_ms + self._core.config.session_timeout_ms

    def _fail(self) -> None:
        self._due_ms = self._core.now_ms + self._core.draw_backoff_ms(self._attempts)
        self._attempts += 1
