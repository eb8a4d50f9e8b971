"""What a consumer group must have come to after the last fault.

Sources: coordinator §14.3; client §12 (client O5, O6); defects L1-L3, L6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.computations import is_fit
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.model.wanted_clients import (
    has_nothing_to_join_for,
    has_rivals,
    is_at_work,
    wanted_classic,
)
from rebalance_sim.invariants.property import Deadline, Kind, Late, Property
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition


class _OfMembers(Property):
    kind = Kind.EVENTUALLY

    def _wanted(self) -> Iterable[ClientEntry]:
        """Clients that should be working members."""
        for _, entry in sorted(self.model.clients.items()):
            member = entry.member
            if (
                is_at_work(member)
                and not entry.is_blocked_by_commit
                and not (member.member_epoch <= 0 and has_nothing_to_join_for(self.model, member))
            ):
                yield entry


class GroupServed(Property):
    """defects L6."""

    id = "liveness.group_served"
    is_seen_from_outside = True
    sentence = "Once faults stop, some coordinator serves the group."
    clauses = ("defects L6",)
    violated_by = ("KAFKA-17306", "KAFKA-19862", "KAFKA-20254", "KAFKA-10614")
    kind = Kind.EVENTUALLY
    deadline = Deadline.REMOVAL

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Is there an active shard?"""
        if self.model.acting_shard() is None:
            yield Late("the group", "has no active coordinator")


class StaleMembersRemoved(_OfMembers):
    """client O6."""

    id = "liveness.stale_members_removed"
    is_seen_from_outside = True
    sentence = "A member that no living client uses is gone after its session timeout."
    clauses = ("coordinator L3", "client O6", "defects L3", "defects S7")
    violated_by = ("KAFKA-18931", "classic-unwatched-join")
    deadline = Deadline.REMOVAL

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Every member without a client."""
        ledger = self.model.acting_ledger()
        if ledger is None:
            return
        for member_id, entry in sorted(ledger.members.items()):
            if self.model.is_used(member_id):
                continue
            since_ms = ledger.heard_ms.get(member_id)
            classic = entry.metadata.classic_member_metadata if entry.metadata else None
            if classic is not None:  # It has a session of its own.
                since_ms = max(since_ms or 0, ledger.classic_ms.get(member_id, 0))
                if at_ms <= since_ms + classic.session_timeout_ms + quiet.slack_ms:
                    continue
            yield Late(
                f"member {member_id}",
                f"is registered at epoch {entry.epoch}, and no living client uses it",
                since_ms,
            )


class RevocationBounded(Property):
    """coordinator L2."""

    id = "liveness.revocation_bounded"
    is_seen_from_outside = True
    sentence = "A revocation is acknowledged, or its owner removed, within the rebalance timeout."
    clauses = ("coordinator L2",)
    violated_by = ("test:moving-deadline",)
    kind = Kind.EVENTUALLY
    deadline = Deadline.OWN

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Every member that has been revoking for longer."""
        ledger = self.model.acting_ledger()
        if ledger is None:
            return
        for member_id, entry in sorted(ledger.members.items()):
            current, since_ms = entry.current, ledger.state_since_ms.get(member_id)
            if current is None or not current.pending_revocation or since_ms is None:
                continue
            timeout_ms = entry.metadata.rebalance_timeout_ms if entry.metadata else 0
            if at_ms - since_ms > timeout_ms + quiet.slack_ms:
                yield Late(
                    self.model.who(member_id),
                    f"must revoke {self.model.names_of(current.pending_revocation)}",
                    since_ms,
                )


