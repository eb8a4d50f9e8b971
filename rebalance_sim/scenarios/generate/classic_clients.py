"""Drawing who of a scenario speaks the classic protocol, how, and who changes over.

Every draw comes from a stream of its own, so that nothing else of a seed depends on it. Source:
classic §2.10, §3.1, §7.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rebalance_sim.protocol.clients.kinds import (
    CLASSIC,
    LIBRDKAFKA,
    LIBRDKAFKA_CLASSIC,
    LIBRDKAFKA_KINDS,
)
from rebalance_sim.protocol.runtime.coordinator_config import MIGRATION_POLICIES, CoordinatorConfig
from rebalance_sim.scenarios.profile import FaultRule
from rebalance_sim.sim.client.client_checks import COOPERATIVE
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.spec import ClientSpec
from rebalance_sim.sim.streams import Streams

_EAGER_LISTS = (("range",), ("roundrobin",), ("sticky",), ("range", COOPERATIVE))
_NAMES = ("range", "roundrobin", "sticky", COOPERATIVE)
_EAGER_LISTS_OF_LIBRDKAFKA = (
    ("range",),
    ("roundrobin",),
    ("range", "roundrobin"),
    ("roundrobin", "range"),
)
_EAGER_NAMES_OF_LIBRDKAFKA = ("range", "roundrobin")
_LIBRDKAFKA_SHARE = 0.5
_CLASSIC_SHARE = 0.5
_INITIAL_DELAYS_MS = (0, 0, 1_000, 3_000)
_METADATA_AGES_MS = (1_000, 5_000, 10_000)


def speaks_classic(features: frozenset[str], rules: Iterable[FaultRule]) -> bool:
    """Whether anybody in the scenario may speak the classic protocol, now or later."""
    return not features.isdisjoint(("classic_clients", "mixed_protocols")) or any(
        rule.kind == "rolling_migration" for rule in rules
    )


class ClassicSetup:
    """Gives clients the classic protocol, and brokers what belongs to it."""

    def __init__(self, features: frozenset[str], streams: Streams) -> None:
        self._features = features
        self._streams = streams

    def config(self, config: CoordinatorConfig) -> CoordinatorConfig:
        """Brokers wait for more members at first, or not; and allow a migration, or not."""
        draw = Draw(self._streams.get("generate/classic-config"))
        delay_ms, policy = draw.pick(_INITIAL_DELAYS_MS), draw.pick(tuple(MIGRATION_POLICIES))
        if "migration_policies" not in self._features:
            policy = config.group_consumer_migration_policy
        return replace(
            config,
            group_initial_rebalance_delay_ms=delay_ms,
            group_consumer_migration_policy=policy,
        )

    def clients(
        self, clients: tuple[ClientSpec, ...], config: CoordinatorConfig
    ) -> tuple[ClientSpec, ...]:
        """All of them, or some, with lists of assignors that the clients of a group agree on."""
        age_ms = Draw(self._streams.get("generate/metadata-age")).pick(_METADATA_AGES_MS)
        of_groups = {group_id: self._common(group_id) for group_id in _group_ids(clients)}
        alike = tuple(
            replace(client, assignors=of_groups[client.group_id], metadata_max_age_ms=age_ms)
            for client in clients
        )
        return tuple(self._client(client, index, config) for index, client in enumerate(alike))

    def _client(self, client: ClientSpec, index: int, config: CoordinatorConfig) -> ClientSpec:
        draw = Draw(self._streams.get(f"generate/classic-client/{index}"))
        is_classic = "classic_clients" in self._features
        if "mixed_protocols" in self._features:
            is_classic = draw.chance(_CLASSIC_SHARE)
        ready = replace(
            client,
            assignors=self._assignors(draw, client.assignors),
            session_timeout_ms=config.group_consumer_session_timeout_ms,
            # A member that learns of a rebalance after its timeout is removed, again and again.
            heartbeat_interval_ms=min(
                config.group_consumer_heartbeat_interval_ms, client.max_poll_interval_ms // 3
            ),
        )
        kind = self._kind(index, client.kind, is_classic)
        if not is_classic:
            knows_ids = kind not in LIBRDKAFKA_KINDS and client.uses_topic_ids
            return replace(
                ready,
                kind=kind,
                uses_topic_ids=None if client.uses_topic_ids is None else knows_ids,
            )
        return replace(ready, kind=kind, server_assignor=None, uses_topic_ids=None)

    def _kind(self, index: int, drawn: str, is_classic: bool) -> str:
        """The library of a client, from a stream of its own; ``drawn``: what it is otherwise."""
        if "librdkafka_classic" not in self._features:
            return CLASSIC if is_classic else drawn
        if "librdkafka_clients" in self._features:
            draw = Draw(self._streams.get(f"generate/librdkafka-classic/{index}"))
            if not draw.chance(_LIBRDKAFKA_SHARE):
                return CLASSIC if is_classic else drawn
        return LIBRDKAFKA_CLASSIC if is_classic else LIBRDKAFKA

    def _common(self, group_id: str | None) -> tuple[str, ...]:
        """What all clients of a group support."""
        draw = Draw(self._streams.get(f"generate/classic-group/{group_id or ''}"))
        has_librdkafka = "librdkafka_classic" in self._features
        eager = draw.pick(_EAGER_LISTS_OF_LIBRDKAFKA if has_librdkafka else _EAGER_LISTS)
        return (COOPERATIVE,) if "cooperative_assignors" in self._features else eager

    def _assignors(self, draw: Draw, common: tuple[str, ...]) -> tuple[str, ...]:
        """The list of one client."""
        if "mixed_assignors" not in self._features:
            return common
        names: tuple[str, ...] = _NAMES
        if "librdkafka_classic" in self._features:
            names = () if COOPERATIVE in common else _EAGER_NAMES_OF_LIBRDKAFKA
            if set(names) <= set(common):
                return common
        other = draw.pick([name for name in names if name not in common])
        return draw.pick((common, (*common, other), (other, *common)))


def _group_ids(clients: tuple[ClientSpec, ...]) -> list[str | None]:
    return list(dict.fromkeys(client.group_id for client in clients))
