"""How long the quiet period of a world has to be, where it is not given."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.invariants.model.quiet_period import SLACK_BATCHES
from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS
from rebalance_sim.protocol.runtime.coordinator_config import UPGRADE_POLICIES
from rebalance_sim.protocol.transactions.transaction_coordinator import ABORT_INTERVAL_MS
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.spec import ClientSpec, WorldSpec

_QUIET_PERIOD_INTERVALS = 4
_LOAD_MS = 2_000
_COMMIT_MS = 60_000
"""How long ``commitSync`` tries: ``default.api.timeout.ms``."""
_WARM_UP_MS = 60_000
"""For the last copies of a Streams application: each that catches up asks for a new target."""


def quiet_period_ms(world: WorldSpec) -> int:
    """The one that is given; else ``quiet_period_min_ms``, or as long as settings call for."""
    if world.quiet_period_ms is not None:
        return world.quiet_period_ms
    return max(world.quiet_period_min_ms, called_for_ms(world))


def called_for_ms(world: WorldSpec) -> int:
    """Long enough for every bound of ``invariants.model.quiet_period`` if nothing restarts these,
    and for the last load before it."""
    config, clients, faults = world.config, world.clients, world.faults
    said = (config, *clients, *faults)
    heartbeat_ms = _longest_ms(said, *_of_groups("heartbeat_interval_ms"))
    assignment_ms = _longest_ms(said, *_of_groups("assignment_interval_ms"))
    request_ms = _longest_ms(said, "request_timeout_ms")
    rebalance_ms = _longest_ms(said, "max_poll_interval_ms")
    slack_ms = (
        _QUIET_PERIOD_INTERVALS * max(heartbeat_ms, *map(_longest_processing_ms, clients))
        + assignment_ms
        + request_ms
        + SLACK_BATCHES * max(map(_longest_batch_ms, clients))
    )
    open_ms = [c.transactions.transaction_timeout_ms for c in clients if c.transactions is not None]
    if open_ms:
        # What an application has left open keeps others from its offsets.
        slack_ms += max(open_ms) + ABORT_INTERVAL_MS
    computing_ms = 0
    if any(client.client_assignors is not None for client in clients):
        computing_ms = slack_ms + rebalance_ms + _WARM_UP_MS
    if _may_rebalance_as_one(clients, faults):
        # A whole group waits until the slowest has committed what it can, and until all are there.
        slack_ms += 2 * rebalance_ms
    session_ms = config.group_consumer_max_session_timeout_ms
    retired = {name for fault in faults for name in fault.retires}
    is_closed = config.group_consumer_migration_policy not in UPGRADE_POLICIES
    # A static member of a classic group that does not return keeps members of the consumer protocol
    # out; and one whose client is gone for good keeps what it has for a session of its own.
    staying = [f for f in faults if is_closed or getattr(f, "client", None) in retired]
    session_ms = max(session_ms, _longest_ms(staying, "session_timeout_ms"))
    if any(client.commits_when_revoked for client in clients) and any(
        fault.ends_topic for fault in faults
    ):
        # Who is to give up partitions of a topic that is no more commits them as long as it may.
        notified_ms = _QUIET_PERIOD_INTERVALS * heartbeat_ms + assignment_ms
        session_ms = max(session_ms, notified_ms + _COMMIT_MS)
    after_ms = sum(fault.after_effect_ms for fault in faults)
    return session_ms + slack_ms + rebalance_ms + computing_ms + after_ms + _LOAD_MS


def length_s(world: WorldSpec) -> float:
    """How long a world lasts that nothing prolongs, in simulated seconds."""
    return (world.duration_ms + quiet_period_ms(world)) / 1000


def _may_rebalance_as_one(clients: Iterable[ClientSpec], faults: Iterable[Fault]) -> bool:
    """Whether there may be a classic group at any time."""
    return any(client.kind in CLASSIC_KINDS for client in clients) or any(
        getattr(fault, "to_kind", None) in CLASSIC_KINDS for fault in faults
    )


def _longest_ms(said: Iterable[object], *names: str) -> int:
    """The longest that is said for a setting of one of these names; 0 if nothing is."""
    return max((getattr(one, name, None) or 0 for one in said for name in names), default=0)


def _of_groups(name: str) -> tuple[str, str]:
    """A setting of consumer groups, as brokers and as groups have it."""
    return f"group_consumer_{name}", f"consumer_{name}"


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
