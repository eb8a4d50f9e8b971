"""A tiny host for stories about one member: a clock, what it sent, and answers for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    CommitReturned,
    Effect,
    FindCoordinator,
    RaiseError,
    RunCallback,
    SendCommit,
    SendHeartbeat,
    SendOffsetFetch,
    StateChanged,
)
from rebalance_sim.protocol.clients.common.events import (
    CallbackCompleted,
    CommitAnswered,
    CoordinatorFound,
    Disconnected,
    Event,
    HeartbeatAnswered,
    MetadataKnown,
    OffsetFetchAnswered,
    Poll,
    PositionsKnown,
    RecordsReturned,
    Subscribe,
    Tick,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.java.consumer.java_consumer import ConsumerMember
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer import LibrdkafkaMember
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse, OffsetFetchResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

Machine = ConsumerMember | LibrdkafkaMember

INTERVAL_MS = 5_000
ALL_TOPICS = {"orders": "orders", "payments": "payments"}


def partitions(*numbers: int, topic: str = "orders") -> frozenset[TopicPartition]:
    """Partitions of one topic; ids are names in these stories."""
    return frozenset(TopicPartition(topic, number) for number in numbers)


class Story:
    """Drives a member and remembers what it did."""

    def __init__(
        self,
        *,
        rules: type[MemberRules] = DEFAULT_SEMANTICS.member,
        metadata: Mapping[str, str] = ALL_TOPICS,
        **settings: Any,
    ) -> None:
        # Interval commits are a matter of their own stories.
        settings.setdefault("auto_commit_interval_ms", 100 * INTERVAL_MS)
        self.now_ms = 0
        self.member: Machine = self.make_member(ConsumerConfig(group_id="group", **settings), rules)
        self.effects: list[Effect] = []
        self.searches: list[int] = []  # correlation ids without an answer
        self.heartbeats: list[SendHeartbeat] = []
        self.commits: list[SendCommit] = []
        self.fetches: list[SendOffsetFetch] = []
        self.handle(MetadataKnown(topic_names=dict(metadata)))

    def make_member(self, config: ConsumerConfig, rules: type[MemberRules]) -> Machine:
        """The member of the story; Java's, unless set otherwise."""
        return ConsumerMember(config=config, member_id="m1", rules=rules, now_ms=0)

    # --- driving ----------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Effect]:
        """Hand one event in; the effects it led to."""
        effects = list(self.member.on_event(event, now_ms=self.now_ms))
        self.effects += effects
        for effect in effects:
            match effect:
                case FindCoordinator():
                    self.searches.append(effect.correlation_id)
                case SendHeartbeat():
                    self.heartbeats.append(effect)
                case SendCommit():
                    self.commits.append(effect)
                case SendOffsetFetch():
                    self.fetches.append(effect)
        return effects

    def wait(self, length_ms: int) -> list[Effect]:
        """Let time pass, with a tick at each deadline of the member."""
        end_ms = self.now_ms + length_ms
        effects: list[Effect] = []
        for _ in range(1_000):
            deadline_ms = self.member.next_deadline_ms
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            effects += self.handle(Tick())
        else:
            raise AssertionError("the member does not come to rest")
        self.now_ms = end_ms
        return effects

    def poll(self) -> list[Effect]:
        """The application polls, after 10 ms."""
        self.wait(10)
        return self.handle(Poll())

    def finish_callback(self, *, failed: bool = False, poll_follows: bool = False) -> list[Effect]:
        """The running callback returns."""
        return self.handle(CallbackCompleted(failed=failed, poll_follows=poll_follows))

    def find_coordinator(self, node_id: int = 1) -> list[Effect]:
        """Answer the search in flight."""
        found = CoordinatorFound(correlation_id=self.searches.pop(), node_id=node_id)
        return self.handle(found)

    def answer(
        self,
        assignment: frozenset[TopicPartition] | None = None,
        *,
        epoch: int = 1,
        interval_ms: int = INTERVAL_MS,
        to: SendHeartbeat | None = None,
    ) -> list[Effect]:
        """Answer a heartbeat, the last one if not told otherwise, after 2 ms."""
        self.wait(2)
        response = ConsumerGroupHeartbeatResponse(
            member_id="m1",
            member_epoch=epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=assignment,
        )
        number = (to or self.heartbeats[-1]).correlation_id
        return self.handle(HeartbeatAnswered(correlation_id=number, response=response))

    def refuse(self, error_code: ErrorCode, *, to: SendHeartbeat | None = None) -> list[Effect]:
        """Answer a heartbeat with an error, after 2 ms."""
        self.wait(2)
        response = ConsumerGroupHeartbeatResponse(error_code=error_code)
        number = (to or self.heartbeats[-1]).correlation_id
        return self.handle(HeartbeatAnswered(correlation_id=number, response=response))

    def disconnect(self, *requests: SendHeartbeat | SendCommit | SendOffsetFetch) -> list[Effect]:
        """The connection with these requests in flight is lost."""
        numbers = tuple(request.correlation_id for request in requests)
        return self.handle(Disconnected(correlation_ids=numbers))

    def answer_commit(self, error_code: ErrorCode = ErrorCode.NONE) -> list[Effect]:
        """Answer the last commit, all partitions alike."""
        commit = self.commits[-1]
        errors = dict.fromkeys(commit.request.offsets, error_code)
        response = OffsetCommitResponse(errors=errors)
        return self.handle(CommitAnswered(correlation_id=commit.correlation_id, response=response))

    def answer_fetch(self, response: OffsetFetchResponse) -> list[Effect]:
        """Answer the last offset fetch."""
        number = self.fetches[-1].correlation_id
        return self.handle(OffsetFetchAnswered(correlation_id=number, response=response))

    # --- larger steps -----------------------------------------------------------------------------

    def subscribe(self, *topics: str, has_listener: bool = True) -> None:
        """Subscribe to topics by name."""
        names = frozenset(topics or ("orders",))
        self.handle(Subscribe(topic_names=names, has_listener=has_listener))

    def join(self, *, has_listener: bool = True) -> None:
        """Subscribe, find the coordinator, poll: the join is sent."""
        self.subscribe(has_listener=has_listener)
        self.handle(Tick())
        self.find_coordinator()
        self.poll()

    def stabilise(
        self, *numbers: int, epoch: int = 1, has_listener: bool = True, consumed: bool = True
    ) -> None:
        """Join and take over these partitions, with positions unless set otherwise."""
        self.join(has_listener=has_listener)
        self.answer(partitions(*numbers), epoch=epoch)
        self.poll()
        if has_listener:
            self.finish_callback()
        self.answer(epoch=epoch)
        assert self.state is ClientState.STABLE
        if consumed and numbers:
            self.consume(dict.fromkeys(partitions(*numbers), 10))

    def consume(self, positions: Mapping[TopicPartition, int]) -> None:
        """Look positions up, and return records up to these."""
        self.poll()
        self.answer_fetch(OffsetFetchResponse(offsets=dict.fromkeys(positions, 5)))
        self.handle(PositionsKnown(positions=dict.fromkeys(positions, 5)))
        self.handle(RecordsReturned(positions=positions))

    # --- looking ----------------------------------------------------------------------------------

    @property
    def state(self) -> ClientState:
        """The member's state."""
        return self.member.state

    @property
    def last(self) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat."""
        return self.heartbeats[-1].request

    def callbacks(self, effects: list[Effect] | None = None) -> list[tuple[CallbackKind, Any]]:
        """Kind and partitions of callbacks, of all or of some effects."""
        chosen = self.effects if effects is None else effects
        return [(e.kind, e.partitions) for e in chosen if isinstance(e, RunCallback)]

    def states(self, effects: list[Effect] | None = None) -> list[str]:
        """States gone to, of all or of some effects."""
        chosen = self.effects if effects is None else effects
        return [e.to_state.value for e in chosen if isinstance(e, StateChanged)]

    def errors(self) -> list[ErrorCode | None]:
        """Errors raised to the application."""
        return [e.error_code for e in self.effects if isinstance(e, RaiseError)]

    def commit_results(self) -> list[ErrorCode | None]:
        """Results of the application's own commits."""
        return [e.error_code for e in self.effects if isinstance(e, CommitReturned)]


def stable(rules: type[MemberRules], *numbers: int, **settings: Any) -> Story:
    """A member that owns these partitions of one topic, with positions 10."""
    story = Story(rules=rules, **settings)
    story.stabilise(*numbers)
    return story


def retarget(story: Story, *numbers: int) -> None:
    """The next heartbeat is answered with another target."""
    story.wait(INTERVAL_MS)
    story.answer(partitions(*numbers))


def sent(effects: list[Effect]) -> list[str]:
    """Kinds of the requests among some effects, in order."""
    kinds = (SendHeartbeat, SendCommit, SendOffsetFetch, FindCoordinator)
    return [type(effect).__name__ for effect in effects if isinstance(effect, kinds)]
