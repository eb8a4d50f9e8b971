"""A host for one member of the Java client: a clock, a network answered by hand, an application."""

from __future__ import annotations

from peer import tps

from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    CallReturned,
    CommitReturned,
    FindCoordinator,
    RaiseError,
    RequestMetadata,
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
    HeartbeatAnswered,
    MetadataKnown,
    OffsetFetchAnswered,
    Poll,
    PositionsKnown,
    RecordsReturned,
    RequestExpired,
    Subscribe,
    Tick,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.java.consumer.java_consumer import ConsumerMember
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse, OffsetFetchResponse

S = ClientState
INTERVAL = 1_000  # as Kafka's tests of the heartbeat manager have it


class Client:
    """``names``: topics in metadata (id = name). Heartbeats are answered by hand."""

    def __init__(
        self,
        *,
        names="topic1",
        topics="topic1 topic2",
        listener=True,
        commit=True,
        rules=SEMANTICS["kafka-4.3"].member,
        **settings,
    ):
        self.now = 0
        config = ConsumerConfig(
            group_id="group",
            enable_auto_commit=commit,
            **{"auto_commit_interval_ms": 10_000_000, **settings},
        )
        self.m = ConsumerMember(config=config, member_id="m", rules=rules, now_ms=0)
        self.all = []
        self.hb, self.commits, self.fetches, self.searches = [], [], [], []
        self.topics, self.listener = topics, listener
        self.know(names)

    # what happens
    def tell(self, event):
        out = list(self.m.on_event(event, now_ms=self.now))
        self.all += out
        for e in out:
            if isinstance(e, SendHeartbeat):
                self.hb.append(e)
            elif isinstance(e, SendCommit):
                self.commits.append(e)
            elif isinstance(e, SendOffsetFetch):
                self.fetches.append(e)
            elif isinstance(e, FindCoordinator):
                self.searches.append(e.correlation_id)
        return out

    def know(self, names):
        return self.tell(MetadataKnown(topic_names={n: n for n in names.split()}))

    def sleep(self, ms):
        end, out = self.now + ms, []
        while (due := self.m.next_deadline_ms) is not None and due <= end:
            self.now = max(self.now, due)
            before = len(self.all)
            out += self.tell(Tick())
            if len(self.all) == before and self.m.next_deadline_ms == due:
                break
        self.now = end
        return out

    def poll(self):
        return self.tell(Poll())

    def subscribe(self):
        return self.tell(
            Subscribe(topic_names=frozenset(self.topics.split()), has_listener=self.listener)
        )

    def join(self):
        """JOINING, and the heartbeat that joins is not answered."""
        self.subscribe()
        self.tell(Tick())
        self.found()
        self.sleep(1)
        self.poll()
        return self

    def found(self):
        return self.tell(CoordinatorFound(correlation_id=self.searches.pop(), node_id=1))

    def answer(self, assignment=None, epoch=1, interval=INTERVAL, to=-1, member_id="m"):
        given = None if assignment is None else tps(assignment)
        return self.tell(
            HeartbeatAnswered(
                correlation_id=self.hb[to].correlation_id,
                response=ConsumerGroupHeartbeatResponse(
                    member_id=member_id,
                    member_epoch=epoch,
                    heartbeat_interval_ms=interval,
                    assignment=given,
                ),
            )
        )

    def refuse(self, code, to=-1):
        return self.tell(
            HeartbeatAnswered(
                correlation_id=self.hb[to].correlation_id,
                response=ConsumerGroupHeartbeatResponse(error_code=ErrorCode[code]),
            )
        )

    def lose(self, to=-1):
        return self.tell(Disconnected(correlation_ids=(self.hb[to].correlation_id,)))

    def expire(self, to=-1):
        return self.tell(RequestExpired(correlation_ids=(self.hb[to].correlation_id,)))

    def done(self, failed=False):
        return self.tell(CallbackCompleted(failed=failed))

    def unsubscribe(self):
        return self.tell(Unsubscribe())

    def answer_commit(self, code="NONE"):
        c = self.commits[-1]
        return self.tell(
            CommitAnswered(
                correlation_id=c.correlation_id,
                response=OffsetCommitResponse(
                    errors=dict.fromkeys(c.request.offsets, ErrorCode[code])
                ),
            )
        )

    # larger steps
    def stable(self, owned="", epoch=1, consumed=False):
        """Joined with ``owned``, acknowledged, and no heartbeat in flight."""
        self.join()
        self.answer(owned, epoch=epoch)
        self.poll()
        if self.listener:
            self.done()
        self.answer(None, epoch=epoch)
        assert self.m.state is S.STABLE, self.m.state
        if consumed:
            self.consume(owned)
        return self

    def consume(self, owned):
        at = dict.fromkeys(tps(owned), 5)
        self.poll()
        self.tell(
            OffsetFetchAnswered(
                correlation_id=self.fetches[-1].correlation_id,
                response=OffsetFetchResponse(offsets=at),
            )
        )
        self.tell(PositionsKnown(positions=at))
        self.tell(RecordsReturned(positions=dict.fromkeys(tps(owned), 9)))

    def idle(self, ms):
        """Time passes, heartbeats are answered, and nobody polls."""
        end, out = self.now + ms, []
        while self.now < end:
            out += self.sleep(min(INTERVAL, end - self.now))
            if self.m.answered_by_handler_in_flight:
                out += self.answer(None, epoch=max(1, self.m.member_epoch))
        return out

    def beat(self):
        """Let the next heartbeat leave."""
        count = len(self.hb)
        self.sleep(INTERVAL)
        assert len(self.hb) == count + 1, f"{len(self.hb) - count} heartbeats"
        return self

    def target(self, assignment, epoch=1):
        """The next heartbeat is answered with this target."""
        if not self.m.heartbeats_in_flight:
            self.beat()
        return self.answer(assignment, epoch=epoch)

    # what is seen
    @property
    def state(self):
        return self.m.state.value

    @property
    def last(self):
        return self.hb[-1].request

    @property
    def current(self):
        return self.m.current.partitions

    @property
    def owned(self):
        return frozenset(self.m.assigned)

    @property
    def awaiting(self):
        """Topics of the target that are not reconciled."""
        return {p.topic_id for p in self.m.target.partitions - self.m.current.partitions}


def states(out):
    return [e.to_state.value for e in out if isinstance(e, StateChanged)]


def calls(out):
    return [(e.kind.value, e.partitions) for e in out if isinstance(e, RunCallback)]


def returned(out):
    return any(isinstance(e, CallReturned) for e in out)


def raised(out):
    return [e.error_code and e.error_code.name for e in out if isinstance(e, RaiseError)]


def sends(out):
    return [e for e in out if isinstance(e, SendHeartbeat)]


def asks(out):
    return [e for e in out if isinstance(e, RequestMetadata)]


def commits(out):
    return [e for e in out if isinstance(e, SendCommit)]


def results(out):
    return [e.error_code and e.error_code.name for e in out if isinstance(e, CommitReturned)]


__all__ = [
    "INTERVAL",
    "Client",
    "S",
    "asks",
    "calls",
    "commits",
    "raised",
    "results",
    "returned",
    "sends",
    "states",
]
