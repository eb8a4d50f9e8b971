"""Targets of Streams applications: no task goes where its state is not, no copy where it is.

Sources: coordinator §12; KIP-848, "Member Behavior". What a member has said of its
copies counts, for it is all that an assignor knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rebalance_sim.invariants.properties.consumer.client_side import ClientSideProperty
from rebalance_sim.invariants.property import Finding
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.assignors.client_side import StreamsAssignor, StreamsMember
from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    decode_assignment,
    decode_member,
)
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 290


class _Computed(NamedTuple):
    """A result that was installed, what it was computed from, and what each member had said."""

    request: ConsumerGroupInstallAssignmentRequest
    given: ConsumerGroupPrepareAssignmentResponse
    said: Mapping[str, StreamsMember]


class _StreamsProperty(ClientSideProperty):
    """Looks at results of the assignor ``streams`` that were installed."""

    def on_assignment_request(self, step: Step) -> Finding | None:
        """Judge what was installed, if all members can be understood."""
        request = self.accepted(step)
        given = None if request is None else self.given(step, request)
        if request is None or given is None or given.assignor_name != StreamsAssignor.name:
            return None
        try:
            said = {
                member.member_id: decode_member(member.metadata_bytes, member.metadata_version)
                for member in given.members
            }
        except ValueError:
            return None
        return self.judge(_Computed(request, given, said))

    def judge(self, computed: _Computed) -> Finding | None:
        """The finding, if there is one."""
        raise NotImplementedError


class NoColdMove(_StreamsProperty):
    """What warm-ups are for."""

    id = "streams.no_cold_move"
    sentence = (
        "While the owner of a task is there with a good copy, the task moves only to a member "
        "whose copy is within the acceptable recovery lag."
    )
    clauses = ("coordinator §12", 'KIP-848, "Member Behavior"')
    violated_by = ("mut-streams-moves-cold",)

    def judge(self, computed: _Computed) -> Finding | None:
        """Look at every task that leaves its owner."""
        request, given, said = computed
        limit = self._limit_of(request.member_id)
        if limit is None:
            return None
        lags: dict[tuple[str, TopicPartition], int] = {}
        for says in said.values():
            for task, lag in says.task_lags.items():
                key = says.process_id, task
                lags[key] = min(lag, lags.get(key, lag))
        runner = {task: row.member_id for row in request.members for task in row.partitions}
        for owner in given.members:
            process = said[owner.member_id].process_id
            for task in sorted(owner.topic_partitions & runner.keys()):
                successor = runner[task]
                successor_process = said[successor].process_id
                if (
                    successor_process == process
                    or task.topic_id not in owner.subscribed_topic_ids
                    or lags.get((process, task), limit) > limit
                    or lags.get((successor_process, task), limit + 1) <= limit
                ):
                    continue
                found = lags.get((successor_process, task))
                return Finding(
                    f"{self.model.name_of(task)} moves from {self.model.who(owner.member_id)} to "
                    f"{self.model.who(successor)}, whose copy "
                    f"{'does not exist' if found is None else f'lags {found} records'}; acceptable "
                    f"are {limit}",
                    partition=task,
                    member=successor,
                )
        return None

    def _limit_of(self, member_id: str) -> int | None:
        """The acceptable recovery lag of whoever computed."""
        entry = self.model.by_member_id.get(member_id)
        for assignor in entry.member.local_assignors if entry else ():
            if isinstance(assignor, StreamsAssignor):
                return assignor.config.acceptable_recovery_lag
        return None


class CopiesApart(_StreamsProperty):
    """What standbys are for."""

    id = "streams.copies_apart"
    sentence = (
        "A process has a task in one role only, and a member's active tasks are the partitions "
        "that it is assigned."
    )
    clauses = ("coordinator §12", 'KIP-848, "Member Behavior"')
    violated_by = ("mut-streams-standby-beside-active",)

    def judge(self, computed: _Computed) -> Finding | None:
        """Look at every task of every process."""
        seen: dict[tuple[str, TopicPartition], str] = {}
        for row in computed.request.members:
            share = decode_assignment(row.metadata_bytes, row.metadata_version)
            if share.active != row.partitions:
                return Finding(
                    f"{self.model.who(row.member_id)} is to run "
                    f"{self.model.names_of(share.active)} and is assigned "
                    f"{self.model.names_of(row.partitions)}",
                    member=row.member_id,
                )
            process = computed.said[row.member_id].process_id
            for role, task in _roles(share.active, share.standby, share.warm_up):
                other = seen.get((process, task))
                seen[process, task] = role
                if other is not None:
                    return Finding(
                        f"process {process} has {self.model.name_of(task)} as {other} and as "
                        f"{role}",
                        partition=task,
                    )
        return None


def _roles(*shares: frozenset[TopicPartition]) -> Iterator[tuple[str, TopicPartition]]:
    for role, tasks in zip(("active", "standby", "warm-up"), shares, strict=True):
        for task in sorted(tasks):
            yield role, task
