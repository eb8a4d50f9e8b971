"""How long the quiet period of a world has to be, where it is not given."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.invariants.model.quiet_period import SLACK_BATCHES
from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS
from rebalance_sim.protocol.runtime.coordinator_config import UPGRADE_POLICIES
from rebalance_sim.sim.faults.broker_config_change import BrokerConfigChange
from rebalance_sim.sim.faults.client_redeploy import ClientRedeploy
from rebalance_sim.sim.faults.clock_step import ClockStep
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.group_config_change import GroupConfigChange
from rebalance_sim.sim.faults.rolling_migration import RollingMigration
from rebalance_sim.sim.faults.surge_deploy import SurgeDeploy
from rebalance_sim.sim.faults.topic_delete import TopicDelete
from rebalance_sim.sim.faults.topic_recreate import TopicRecreate
from rebalance_sim.sim.spec import ClientSpec, WorldSpec

_QUIET_PERIOD_INTERVALS = 4
_LOAD_MS = 2_000
_COMMIT_MS = 60_000
"""How long ``commitSync`` tries: ``default.api.timeout.ms``."""
_WARM_UP_MS = 60_000
"""For the last copies of a Streams application: each that catches up asks for a new target."""


def quiet_period_ms(world: WorldSpec) -> int:
    """The one that is given; else long enough for every bound of ``invariants.model.quiet_period``
    if nothing restarts these, and for the last load before it."""
    if world.quiet_period_ms is not None:
        return world.quiet_period_ms
    config, clients, faults = world.config, world.clients, world.faults
    heartbeat_ms = config.group_consumer_heartbeat_interval_ms
    assignment_ms = config.group_consumer_assignment_interval_ms
    request_ms = max(client.request_timeout_ms for client in clients)
    rebalance_ms = max(client.max_poll_interval_ms for client in clients)
    for fault in faults:
        if isinstance(fault, ClientRedeploy):
            request_ms = max(request_ms, fault.request_timeout_ms or 0)
            rebalance_ms = max(rebalance_ms, fault.max_poll_interval_ms or 0)
        elif isinstance(fault, GroupConfigChange):
            heartbeat_ms = max(heartbeat_ms, fault.consumer_heartbeat_interval_ms or 0)
            assignment_ms = max(assignment_ms, fault.consumer_assignment_interval_ms or 0)
        elif isinstance(fault, BrokerConfigChange):
            assignment_ms = max(assignment_ms, fault.group_consumer_assignment_interval_ms or 0)
    # What uses a clock that was set back waits for so long; so does a coordinator whose
    # predecessor's clock was ahead.
    clocks_ms = sum(abs(fault.step_ms) for fault in faults if isinstance(fault, ClockStep))
    slack_ms = (
        _QUIET_PERIOD_INTERVALS * max(heartbeat_ms, *map(_longest_processing_ms, clients))
        + assignment_ms
        + request_ms
        + SLACK_BATCHES * max(map(_longest_batch_ms, clients))
    )
    computing_ms = 0
    if any(client.client_assignors is not None for client in clients):
        computing_ms = slack_ms + rebalance_ms + _WARM_UP_MS
    if _may_rebalance_as_one(clients, faults):
        # A whole group waits until the slowest has committed what it can, and until all are there.
        slack_ms += 2 * rebalance_ms
    session_ms = config.group_consumer_max_session_timeout_ms
    retired = {name for f in faults if isinstance(f, SurgeDeploy) for name in f.clients}
    is_closed = config.group_consumer_migration_policy not in UPGRADE_POLICIES
    # A static member of a classic group that does not return keeps members of the consumer protocol
    # out; and one whose client is gone for good keeps what it has for a session of its own.
    classic_ms = [
        fault.session_timeout_ms or 0
        for fault in faults
        if isinstance(fault, ClientRedeploy) and (is_closed or fault.client in retired)
    ]
    session_ms = max(session_ms, *classic_ms, 0)
    if any(client.commits_when_revoked for client in clients) and any(
        isinstance(fault, TopicDelete | TopicRecreate) for fault in faults
    ):
        # Who is to give up partitions of a topic that is no more commits them as long as it may.
        told_ms = _QUIET_PERIOD_INTERVALS * heartbeat_ms + assignment_ms
        session_ms = max(session_ms, told_ms + _COMMIT_MS)
    return session_ms + slack_ms + rebalance_ms + computing_ms + clocks_ms + _LOAD_MS


def length_s(world: WorldSpec) -> float:
    """How long a world lasts that nothing prolongs, in simulated seconds."""
    return (world.duration_ms + quiet_period_ms(world)) / 1000


def _may_rebalance_as_one(clients: Iterable[ClientSpec], faults: Iterable[Fault]) -> bool:
    """Whether there may be a classic group at any time."""
    return any(client.kind in CLASSIC_KINDS for client in clients) or any(
        isinstance(fault, RollingMigration | ClientRedeploy) and fault.to_kind in CLASSIC_KINDS
        for fault in faults
    )


def _longest_processing_ms(client: ClientSpec) -> int:
    """The longest time between two polls that the quiet period has to have time for."""
    return min(client.longest_processing_ms, client.max_poll_interval_ms // 2)


def _longest_batch_ms(client: ClientSpec) -> int:
    """The longest batch that the quiet period has to have time for; after longer ones nothing is
    judged."""
    rate = client.processing_records_per_second
    if rate is None:
        return 0
    return min(client.max_poll_records * 1_000 // rate, client.max_poll_interval_ms // 2)
