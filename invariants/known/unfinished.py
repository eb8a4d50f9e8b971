"""What has not come about in the quiet period, and the known issues that explain it.

What is late hangs on a client, a member or a partition, and often on another member: one that holds
what it waits for. A known issue explains it if it is about one of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rebalance_sim.invariants.explanation import (
    THE_GROUP,
    Explanation,
    Seen,
    Subject,
    subjects_of,
)
from rebalance_sim.invariants.formatting import listed
from rebalance_sim.invariants.known.known_issues import explain
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.deleted_partitions import vanished_partition
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Late
from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA, LIBRDKAFKA_CLASSIC
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.embedded import Assignment, partitions_of
from rebalance_sim.protocol.wire.topics import TopicPartition


def explanation(
    property_id: str,
    late: Late,
    semantics: Semantics,
    model: ModelView,
    quiet_since_ms: int | None,
) -> Explanation | None:
    """The known issue that explains it, by the evidence of its group and of the client it hangs
    on; None if there is none. ``quiet_since_ms``: when the last fault ended."""
    ledger, shard = model.acting_ledger(), model.acting_shard()
    (subject,) = subjects_of({"client": late.client, **late.evidence})
    subjects = (subject, *_waits_for(subject, ledger))
    evidence: dict[str, object] = {
        "subjects": subjects,
        "unreported_revocation": tuple(_unreported_revocations(model, ledger, quiet_since_ms)),
    }
    if ledger is not None and shard is not None:
        evidence |= _of_group(subject, model, shard, ledger)
    entry = model.clients.get(late.client)
    if entry is not None:
        evidence |= _of_client(entry, model, ledger)
    finding = Finding(f"{late.subject} {late.reason}", evidence, rightful=len(subjects) - 1)
    found = explain(semantics, property_id, finding, step=model.step_index, at_ms=model.view.now_ms)
    return None if found is None else replace(found, about=str(subject))


def _waits_for(subject: Subject, ledger: GroupLedger | None) -> tuple[Subject, ...]:
    """The members that hold what this one waits for, and those that these wait for in turn; if the
    group has no target at its epoch, those whose next heartbeat would have it computed: a classic
    member's does not (classic §7.7)."""
    if ledger is None:
        return ()
    found: dict[str, None] = {}
    if ledger.group_epoch > ledger.target_epoch:
        found |= dict.fromkeys(m for m, stored in ledger.members.items() if not stored.is_classic)
    if subject.partition is not None:
        _add_holder(found, subject.partition, subject.member, ledger)
    todo = [subject.member, *found]
    while todo:
        member_id = todo.pop()
        stored = ledger.members.get(member_id)
        if stored is None:
            continue
        for partition in sorted(ledger.targets.get(member_id, frozenset()) - stored.held()):
            holder = ledger.owner.get(partition)
            if holder is not None and holder != member_id and holder not in found:
                found[holder] = None
                todo.append(holder)
    return tuple(Subject(member=member_id) for member_id in found if member_id != subject.member)


def _add_holder(
    found: dict[str, None], partition: TopicPartition, member_id: str, ledger: GroupLedger
) -> None:
    holder = ledger.owner.get(partition)
    if holder is not None and holder != member_id:
        found[holder] = None


def _of_group(
    subject: Subject, model: ModelView, shard: ShardView, ledger: GroupLedger
) -> dict[str, object]:
    classic = model.classic_group_in(shard)
    # Where no target can be computed, nobody can be let in either.
    has_no_target = (
        classic is not None
        or ledger.group_epoch > ledger.target_epoch
        or (subject.member != "" and subject.member not in ledger.members)
    )
    return {
        "lost_with_failed_write": model.failed_writes.still_lost(shard, ledger),
        "has_stranded_members": _stranded(subject, model, ledger),
        "has_unwatched_join": model.failed_writes.unwatched(shard, ledger),
        "has_quiet_return": tuple(_quiet_returns(subject, model, shard, ledger, is_due=False)),
        "leaves_due_target": tuple(_quiet_returns(subject, model, shard, ledger, is_due=True)),
        "has_unseen_subscription": tuple(_unseen_subscriptions(model, shard, ledger)),
        "has_vanished_partition": vanished_partition(model, shard) if has_no_target else None,
        "has_tied_votes": _tied_votes(model, ledger),
        "is_overlooked": _overlooked(subject, model, shard),
        "is_unseen_since_conversion": _unseen_growth(subject, model, ledger),
    }


