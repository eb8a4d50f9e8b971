"""Makes faults happen: begins each at its time, ends its window, and heals everything for the quiet
period.

One method for each kind of fault; what a fault stands for is said in ``sim/faults/faults.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from rebalance_sim.protocol.clients import MembershipOperation
from rebalance_sim.sim.admin.admin_events import ADMIN, AdminRequest
from rebalance_sim.sim.clock import Call
from rebalance_sim.sim.faults import faults
from rebalance_sim.sim.faults.faults import Fault

if TYPE_CHECKING:
    from rebalance_sim.sim.broker.broker import Broker
    from rebalance_sim.sim.broker.registration import PartitionRegistration
    from rebalance_sim.sim.world import World

__all__ = ["Injector", "fault_kind"]

CONTROLLED_SHUTDOWN_MS = 100
"""How long a broker stays up after its leadership has been taken away, to let that be known."""

_End = Callable[[], None]


def fault_kind(fault: Fault) -> str:
    """The name of a fault in traces and coverage, and in files: ``client_crash``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(fault).__name__).lower()


class _Window:
    """A fault that lasts: the steps from its beginning to its end, and what ends it."""

    __slots__ = ("end", "fault", "first_step", "last_step")

    def __init__(self, fault: Fault, end: _End, first_step: int) -> None:
        self.fault = fault
        self.end = end
        self.first_step = first_step
        self.last_step: int | None = None  # None while it is open


