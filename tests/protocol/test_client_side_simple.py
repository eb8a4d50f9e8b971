"""The brokers' algorithms under client-side names."""

from __future__ import annotations

from assignor_builders import parts
from hypothesis import given
from streams_builders import group, specs, streams_member

from rebalance_sim.protocol.assignors.client_side import (
    AssignmentSpec,
    advertise,
    range_assignor,
    sticky_assignor,
)
from rebalance_sim.protocol.assignors.client_side.simple import subscription_type_of
from rebalance_sim.protocol.assignors.server import (
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    UniformAssignor,
)
from rebalance_sim.protocol.wire.assignment_messages import (
    ClientAssignor,
    ConsumerGroupPrepareAssignmentResponse,
)


@given(specs())
def test_they_compute_what_brokers_compute(spec: AssignmentSpec) -> None:
    members = {
        name: MemberSpec(
            subscribed_topic_ids=member.subscribed_topic_ids, current=member.topic_partitions
        )
        for name, member in spec.members.items()
    }
    on_broker = GroupSpec(members=members, subscription_type=subscription_type_of(spec))
    counts = {topic_id: topic.partition_count for topic_id, topic in spec.topics.items()}
    for assignor, algorithm in (
        (range_assignor(), RangeAssignor()),
        (sticky_assignor(), UniformAssignor()),
    ):
        expected = algorithm.assign(on_broker, counts)
        result = assignor.assign(spec)
        assert {r.member_id: r.partitions for r in result.members if r.partitions} == {
            name: share for name, share in expected.items() if share
        }
        assert {r.member_id: r.metadata_version for r in result.members} == {
            name: member.metadata_version for name, member in spec.members.items()
        }


def test_an_assignor_is_offered_with_its_versions_and_what_is_said_to_it() -> None:
    assignor = sticky_assignor(maximum_version=3, metadata_version=2)
    assert advertise(assignor) == ClientAssignor(
        name="sticky", minimum_version=0, maximum_version=3, metadata_version=2
    )


def test_a_group_is_taken_as_it_was_prepared_in_ascending_order() -> None:
    spec = group(streams_member("B"), streams_member("A", "foo[0]"), zoo=1, foo=2)
    prepared = ConsumerGroupPrepareAssignmentResponse(
        members=tuple(spec.members.values()), topics=tuple(spec.topics.values())
    )
    taken = AssignmentSpec.of(prepared)
    assert (list(taken.members), list(taken.topics)) == (["A", "B"], ["foo", "zoo"])
    assert taken.members["A"].topic_partitions == parts("foo[0]")