def _of_client(
    entry: ClientEntry, model: ModelView, ledger: GroupLedger | None
) -> dict[str, object]:
    return {
        "has_failed_callback": entry.failed_callback,
        "keeps_withdrawn_pattern": _withdrawn_pattern(entry, model, ledger),
        "was_sent_nothing": tuple(_never_told(entry, model, ledger)),
        "was_granted_unheard": tuple(_granted_unheard(entry, model, ledger)),
    }


def _quiet_returns(
    subject: Subject, model: ModelView, shard: ShardView, ledger: GroupLedger, *, is_due: bool
) -> Iterator[Seen]:
    """Static members that came back to the generation that is still in force, and left this
    partition unnoticed: nobody was given it, and it is of a topic that the member subscribes to by
    now, or that grew unseen by the leader, or was to be given up by its predecessor; or the group
    was converted by that, and whoever was given it was not told. ``is_due``: those whose own join
    had a target due, or all others."""
    partition = subject.partition
    if partition is None:
        return
    classic = model.classic_group_in(shard)
    # A conversion back without a rebalance makes targets assignments that nobody fetches.
    generation_id = ledger.converted_epoch if classic is None else classic.generation_id
    topic = shard.coordinator.image.by_id.get(partition.topic_id)
    name = "" if topic is None else topic.name
    if classic is None:
        is_given = partition in ledger.target_owner
    else:
        is_given = any(
            partition in partitions_of(member.assignment.partitions, shard.coordinator.image)
            for member in classic.members.values()
            if isinstance(member.assignment, Assignment)
        )
    for one in model.quiet_returns.get(generation_id, ()):
        if one.is_due is is_due and (
            one.is_conversion
            or (
                not is_given
                and (
                    one.is_leader
                    or name in one.topics
                    or (name, partition.partition) in one.withheld
                )
            )
        ):
            yield replace(one.seen, subject=Subject(partition=partition))


def _stranded(subject: Subject, model: ModelView, ledger: GroupLedger) -> Seen | None:
    """A consumer group of classic members alone that lacks a target, or whose target lacks this
    partition: nobody calls a member back whose JoinGroup would have it computed."""
    lacks_target = ledger.group_epoch > ledger.target_epoch or (
        subject.partition is not None and subject.partition not in ledger.target_owner
    )
    if not 0 < ledger.classic_count == len(ledger.members) or not lacks_target:
        return None
    return model.seen(THE_GROUP, "the consumer group has classic members alone, and needs a target")


def _unseen_growth(subject: Subject, model: ModelView, ledger: GroupLedger) -> Seen | None:
    """The conversion whose target is still in force, for a partition that has none."""
    partition = subject.partition
    if (
        partition is None
        or model.upgrade is None
        or not ledger.has_converted_target
        or partition in ledger.target_owner
    ):
        return None
    return replace(model.upgrade, subject=Subject(partition=partition))


def _overlooked(subject: Subject, model: ModelView, shard: ShardView) -> Seen | None:
    """A partition that a topic has got since the leader of a classic group assigned it: a leader of
    librdkafka's watches its own topics alone, and a follower that joins anew as it was changes
    nothing."""
    group, partition = model.classic_group_in(shard), subject.partition
    if group is None or partition is None:
        return None
    leader = model.user_of(group.leader_id or "")
    topic = shard.coordinator.image.by_id.get(partition.topic_id)
    if (
        leader is None
        or leader.kind != LIBRDKAFKA_CLASSIC
        or topic is None
        or topic.name in leader.subscribed_topic_names
        or partition.partition < _assigned_count(topic.name, group)
    ):
        return None
    return model.seen(
        Subject(partition=partition),
        f"the leader {model.who(leader.member_id)} does not subscribe to {topic.name}",
    )


def _assigned_count(name: str, group: ClassicGroup) -> int:
    """How many partitions a topic had as the leader assigned it: it leaves none out (classic
    C11)."""
    return 1 + max(
        (
            number
            for member in group.members.values()
            if isinstance(member.assignment, Assignment)
            for row in member.assignment.partitions
            if row.topic == name
            for number in row.partitions
        ),
        default=-1,
    )


