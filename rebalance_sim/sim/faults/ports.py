"""What faults ask of a world, and what they are drawn by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rebalance_sim.protocol.clients.common.values import MembershipOperation
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce, CoordinatorConfig
from rebalance_sim.protocol.wire.classic_messages import MemberIdentity

if TYPE_CHECKING:
    from rebalance_sim.sim.broker.broker import Broker
    from rebalance_sim.sim.broker.registration import PartitionRegistration
    from rebalance_sim.sim.client.client_conditions import ClientConditions
    from rebalance_sim.sim.network.network import Network


class Process(Protocol):
    """A client process that is alive."""

    @property
    def started_ms(self) -> int:
        """When it started."""

    def fall_asleep(self) -> None:
        """It does not run from now on."""

    def wake_up(self) -> None:
        """It runs again."""

    def look_at_conditions(self) -> None:
        """Whether it may poll has changed."""


class Clients(Protocol):
    """Every client by name, and its processes."""

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of the specification."""

    @property
    def conditions(self) -> Mapping[str, ClientConditions]:
        """What open windows do to each client."""

    def group_id_of(self, name: str) -> str:
        """The group that a client belongs to."""

    def live(self, name: str) -> Process | None:
        """The process of a client; None while it has none."""

    def stays(self, name: str) -> bool:
        """Whether a client has a process that no one has asked to close."""

    def crash(self, name: str, down_ms: int | None) -> bool:
        """Kill the process; a new one follows after ``down_ms``, or none. False: there is none."""

    def close(self, name: str, down_ms: int | None, operation: MembershipOperation) -> bool:
        """The same by ``close``."""

    def step_clock(self, name: str, step_ms: int) -> bool:
        """Set the wall clock of a client's host. False: no process uses it now."""

    def subscribe(self, name: str, topics: tuple[str, ...], topic_regex: str | None = None) -> bool:
        """Let the application change its subscription. False: there is no process now."""

    def enforce_rebalance(self, name: str) -> bool:
        """Let the application ask for a rebalance. False: it cannot."""

    def change(self, name: str, changes: Mapping[str, Any]) -> None:
        """Let the processes to come have other settings (fields of ``ClientSpec``)."""

    def identities(self, names: Iterable[str], group_id: str) -> tuple[MemberIdentity, ...]:
        """As what an administrator knows the members that these clients are."""

    def migrate(
        self, name: str, kind: str, version: str | None, assignors: tuple[str, ...]
    ) -> None:
        """Let the processes to come be of another kind, or another version of it."""

    def retire(self, name: str) -> None:
        """Let the application close its consumer, and never start again."""

    def restart_later(self, name: str, delay_ms: int) -> None:
        """Start a new process of a client after a while, or when the old one has ended."""


class Controller(Protocol):
    """Decides who leads which partition of ``__consumer_offsets``."""

    @property
    def partitions(self) -> Sequence[PartitionRegistration]:
        """What is on record of each partition."""

    def move(self, partition: int, broker: Broker) -> None:
        """Make a broker the leader of a partition."""

    def elect_uncleanly(self, partition: int, broker: Broker) -> None:
        """Make a broker the leader of a partition, in sync or not."""

    def fence(self, broker: Broker) -> None:
        """Elect others where a broker led."""

    def fence_later(self, broker: Broker, *, if_silent: Callable[[], bool]) -> None:
        """Fence a broker when its session runs out, if it has been silent until then."""

    def go_down(self) -> None:
        """No one is the controller from now on."""

    def come_back(self) -> None:
        """There is a controller again."""

    def on_broker_up(self, broker: Broker) -> None:
        """A broker is back."""

    def catch_up(self, broker: Broker) -> None:
        """Let a broker that lagged behind learn what it has missed."""

    def on_broker_in_touch(self, broker: Broker) -> None:
        """A broker that was silent is heard of again."""


