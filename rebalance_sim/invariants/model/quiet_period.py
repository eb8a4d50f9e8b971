"""The time after the last fault, and how long things may take then.

Sources: coordinator §14.3; client §12 (client O5, O6); defects L1-L3, L6. Bounds are computed from
the configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.step import ClientView, WorldView
from rebalance_sim.protocol.classic.operation import session_key
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS, LIBRDKAFKA
from rebalance_sim.protocol.transactions.transaction_coordinator import ABORT_INTERVAL_MS
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest

SLACK_BATCHES = 4
"""Batches granted on top: whatever needs a ``poll`` waits for the end of one."""

SLACK_INTERVALS = 4
"""Heartbeat intervals granted on top of timeouts: one each to acknowledge, to be answered, to
acknowledge that, and one for polls, searches and round trips."""

_STARTS_MOST = 5
"""A process that was started more often in the quiet period fails each time."""

_GRACE_MS = 5_000
"""Granted to a JoinGroup or SyncGroup on top of the time that it may be held."""

_FIRST_TIMEOUT_MS = 45_000
"""Of librdkafka's heartbeats, while it knows no interval."""


class QuietPeriod:
    """When the quiet period of one group began, and its bounds.

    A load of a coordinator during the quiet period restarts all bounds, as it restarts all
    timers (coordinator L4); so does a client that starts, one that has news for an assignor, as
    that asks for a new target, and a join or a leave from before that a slow network delivers late.
    """

    def __init__(self, view: WorldView, model: ModelView) -> None:
        self._view = view
        self._model = model
        self.since_ms: int | None = None
        self.start_ms = 0
        self._starts: Counter[str] = Counter()
        self._under_way: dict[int, ConsumerGroupHeartbeatRequest] = {}  # by identity

    @property
    def _clients(self) -> Iterable[ClientView]:
        return self._view.clients().values()

    def note_start(self, at_ms: int) -> None:
        """No fault and no deliberate change from now on."""
        self.since_ms = self.start_ms = at_ms

    def note_leap(self, span_ms: int) -> None:
        """So much time was left out before it: it comes so much sooner."""
        if self.since_ms is not None:
            self.note_start(self.since_ms - span_ms)

    def note_sent(self, request: ConsumerGroupHeartbeatRequest, at_ms: int) -> None:
        """A client joins or leaves."""
        if at_ms < self.start_ms:
            self._under_way[id(request)] = request

    def note_received(self, request: ConsumerGroupHeartbeatRequest, at_ms: int) -> None:
        """A join or a leave has changed the group."""
        if self._under_way.pop(id(request), None) is not None and at_ms > self.start_ms:
            self.note_disturbance(at_ms)

    def note_client_start(self, name: str, at_ms: int) -> None:
        """A process began."""
        if self.since_ms is not None and at_ms > self.start_ms:
            self._starts[name] += 1
        self.note_disturbance(at_ms)

    def note_disturbance(self, at_ms: int) -> None:
        """Timers were restarted; before the quiet period this means nothing."""
        if self.since_ms is not None:
            self.since_ms = max(self.since_ms, at_ms)

    @property
    def slack_ms(self) -> int:
        """A few heartbeat intervals, or times between two polls if these are longer, the
        assignment interval, one lost answer, and a few batches; of settings that were altered, the
        longest."""
        config, longest_ms = self._view.config, self._model.config_history.longest_ms
        # Clients go by the interval of their last answer, which may be longer than today's.
        interval_ms = max(
            config.group_consumer_heartbeat_interval_ms,
            longest_ms["heartbeat_interval"],
            *map(_between_events_ms, self._clients),
        )
        assignment_ms = max(
            config.group_consumer_assignment_interval_ms, longest_ms["assignment_interval"]
        )
        batches_ms = SLACK_BATCHES * max(map(_longest_batch_ms, self._clients), default=0)
        base_ms = SLACK_INTERVALS * interval_ms + assignment_ms + batches_ms
        return base_ms + self._request_ms + self._transaction_ms

    @property
    def _transaction_ms(self) -> int:
        """How long a transaction that its application has left open keeps others from an offset."""
        longest_ms = max((c.transaction_timeout_ms for c in self._clients), default=0)
        return longest_ms + ABORT_INTERVAL_MS if longest_ms else 0

    @property
    def _request_ms(self) -> int:
        """How long it takes to notice that an answer is lost."""
        return max((c.member.config.request_timeout_ms for c in self._clients), default=0)

    @property
    def ghost_bound_ms(self) -> int:
        """From the quiet period on, until every ghost is gone."""
        return self._view.config.group_consumer_max_session_timeout_ms + self.slack_ms

    @property
    def bound_ms(self) -> int:
        """From the quiet period on, until everything has happened.

        Where members compute targets, one may be too slow, and another has to start over. A classic
        group may wait twice for commits of what is no more (docs/findings.md, "A deleted topic").
        """
        return self.ghost_bound_ms + self._settling_ms

    @property
    def _aware_ms(self) -> int:
        """When a classic group has settled at the latest after topics changed: its leader learns of
        that when its metadata are too old. -1 if that never happened, or does not matter."""
        changed_ms = self._model.topics_changed_ms
        ages = [c.metadata_max_age_ms for c in self._clients if c.member.kind in CLASSIC_KINDS]
        if changed_ms < 0 or not ages:
            return -1
        return changed_ms + max(ages) + self.slack_ms + self._settling_ms

    @property
    def _rejoined_ms(self) -> int:
        """When the last one is back, at the latest, whose application hung in a callback or in
        ``commitSync``, which lasts up to ``default.api.timeout.ms``: a member that does not poll
        leaves meanwhile. -1 if no one did."""
        released_ms = self._model.released_ms
        return -1 if released_ms < 0 else released_ms + self.slack_ms + self._settling_ms

    @property
    def _found_ms(self) -> int:
        """When the last one is back, at the latest, whose coordinator was lost without a word: it
        waits for the answer to a request, for as long as that may take. -1 if no one had to."""
        if self.since_ms is None:
            return -1
        found_ms = -1
        for client in self._clients:
            # A client that does not give up in time is late all the same.
            end_ms = self.since_ms + _longest_silence_ms(client)
            found_ms = max(found_ms, min(client.misled_until_ms, end_ms))
        if found_ms <= self.since_ms:
            return -1
        return found_ms + self.slack_ms - self._request_ms + self._settling_ms

    @property
    def _vacated_ms(self) -> int:
        """When the group has settled at the latest without members of the classic protocol whose
        client is gone for good: their sessions are their own, and may be longer than any of the
        consumer protocol (classic §7.5). -1 if there are none."""
        longest_ms = self._view.config.group_consumer_max_session_timeout_ms
        end_ms = max(
            (at_ms for at_ms, timeout_ms in self._vacant() if timeout_ms > longest_ms), default=-1
        )
        return -1 if end_ms < 0 else end_ms + self.slack_ms + self._settling_ms

    def _vacant(self) -> Iterator[tuple[int, int]]:
        """Members of the classic protocol that no living client uses: when the session of each
        ends, and how long it is."""
        model = self._model
        shard = model.acting_shard()
        if shard is None:
            return
        ledger = model.ledger_of(shard)
        for member_id, entry in ledger.members.items():
            classic = entry.metadata.classic_member_metadata if entry.metadata else None
            if classic is not None and not model.is_used(member_id):
                since_ms = max(
                    ledger.heard_ms.get(member_id, 0), ledger.classic_ms.get(member_id, 0)
                )
                yield since_ms + classic.session_timeout_ms, classic.session_timeout_ms
        group = model.classic_group_in(shard)
        for member_id, member in group.members.items() if group is not None else ():
            timer = shard.armed_timers.get(session_key(model.group_id, member_id))
            if timer is not None and not model.is_used(member_id):
                yield timer.at_ms, member.session_timeout_ms

    @property
    def _settling_ms(self) -> int:
        rebalance_ms = max((c.member.config.max_poll_interval_ms for c in self._clients), default=0)
        longer_ms = 0
        if any(c.member.local_assignors for c in self._clients):
            longer_ms = rebalance_ms + self.slack_ms
        has_classic = any(c.member.kind in CLASSIC_KINDS for c in self._clients)
        if self._model.has_lost_topics and has_classic:
            longer_ms += 2 * rebalance_ms
        return rebalance_ms + longer_ms

    def ghosts_are_gone_by(self, at_ms: int) -> bool:
        """Whether members without a client must have been removed at this time."""
        return self.since_ms is not None and at_ms - self.since_ms >= self.ghost_bound_ms

    @property
    def due_ms(self) -> int:
        """By when the group must have settled, as far as is known now, if no client is too slow; -1
        before the quiet period."""
        if self.since_ms is None:
            return -1
        return max(
            self.since_ms + self.bound_ms,
            self._aware_ms,
            self._rejoined_ms,
            self._found_ms,
            self._vacated_ms,
        )

    def needed_ms(self) -> int:
        """How long the quiet period has to be, as far as is known now."""
        return self.due_ms - self.start_ms

    def is_settled_by(self, at_ms: int) -> bool:
        """Whether everything must have happened at this time."""
        return 0 <= self.due_ms <= at_ms and self.too_slow_client() is None

    def failing_client(self) -> tuple[str, int] | None:
        """The client that was started most often in the quiet period, and how often, if that were
        so many times that it is not going to work; None if there is none."""
        name, count = max(self._starts.items(), key=lambda item: item[1], default=("", 0))
        return (name, count) if count > _STARTS_MOST else None

    def too_slow_client(self) -> str | None:
        """The first client that may need ``max.poll.interval.ms`` to give partitions up, because
        its application stays with a batch or between two polls, or which, as a classic one, may be
        without a heartbeat for half of that time; None if none is.

        A member that is removed instead, again and again, lets the group never come to rest. A
        process that has ended does no more of that.
        """
        clients = self._view.clients().items()
        return next((name for name, one in clients if one.is_alive and _is_too_slow(one)), None)


