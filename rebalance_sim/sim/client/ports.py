"""What client processes ask of the world around them, and their parts of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rebalance_sim.invariants.step import ClientView
from rebalance_sim.protocol.clients.common.events import Event, Subscribe
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.client.process_clock import ProcessClock


class ClientSteps(Protocol):
    """Takes in what happens to clients (``sim.steps``)."""

    def client_event(self, client: ClientView, event: Any, effects: tuple[Any, ...]) -> None:
        """A member machine took an event."""

    def client_started(self, client: ClientView) -> None:
        """A new process."""

    def client_crashed(self, client: ClientView) -> None:
        """A process is gone without a word."""


class Supervisor(Protocol):
    """Starts processes again (``sim.client.client_processes``)."""

    def restart_later(self, name: str, delay_ms: int) -> None:
        """Start a new process after a while, or as soon as the old one has ended after that."""

    def crash(self, name: str, down_ms: int | None) -> bool:
        """Kill the process, if there is one."""

    def on_process_end(self, process: Any) -> None:
        """``close`` has returned: the process ends."""


class Process(Protocol):
    """A client process, as its application and its assignors have it."""

    name: str
    spec: ClientSpec
    member: GroupMember
    is_alive: bool
    tie_break: Callable[[], float]
    own_clock: ProcessClock | None
    """The clock of the process; None: it has never been another than the world's."""

    @property
    def now_ms(self) -> int:
        """By the clock of the process, which the member's times are of."""

    def take(self, event: Event) -> None:
        """Hand an event to the member, and do what it wants."""

    def apply(self, event: Event) -> None:
        """The same for an event that another one follows at once."""

    def defers(self, function: Callable[..., None], *arguments: Any) -> bool:
        """Whether a call is kept for later, or the process is gone."""

    def subscription(self, event: Subscribe) -> Subscribe:
        """What the member learns of a call of ``subscribe``."""

    def crash(self) -> None:
        """End without a word; a supervisor starts another one."""

    def fail_for_good(self) -> None:
        """Close the consumer after an error that there is no way out of; a supervisor starts
        another process."""

    def forget_pattern(self) -> None:
        """The application has subscribed to something else."""

    def refresh_metadata(self) -> None:
        """Ask for metadata, unless they have been asked for."""

    def request_metadata(self) -> None:
        """Ask for metadata in any case."""
