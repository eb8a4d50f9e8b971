"""What clients have to do for applications, classic groups for members, and coordinators of
transactions for groups, once faults stop.

Sources: client §1.3, §6.2, §7, §8, §12; classic §1.5, §4.2, §4.5, §6, §10; transactions §2.4, §2.5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.group_settings import takes_session
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.model.wanted_clients import (
    has_rivals,
    outlasts_a_join,
    wanted_classic,
)
from rebalance_sim.invariants.property import Deadline, Kind, Late, Property
from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import FetchState
from rebalance_sim.protocol.clients.kinds import EVERY_KIND, JAVA_KINDS
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition

_Due = tuple[str, int, int] | None
"""What has to be done, since when, and how long that may take."""


class _Obligation(Property):
    kind = Kind.EVENTUALLY
    deadline = Deadline.END
    client_kinds = EVERY_KIND
    judges_mixed = True

    def due_of_each(self) -> Iterator[tuple[str, _Due]]:
        """Who has something to do, and what; here, clients."""
        for name, entry in sorted(self.model.entries.items()):
            if entry.kind in self.client_kinds:
                yield name, self._due(entry)

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Who has had something to do for longer than that may take."""
        slack_ms = quiet.slack_ms
        for name, due in self.due_of_each():
            if due is None:
                continue
            what, since_ms, limit_ms = due
            if since_ms < 0:
                yield Late(name, what)
            elif at_ms - since_ms > limit_ms + slack_ms:
                yield Late(name, what, since_ms)

    def _due(self, entry: ClientEntry) -> _Due:
        raise NotImplementedError


def _is_at_rest(member: GroupMember) -> bool:
    return (
        member.state is ClientState.STABLE
        and member.is_polling
        and member.running_callback is None
        and member.coordinator_id is not None
    )


class DeliversAll(_Obligation):
    """client §8."""

    id = "client.deliver.all"
    is_seen_from_outside = True
    sentence = (
        "Once faults stop, poll hands out records of every partition that the client fetches."
    )
    clauses = ("client §8", "client §12")
    violated_by = ("test:hands-nothing-out",)

    def _due(self, entry: ClientEntry) -> _Due:
        member = entry.member
        kept = sorted(member.fetchable - member.deliverable)
        if member.state is not ClientState.STABLE or not member.is_polling or not kept:
            return None
        return f"fetches {self.model.names_of(kept)}, and hands nothing out", -1, 0


class CommitsInTime(_Obligation):
    """What librdkafka has to commit depends on what it has handed out: it is let off."""

    id = "client.commit.interval"
    sentence = (
        "Once faults stop, a Java client with auto-commit commits every auto.commit.interval.ms, "
        "as long as it has positions."
    )
    clauses = ("client §7", "classic §4.2")
    violated_by = ("test:never-commits",)
    client_kinds = JAVA_KINDS

    def _due(self, entry: ClientEntry) -> _Due:
        member = entry.member
        has_positions = any(state.has_valid_position for state in member.assigned.values())
        if not (_is_at_rest(member) and member.config.enable_auto_commit and has_positions):
            return None
        since_ms = max(entry.committed_ms, entry.state_since_ms)
        return "has committed nothing", since_ms, member.config.auto_commit_interval_ms


class CommitReturns(_Obligation):
    """``commitSync`` returns by itself, the callback of ``commitAsync`` needs a poll."""

    id = "client.commit.returns"
    is_seen_from_outside = True
    sentence = (
        "Once faults stop, commitSync returns, and the callback of commitAsync runs if the "
        "application polls."
    )
    clauses = ("client §7",)
    violated_by = ("test:commits-into-nothing",)

    def _due(self, entry: ClientEntry) -> _Due:
        member = entry.member
        if member.running_callback is not None or member.is_closed:
            return None
        waiting = [c for c in entry.open_commits.values() if c.is_sync or member.is_polling]
        if not waiting:
            return None
        first = min(waiting)
        what = "waits in commitSync" if first.is_sync else "waits for its commitAsync"
        return what, first.since_ms, member.config.default_api_timeout_ms


