"""The host of ``member_story`` for a librdkafka member: it connects, and stays in ``poll``."""

from __future__ import annotations

from member_driver import Story, partitions

from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    ConnectCoordinator,
    Effect,
    SendCommit,
    SendHeartbeat,
    SendOffsetFetch,
)
from rebalance_sim.protocol.clients.common.events import (
    CommitOffsets,
    CoordinatorConnected,
    CoordinatorConnectionClosed,
    Event,
    Poll,
    PollingResumed,
    PollingStopped,
    PositionsKnown,
    RecordsReturned,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.clients.kinds import KINDS, LIBRDKAFKA
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer import LibrdkafkaMember
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.clients.versions import client_rules
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

Request = SendHeartbeat | SendCommit | SendOffsetFetch


class LibrdkafkaStory(Story):
    """Drives a librdkafka member. ``can_connect``: whether the coordinator can be reached;
    ``version``: a release.

    The application is inside ``poll`` between ``resume`` and ``stay_away``: what waits for it then
    runs by itself.
    """

    member: LibrdkafkaMember
    version: str | None = None
    can_connect = True
    is_away = True
    commit_count = 0

    def make_member(self, config: ConsumerConfig, rules: type[MemberRules]) -> LibrdkafkaMember:
        """See ``Story``."""
        own = client_rules(KINDS[LIBRDKAFKA], self.version, DEFAULT_SEMANTICS)
        assert own is not None
        return LibrdkafkaMember(config=config, member_id="m1", rules=own, now_ms=0)

    def handle(self, event: Event) -> list[Effect]:
        """See ``Story``; connect at once, and poll if the application is there."""
        effects = super().handle(event)
        if any(isinstance(effect, ConnectCoordinator) for effect in effects):
            connected = CoordinatorConnected()
            effects += self.handle(connected if self.can_connect else CoordinatorConnectionClosed())
        if not self.is_away and self.member.poll_due_ms is not None:
            effects += self.handle(Poll())
        return effects

    # --- larger steps -----------------------------------------------------------------------------

    def resume(self) -> list[Effect]:
        """The application goes into ``poll``."""
        self.is_away = False
        return self.handle(PollingResumed())

    def stay_away(self) -> list[Effect]:
        """The application has left ``poll``, and does something else."""
        self.is_away = True
        return self.handle(PollingStopped())

    def answer_searches(self) -> list[Effect]:
        """Answer every search."""
        effects: list[Effect] = []
        while self.searches:
            effects += self.find_coordinator()
        return effects

    def lose_connection(self, *in_flight: Request, is_isolated: bool = False) -> list[Effect]:
        """The connection to the coordinator is closed, and these requests on it are lost."""
        effects = self.disconnect(*in_flight) if in_flight else []
        return effects + self.handle(CoordinatorConnectionClosed(is_isolated=is_isolated))

    def commit(self, offsets: dict[TopicPartition, int] | None = None) -> list[Effect]:
        """The application commits and waits; None: what has moved."""
        self.commit_count += 1
        return self.handle(
            CommitOffsets(commit_id=self.commit_count, offsets=offsets, is_sync=True)
        )

    def look_up(self) -> list[Effect]:
        """Answer the last offset fetch: 5 is committed everywhere."""
        asked = self.fetches[-1].request.partitions
        assert asked is not None
        effects = self.answer_fetch(OffsetFetchResponse(offsets=dict.fromkeys(asked, 5)))
        return effects + self.handle(PositionsKnown(positions=dict.fromkeys(asked, 5)))

    def join(self, *, has_listener: bool = True) -> None:
        """Subscribe and find the coordinator: the join is sent."""
        self.subscribe(has_listener=has_listener)
        self.resume()
        self.answer_searches()

    def stabilise(
        self, *numbers: int, epoch: int = 1, has_listener: bool = True, consumed: bool = True
    ) -> None:
        """Join and take over these partitions; records up to 10 are handed out, if any."""
        self.join(has_listener=has_listener)
        self.answer(partitions(*numbers), epoch=epoch)
        if has_listener:
            self.finish_callback()
        self.look_up()
        self.answer(epoch=epoch)
        assert self.member.state is ClientState.STABLE
        if consumed:
            self.handle(RecordsReturned(positions=dict.fromkeys(partitions(*numbers), 10)))

    # --- looking ----------------------------------------------------------------------------------

    @property
    def join_state(self) -> JoinState:
        """How far the member is with its assignment."""
        return self.member.join_state
