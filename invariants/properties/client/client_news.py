"""What a client of the consumer protocol says in its heartbeats, and why it joins.

Sources: client §1.3, §2.1, §3, §6.1, §9, §10.1.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    Close,
    CloseConnection,
    Disconnected,
    HeartbeatAnswered,
    PollingStopped,
    RequestExpired,
    StateChanged,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.kinds import JAVA, LIBRDKAFKA
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    ConsumerGroupHeartbeatRequest,
)

ORDER = 233


class HeartbeatSettings(Property):
    """client §3, §9."""

    id = "client.hb.settings"
    sentence = (
        "What a heartbeat says of instance id, rack, rebalance timeout and assignor are the "
        "client's own settings; a join says all that is configured, a Java client's heartbeat "
        "always the instance id."
    )
    clauses = ("client §3", "client §9")
    violated_by = ("test:joins-with-other-timeout",)

    def on_sent(
        self,
        step: Step,
        entry: ClientEntry,
        request: ConsumerGroupHeartbeatRequest,
        state: ClientState,
    ) -> Finding | None:
        """Compare each field with the settings."""
        config = entry.member.config
        assert isinstance(config, ConsumerConfig)
        is_join = request.member_epoch == JOIN_EPOCH
        rack = config.client_rack or None
        said = (
            (request.instance_id, config.group_instance_id, is_join or entry.kind == JAVA),
            (request.rack_id or None, rack, is_join),
            (request.server_assignor, config.group_remote_assignor, is_join),
        )
        for value, setting, is_due in said:
            if value != setting if is_due else value not in (None, setting):
                return Finding(
                    f"{entry.name} sent {value or 'nothing'} at epoch {request.member_epoch}; "
                    f"configured is {setting or 'nothing'}",
                    {"client": entry.name},
                )
        timeout_ms = request.rebalance_timeout_ms
        if timeout_ms not in (UNCHANGED_TIMEOUT_MS, config.max_poll_interval_ms):
            return Finding(
                f"{entry.name} sent a rebalance timeout of {timeout_ms} ms; max.poll.interval.ms "
                f"is {config.max_poll_interval_ms}",
                {"client": entry.name},
            )
        return None


class SubscriptionTold(Property):
    """client §3, "Changed". What the coordinator has been told is what stood in a heartbeat that
    has not failed, and that ``client.hb.full_after_failure`` has repeated after a failure. That a
    pattern is withdrawn may be forgotten: ``sim-lost-pattern-withdrawal``."""

    id = "client.hb.subscription"
    sentence = (
        "A heartbeat of a member names the topics and the pattern that it subscribes to, unless "
        "the last one that named any said the same; librdkafka's in a rebalance may not, nor its "
        "repetition of one that failed."
    )
    clauses = ("client §3", "client §1.3", "client §10.1")
    violated_by = ("test:keeps-its-first-subscription",)

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._told: dict[str, tuple[frozenset[str], str]] = self.of_process({})

    def on_sent(
        self,
        step: Step,
        entry: ClientEntry,
        request: ConsumerGroupHeartbeatRequest,
        state: ClientState,
    ) -> Finding | None:
        """Compare what has been said by now with the subscription."""
        names, regex = self._told.get(entry.name, (frozenset(), ""))
        if request.subscribed_topic_names is not None:
            names = frozenset(request.subscribed_topic_names)
        if request.subscribed_topic_regex is not None:
            regex = request.subscribed_topic_regex
        self._told[entry.name] = names, regex
        member = entry.member
        if request.member_epoch < JOIN_EPOCH or not state.takes_assignments:
            return None
        if entry.kind == LIBRDKAFKA and (
            state is not ClientState.STABLE or member.state is not ClientState.STABLE
        ):
            return None  # It takes a subscription up when the rebalance under way is over.
        if entry.has_failed and entry.repeats(request):
            return None  # It repeats what failed, word for word.
        if type(step.event) is Close:
            return None  # What it subscribed to until now is not to be seen any more.
        if names != member.subscribed_topic_names:
            said, wanted = sorted(names), sorted(member.subscribed_topic_names)
            return Finding(
                f"{entry.name} has said that it subscribes to "
                f"{', '.join(said) or 'nothing'}, and does to {', '.join(wanted) or 'nothing'}",
                {"client": entry.name},
            )
        if (member.subscribed_topic_regex or "") not in regex:  # librdkafka puts it in brackets
            return Finding(
                f"{entry.name} has said that its pattern is {regex or 'none'}; it is "
                f"{member.subscribed_topic_regex}",
                {"client": entry.name},
            )
        return None


class ConsumerJoinCause(Property):
    """client §1.3, rows 1, 4, 17, 33."""

    id = "client.join.cause"
    sentence = (
        "A client joins only for a reason: its application has subscribed or unsubscribed, a "
        "heartbeat was refused or got lost, or the application was away from poll, in a callback "
        "perhaps; and once for each."
    )
    clauses = ("client §1.3", "client §5", "client §6.1")
    violated_by = ("test:bare-join",)
    interest = Interest(
        events=(
            Subscribe,
            Unsubscribe,
            HeartbeatAnswered,
            Disconnected,
            RequestExpired,
            PollingStopped,
        ),
        effects=(CloseConnection, StateChanged),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._idle: set[str] = self.of_process(set())
        """Clients that have no reason to join."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """This is a reason."""
        self._idle.discard(entry.name)
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """So is a connection that is closed, and the end of a membership."""
        for effect in step.effects:
            if type(effect) is CloseConnection or (
                type(effect) is StateChanged and not effect.to_state.is_in_group
            ):
                self._idle.discard(entry.name)
        return None

    def on_joining(
        self, step: Step, entry: ClientEntry, request: ConsumerGroupHeartbeatRequest
    ) -> Finding | None:
        """Is there a reason?"""
        # Who was let in at epoch 0, as a target is still to be computed, asks again.
        if entry.name in self._idle and entry.received_epochs:
            return Finding(
                f"{entry.name} joins again, {step.at_ms - entry.last_sent_ms} ms after its last "
                "heartbeat, and nothing has happened that calls for it",
                {"client": entry.name, "took_late_answer": entry.late_answer},
            )
        self._idle.add(entry.name)
        return None