class DataPlane(Protocol):
    """The records that flow."""

    def lag_of(self, group_id: str) -> int:
        """The lag of a group, in records."""

    def on_network_changed(self, client_name: str) -> None:
        """A client's way to the brokers has changed."""


class Topics(Protocol):
    """The topics of the cluster; each call says whether it changed anything."""

    def create(
        self, name: str, partition_count: int, records_per_second: int | None = None
    ) -> bool:
        """Create a topic with so many records for each partition; None: as many as the last topic
        of that name had, or none."""

    def grow(self, name: str, partition_count: int) -> bool:
        """Add partitions until there are so many."""

    def delete(self, name: str) -> bool:
        """Delete a topic."""

    def partition_count(self, name: str) -> int | None:
        """The present number of partitions; None: no such topic."""


class SettingsChange(Protocol):
    """A change of the settings of brokers or groups."""

    def altered(self, configs: ConfigsInForce, context: SettingsContext) -> ConfigsInForce:
        """The settings after it. Raises GroupError as a broker would refuse it."""


class SettingsContext(Protocol):
    """What a world starts with (``WorldSpec``)."""

    @property
    def config(self) -> CoordinatorConfig:
        """The settings that brokers are started with."""

    @property
    def group_id(self) -> str:
        """The group that is meant where none is named."""

    @property
    def has_assignment_interval(self) -> bool:
        """Whether the simulated version has this setting, and can alter it at run time."""


class Settings(Protocol):
    """The settings as administrators alter them."""

    def apply(self, change: SettingsChange) -> bool:
        """Publish altered settings; False if the controller refuses them."""


class Administrators(Protocol):
    """Who asks coordinators to do something to a group."""

    def ask(self, kind: str, request: Any) -> None:
        """Send a request to the coordinator of its group, until it is answered or too late."""


class FaultWorld(Protocol):
    """A world as faults see it."""

    replication_factor: int
    """By how much replication takes longer than usual."""

    @property
    def default_group_id(self) -> str:
        """The group that is meant where none is named."""

    @property
    def now_ms(self) -> int:
        """The time, with all that was left out."""

    @property
    def network(self) -> Network:
        """Connections between clients and brokers."""

    @property
    def network_names(self) -> tuple[str, ...]:
        """Everybody who has connections: the clients, and administrators if there are any."""

    @property
    def brokers(self) -> Sequence[Broker]:
        """Every broker, by node id."""

    @property
    def controller(self) -> Controller:
        """The controller of the cluster."""

    @property
    def client_processes(self) -> Clients:
        """The clients."""

    @property
    def data_plane(self) -> DataPlane:
        """The records."""

    @property
    def topics(self) -> Topics:
        """The topics."""

    @property
    def settings(self) -> Settings:
        """The settings."""

    @property
    def admin(self) -> Administrators:
        """Who deletes groups and changes offsets."""

    def partition_of(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that holds a group."""

    def later(
        self, delay_ms: int, action: Callable[[], object], *, when_quiet: bool = False
    ) -> None:
        """Do something after a while, unless the quiet period has come by then; ``when_quiet``:
        even so."""


class DrawRule(Protocol):
    """How a profile wants a kind of fault to be (``scenarios.profile.FaultRule``).

    Pairs are ranges, both ends included. A kind with fields that are ``drawn`` has a rule with
    their ranges as well, by their names; it takes ``Any``.
    """

    @property
    def duration_ms(self) -> tuple[int, int]:
        """How long a window lasts, or a process is down."""

    @property
    def gap_ms(self) -> tuple[int, int]:
        """The pause between two processes of a rolling restart."""

    @property
    def forever_probability(self) -> float:
        """That a process never comes back."""

    @property
    def graceful_probability(self) -> float:
        """That a process which is deployed again closes its consumer before."""

    @property
    def to_kinds(self) -> tuple[str, ...]:
        """The kinds of client that a rolling migration may lead to."""
