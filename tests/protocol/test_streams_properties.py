"""What holds of every assignment that the Streams assignor computes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from streams_builders import ACCEPTABLE, configs, shares_of, specs

from rebalance_sim.protocol.assignors.client_side import (
    AssignmentSpec,
    StreamsAssignor,
    StreamsConfig,
)
from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    StreamsAssignment,
    StreamsMember,
    decode_member,
    encode_member,
)
from rebalance_sim.protocol.consumer.client_side.assignment_requests import problem_of
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


def assignor(config: StreamsConfig) -> StreamsAssignor:
    return StreamsAssignor(process_id="any", config=config)


def says(spec: AssignmentSpec) -> dict[str, StreamsMember]:
    return {
        name: decode_member(member.metadata_bytes, member.metadata_version)
        for name, member in spec.members.items()
    }


def is_ready(spec: AssignmentSpec, name: str, task: TopicPartition) -> bool:
    """Whether any member of this one's process has said that its copy is good."""
    said = says(spec)
    lags = [
        other.task_lags[task]
        for other in said.values()
        if other.process_id == said[name].process_id and task in other.task_lags
    ]
    return bool(lags) and min(lags) <= ACCEPTABLE


@given(specs(), configs)
def test_a_coordinator_accepts_it(spec: AssignmentSpec, config: StreamsConfig) -> None:
    result = assignor(config).assign(spec)
    prepared = ConsumerGroupPrepareAssignmentResponse(
        members=tuple(spec.members.values()), topics=tuple(spec.topics.values())
    )
    request = ConsumerGroupInstallAssignmentRequest(
        group_id="g", member_id="A", member_epoch=1, group_epoch=0, members=result.members
    )
    assert problem_of(prepared, request) is None
    for row in result.members:
        member = spec.members[row.member_id]
        assert {task.topic_id for task in row.partitions} <= member.subscribed_topic_ids
        assert row.metadata_version == member.metadata_version


@given(specs(), configs)
def test_metadata_and_partitions_agree_and_a_process_has_a_task_once(
    spec: AssignmentSpec, config: StreamsConfig
) -> None:
    result = assignor(config).assign(spec)
    shares, said = shares_of(result), says(spec)
    seen: set[tuple[str, TopicPartition]] = set()
    for row in result.members:
        share = shares[row.member_id]
        assert share.active == row.partitions
        for task in (*share.active, *share.standby, *share.warm_up):
            key = said[row.member_id].process_id, task
            assert key not in seen
            seen.add(key)


@given(specs(), configs)
def test_no_task_leaves_an_owner_for_a_member_whose_copy_lags(
    spec: AssignmentSpec, config: StreamsConfig
) -> None:
    said = says(spec)
    result = assignor(config).assign(spec)
    runner = {task: row.member_id for row in result.members for task in row.partitions}
    for name, member in spec.members.items():
        for task in member.topic_partitions & runner.keys():
            now = runner[task]
            owner_lags = [
                m.task_lags[task]
                for m in said.values()
                if m.process_id == said[name].process_id and task in m.task_lags
            ]
            trusted = not owner_lags or min(owner_lags) <= ACCEPTABLE
            if now == name or not trusted or task.topic_id not in member.subscribed_topic_ids:
                continue
            same_process = said[now].process_id == said[name].process_id
            assert same_process or is_ready(spec, now, task)


@given(specs(), configs)
def test_copies_are_as_many_as_settings_and_processes_allow(
    spec: AssignmentSpec, config: StreamsConfig
) -> None:
    # Version 0 cannot tell a warm-up from a standby.
    spec = replace(
        spec,
        members={
            name: replace(m, metadata_version=1, metadata_bytes=encode_member(says(spec)[name], 1))
            for name, m in spec.members.items()
        },
    )
    shares, said = shares_of(assignor(config).assign(spec)), says(spec)
    warm_ups = [task for share in shares.values() for task in share.warm_up]
    assert len(warm_ups) <= config.max_warmup_replicas
    assert len(set(warm_ups)) == len(warm_ups)
    for topic in spec.topics.values():
        processes = {
            said[name].process_id
            for name, member in spec.members.items()
            if topic.topic_id in member.subscribed_topic_ids
        }
        for number in range(topic.partition_count):
            task = TopicPartition(topic.topic_id, number)
            standbys = sum(task in share.standby for share in shares.values())
            free = len(processes) - 1 - (task in warm_ups)
            assert standbys == min(config.num_standby_replicas, free)


@given(specs(), configs, st.randoms(use_true_random=False))
def test_the_order_of_the_input_has_no_influence_and_the_input_is_left_alone(
    spec: AssignmentSpec, config: StreamsConfig, random: st.DataObject
) -> None:
    names = list(spec.members)
    random.shuffle(names)
    shuffled = AssignmentSpec(
        members={name: spec.members[name] for name in names},
        topics=dict(reversed(spec.topics.items())),
    )
    before = dict(spec.members)
    rows = {row.member_id: row for row in assignor(config).assign(spec).members}
    assert {row.member_id: row for row in assignor(config).assign(shuffled).members} == rows
    assert spec.members == before


def after_warm_up(spec: AssignmentSpec, shares: dict[str, StreamsAssignment]) -> AssignmentSpec:
    """The group when everybody runs its share, and all copies have caught up."""
    members = {}
    for name, member in spec.members.items():
        lags = dict.fromkeys(sorted(shares[name].tasks), 0)
        said = replace(says(spec)[name], task_lags=lags)
        members[name] = replace(
            member,
            topic_partitions=shares[name].active,
            metadata_bytes=encode_member(said, member.metadata_version),
        )
    return replace(spec, members=members)


@given(specs(alike=True), configs)
def test_round_by_round_a_group_becomes_balanced_and_stays_so(
    spec: AssignmentSpec, config: StreamsConfig
) -> None:
    task_count = sum(topic.partition_count for topic in spec.topics.values())
    shares: dict[str, StreamsAssignment] = {}
    for _ in range(2 * task_count + 3):
        before, shares = shares, shares_of(assignor(config).assign(spec))
        if shares == before:
            break
        spec = after_warm_up(spec, shares)
    else:
        raise AssertionError("the group does not come to rest")
    sizes = [len(share.active) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1
    assert not any(share.warm_up for share in shares.values())