def _unseen_subscriptions(
    model: ModelView, shard: ShardView, ledger: GroupLedger
) -> Iterator[Seen]:
    """Members that have changed their subscription since a leader gave them the target, which is
    still in force; what they have and do not subscribe to, and what nobody has instead."""
    if model.upgrade is None or not ledger.has_converted_target:
        return
    image = shard.coordinator.image
    for member_id, entry in ledger.members.items():
        names = set(ledger.names_of(entry))
        target = ledger.targets.get(member_id, frozenset())
        foreign = [
            partition
            for partition in target
            if (topic := image.by_id.get(partition.topic_id)) is not None
            and topic.name not in names
        ]
        if not foreign:
            continue
        yield replace(model.upgrade, subject=Subject(member=member_id))
        topics = (image.by_name.get(name) for name in names)
        wanted = (
            TopicPartition(topic.topic_id, number)
            for topic in topics
            if topic is not None
            for number in range(topic.partition_count)
        )
        for partition in (*foreign, *(p for p in wanted if p not in ledger.target_owner)):
            yield replace(model.upgrade, subject=Subject(partition=partition))


def _unreported_revocations(
    model: ModelView, ledger: GroupLedger | None, quiet_since_ms: int | None
) -> Iterator[Seen]:
    """Members that are waited for because of what their clients were never told of; and the last
    removal of such a member in this quiet period, which has set the group in motion again."""
    expelled = model.expelled_unreported
    if expelled is not None and quiet_since_ms is not None and expelled.at_ms >= quiet_since_ms:
        yield expelled
    for member_id, stored in ledger.members.items() if ledger else ():
        if model.is_unreported(member_id, stored):
            yield model.seen(
                # Nobody is given a target, or its partitions, before the group waits no more.
                THE_GROUP,
                f"{model.who(member_id)} is to give up what it was never told of",
            )


def _granted_unheard(
    entry: ClientEntry, model: ModelView, ledger: GroupLedger | None
) -> Iterator[Seen]:
    """For a client that is up to date by its epoch, what the coordinator holds for it and it was
    never told of, if a heartbeat that it had given up was granted something."""
    member, seen = entry.member, entry.unheard_grant
    stored = ledger.members.get(member.member_id) if ledger else None
    if seen is None or stored is None or stored.epoch != member.member_epoch:
        return
    for partition in sorted(stored.held() - member.target.partitions):
        yield replace(seen, subject=Subject(client=entry.name, partition=partition))


def _never_told(entry: ClientEntry, model: ModelView, ledger: GroupLedger | None) -> Iterator[Seen]:
    """For a librdkafka client that is up to date by its epoch, what the coordinator holds for it
    and what was in no answer that reached it."""
    member = entry.member
    stored = ledger.members.get(member.member_id) if ledger else None
    if member.kind != LIBRDKAFKA or stored is None or stored.epoch != member.member_epoch:
        return
    for partition in sorted(stored.held() - member.target.partitions):
        yield model.seen(
            Subject(client=entry.name, partition=partition),
            f"{entry.name} is at the right epoch, and was never told of {model.name_of(partition)}",
        )


def _tied_votes(model: ModelView, ledger: GroupLedger) -> Seen | None:
    """Members vote for several assignors, each for one that no other does."""
    votes = ledger.vote_count
    if len(votes) < 2 or max(votes.values()) > 1:
        return None
    return model.seen(Subject(), f"one member each votes for {listed(sorted(votes))}")


def _withdrawn_pattern(
    entry: ClientEntry, model: ModelView, ledger: GroupLedger | None
) -> Seen | None:
    """A pattern of this client that the coordinator has, and the client has no more."""
    stored = ledger.members.get(entry.member.member_id) if ledger else None
    pattern = stored.metadata.subscribed_topic_regex if stored and stored.metadata else ""
    if not pattern or entry.member.subscribed_topic_regex is not None:
        return None
    what = f"the coordinator has the pattern {pattern!r} of {entry.name}, which has none"
    return model.seen(Subject(client=entry.name), what)