class TargetComputed(Property):
    """coordinator §12.3."""

    id = "liveness.target_computed"
    sentence = (
        "Once faults stop, a group whose members can compute its target gets one: the "
        "member that is chosen installs it, or another one, if there is any, takes its place."
    )
    clauses = ("coordinator §12.3",)
    violated_by = ("mut-no-computation-timer", "mut-no-recompute")
    kind = Kind.EVENTUALLY

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """A group that lacks its target."""
        ledger, shard = self.model.acting_ledger(), self.model.acting_shard()
        if ledger is None or shard is None or ledger.group_epoch <= ledger.target_epoch:
            return
        if any(is_fit(ledger, member_id) for member_id in ledger.members):
            who = self.model.who(self.model.computations.chosen.get(shard.name, "")) or "no one"
            epoch = ledger.group_epoch
            yield Late(
                "the group", f"lacks the target of epoch {epoch}; {who} was asked to compute"
            )


class Converges(_OfMembers):
    """client O5."""

    id = "liveness.converges"
    is_seen_from_outside = True
    sentence = (
        "Once faults stop, and if no two clients have one instance id, every subscribed, polling "
        "client that has not failed reaches the group epoch and is stable."
    )
    clauses = (
        *("coordinator L1", "coordinator L4", "client O5", "defects L1"),
        "TLA+ EventuallyConverges",
    )
    violated_by = (
        *("KAFKA-16215", "mut-expire-keeps-ownership", "KafScale-121"),
        "sim-lost-pattern-withdrawal",
    )

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Clients that are not stable at the group epoch, and members without a client."""
        ledger, shard = self.model.acting_ledger(), self.model.acting_shard()
        if ledger is None or (shard is not None and not self.model.can_upgrade(shard)):
            return
        if has_rivals(self.model):
            return
        for entry in self._wanted():
            member = entry.member
            stored = ledger.members.get(member.member_id)
            if (
                member.state is ClientState.STABLE
                and stored is not None
                and stored.state is MemberState.STABLE
                and member.member_epoch == stored.epoch == ledger.target_epoch == ledger.group_epoch
            ):
                continue
            yield Late(
                entry.name,
                f"({member.state.value}, epoch {member.member_epoch}) "
                + self._why(entry, stored, ledger),
                ledger.state_since_ms.get(member.member_id),
            )
        if ledger.settled_count() >= len(ledger.members):
            return
        for member_id, stored in sorted(ledger.members.items()):
            if not self.model.is_used(member_id) and (
                stored.state is not MemberState.STABLE or stored.epoch != ledger.target_epoch
            ):
                yield Late(
                    f"member {member_id}",
                    f"is {stored.state.name} at epoch {stored.epoch}; no one uses it",
                    ledger.state_since_ms.get(member_id),
                )

    def _why(self, entry: ClientEntry, stored: MemberEntry | None, ledger: GroupLedger) -> str:
        """The nearest cause that can be named."""
        member = entry.member
        if member.running_callback is not None:
            return f"runs {member.running_callback.kind.value}"
        if member.coordinator_id is None:
            return "knows no coordinator"
        if stored is None:
            return "is not registered with the coordinator"
        if stored.epoch != member.member_epoch:
            return f"is registered at epoch {stored.epoch}"
        if ledger.group_epoch > ledger.target_epoch:
            return (
                f"waits for a target: group epoch {ledger.group_epoch}, "
                f"target epoch {ledger.target_epoch}"
            )
        target = ledger.targets.get(member.member_id, frozenset())
        for partition in sorted(target - stored.held()):
            holder = ledger.holders.owner.get(partition)
            if holder is not None and holder != member.member_id:
                state = ledger.members[holder].state.name
                since_ms = ledger.state_since_ms.get(holder)
                return (
                    f"waits for partition {self.model.name_of(partition)} held by "
                    f"{self.model.who(holder)} in {state} since {since_ms} ms"
                )
        if stored.state is not MemberState.STABLE or stored.epoch != ledger.target_epoch:
            return f"is {stored.state.name} at epoch {stored.epoch} of {ledger.target_epoch}"
        return self.model.target_and_current(member)


class PartitionsOwned(_OfMembers):
    """coordinator L3."""

    id = "liveness.partitions_owned"
    is_seen_from_outside = True
    sentence = (
        "Once faults stop, and if no two clients have one instance id, every partition of a "
        "subscribed topic is worked on by a member."
    )
    clauses = ("coordinator L3", "client O5", "defects L2")
    violated_by = (
        *("KAFKA-16198", "mut-no-bump-on-leave", "mut-no-bump-on-metadata", "KAFKA-18931"),
        *("mut-expire-keeps-ownership", "KAFKA-18916", "KAFKA-18160"),
        *("sim-lost-pattern-withdrawal", "classic-stranded-members"),
        *("classic-unseen-growth", "classic-unseen-subscription"),
    )

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Every partition that no one fetches."""
        ledger, shard = self.model.acting_ledger(), self.model.acting_shard()
        if ledger is None or shard is None or has_rivals(self.model):
            return
        if any(self._wanted()):
            if not self.model.can_upgrade(shard):
                return
        elif not ledger.members or not any(wanted_classic(self.model)):
            return
        by_name = shard.coordinator.image.by_name
        for name in sorted(ledger.all_names()):
            topic = by_name.get(name)
            for number in range(topic.partition_count if topic else 0):
                partition = TopicPartition(topic.topic_id if topic else "", number)
                reason = self._why_unowned(partition, ledger)
                if reason is not None:
                    yield Late(f"{name}-{number}", reason)

    def _why_unowned(self, partition: TopicPartition, ledger: GroupLedger) -> str | None:
        """Why no one works on this partition; None if somebody does."""
        holder = ledger.holders.owner.get(partition)
        if holder is None:
            wanted_by = ledger.in_target.owner.get(partition)
            if wanted_by is None:
                return "is held by no member and stands in no target"
            return f"is held by no member; the target gives it to {self.model.who(wanted_by)}"
        member, name = self.model.user_of(holder), self.model.who(holder)
        if member is None:
            return f"is held by {holder}, which no living client uses"
        if partition in member.fetchable:
            return None
        state = member.assigned.get(partition)
        if state is None:
            return f"is held by {name}, which is not assigned it"
        if state.pending_revocation:
            return f"is being revoked by {name}"
        if state.awaiting_assigned_callback:
            return f"waits for the assigned callback of {name}"
        return f"has no position at {name} yet ({state.fetch_state.value})"