class LookupCompletes(_Obligation):
    """client §7."""

    id = "client.lookup.completes"
    sentence = (
        "Once faults stop, a Java client that polls has a position in every partition that it is "
        "assigned and that exists."
    )
    clauses = ("client §7", "client §8")
    violated_by = ("KAFKA-18160",)
    client_kinds = JAVA_KINDS

    def _due(self, entry: ClientEntry) -> _Due:
        shard = self.model.acting_shard()
        if shard is None or not _is_at_rest(entry.member):
            return None
        for partition, state in sorted(entry.member.assigned.items()):
            is_there = partition.topic_id in shard.coordinator.image.by_id
            if is_there and state.fetch_state is FetchState.INITIALIZING:
                what = f"has no position in {self.model.name_of(partition)}"
                return what, entry.state_since_ms, 0
        return None


class LeaveCompletes(_Obligation):
    """client C28."""

    id = "client.leave.completes"
    sentence = "unsubscribe and close return within their timeouts."
    clauses = ("client C28", "classic §4.5")
    violated_by = ("mut-client-leave-needs-success",)

    def _due(self, entry: ClientEntry) -> _Due:
        member = entry.member
        is_waiting = member.leave_is_pending and member.blocked_in is not None
        if not is_waiting or member.running_callback is not None:
            return None
        return f"still waits for its leave in {member.state.value}", -1, 0


class FailureRaised(_Obligation):
    """What an application makes of it is its own affair: most close the client, and start again."""

    id = "client.fatal.raised"
    sentence = (
        "A client that has failed for good, and whose application polls, has raised an error."
    )
    clauses = ("client §1.3", "client §10.1", "classic §4.2")
    violated_by = ("test:fails-in-silence",)

    def _due(self, entry: ClientEntry) -> _Due:
        member = entry.member
        is_free = member.is_polling and not member.is_closed and member.blocked_in is None
        if (
            member.state is not ClientState.FATAL
            or entry.raised_ms >= entry.state_since_ms
            or not is_free
            or member.running_callback is not None
        ):
            return None
        return "has failed for good, and has not raised an error", entry.state_since_ms, 0


class TransactionsEnd(_Obligation):
    """transactions §2.4, §2.5, by the log of the group's offsets: that a decision which was made
    is carried out, and that one is made where the producer makes none. The slack has the longest
    ``transaction.timeout.ms``, and the interval in which the coordinator looks; after a load all
    begin again."""

    id = "transactions.end"
    sentence = (
        "Once faults stop, the marker of every transaction with offsets of the group is in their "
        "log within transaction.timeout.ms, and the interval in which its coordinator looks for "
        "those that have timed out, be its producer dead or alive."
    )
    clauses = ("transactions §2.4", "transactions §2.5")
    violated_by = ("mut-txn-never-times-out", "test:sends-no-markers")

    def due_of_each(self) -> Iterator[tuple[str, _Due]]:
        """The coordinator of transactions, for each producer and partition."""
        shard = self.model.acting_shard()
        known = None if shard is None else self.model.offset_models.get(shard.name)
        for (topic, number), producer_id, since_ms in known.open_since() if known else ():
            what = f"has an offset of {topic}-{number} pending, and no marker has come"
            yield f"producer {producer_id}", (what, since_ms, 0)


