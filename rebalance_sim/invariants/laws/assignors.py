"""What client-side assignors compute: whole, in each member's version, and no task goes cold.

What the coordinator makes of it, the reference follows step by step.
Sources: coordinator §12 (the text of KIP-848; no other version has such assignors).
"""

from __future__ import annotations

from collections import Counter

from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.assignors.client_side import StreamsAssignor, StreamsMember
from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    decode_assignment,
    decode_member,
)
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_Request = ConsumerGroupInstallAssignmentRequest
_Given = ConsumerGroupPrepareAssignmentResponse
_Said = dict[str, StreamsMember]


class _OfResults(Property):
    """A law of results that clients hand in, by what they were given for them."""

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """Only where members may offer assignors at all."""
        return semantics.coordinator.has_client_assignors

    def on_assignment_request(self, step: Step) -> Finding | None:
        """Look at every result, whatever becomes of it."""
        request = step.request
        if type(request) is not _Request or not self.model.is_client(request.member_id):
            return None
        given = self.model.computations.prepared(step.shard.name, request)
        return None if given is None else self.judge(request, given)

    def judge(self, request: _Request, given: _Given) -> Finding | None:
        """Is it right?"""
        raise NotImplementedError


class ResultValid(_OfResults):
    """coordinator §12.6, check 6, for every kind of assignor."""

    id = "assignor.result_valid"
    sentence = (
        "A client-side assignor of a client assigns every partition that it was given exactly "
        "once, to the members that it was given."
    )
    clauses = ("coordinator §12.6", "defects S8")
    violated_by = ("mut-streams-double-active",)

    def judge(self, request: _Request, given: _Given) -> Finding | None:
        """Count."""
        counts = Counter(partition for row in request.members for partition in row.partitions)
        topics = ((t.topic_id, number) for t in given.topics for number in range(t.partition_count))
        expected = Counter(TopicPartition(*one) for one in topics)
        names = [row.member_id for row in request.members]
        odd = sorted(p for p in {*counts, *expected} if counts[p] != expected[p])
        if not odd and {*names} <= {m.member_id for m in given.members}:
            return None if len({*names}) == len(names) else Finding("a member has two shares")
        what = f"assigned {self.model.names_of(odd)} not once" if odd else "gave to a stranger"
        return Finding(f"{self.model.who(request.member_id)} {what}", member=request.member_id)


class OwnVersion(_OfResults):
    """coordinator §12.4."""

    id = "assignor.own_version"
    sentence = (
        "A client-side assignor of a client writes to each member in the version that member uses."
    )
    clauses = ("coordinator §12.4",)
    violated_by = ("mut-streams-own-version",)

    def judge(self, request: _Request, given: _Given) -> Finding | None:
        """Compare versions row by row."""
        used = {m.member_id: m.metadata_version for m in given.members}
        who = self.model.who
        for row in request.members:
            version = used.get(row.member_id, row.metadata_version)
            if row.metadata_version != version:
                return Finding(
                    f"{who(request.member_id)} wrote to {who(row.member_id)} in version "
                    f"{row.metadata_version}; that member uses {version}",
                    member=row.member_id,
                )
        return None


class _OfStreams(_OfResults):
    """Results of the assignor ``streams``, by what members have said of their copies."""

    def judge(self, request: _Request, given: _Given) -> Finding | None:
        """Judge it if all members can be understood."""
        if given.assignor_name != StreamsAssignor.name:
            return None
        try:
            said = {
                m.member_id: decode_member(m.metadata_bytes, m.metadata_version)
                for m in given.members
            }
        except ValueError:
            return None
        return self.judge_tasks(request, given, said)

    def judge_tasks(self, request: _Request, given: _Given, said: _Said) -> Finding | None:
        """Are tasks where they may be?"""
        raise NotImplementedError


class NoColdMove(_OfStreams):
    """What warm-ups are for."""

    id = "streams.no_cold_move"
    sentence = (
        "While the owner of a task is there with a good copy, the task moves only to a member "
        "whose copy is within the acceptable recovery lag."
    )
    clauses = ("coordinator §12", 'KIP-848, "Member Behavior"')
    violated_by = ("mut-streams-moves-cold",)

    def judge_tasks(self, request: _Request, given: _Given, said: _Said) -> Finding | None:
        """Look at every task that leaves its owner."""
        computing = self.model.by_member_id.get(request.member_id)
        own = computing.member.local_assignors if computing else ()
        limit = next(
            (a.config.acceptable_recovery_lag for a in own if isinstance(a, StreamsAssignor)), None
        )
        if limit is None:
            return None
        lags: dict[tuple[str, TopicPartition], int] = {}
        for says in said.values():
            for task, lag in says.task_lags.items():
                key = says.process_id, task
                lags[key] = min(lag, lags.get(key, lag))
        rows = [row for row in request.members if row.member_id in said]
        runner = {task: row.member_id for row in rows for task in row.partitions}
        for owner in given.members:
            old = said[owner.member_id].process_id
            for task in sorted(owner.topic_partitions & runner.keys()):
                new = said[runner[task]].process_id
                is_warm = new == old or lags.get((new, task), limit + 1) <= limit
                is_cold_at_home = lags.get((old, task), limit) > limit
                if is_warm or is_cold_at_home or task.topic_id not in owner.subscribed_topic_ids:
                    continue
                return Finding(
                    f"{self.model.name_of(task)} moves from {self.model.who(owner.member_id)} to "
                    f"{self.model.who(runner[task])}, whose copy lags "
                    f"{lags.get((new, task), 'all')} records; acceptable are {limit}",
                    partition=task,
                    member=runner[task],
                )
        return None


class CopiesApart(_OfStreams):
    """What standbys are for."""

    id = "streams.copies_apart"
    sentence = (
        "A process has a task in one role only, and a member's active tasks are the partitions "
        "that it is assigned."
    )
    clauses = ("coordinator §12", 'KIP-848, "Member Behavior"')
    violated_by = ("mut-streams-standby-beside-active",)

    def judge_tasks(self, request: _Request, given: _Given, said: _Said) -> Finding | None:
        """Look at every task of every process."""
        seen: dict[tuple[str, TopicPartition], str] = {}
        for row in request.members:
            if row.member_id not in said:
                continue
            share = decode_assignment(row.metadata_bytes, row.metadata_version)
            if share.active != row.partitions:
                return Finding(
                    f"{self.model.who(row.member_id)} is to run "
                    f"{self.model.names_of(share.active)} and is assigned "
                    f"{self.model.names_of(row.partitions)}",
                    member=row.member_id,
                )
            process = said[row.member_id].process_id
            roles = {"active": share.active, "standby": share.standby, "warm-up": share.warm_up}
            for role, tasks in roles.items():
                for task in sorted(tasks):
                    other = seen.get((process, task))
                    seen[process, task] = role
                    if other is not None:
                        return Finding(
                            f"process {process} has {self.model.name_of(task)} as {other} and as "
                            f"{role}",
                            partition=task,
                        )
        return None
