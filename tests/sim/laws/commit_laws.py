"""Laws of what clients commit. Each returns what violates it, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lives import holdings, lives
from recording import ClientSeen, Recording

from rebalance_sim.protocol.clients.common.events import Close, CommitOffsets, Poll
from rebalance_sim.protocol.wire.topics import TopicPartition

CALLS = (Poll, CommitOffsets, Close)
"""Calls of the application in which the client makes a commit."""


class Sent(NamedTuple):
    """The commits that a process sends at a moment: each as the offsets that it names."""

    at: int
    at_ms: int
    event: object
    seen: ClientSeen
    commits: list[Mapping[TopicPartition, int]]
    before: list[Mapping[TopicPartition, int]]


class Positions:
    """Behind which record each process stood, in each time with a partition: first where it
    started, then behind what it was handed."""

    def __init__(self, recording: Recording) -> None:
        self._of: dict[tuple[int, TopicPartition], list[tuple[int, int]]] = {}
        self._by_process: dict[tuple[str, int, TopicPartition], list[tuple[int, int]]]
        self._by_process = defaultdict(list)
        for holding in holdings(recording):
            if holding.begins is None or holding.position is None:
                continue
            stood = [(holding.begins, holding.position)]
            stood += [(delivery.until, delivery.end) for delivery in holding.handed_out]
            self._of[holding.number, holding.partition] = stood
            process = holding.life.name, holding.life.incarnation, holding.partition
            self._by_process[process] += stood

    def now(self, sent: Sent, partition: TopicPartition) -> int | None:
        """In the present time with it; None: has no position."""
        held = sent.seen.held.get(partition)
        stood = [] if held is None else self._of.get((held.number, partition), [])
        return max((offset for at, offset in stood if at <= sent.at), default=None)

    def was_handed_any(self, sent: Sent, partition: TopicPartition) -> bool:
        """Whether it has moved in the present time with it."""
        held = sent.seen.held[partition]
        stood = self._of.get((held.number, partition), [])
        return any(at <= sent.at for at, _ in stood[1:])

    def so_far(self, sent: Sent, partition: TopicPartition) -> int:
        """The furthest in any time with it; -1: was never there."""
        stood = self._by_process[sent.seen.name, sent.seen.incarnation, partition]
        return max((offset for at, offset in stood if at <= sent.at), default=-1)


def sendings(recording: Recording) -> Iterator[Sent]:
    """Every moment at which a process sends commits."""
    for life in lives(recording).values():
        before: list[Mapping[TopicPartition, int]] = []
        for at, moment, seen in life.moments:
            commits = [
                effect.request.offsets
                for effect in moment.effects
                if type(effect).__name__ == "SendCommit"
            ]
            if commits:
                yield Sent(at, moment.at_ms, moment.event, seen, commits, list(before))
                before += commits


def nothing_is_committed_that_was_not_handed_out(recording: Recording) -> list[str]:
    """No commit names an offset beyond what ``poll`` has returned to that process, ever, or beyond
    where it started."""
    positions = Positions(recording)
    return [
        f"{told(sent, partition)} at {offset}, beyond {furthest}"
        for sent in sendings(recording)
        for commit in sent.commits
        for partition, offset in commit.items()
        if offset > (furthest := positions.so_far(sent, partition))
    ]


def a_new_commit_is_of_what_poll_has_returned(recording: Recording) -> list[str]:
    """What a client commits in a call of the application, and has not sent before, stands behind
    the last record that the application was handed; or, where the application names offsets, is
    what it names, and no more than that."""
    positions = Positions(recording)
    found = []
    for sent in sendings(recording):
        if not isinstance(sent.event, CALLS):
            continue
        named = getattr(sent.event, "offsets", None)
        new = [pair for one in sent.commits if one not in sent.before for pair in one.items()]
        for partition, offset in new:
            now = positions.now(sent, partition)
            asked = now if named is None else named.get(partition)
            if offset != asked or now is None or offset > now:
                found.append(f"{told(sent, partition)} at {offset}, not {asked} (of {now})")
    return found


def a_commit_without_offsets_leaves_nothing_out(recording: Recording) -> list[str]:
    """``commitSync`` and ``commitAsync`` are of all partitions that the application was handed
    anything of, but for what is committed already."""
    positions = Positions(recording)
    found = []
    for sent in sendings(recording):
        if not isinstance(sent.event, CommitOffsets) or sent.event.offsets is not None:
            continue
        known = [pair for commit in sent.before + sent.commits for pair in commit.items()]
        for partition in sent.seen.held:
            now = positions.now(sent, partition)
            if positions.was_handed_any(sent, partition) and (partition, now) not in known:
                found.append(f"{told(sent, partition)} not at all, but stands at {now}")
    return found


def told(sent: Sent, partition: TopicPartition) -> str:
    """In words."""
    seen = sent.seen
    of_what = type(sent.event).__name__
    return f"{sent.at_ms} ms: {seen.name} #{seen.incarnation} commits {partition} ({of_what})"