def _is_too_slow(client: ClientView) -> bool:
    """A consumer member gives partitions up in three polls: one begins with the commit, one has
    the revoked callback, one the assigned; four, where every second one submits no event (client
    §0.1). A classic one learns of a rebalance by a heartbeat, and joins from its next poll."""
    away_ms = max(_longest_batch_ms(client), client.processing_ms)
    if client.member.kind in CLASSIC_KINDS:
        needed_ms = 2 * max(away_ms, client.member.heartbeat_interval_ms)
    else:
        needed_ms = (4 if client.member.skips_poll_events else 3) * away_ms
    return needed_ms >= client.member.config.max_poll_interval_ms


def _between_events_ms(client: ClientView) -> int:
    """The longest time between two polls that submit an event, as long as batches are short."""
    return client.processing_ms * (2 if client.member.skips_poll_events else 1)


def _longest_silence_ms(client: ClientView) -> int:
    """How long a client waits for a coordinator that does not answer any more. JoinGroup,
    SyncGroup and librdkafka's heartbeats have times of their own, whatever other requests may take
    (client §10.1; classic §4.2, §4.6)."""
    member = client.member
    config = member.config
    own_ms = 0
    if isinstance(config, ClassicConsumerConfig):
        own_ms = max(config.session_timeout_ms, config.max_poll_interval_ms) + _GRACE_MS
    elif member.kind == LIBRDKAFKA:
        own_ms = _FIRST_TIMEOUT_MS
    return member.heartbeat_interval_ms + max(config.request_timeout_ms, own_ms)


def _longest_batch_ms(client: ClientView) -> int:
    """How long a batch has kept this client from ``poll``, in a world with a data plane."""
    return 0 if client.intake is None else client.intake.longest_batch_ms