class _OfClassicGroup(Property):
    """Nothing is said where two clients have one instance id; nor while join phases follow on each
    other, as they do as long as a static member is gone, its session is not shorter than the
    longest rebalance timeout, and one of librdkafka's waits no longer than that for an answer."""

    kind = Kind.EVENTUALLY

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Judge a group that is bound to come to rest."""
        model, shard = self.model, self.model.acting_shard()
        if shard is None or has_rivals(model):
            return
        group = model.classic_group_in(shard)
        if group is None or not outlasts_a_join(model, group):
            yield from self._late(shard, group)

    def _late(self, shard: ShardView, group: ClassicGroup | None) -> Iterator[Late]:
        raise NotImplementedError

    def _let_in(self, shard: ShardView) -> list[tuple[str, GroupMember]]:
        """Classic clients that should be working members, and are not refused for their assignors,
        or for a session timeout that brokers do not take: Java's gives up, librdkafka's asks
        again."""
        return [
            (name, member)
            for name, member in wanted_classic(self.model)
            if self._has_assignor_of_all(member, shard)
            and takes_session(shard.configs.broker, getattr(member.config, "session_timeout_ms", 0))
        ]

    def _has_assignor_of_all(self, member: GroupMember, shard: ShardView) -> bool:
        """Whether it has an assignor that all classic members have, or is one of them."""
        classic, mixed = self.model.classic_group_in(shard), self.model.group_in(shard)
        members: Collection[str]
        if mixed is not None and mixed.members:
            members, counts = mixed.members.keys(), mixed.classic_protocols
            wanted_by = mixed.classic_member_count
        elif classic is not None:
            members, counts = classic.members.keys(), classic.supported_protocols
            wanted_by = len(classic.members)
        else:
            return True
        offered = getattr(member.config, "assignors", ())
        return (
            not wanted_by
            or member.member_id in members
            or any(counts.get(assignor.name, 0) == wanted_by for assignor in offered)
        )


class ClassicSettles(_OfClassicGroup):
    """classic C13, H11. Join phase and sync phase are bounded by the rebalance timeouts."""

    id = "liveness.classic_settles"
    is_seen_from_outside = True
    sentence = (
        "Once faults stop, every classic client that polls, and fits the group, is Stable in it; "
        "and so is a classic group, with no other members."
    )
    clauses = ("classic C13", "classic H11", "defects L1", "defects L5")
    violated_by = ("KAFKA-14024", "librdkafka-4783", "classic-stranded-members")

    def _late(self, shard: ShardView, group: ClassicGroup | None) -> Iterator[Late]:
        """The group, if it is a classic one, and each classic client that should be in it."""
        state = None if group is None or not group.members else group.state
        if group is not None and state not in (None, ClassicGroupState.STABLE):
            waits_for = {m for m, one in group.members.items() if one.awaiting_join is None}
            if group.state is ClassicGroupState.COMPLETING_REBALANCE:
                waits_for = {*group.pending_sync}
            who = ", ".join(sorted({*waits_for, *group.pending_join})) or "its leader"
            yield Late("the classic group", f"is {group.state.value} and waits for {who}")
            return
        for name, member in self._let_in(shard):
            if (reason := self._why_outside(member, shard, group)) is not None:
                state_of = member.classic.state if member.classic else member.state
                at = f"({state_of.value}, generation {member.member_epoch})"
                yield Late(name, f"{at} {reason}")
        users = {entry.member.member_id for entry in self.model.classic_clients.values()}
        for member_id in sorted(group.members.keys() - users if group is not None else ()):
            yield Late(f"member {member_id}", "is in the classic group, and no client uses it")

    def _why_outside(
        self, member: GroupMember, shard: ShardView, group: ClassicGroup | None
    ) -> str | None:
        """In a consumer group it reaches the target epoch, if the migration policy lets it in, and
        in a classic one the generation, if there is room for it."""
        ledger, epoch, is_open = self.model.ledger_of(shard), 0, True
        if ledger.members:
            stored = ledger.members.get(member.member_id)
            is_open = shard.configs.broker.group_consumer_migration_policy != "disabled"
            epoch = stored.epoch if stored else 0
            if stored and (
                ledger.group_epoch > ledger.target_epoch
                or epoch != ledger.target_epoch
                or stored.state is not MemberState.STABLE
            ):
                target = f"target epoch {ledger.target_epoch}, group epoch {ledger.group_epoch}"
                return f"is {stored.state.name} at epoch {epoch} ({target})"
        elif group is not None:
            is_open = len(group.members) < shard.coordinator.config.group_max_size
            epoch = group.generation_id if member.member_id in group.members else 0
        if not epoch:
            return "is no member of the group" if is_open else None
        if member.member_epoch != epoch:
            return f"is not at {epoch}, as its group"
        return None if member.state is ClientState.STABLE else f"is {member.state.value}"


class ClassicPartitionsOwned(_OfClassicGroup):
    """classic C13. Of consumer groups, the ledger knows."""

    id = "liveness.classic_partitions_owned"
    is_seen_from_outside = True
    sentence = (
        "Once faults stop, every partition that members of a classic group subscribe to is worked "
        "on by one of them."
    )
    clauses = ("classic C13", "classic §6", "defects L2")
    violated_by = (
        *("aiokafka-88", "KAFKA-9801", "classic-quiet-return", "librdkafka-4533"),
        "sim-unwatched-topic",
    )

    def _late(self, shard: ShardView, group: ClassicGroup | None) -> Iterator[Late]:
        """Partitions of what classic members subscribe to that no one works on."""
        if self.model.ledger_of(shard).members:
            return
        wanted = [member.subscribed_topic_names for _, member in self._let_in(shard)]
        for name in sorted(frozenset().union(*wanted)):
            topic = shard.coordinator.image.by_name.get(name)
            for number in range(topic.partition_count if topic else 0):
                partition = TopicPartition(topic.topic_id if topic else "", number)
                if not self.model.fetchers.get(partition):
                    yield Late(f"{name}-{number}", "is worked on by no member")