class Injector:
    """Begins faults, and owns their windows. After ``heal`` nothing new begins."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tie_break = world.streams.get("schedule/injector").random
        self._windows: dict[int, _Window] = {}  # by place in the plan, in the order they began
        self._is_quiet = False

    def schedule(self, planned: tuple[Fault, ...]) -> None:
        """Let every fault begin at its time."""
        for index, fault in enumerate(planned):
            self._world.clock.call_at(
                fault.at_ms, self._tie_break(), self._on_begin, (index, fault)
            )

    def heal(self) -> None:
        """The quiet period begins: close every window, bring every broker and awaited client
        back."""
        self._is_quiet = True
        for window in self._windows.values():
            self._end(window)
        for broker in self._world.brokers:
            broker.is_stopping = False
            if not broker.is_alive:
                broker.restart()
        self._world.client_processes.restart_all_due()

    def open_at(self, step_index: int) -> tuple[str, ...]:
        """The faults whose windows were open at a step, as ``client_pause(a) since 20000 ms``."""
        found = []
        for window in self._windows.values():
            last_step = step_index if window.last_step is None else window.last_step
            if window.first_step <= step_index <= last_step:
                target = _target(window.fault)
                name = fault_kind(window.fault) + (f"({target})" if target else "")
                found.append(f"{name} since {window.fault.at_ms} ms")
        return tuple(found)

    # --- windows ----------------------------------------------------------------------------------

    def _on_begin(self, call: Call) -> None:
        index, fault = call.argument
        if self._is_quiet:
            return
        world = self._world
        first_step = world.steps.count + 1
        effect: _End | bool = _BEGIN[type(fault)](self, fault)
        if effect is False:
            return
        world.coverage.on_fault(fault_kind(fault))
        if callable(effect):
            window = _Window(fault, effect, first_step)
            self._windows[index] = window
            self._show(fault, " begins")
            at_ms = fault.at_ms + getattr(fault, "duration_ms", 0)
            world.clock.call_at(at_ms, self._tie_break(), self._on_end, window)
        else:
            self._show(fault, "")

    def _on_end(self, call: Call) -> None:
        self._end(call.argument)

    def _end(self, window: _Window) -> None:
        if window.last_step is not None:
            return
        window.last_step = self._world.steps.count
        window.end()
        self._show(window.fault, " ends")

    def _show(self, fault: Fault, what: str) -> None:
        target = _target(fault)
        of_target = f" of {target}" if target else ""
        self._world.steps.fault(fault, f"{fault_kind(fault)}{what}{of_target}")

    def _later(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Do something later, unless the quiet period has come by then."""

        def on_call(call: Call) -> None:
            if not self._is_quiet:
                action()

        clock = self._world.clock
        clock.call_at(clock.now_ms + delay_ms, self._tie_break(), on_call)

    # --- network ----------------------------------------------------------------------------------

    def _connection_loss(self, fault: faults.ConnectionLoss) -> bool:
        network = self._world.network
        if fault.moment is faults.Moment.NOW:
            return network.break_coordinator_connection(fault.client)
        network.link(fault.client).cut = fault.moment
        return True

    def _client_partition(self, fault: faults.ClientPartition) -> _End:
        network = self._world.network
        where = (fault.client, fault.broker, fault.direction)
        network.block(*where)
        self._world.data_plane.on_network_changed(fault.client)

        def end() -> None:
            network.unblock(*where)
            self._world.data_plane.on_network_changed(fault.client)

        return end

    def _network_slowdown(self, fault: faults.NetworkSlowdown) -> _End:
        if fault.client is None:
            names = [spec.name for spec in self._world.spec.clients]
            names += [ADMIN] if self._world.spec.has_admin else []
        else:
            names = [fault.client]
        world = self._world
        for name in names:
            world.network.link(name).factor *= fault.factor
            world.data_plane.on_network_changed(name)

        def end() -> None:
            for name in names:
                world.network.link(name).factor //= fault.factor
                world.data_plane.on_network_changed(name)

        return end

    # --- brokers ----------------------------------------------------------------------------------

    def _registration(self, offsets_partition: int | None) -> PartitionRegistration:
        """A partition of ``__consumer_offsets``; None: the one that holds the world's group."""
        world = self._world
        if offsets_partition is None:
            offsets_partition = world.partition_of(world.spec.group_id)
        return world.controller.partitions[offsets_partition]

    def _broker(
        self, fault: faults.BrokerIsolation | faults.BrokerCrash | faults.AppendFailure
    ) -> Broker | None:
        if fault.broker is not None:
            return self._world.brokers[fault.broker]
        return self._registration(fault.offsets_partition).leader

    def _broker_isolation(self, fault: faults.BrokerIsolation) -> _End | bool:
        broker = self._broker(fault)
        if broker is None:
            return False
        broker.isolation_count += 1

        def end() -> None:
            broker.isolation_count -= 1
            broker.pump_both_ways()

        return end

    def _replication_slowdown(self, fault: faults.ReplicationSlowdown) -> _End:
        world = self._world
        world.replication_factor *= fault.factor

        def end() -> None:
            world.replication_factor //= fault.factor
            for broker in world.brokers:
                for replica in broker.replicas:
                    replica.replication.fetch_anew()

        return end

    def _broker_crash(self, fault: faults.BrokerCrash) -> _End | bool:
        broker = self._broker(fault)
        if broker is None or not broker.is_alive:
            return False
        broker.crash()

        def end() -> None:
            if not broker.is_alive:
                broker.restart()

        return end

    def _broker_bounce(self, fault: faults.BrokerBounce) -> bool:
        self._bounce_broker(fault, 0)
        return True

    def _bounce_broker(self, fault: faults.BrokerBounce, node_id: int) -> None:
        """Shut one broker down in a controlled way; the next one follows."""
        if node_id >= len(self._world.brokers):
            return
        broker = self._world.brokers[node_id]

        def stop() -> None:
            if broker.is_alive:
                broker.crash()

        def start() -> None:
            if not broker.is_alive:
                broker.restart()

        if broker.is_alive:
            broker.is_stopping = True
            self._world.controller.fence(broker)
        back_ms = CONTROLLED_SHUTDOWN_MS + fault.down_ms
        self._later(CONTROLLED_SHUTDOWN_MS, stop)
        self._later(back_ms, start)
        self._later(back_ms + fault.gap_ms, lambda: self._bounce_broker(fault, node_id + 1))

    def _coordinator_move(self, fault: faults.CoordinatorMove) -> bool:
        world = self._world
        registration = self._registration(fault.offsets_partition)
        old = registration.leading_replica
        if fault.to_broker is None:
            broker = registration.successor()
        else:
            broker = world.brokers[fault.to_broker]
            if not registration.may_lead(broker):
                return False
        if old is None or broker is None or broker is old.broker:
            return False
        new = broker.replicas[registration.partition]
        if fault.keeps_tail:
            old.replication.hand_over(new)
        else:
            new.tail_cut_epoch = registration.leader_epoch + 1
        world.controller.move(registration.partition, broker)
        return True

    def _log_compaction(self, fault: faults.LogCompaction) -> bool:
        brokers = self._world.brokers
        chosen = brokers if fault.broker is None else [brokers[fault.broker]]
        if fault.offsets_partition is None:
            partitions = range(len(self._world.controller.partitions))
        else:
            partitions = range(fault.offsets_partition, fault.offsets_partition + 1)
        dropped = 0
        for partition in partitions:
            logs = [broker.replicas[partition].log for broker in brokers]
            for broker in chosen:
                log = logs[broker.node_id]
                everybody_has_to = min(other.divergence_from(log) for other in logs)
                unread_from = broker.replicas[partition].shard.needs_tombstones_from
                if unread_from is not None:
                    everybody_has_to = min(everybody_has_to, unread_from)
                dropped += log.compact(
                    log.high_watermark * fault.cleaned_percent // 100,
                    drops_tombstones=fault.drops_tombstones,
                    everybody_has_to=everybody_has_to,
                )
        return dropped > 0

    def _append_failure(self, fault: faults.AppendFailure) -> _End | bool:
        broker = self._broker(fault)
        if broker is None:
            return False
        broker.append_errors.append(fault.error)
        return lambda: broker.append_errors.remove(fault.error)

    def _zombie_leader(self, fault: faults.ZombieLeader) -> _End | bool:
        controller = self._world.controller
        registration = self._registration(fault.offsets_partition)
        old, new = registration.leader, registration.successor()
        if old is None or new is None or not old.is_alive:
            return False
        old.cut_off_count += 1
        old.isolation_count += 1
        controller.fence(old)

        def end() -> None:
            old.cut_off_count -= 1
            old.isolation_count -= 1
            if old.is_alive:
                controller.on_broker_up(old)
                old.pump_both_ways()

        return end

    # --- clients ----------------------------------------------------------------------------------

    def _client_crash(self, fault: faults.ClientCrash) -> bool:
        return self._world.client_processes.crash(fault.client, fault.down_ms)

    def _client_close(self, fault: faults.ClientClose) -> bool:
        return self._world.client_processes.close(fault.client, fault.down_ms, fault.operation)

    def _client_bounce(self, fault: faults.ClientBounce) -> bool:
        names = fault.clients or tuple(spec.name for spec in self._world.spec.clients)
        self._bounce_client(fault, sorted(names))
        return True

    def _bounce_client(self, fault: faults.ClientBounce, names: list[str]) -> None:
        if not names:
            return
        client_processes = self._world.client_processes
        if fault.graceful:
            client_processes.close(names[0], fault.down_ms, MembershipOperation.DEFAULT)
        else:
            client_processes.crash(names[0], fault.down_ms)
        self._later(fault.down_ms + fault.gap_ms, lambda: self._bounce_client(fault, names[1:]))

    def _rolling_migration(self, fault: faults.RollingMigration) -> bool:
        names = fault.clients or tuple(spec.name for spec in self._world.spec.clients)
        self._migrate_client(fault, sorted(names))
        return True

    def _migrate_client(self, fault: faults.RollingMigration, names: list[str]) -> None:
        if not names:
            return
        client_processes = self._world.client_processes
        client_processes.migrate(names[0], fault.to_kind, fault.assignors)
        if fault.graceful:
            client_processes.close(names[0], fault.down_ms, MembershipOperation.DEFAULT)
        else:
            client_processes.crash(names[0], fault.down_ms)
        self._later(fault.down_ms + fault.gap_ms, lambda: self._migrate_client(fault, names[1:]))

    def _client_pause(self, fault: faults.ClientPause) -> _End | bool:
        running = self._world.client_processes.live(fault.client)
        if running is None:
            return False
        conditions = self._world.client_processes.conditions[fault.client]
        if not conditions.is_paused:
            running.fall_asleep()
        conditions.begin(fault)

        def end() -> None:
            was_paused = conditions.is_paused
            conditions.end(fault)
            process = self._world.client_processes.live(fault.client)
            if was_paused and not conditions.is_paused and process is not None:
                process.wake_up()

        return end

    def _poll_stall(self, fault: faults.PollStall) -> _End | bool:
        client_processes = self._world.client_processes
        process = client_processes.live(fault.client)
        if process is None:
            return False
        conditions = client_processes.conditions[fault.client]
        conditions.begin(fault)
        process.look_at_conditions()

        def end() -> None:
            conditions.end(fault)
            present = client_processes.live(fault.client)
            if present is not None:
                present.look_at_conditions()

        return end

    def _callback_slowdown(self, fault: faults.CallbackSlowdown) -> _End:
        conditions = self._world.client_processes.conditions[fault.client]
        conditions.begin(fault)
        return lambda: conditions.end(fault)

    def _callback_failure(self, fault: faults.CallbackFailure) -> _End:
        conditions = self._world.client_processes.conditions[fault.client]
        conditions.begin(fault)
        return lambda: conditions.end(fault)

    def _metadata_lag(self, fault: faults.MetadataLag) -> _End:
        conditions = self._world.client_processes.conditions[fault.client]
        conditions.begin(fault)
        return lambda: conditions.end(fault)

    def _subscription_change(self, fault: faults.SubscriptionChange) -> bool:
        return self._world.client_processes.subscribe(fault.client, fault.topics)

    # --- topics -----------------------------------------------------------------------------------

    def _topic_create(self, fault: faults.TopicCreate) -> bool:
        return self._world.topics.create(fault.topic, fault.partition_count)

    def _topic_grow(self, fault: faults.TopicGrow) -> bool:
        return self._world.topics.grow(fault.topic, fault.partition_count)

    def _topic_delete(self, fault: faults.TopicDelete) -> bool:
        return self._world.topics.delete(fault.topic)

    def _topic_recreate(self, fault: faults.TopicRecreate) -> bool:
        topics = self._world.topics
        if not topics.delete(fault.topic):
            return False

        def create(call: Call | None) -> None:
            topics.create(fault.topic, fault.partition_count)

        if fault.down_ms == 0:
            create(None)
        else:
            # Also in the quiet period: who subscribes to the topic waits for it.
            at_ms = self._world.clock.now_ms + fault.down_ms
            self._world.clock.call_at(at_ms, self._tie_break(), create)
        return True

    # --- administrators ---------------------------------------------------------------------------

    def _admin_request(self, fault: AdminRequest) -> bool:
        self._world.admin.begin(fault_kind(fault), fault)
        return True

    # --- settings ---------------------------------------------------------------------------------

    def _config_change(self, fault: faults.GroupConfigChange | faults.BrokerConfigChange) -> bool:
        return self._world.settings.apply(fault)


