"""What the checker remembers of one process of the classic protocol between its events."""

from __future__ import annotations

from typing import Any

from rebalance_sim.invariants.model.client_entry import ClientEntry, OpenCommit
from rebalance_sim.invariants.step import ClientView, Step
from rebalance_sim.protocol.clients import (
    ClientState,
    CommitOffsets,
    RaiseError,
    SendCommit,
    StateChanged,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


class ClassicClientEntry:
    """A classic client as it was after its last event. ``commits_itself``: the
    application has committed what it liked. ``committed_ms``: when a commit was sent last;
    ``raised_ms``: when a call of the application raised last, -1: never;
    ``open_commits``: what the application has committed, and has not heard of;
    ``state_since_ms``: since when it is in its state; ``settled``: the member id and
    the generation with which it was Stable last."""

    __slots__ = (
        "commits_itself",
        "committed_ms",
        "fetchable",
        "incarnation",
        "kind",
        "member",
        "member_epoch",
        "member_id",
        "name",
        "open_commits",
        "raised_ms",
        "settled",
        "state",
        "state_since_ms",
        "version",
    )

    def __init__(self, client: ClientView, at_ms: int) -> None:
        self.name = client.name
        self.incarnation = client.incarnation
        self.member = client.member
        self.kind = client.member.kind
        self.settled: tuple[str, int] | None = None
        self.catch_up()
        self.fetchable: frozenset[TopicPartition] = frozenset()
        self.commits_itself = False
        self.committed_ms = -1
        self.open_commits: dict[int, OpenCommit] = {}
        self.state_since_ms = at_ms
        self.raised_ms = -1
        self.version = -1

    def has_moved(self) -> bool:
        """Whether anything that properties are made about differs from what was seen last."""
        member = self.member
        return (
            member.ownership_version != self.version
            or member.state is not self.state
            or member.member_epoch != self.member_epoch
            or member.member_id != self.member_id
        )

    def catch_up(self) -> None:
        """Remember the machine as it is now."""
        member = self.member
        self.state = member.state
        self.member_id = member.member_id
        self.member_epoch = member.member_epoch
        if member.state is ClientState.STABLE:
            self.settled = member.member_id, member.member_epoch

    def note_event(self, event: Any, at_ms: int) -> None:
        """An event out of the ordinary was taken."""
        if type(event) is CommitOffsets:
            self.commits_itself = True
            self.open_commits[event.commit_id] = OpenCommit(at_ms, event.is_sync)

    def note_effects(self, step: Step) -> None:
        """An event led to something."""
        for effect in step.effects:
            if type(effect) is SendCommit:
                self.committed_ms = step.at_ms
            elif type(effect) is RaiseError:
                self.raised_ms = step.at_ms
            elif type(effect) is StateChanged and effect.from_state is not effect.to_state:
                self.state_since_ms = step.at_ms


AnyClientEntry = ClientEntry | ClassicClientEntry
"""A client of whatever protocol; of the consumer protocol, more is remembered."""
