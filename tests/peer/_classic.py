"""Classic requests against a coordinator, as Kafka's test context sends them."""

from __future__ import annotations

from typing import Any

from _kafka import Context

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.classic_records import ClassicGroupValue, ClassicMemberValue
from rebalance_sim.protocol.wire.embedded import NamedPartitions, Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import GroupMetadata

GID = "group-id"
TOPICS = ("foo", "bar", "baz")
DELAY = 3000
NEW_MEMBER = 300_000
SUPERSET = ("range", "roundrobin")


def protocols(*names: str) -> tuple[JoinGroupProtocol, ...]:
    return tuple(
        JoinGroupProtocol(n, Subscription(topics=(TOPICS[i % 3],))) for i, n in enumerate(names)
    )


def subscription(topics, owned=(), version=3, generation=-1):
    """``owned``: "foo:0,1 bar:0" grouped as named partitions."""
    named = []
    for word in owned.split() if isinstance(owned, str) else ():
        t, _, ns = word.partition(":")
        named.append(NamedPartitions(t, tuple(int(n) for n in ns.split(","))))
    return Subscription(
        topics=tuple(topics),
        owned_partitions=tuple(named),
        version=version,
        generation_id=generation,
    )


class Classic(Context):
    def __init__(
        self, version: str = "kafka-4.3", topics: str = "", *, create: bool = True, **config: Any
    ):
        super().__init__(version, topics, **{"group_initial_rebalance_delay_ms": DELAY, **config})
        self.count = 0
        if create:
            self.replay(
                GroupMetadata(
                    GID,
                    ClassicGroupValue(
                        protocol_type="",
                        generation=0,
                        protocol=None,
                        leader=None,
                        current_state_timestamp=0,
                        members=(),
                    ),
                )
            )

    @property
    def cg(self):
        return self.coordinator.groups_of(ClassicGroup)[GID]

    @property
    def gstate(self) -> str:
        return self.cg.state.value

    def _send(self, request: Any, token: Any = None):
        before = len(self.shard.batches)
        response = self.shard.request(
            request, client_id="client", client_host="localhost", token=token
        )
        self.raw = tuple(r for _, b in self.shard.batches[before:] for r in b)
        self.records = [self.spell(r) for r in self.raw]
        return response

    def ask(
        self,
        member: str = "",
        *,
        instance=None,
        protos=("range",),
        type_="consumer",
        session=500,
        rebalance=500,
        known=False,
        skip=False,
        group=GID,
        metadata=None,
    ) -> int:
        """One JoinGroup; a handle for ``got``. ``known``: the version that asks for a known id."""
        self.count += 1
        given = (
            protocols(*protos)
            if metadata is None
            else tuple(JoinGroupProtocol(p, metadata) for p in protos)
        )
        response = self._send(
            JoinGroupRequest(
                group_id=group,
                member_id=member,
                session_timeout_ms=session,
                rebalance_timeout_ms=rebalance,
                protocols=given,
                group_instance_id=instance,
                protocol_type=type_,
                api_version=9 if known and skip else 4 if known else 3,
            ),
            token=self.count,
        )
        if response is not None:
            self.shard.answers[self.count] = response
        return self.count

    def got(self, handle: int):
        """The answer, or None while it is parked."""
        return self.shard.answers.get(handle)

    def done(self, *handles: int) -> list[bool]:
        return [self.got(h) is not None for h in handles]

    def code(self, handle: int) -> str | None:
        answer = self.got(handle)
        return None if answer is None else answer.error_code.name

    def dynamic(self, **fields: Any):
        """A dynamic member joins a group, and the join phase ends."""
        first = self.got(self.ask(known=True, **fields))
        assert first.error_code is ErrorCode.MEMBER_ID_REQUIRED, first
        handle = self.ask(first.member_id, known=True, **fields)
        self.sleep(DELAY)
        answer = self.got(handle)
        assert answer is not None and answer.error_code is ErrorCode.NONE, answer
        return answer

    def completes(self, *, advance=DELAY, **fields: Any):
        """A member (static, or an old client) joins, and the join phase ends."""
        handle = self.ask(**fields)
        self.sleep(advance)
        answer = self.got(handle)
        assert answer is not None and answer.error_code is ErrorCode.NONE, answer
        return answer

    def put(
        self,
        member: str,
        generation: int,
        assignments=None,
        *,
        instance=None,
        type_="consumer",
        name="range",
        group=GID,
    ) -> int:
        self.count += 1
        response = self._send(
            SyncGroupRequest(
                group_id=group,
                generation_id=generation,
                member_id=member,
                group_instance_id=instance,
                protocol_type=type_,
                protocol_name=name,
                assignments=assignments or {},
            ),
            token=self.count,
        )
        if response is not None:
            self.shard.answers[self.count] = response
        return self.count

    def live(self, member: str, generation: int, *, instance=None, group=GID) -> str:
        return self._send(
            HeartbeatRequest(
                group_id=group,
                generation_id=generation,
                member_id=member,
                group_instance_id=instance,
            )
        ).error_code.name

    def leave(self, *members, group=GID):
        response = self._send(
            LeaveGroupRequest(
                group_id=group,
                members=tuple(
                    MemberIdentity(*m) if isinstance(m, tuple) else MemberIdentity(m)
                    for m in members
                ),
            )
        )
        if response.error_code is not ErrorCode.NONE:
            return response.error_code.name
        return [(m.member_id, m.group_instance_id, m.error_code.name) for m in response.members]

    def stable(self):
        """One dynamic member (session 5 s, rebalance timeout 10 s), synced."""
        leader = self.dynamic(session=5000, rebalance=10000)
        answer = self.got(self.put(leader.member_id, leader.generation_id))
        assert answer.error_code is ErrorCode.NONE and self.gstate == "Stable"
        return leader

    def static_pair(self, rebalance=10000, session=5000):
        """Two static members, synced: leader gets bytes 1, follower bytes 2."""
        a = self.ask(
            instance="leader-instance-id", protos=SUPERSET, rebalance=rebalance, session=session
        )
        b = self.ask(
            instance="follower-instance-id", protos=SUPERSET, rebalance=rebalance, session=session
        )
        self.sleep(DELAY), self.sleep(DELAY)
        leader, follower = self.got(a), self.got(b)
        assert (
            leader.generation_id == follower.generation_id == 1
            and self.gstate == "CompletingRebalance"
        )
        answer = self.got(
            self.put(
                leader.member_id,
                1,
                {leader.member_id: b"\x01", follower.member_id: b"\x02"},
                instance="leader-instance-id",
            )
        )
        assert answer.error_code is ErrorCode.NONE and self.gstate == "Stable"
        assert (
            self.got(self.put(follower.member_id, 1, instance="follower-instance-id")).assignment
            == b"\x02"
        )
        return (
            leader.leader,
            leader.member_id if leader.leader == follower.member_id else follower.member_id,
        )

    def with_pending(self):
        leader = self.dynamic(session=5000, rebalance=10000).member_id
        self.put(leader, 1, {leader: b""})
        follower = self.ask(session=5000, rebalance=10000)
        again = self.ask(leader, session=5000, rebalance=10000)
        assert self.code(again) == self.code(follower) == "NONE"
        self.put(leader, self.got(again).generation_id, {leader: b""})
        assert self.gstate == "Stable"
        self.ask(leader, session=5000, rebalance=10000)
        assert self.gstate == "PreparingRebalance"
        pending = self.got(self.ask(session=2500, rebalance=10000, known=True))
        assert pending.error_code is ErrorCode.MEMBER_ID_REQUIRED
        follower_id = self.got(follower).member_id
        self.ask(follower_id, session=5000, rebalance=10000)
        assert (
            self.gstate == "PreparingRebalance"
            and len(self.cg.members) == 2
            and len(self.cg.pending_join) == 1
        )
        return leader, follower_id, pending.member_id

    def n_members(self, n, rebalance, session):
        """n old clients join one new group together; the leader first."""
        handles = []
        ids = [
            self.got(self.ask(session=session, rebalance=rebalance, known=True)).member_id
            for _ in range(n)
        ]
        handles = [self.ask(i, session=session, rebalance=rebalance, known=True) for i in ids]
        self.sleep(DELAY)
        self.sleep(DELAY)
        answers = [self.got(h) for h in handles]
        assert all(a is not None and a.error_code is ErrorCode.NONE for a in answers)
        leader = answers[0].leader
        return sorted(answers, key=lambda a: a.member_id != leader)

    def due(self, kind: str, member: str = ""):
        timer = self.shard.timers.get(TimerKey(kind, GID, member))
        return None if timer is None else timer.at_ms - self.shard.now_ms


def value(members=(), generation=10, protocol="range", leader=None, type_="consumer", at=0):
    return ClassicGroupValue(
        protocol_type=type_,
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=at,
        members=tuple(members),
    )


def member_value(
    member_id, *, instance=None, rebalance=10000, session=5000, metadata=None, assignment=None
):
    return ClassicMemberValue(
        member_id=member_id,
        group_instance_id=instance,
        client_id="client-id",
        client_host="client-host",
        rebalance_timeout_ms=rebalance,
        session_timeout_ms=session,
        subscription=metadata or Subscription(topics=("foo",)),
        assignment=assignment,
    )