def _target(fault: Fault) -> str:
    """``a`` or ``broker 1`` or ``orders``, where a fault names something; else empty."""
    for name, label in (
        ("client", ""),
        ("broker", "broker "),
        ("topic", ""),
        ("offsets_partition", "offsets partition "),
    ):
        value: Any = getattr(fault, name, None)
        if value is not None:
            return f"{label}{value}"
    return ""


_BEGIN: dict[type, Callable[[Injector, Any], _End | bool]] = {
    faults.ConnectionLoss: Injector._connection_loss,
    faults.ClientPartition: Injector._client_partition,
    faults.NetworkSlowdown: Injector._network_slowdown,
    faults.BrokerIsolation: Injector._broker_isolation,
    faults.ReplicationSlowdown: Injector._replication_slowdown,
    faults.BrokerCrash: Injector._broker_crash,
    faults.BrokerBounce: Injector._broker_bounce,
    faults.CoordinatorMove: Injector._coordinator_move,
    faults.LogCompaction: Injector._log_compaction,
    faults.AppendFailure: Injector._append_failure,
    faults.ZombieLeader: Injector._zombie_leader,
    faults.ClientCrash: Injector._client_crash,
    faults.ClientClose: Injector._client_close,
    faults.ClientBounce: Injector._client_bounce,
    faults.RollingMigration: Injector._rolling_migration,
    faults.ClientPause: Injector._client_pause,
    faults.PollStall: Injector._poll_stall,
    faults.CallbackSlowdown: Injector._callback_slowdown,
    faults.CallbackFailure: Injector._callback_failure,
    faults.MetadataLag: Injector._metadata_lag,
    faults.SubscriptionChange: Injector._subscription_change,
    faults.TopicCreate: Injector._topic_create,
    faults.TopicGrow: Injector._topic_grow,
    faults.TopicDelete: Injector._topic_delete,
    faults.TopicRecreate: Injector._topic_recreate,
    faults.GroupConfigChange: Injector._config_change,
    faults.BrokerConfigChange: Injector._config_change,
    **dict.fromkeys(get_args(AdminRequest), Injector._admin_request),
}
