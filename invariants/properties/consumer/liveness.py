"""Safety under fire, then liveness in the quiet period: what has not come about in time, and why.

Sources: coordinator §14.3; client §12 (client O5, O6); defects L1-L3, L6. Bounds are computed from
the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rebalance_sim.invariants.engine.property import PropertySpec
from rebalance_sim.invariants.engine.step import ClientView, WorldView
from rebalance_sim.invariants.known.unfinished import IN_NO_TARGET, Stuck, classified
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.computations import is_fit
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.invariants.properties.classic.classic_liveness import (
    can_upgrade,
    unowned,
    unsettled,
)
from rebalance_sim.protocol.clients import ClientState, ComputingState
from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["LIVENESS", "Liveness"]

SLACK_BATCHES = 4
"""Batches granted on top: whatever needs a ``poll`` waits for the end of one."""

SLACK_INTERVALS = 4
"""Heartbeat intervals granted on top of timeouts: one each to acknowledge, to be told, to
acknowledge that, and one for polls, searches and round trips."""

_SERVED = PropertySpec(
    id="liveness.group_served",
    sentence="Once faults stop, some coordinator serves the group.",
    clauses=("defects L6",),
    violated_by=("KAFKA-17306", "KAFKA-19862", "KAFKA-20254", "KAFKA-10614"),
)
_CONVERGES = PropertySpec(
    id="liveness.converges",
    sentence=(
        "Once faults stop, every subscribed, polling client that has not failed for good reaches "
        "the group epoch and is stable, and so does the group."
    ),
    clauses=(
        "coordinator L1",
        "coordinator L4",
        "client O5",
        "defects L1",
        "TLA+ EventuallyConverges",
    ),
    violated_by=(
        "KAFKA-16215",
        "mut-expire-keeps-ownership",
        "KAFKA-19274",
        "KafScale-121",
        "sim-lost-pattern-withdrawal",
    ),
)
_OWNED = PropertySpec(
    id="liveness.partitions_owned",
    sentence="Once faults stop, every partition of a subscribed topic is worked on by a member.",
    clauses=("coordinator L3", "client O5", "defects L2"),
    violated_by=(
        "KAFKA-16198",
        "mut-no-bump-on-leave",
        "mut-no-bump-on-metadata",
        "KAFKA-18931",
        "mut-expire-keeps-ownership",
        "KAFKA-18916",
        "KAFKA-18160",
        "sim-lost-pattern-withdrawal",
    ),
)
_REVOKED = PropertySpec(
    id="liveness.revocation_bounded",
    sentence="A revocation is acknowledged, or its owner removed, within the rebalance timeout.",
    clauses=("coordinator L2",),
    violated_by=("test:moving-deadline",),
)
_GHOSTS = PropertySpec(
    id="liveness.ghosts_gone",
    sentence="A member that no living client uses is gone after its session timeout.",
    clauses=("coordinator L3", "client O6", "defects L3", "defects S7"),
    violated_by=("KAFKA-18931",),
)
_CLASSIC_SETTLES = PropertySpec(
    id="liveness.classic_settles",
    sentence=(
        "Once faults stop, a classic group becomes Stable with every subscribed, polling classic "
        "client in it, but one of librdkafka for whose topics there are none; in a consumer group "
        "such a client reaches the target epoch, if the migration policy lets it in; join phase "
        "and sync phase are bounded by the rebalance timeouts."
    ),
    clauses=("classic C13", "classic H11", "defects L1", "defects L5"),
    violated_by=("librdkafka-4783", "test:classic-never-synced"),
)
_CLASSIC_OWNED = PropertySpec(
    id="liveness.classic_partitions_owned",
    sentence=(
        "Once faults stop, every partition that the members of a classic group subscribe to is "
        "worked on by one of them."
    ),
    clauses=("classic C13", "classic §6", "defects L2"),
    violated_by=("KAFKA-9801", "test:classic-nobody-works"),
)
_LEAVE_ENDS = PropertySpec(
    id="client.leave.completes",
    sentence="unsubscribe and close return within their timeouts.",
    clauses=("client C28",),
    violated_by=("mut-client-leave-needs-success",),
)

_COMPUTED = PropertySpec(
    id="liveness.target_computed",
    sentence=(
        "Once faults stop, a group whose members can compute its target gets one: whoever is "
        "chosen installs it, or another member, if there is one, takes its place."
    ),
    clauses=("coordinator §12.3",),
    violated_by=("mut-no-computation-timer", "mut-no-recompute"),
)

LIVENESS: tuple[PropertySpec, ...] = (
    _SERVED,
    _COMPUTED,
    _CONVERGES,
    _OWNED,
    _CLASSIC_SETTLES,
    _CLASSIC_OWNED,
    _REVOKED,
    _GHOSTS,
    _LEAVE_ENDS,
)
"""All properties of this file, causes before consequences."""


class Liveness:
    """Judges the quiet period of one world.

    ``on_quiet_period_start`` says when the last fault ended. A load of a coordinator during the
    quiet period starts all bounds anew, as it restarts all timers (coordinator L4); so does a
    client that starts, and one that has news for an assignor, as that asks for a new target.
    """

    def __init__(self, view: WorldView, model: ShadowModel | None = None) -> None:
        self._view = view
        self._model = ShadowModel(view) if model is None else model
        self._quiet_since_ms: int | None = None

    def on_quiet_period_start(self, at_ms: int) -> None:
        """No fault and no deliberate change from now on."""
        self._quiet_since_ms = at_ms

    def on_disturbance(self, at_ms: int) -> None:
        """Timers were restarted; before the quiet period this means nothing."""
        if self._quiet_since_ms is not None:
            self._quiet_since_ms = max(self._quiet_since_ms, at_ms)

    # -- bounds ----------------------------------------------------------------------------

    @property
    def slack_ms(self) -> int:
        """A few heartbeat intervals, the assignment interval, one lost answer, and a few
        batches; of settings that were altered, the longest."""
        config, history = self._view.config, self._model.config_history
        clients = self._view.clients().values()
        request_ms = max((c.member.config.request_timeout_ms for c in clients), default=0)
        # Clients go by the interval of their last answer, which may be longer than today's.
        interval_ms = max(
            config.group_consumer_heartbeat_interval_ms, history.longest_heartbeat_interval_ms
        )
        assignment_ms = max(
            config.group_consumer_assignment_interval_ms, history.longest_assignment_interval_ms
        )
        batches_ms = SLACK_BATCHES * max(map(_longest_batch_ms, clients), default=0)
        return SLACK_INTERVALS * interval_ms + assignment_ms + request_ms + batches_ms

    @property
    def ghost_bound_ms(self) -> int:
        """From the quiet period on, until every ghost is gone."""
        return self._view.config.group_consumer_max_session_timeout_ms + self.slack_ms

    @property
    def bound_ms(self) -> int:
        """From the quiet period on, until everything has come about.

        Where members compute targets, one may be too slow, and another has to begin anew. A classic
        group may wait twice for commits of what is no more (docs/findings.md, "A deleted topic").
        """
        return self.ghost_bound_ms + self._settling_ms

    @property
    def _aware_ms(self) -> int:
        """When a classic group has settled at the latest after topics changed: its leader hears of
        that when its metadata are too old. -1 if that never happened, or does not matter."""
        changed_ms = self._model.topics_changed_ms
        ages = [
            client.metadata_max_age_ms
            for client in self._view.clients().values()
            if client.member.kind in CLASSIC_KINDS
        ]
        if changed_ms < 0 or not ages:
            return -1
        return changed_ms + max(ages) + self.slack_ms + self._settling_ms

    @property
    def _settling_ms(self) -> int:
        clients = self._view.clients().values()
        rebalance_ms = max((c.member.config.max_poll_interval_ms for c in clients), default=0)
        longer_ms = 0
        if any(c.member.local_assignors for c in clients):
            longer_ms = rebalance_ms + self.slack_ms
        if self._model.has_lost_topics and any(c.member.kind in CLASSIC_KINDS for c in clients):
            longer_ms += 2 * rebalance_ms
        return rebalance_ms + longer_ms

    # -- verdict ---------------------------------------------------------------------------

    def verdict(self, at_ms: int) -> list[Stuck]:
        """Everything that is late at ``at_ms``; empty while no bound has passed."""
        if self._quiet_since_ms is None:
            return []
        quiet_period_ms = at_ms - self._quiet_since_ms
        late: list[Stuck] = []
        if quiet_period_ms >= self.ghost_bound_ms:
            late += self._unserved()
            late += self._ghosts()
        late += self._revocations(at_ms)
        if quiet_period_ms >= self.bound_ms and at_ms >= self._aware_ms and not self._is_too_slow():
            late += self.pending(at_ms)
        return [classified(stuck, self._view, self._model, self._quiet_since_ms) for stuck in late]

    def _is_too_slow(self) -> bool:
        """Whether some application has stayed with a batch, or a classic client is to stay without
        a heartbeat, for half of ``max.poll.interval.ms``.

        To give partitions up takes two polls, one to begin with the commit and one for the
        callback (client §4.1), and both have to fit into that time; and a classic member learns of
        a rebalance by a heartbeat, and has that time to join. A member that is removed instead,
        again and again, lets the group never come to rest.
        """
        return any(
            2 * max(_longest_batch_ms(client), _longest_unaware_ms(client))
            >= client.member.config.max_poll_interval_ms
            for client in self._view.clients().values()
        )

    def pending(self, at_ms: int) -> list[Stuck]:
        """What has not converged yet, whether or not it is late."""
        if self._waits_for_one_assignor():
            return [*self._unserved(), *self._blocked(at_ms)]
        return [
            *self._unserved(),
            *self._uncomputed(),
            *self._unconverged(),
            *self._unowned(),
            *self._classic(),
            *self._blocked(at_ms),
        ]

    def _classic(self) -> Iterator[Stuck]:
        model = self._model
        for spec, found in (
            (_CLASSIC_SETTLES, unsettled(model)),
            (_CLASSIC_OWNED, unowned(model)),
        ):
            for late in found:
                yield Stuck(spec=spec, subject=late.subject, reason=late.reason, client=late.client)

    def _unserved(self) -> Iterator[Stuck]:
        if self._model.acting_shard() is None:
            yield Stuck(spec=_SERVED, subject="the group", reason="has no active coordinator")

    def _waits_for_one_assignor(self) -> bool:
        """Is the only member that could compute a target running its assignor? How long that takes
        is the application's own affair, and nobody can take its place."""
        model = self._model
        ledger, shard = model.acting_ledger(), model.acting_shard()
        chosen = None if shard is None else model.computations.chosen(shard.name)
        if ledger is None or chosen is None or ledger.group_epoch <= ledger.target_epoch:
            return False
        entry = model.by_member_id.get(chosen.member_id)
        state = entry.member.computing_state if entry else None
        return state is ComputingState.COMPUTING and not any(
            is_fit(ledger, member_id)
            for member_id in ledger.members
            if member_id != chosen.member_id
        )

    def _uncomputed(self) -> Iterator[Stuck]:
        model = self._model
        ledger, shard = model.acting_ledger(), model.acting_shard()
        if ledger is None or shard is None or ledger.group_epoch <= ledger.target_epoch:
            return
        if any(is_fit(ledger, member_id) for member_id in ledger.members):
            chosen = model.computations.chosen(shard.name)
            who = "nobody was" if chosen is None else f"{model.who(chosen.member_id)} was"
            yield Stuck(
                spec=_COMPUTED,
                subject="the group",
                reason=f"lacks the target of epoch {ledger.group_epoch}; {who} told to compute it",
            )

    def _unconverged(self) -> Iterator[Stuck]:
        ledger = self._model.acting_ledger()
        if ledger is None:
            return
        group_epoch = ledger.group_epoch
        shard = self._model.acting_shard()
        if shard is not None and not can_upgrade(self._model, shard):
            return
        for entry in self._wanted():
            member = entry.member
            stored = ledger.members.get(member.member_id)
            if (
                member.state is ClientState.STABLE
                and stored is not None
                and stored.state is MemberState.STABLE
                and member.member_epoch == stored.epoch == ledger.target_epoch == group_epoch
            ):
                continue
            yield Stuck(
                spec=_CONVERGES,
                subject=f"{entry.name} ({member.state.value}, epoch {member.member_epoch})",
                reason=self._why(entry, stored, ledger),
                client=entry.name,
                since_ms=ledger.state_since_ms.get(member.member_id),
            )
        if ledger.members and ledger.settled_count() < len(ledger.members):
            for member_id, stored in sorted(ledger.members.items()):
                if not self._has_user(member_id) and (
                    stored.state is not MemberState.STABLE or stored.epoch != ledger.target_epoch
                ):
                    yield Stuck(
                        spec=_CONVERGES,
                        subject=f"member {member_id}",
                        reason=f"is {stored.state.name} at epoch {stored.epoch}; nobody uses it",
                        since_ms=ledger.state_since_ms.get(member_id),
                    )

    def _unowned(self) -> Iterator[Stuck]:
        ledger = self._model.acting_ledger()
        shard = self._model.acting_shard()
        if ledger is None or shard is None or not any(self._wanted()):
            return
        if not can_upgrade(self._model, shard):
            return
        by_name = shard.coordinator.image.by_name
        for name in sorted(ledger.all_names()):
            topic = by_name.get(name)
            for number in range(topic.partition_count if topic else 0):
                partition = TopicPartition(topic.topic_id if topic else "", number)
                reason = self._why_unowned(partition, ledger)
                if reason is not None:
                    holder = ledger.owner.get(partition) or ledger.target_owner.get(partition)
                    entry = self._model.by_member_id.get(holder or "")
                    yield Stuck(
                        spec=_OWNED,
                        subject=f"{name}-{number}",
                        reason=reason,
                        client=entry.name if entry else "",
                    )

    def _revocations(self, at_ms: int) -> Iterator[Stuck]:
        ledger = self._model.acting_ledger()
        if ledger is None:
            return
        for member_id, entry in sorted(ledger.members.items()):
            current, since_ms = entry.current, ledger.state_since_ms.get(member_id)
            if current is None or not current.pending_revocation or since_ms is None:
                continue
            limit_ms = (
                entry.metadata.rebalance_timeout_ms if entry.metadata else 0
            ) + self.slack_ms
            if at_ms - since_ms > limit_ms:
                yield Stuck(
                    spec=_REVOKED,
                    subject=self._model.who(member_id),
                    reason=f"must revoke {self._model.names_of(current.pending_revocation)}",
                    since_ms=since_ms,
                )

    def _ghosts(self) -> Iterator[Stuck]:
        ledger = self._model.acting_ledger()
        for member_id, entry in sorted(ledger.members.items()) if ledger else ():
            if not self._has_user(member_id):
                yield Stuck(
                    spec=_GHOSTS,
                    subject=f"member {member_id}",
                    reason=f"is registered at epoch {entry.epoch}, and no living client uses it",
                    since_ms=ledger.heard_ms.get(member_id) if ledger else None,
                )

    def _has_user(self, member_id: str) -> bool:
        member = self._model.user_of(member_id)
        return member is not None and not member.is_closed

    def _blocked(self, at_ms: int) -> Iterator[Stuck]:
        for name, entry in sorted(self._model.clients.items()):
            member = entry.member
            if (
                member.leave_is_pending
                and member.blocked_in is not None
                and member.running_callback is None
            ):
                yield Stuck(
                    spec=_LEAVE_ENDS,
                    subject=name,
                    reason=f"still waits for its leave in {member.state.value}",
                )

    # -- reasons ---------------------------------------------------------------------------

    def _wanted(self) -> Iterable[ClientEntry]:
        """Clients that should be working members."""
        for name in sorted(self._model.clients):
            member = self._model.clients[name].member
            if (
                member.has_subscription
                and member.is_polling
                and not member.is_closed
                and member.blocked_in is None
                and not self._model.clients[name].sync_commits
                and member.state is not ClientState.FATAL
            ):
                yield self._model.clients[name]

    def _why(self, entry: ClientEntry, stored: MemberEntry | None, ledger: GroupLedger) -> str:
        """The nearest cause that can be named."""
        member = entry.member
        if member.running_callback is not None:
            return f"runs {member.running_callback.kind.value}"
        if member.coordinator_id is None:
            return "knows no coordinator"
        if stored is None:
            return "is not registered with the coordinator"
        if stored.epoch != member.member_epoch:
            return f"is registered at epoch {stored.epoch}"
        if ledger.group_epoch > ledger.target_epoch:
            return (
                f"waits for a target: group epoch {ledger.group_epoch}, "
                f"target epoch {ledger.target_epoch}"
            )
        target = ledger.targets.get(member.member_id, frozenset())
        for partition in sorted(target - stored.held()):
            holder = ledger.owner.get(partition)
            if holder is not None and holder != member.member_id:
                state = ledger.members[holder].state.name
                since_ms = ledger.state_since_ms.get(holder)
                return (
                    f"waits for partition {self._model.name_of(partition)} held by "
                    f"{self._model.who(holder)} in {state} since {since_ms} ms"
                )
        if stored.state is not MemberState.STABLE or stored.epoch != ledger.target_epoch:
            return f"is {stored.state.name} at epoch {stored.epoch} of {ledger.target_epoch}"
        return self._model.target_and_current(member)

    def _why_unowned(self, partition: TopicPartition, ledger: GroupLedger) -> str | None:
        """Why nobody works on this partition; None if somebody does."""
        holder = ledger.owner.get(partition)
        if holder is None:
            wanted_by = ledger.target_owner.get(partition)
            if wanted_by is None:
                return IN_NO_TARGET
            return f"is held by nobody; the target gives it to {self._model.who(wanted_by)}"
        member, name = self._model.user_of(holder), self._model.who(holder)
        if member is None:
            return f"is held by {holder}, which no living client uses"
        if partition in member.fetchable:
            return None
        state = member.assigned.get(partition)
        if state is None:
            return f"is held by {name}, which is not assigned it"
        if state.pending_revocation:
            return f"is being revoked by {name}"
        if state.awaiting_assigned_callback:
            return f"waits for the assigned callback of {name}"
        return f"has no position at {name} yet ({state.fetch_state.value})"


def _longest_unaware_ms(client: ClientView) -> int:
    """How long a classic member may take to hear of a rebalance; others are told by the answer."""
    return client.member.heartbeat_interval_ms if client.member.kind in CLASSIC_KINDS else 0


def _longest_batch_ms(client: ClientView) -> int:
    """How long a batch has kept this client from ``poll``, in a world with a data plane."""
    return 0 if client.intake is None else client.intake.longest_batch_ms
