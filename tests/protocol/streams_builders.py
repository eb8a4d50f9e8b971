"""Groups of Streams members for tests of the assignor: short spellings, and strategies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assignor_builders import parts
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.client_side import (
    AssignmentSpec,
    ComputedAssignment,
    MetadataReason,
    StreamsAssignment,
    StreamsAssignor,
    StreamsConfig,
)
from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    StreamsMember,
    decode_assignment,
    encode_member,
)
from rebalance_sim.protocol.wire.assignment_messages import PreparedMember
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition

ACCEPTABLE = 100
"""The acceptable recovery lag in these tests."""


def streams_member(
    member_id: str,
    target: str = "",
    lags: Mapping[str, int] | None = None,
    *,
    topics: str = "foo",
    version: int = 1,
    process: str = "",
    reason: int = 0,
    **says: Any,
) -> PreparedMember:
    """``streams_member("A", "foo[0-2]", {"foo-3": 7})``: what it runs, and how far copies lag."""
    task_lags = {_task(name): lag for name, lag in (lags or {}).items()}
    said = StreamsMember(process_id=process or member_id, task_lags=task_lags, **says)
    return PreparedMember(
        member_id=member_id,
        member_epoch=1,
        subscribed_topic_ids=frozenset(topics.split()),
        topic_partitions=parts(target),
        reason=reason,
        metadata_version=version,
        metadata_bytes=encode_member(said, version),
    )


def _task(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def group(*members: PreparedMember, **topics: int) -> AssignmentSpec:
    """A group to be assigned; ``foo=6`` is a topic of six partitions."""
    counts = topics or {"foo": 6}
    return AssignmentSpec(
        members={member.member_id: member for member in members},
        topics={
            name: Topic(topic_id=name, name=name, partition_count=n) for name, n in counts.items()
        },
    )


def compute(spec: AssignmentSpec, **config: Any) -> ComputedAssignment:
    """What a member of the newest version computes."""
    settings = {"acceptable_recovery_lag": ACCEPTABLE, **config}
    return StreamsAssignor(process_id="any", config=StreamsConfig(**settings)).assign(spec)


def shares_of(result: ComputedAssignment) -> dict[str, StreamsAssignment]:
    """The assignment metadata of every member, decoded in the version that it carries."""
    return {
        row.member_id: decode_assignment(row.metadata_bytes, row.metadata_version)
        for row in result.members
    }


def placed(spec: AssignmentSpec, **config: Any) -> dict[str, StreamsAssignment]:
    """The shares that a computation hands out."""
    return shares_of(compute(spec, **config))


# -- strategies ----------------------------------------------------------------------------


@st.composite
def specs(draw: st.DrawFn, *, alike: bool = False) -> AssignmentSpec:
    """Groups in every state: fresh, settled, with copies that lag, with members that have gone."""
    counts = draw(
        st.dictionaries(st.sampled_from(["bar", "foo", "zoo"]), st.integers(1, 6), min_size=1)
    )
    tasks = [TopicPartition(t, n) for t in sorted(counts) for n in range(counts[t])]
    names = draw(st.lists(st.sampled_from("ABCDEF"), min_size=1, max_size=6, unique=True))
    processes = draw(st.lists(st.sampled_from(["p", "q", "r", "s"]), min_size=6, max_size=6))
    everything = frozenset(counts)
    subscriptions = {
        name: everything
        if alike or draw(st.booleans())
        else draw(st.frozensets(st.sampled_from(sorted(counts))))
        for name in names
    }
    subscribed = frozenset().union(*subscriptions.values())
    targets: dict[str, set[TopicPartition]] = {name: set() for name in names}
    for task in tasks:
        owner = draw(st.sampled_from([None, *names]))
        if owner is not None:
            targets[owner].add(task)
    lag = st.sampled_from([0, ACCEPTABLE, ACCEPTABLE + 1, 5_000])
    members = []
    for number, name in enumerate(names):
        version = draw(st.integers(0, 1))
        says = StreamsMember(
            process_id=processes[number],
            client_tags={"zone": draw(st.sampled_from("xyz"))} if version else {},
            task_lags=draw(st.dictionaries(st.sampled_from(tasks), lag, max_size=8)),
        )
        members.append(
            PreparedMember(
                member_id=name,
                member_epoch=1,
                subscribed_topic_ids=subscriptions[name],
                topic_partitions=frozenset(targets[name]),
                reason=draw(st.sampled_from([MetadataReason.NONE, MetadataReason.WARM_UP_READY])),
                metadata_version=version,
                metadata_bytes=encode_member(says, version),
            )
        )
    return AssignmentSpec(
        members={m.member_id: m for m in members},
        topics={
            t: Topic(topic_id=t, name=t, partition_count=counts[t]) for t in sorted(subscribed)
        },
    )


configs = st.builds(
    StreamsConfig,
    num_standby_replicas=st.integers(0, 2),
    acceptable_recovery_lag=st.just(ACCEPTABLE),
    max_warmup_replicas=st.integers(1, 3),
    rack_aware_assignment_tags=st.sampled_from([(), ("zone",)]),
)
