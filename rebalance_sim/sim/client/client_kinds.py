"""The member of a client process: the machine of its kind, with the settings of the scenario and
the rules of its version and of the semantics. Which kinds there are stands in
``protocol.clients.kinds``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalance_sim.protocol.clients.common.client_kind import ClientKind, NewMember
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.kinds import JAVA, KINDS
from rebalance_sim.protocol.clients.versions import client_rule_set, client_rules
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.sim.client.client_assignors import make_assignors
from rebalance_sim.sim.client.client_spec import ClientSpec


def make_member(
    spec: ClientSpec,
    jitter: Callable[[], float],
    *,
    group_id: str,
    member_id: str,
    semantics: Semantics,
    now_ms: int,
) -> GroupMember:
    """The member of a new process. ``jitter`` answers a number in [-1, 1]."""
    kind = KINDS[spec.kind]
    settings = _classic_settings if kind.is_classic else _consumer_settings
    config = kind.config(
        group_id=group_id,
        group_instance_id=spec.instance_id,
        client_rack=spec.rack,
        max_poll_interval_ms=spec.max_poll_interval_ms,
        enable_auto_commit=spec.enable_auto_commit,
        auto_commit_interval_ms=spec.auto_commit_interval_ms,
        greedy_auto_commit=spec.greedy_auto_commit,
        request_timeout_ms=spec.request_timeout_ms,
        # Brokers before 4.2 know no topic ids in offset requests.
        uses_topic_ids=spec.uses_topic_ids and semantics.coordinator.takes_topic_ids_of_offsets,
        **settings(spec, kind, semantics),
    )
    return kind.make(
        NewMember(
            config=config,
            member_id=member_id,
            rules=client_rules(kind, spec.version, semantics),
            jitter=jitter,
            now_ms=now_ms,
        )
    )


def runs_by_wall_clock(spec: ClientSpec) -> bool:
    """Whether the client times what it does by the wall clock of its host, as Java's do;
    librdkafka's ``rd_clock`` is monotonic."""
    return KINDS[spec.kind].library == KINDS[JAVA].library


def looks_at_topics(spec: ClientSpec) -> bool:
    """Whether the client itself has to look which topics there are, and which of them its pattern
    matches: no coordinator does it for it."""
    return KINDS[spec.kind].is_classic


def _consumer_settings(spec: ClientSpec, kind: ClientKind, semantics: Semantics) -> dict[str, Any]:
    return {
        "group_remote_assignor": spec.server_assignor,
        "group_local_assignors": make_assignors(spec.name, spec.client_assignors, semantics),
    }


def _classic_settings(spec: ClientSpec, kind: ClientKind, semantics: Semantics) -> dict[str, Any]:
    assignors = (kind.assignors[name] for name in spec.assignors)
    rules = client_rule_set(kind, spec.version, semantics)
    return {
        "assignors": tuple(rules.rules(type(assignor))() for assignor in assignors),
        "session_timeout_ms": spec.session_timeout_ms,
        "heartbeat_interval_ms": spec.heartbeat_interval_ms,
    }
