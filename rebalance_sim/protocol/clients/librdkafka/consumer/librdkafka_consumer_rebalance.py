"""Rebalances of the consumer protocol: received assignments, one after the other.

Source: client §10.1. What goes is revoked first, then what comes is assigned, even if nothing does;
then the member is steady, and acknowledges.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.effects import RequestMetadata
from rebalance_sim.protocol.clients.common.values import LocalAssignment
from rebalance_sim.protocol.clients.librdkafka.assignment import Assignment
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer_core import (
    LibrdkafkaConsumerCore,
)
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rebalance import Rebalance
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.wire.topics import TopicPartition

_J = JoinState


class ConsumerRebalance(Rebalance):
    """Drives the join state; see ``Rebalance``."""

    _core: LibrdkafkaConsumerCore

    def __init__(
        self,
        core: LibrdkafkaConsumerCore,
        application: Application,
        assignment: Assignment,
        link: CoordinatorLink,
    ) -> None:
        super().__init__(core, application, assignment, link)
        self._topic_names: Mapping[str, str] = {}
        self._waits_for_names = False

    # --- received assignments ---------------------------------------------------------------------

    def on_names_known(self, topic_names: Mapping[str, str]) -> None:
        """The client's metadata has been refreshed."""
        self._topic_names = topic_names
        if self._waits_for_names and self._core.next_target is not None:
            self._waits_for_names = False
            self._begin_next()

    def look_at_next_target(self) -> None:
        """A good answer has come, and a received assignment waits: begin it, or ask for names."""
        target = self._core.next_target
        if target is None:
            return
        if not self._core.subscription.exists:
            self._core.next_target = None  # it has left while the heartbeat was in flight
            self._core.note_assignments()
        elif self._resolved(target.partitions) == target.partitions:
            self._begin_next()
        else:
            self._waits_for_names = True
            self._core.effects.append(RequestMetadata())

    def _resolved(self, partitions: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """The part whose topics have a name; what is owned keeps the name that it has."""
        owned = {partition.topic_id for partition in self._core.acked.partitions}
        return frozenset(
            p for p in partitions if p.topic_id in self._topic_names or p.topic_id in owned
        )

    def _begin_next(self) -> None:
        """Take over what is known of the received assignment, if nothing else is under way."""
        core = self._core
        target = core.next_target
        if target is None or core.waits_for_ack:
            return
        resolved = self._resolved(target.partitions)
        is_complete = resolved == target.partitions
        is_news = resolved != core.handled.partitions
        if is_news and core.join_state not in (_J.INIT, _J.STEADY):
            return
        if is_complete:
            core.next_target = None
        if is_news:
            core.waits_for_ack = True
            core.reconciling = LocalAssignment(target.local_epoch, resolved)
        core.note_assignments()
        if is_news:
            self._hand_over(resolved, rejoins=False)

    def on_assignment_done(self) -> None:
        """See ``Rebalance``; what is left of an assignment has to be given up before a leave."""
        if not (self._core.join_state is _J.STEADY and self._core.must_rejoin):
            super().on_assignment_done()

    def _on_rest(self) -> None:
        if self._core.join_state is _J.INIT or self._core.waits_for_ack:
            self._core.expedite_heartbeat()

    # --- subscriptions, and the end ---------------------------------------------------------------

    def apply_next_subscription(self) -> bool:
        """See ``Rebalance``; the next heartbeat names the topics."""
        is_news = super().apply_next_subscription()
        self._core.has_new_subscription |= is_news
        return is_news

    def _begins_to_leave(self) -> bool:
        """A member that rejoins has nothing to leave."""
        core = self._core
        if core.must_rejoin or core.is_rejoining or core.member_epoch <= 0:
            return False
        core.poll_expired = False
        core.leave_when_unassigned()
        return True

    def on_polls_missed(self) -> None:
        """All but the end of heartbeats, the leave too, waits for the application."""
        core = self._core
        core.must_rejoin = core.waits_for_poll = True
        if core.rules.leaves_when_application_returns:
            core.leave_when_unassigned()
        elif not core.will_leave:
            core.has_left_early = core.is_leaving = True
            self.send_leave()
        core.expedite_heartbeat()

    def terminate(self) -> None:
        """See ``Rebalance``."""
        self._core.must_rejoin = self._core.is_rejoining = False
        super().terminate()