class PatternRefreshed(Property):
    """coordinator §7.2, rule 7: any heartbeat has the patterns resolved that are older than the
    newest topic, though no one changes anything. Heartbeats of a classic member do not, and what
    is deleted gives no cause to."""

    id = "pattern.refreshed"
    sentence = (
        "Once faults stop, the patterns of a group with a client of the consumer protocol are "
        "resolved to all topics that match; deleted ones may remain."
    )
    clauses = ("coordinator §7.2",)
    violated_by = ("test:stale-pattern",)
    kind = Kind.EVENTUALLY
    deadline = Deadline.END

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Compare each pattern with the topics."""
        shard, ledger = self.model.acting_shard(), self.model.acting_ledger()
        if shard is None or ledger is None or not ledger.pattern_count:
            return
        if not any(
            entry.member.state is ClientState.STABLE and entry.member.member_id in ledger.members
            for entry in self.model.clients.values()
        ):
            return
        for pattern in sorted(ledger.pattern_count):
            matches = _plain_pattern(pattern)
            if matches is None:
                continue
            expected = {name for name in shard.coordinator.image.by_name if matches(name)}
            resolved = ledger.resolved.get(pattern)
            if resolved is None or not expected <= {*resolved}:
                shown = "unresolved" if resolved is None else f"[{', '.join(sorted(resolved))}]"
                yield Late(
                    f"pattern {pattern}", f"is {shown}, and matches [{', '.join(sorted(expected))}]"
                )


_PLAIN = re.compile(r"[\w\-.*+|()?\[\]]*")
"""Patterns that mean the same to every engine."""


def _plain_pattern(text: str) -> Callable[[str], object] | None:
    """What tells whether a whole name matches; None for a pattern that engines may not have
    alike."""
    if not _PLAIN.fullmatch(text):
        return None
    try:
        return re.compile(text).fullmatch
    except re.error:
        return None  # Whether RE2 takes it is another question (coordinator V12).
