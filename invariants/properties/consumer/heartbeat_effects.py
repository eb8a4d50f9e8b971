"""What a heartbeat brings about: everything that its rules say, and nothing else.

Each step of the rules is worked out anew from the request and the shadow model, and compared with
the records and the answer.
Sources: coordinator §2.4, §2.9, §2.10, §4.1, §4.3, §4.5, §5.5.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.group_settings import assignment_interval_is_over
from rebalance_sim.invariants.model.heartbeat_case import HeartbeatCase, TopicsSeen, topics_seen
from rebalance_sim.invariants.model.ledger import Change
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step, wall_ms
from rebalance_sim.protocol.consumer.timer_keys import session_key
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.consumer_messages import STATIC_LEAVE_EPOCH
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    GroupMetadata,
    MemberMetadataValue,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 35


class _OfHeartbeat(Property):
    """About heartbeats as shipped brokers handle them: the KIP's text has steps of its own."""

    judges_mixed = True

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """coordinator §13."""
        return semantics.coordinator.assigns_in_heartbeat


class MemberFields(_OfHeartbeat):
    """coordinator H6, H7: the settings of a member that are in force are those it named last."""

    id = "member.fields_as_requested"
    sentence = (
        "What is stored of a member is what it has said last, field by field; what a heartbeat "
        "leaves out stays, and a heartbeat that changes nothing rewrites nothing."
    )
    clauses = ("coordinator §1.2", "coordinator §2.4", "coordinator §2.10", "coordinator §4.6")
    violated_by = ("test:forgets-timeout", "test:rewrites-metadata")

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Compare what was written with what follows from the request."""
        if not case.is_accepted:
            return None
        written, merged, stored = case.written_metadata, case.merged, case.stored_metadata
        is_stored = case.stored is not None and case.stored.metadata is not None
        if written is None and is_stored and (merged is stored or merged == stored):
            return None
        who = self.model.who(case.sender)
        if written is None:
            return Finding(
                f"{who} said something new of itself ({_differences(stored, merged)}), and nothing "
                "was written",
                {"member": case.sender},
            )
        if written != merged:
            return Finding(
                f"of {who} was written what it did not say: {_differences(merged, written)}",
                {"member": case.sender},
            )
        if is_stored and written == stored and case.predecessor is None:
            return Finding(f"{who} said nothing new, and was written anew", {"member": case.sender})
        return None


class EpochCause(_OfHeartbeat):
    """coordinator H7-H9, §2.10. What a change of topics *must* lead to is ``target.current``."""

    id = "coordinator.epoch_cause"
    sentence = (
        "A heartbeat raises the group epoch by one, and only if the member's subscription has "
        "changed, or the topics of the group's, or which server-side assignor is preferred; the "
        "first always does."
    )
    clauses = ("coordinator §2.4", "coordinator §2.10", "coordinator §5.3", "coordinator §7.2")
    violated_by = ("KAFKA-20434", "tied-assignor-votes", "test:idle-bump", "test:bump-forgotten")

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._topics_of: dict[int, TopicsSeen] = {0: frozenset()}
        """Metadata hash -> what it stood for when it was first written."""

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Remember what a metadata hash stands for; other topics, another hash."""
        for record in change.records:
            if (
                type(record) is ConsumerGroupMetadata
                and record.group_id == self.model.group_id
                and record.value is not None
                and record.value.metadata_hash not in self._topics_of
            ):
                image = step.shard.coordinator.image
                topics = topics_seen(change.ledger.all_names(), image)
                self._topics_of[record.value.metadata_hash] = topics
        return None

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Is there a cause, and is there an effect?"""
        if not case.is_accepted:
            return None
        ledger, merged, who = case.ledger, case.merged, self.model.who(case.sender)
        pattern = merged.subscribed_topic_regex
        is_resolved = pattern in ledger.pattern_count and pattern in ledger.resolved
        former, preferred = case.preferred_assignors
        must = (
            former != preferred
            or case.changes_names
            or (case.changes_pattern and (not pattern or is_resolved))
            or ledger.group_epoch == 0
        )
        written = case.written_epoch
        if written is None:
            if not must:
                return None
            what = "changed its subscription"
            if former != preferred:
                what = f"made {preferred} the preferred assignor in place of {former}"
            return Finding(
                f"{who} {what}, and the group epoch stayed {ledger.group_epoch}",
                {
                    "member": case.sender,
                    "is_for_assignor": former != preferred,
                    "votes_tie": _votes_tie(case),
                },
            )
        if written.epoch != ledger.group_epoch + 1:
            return Finding(
                f"a heartbeat of {who} took the group epoch from {ledger.group_epoch} to "
                f"{written.epoch}"
            )
        if must or self._topics_of.get(ledger.metadata_hash) != case.topics_after():
            return None
        return Finding(
            f"a heartbeat of {who} raised the group epoch to {written.epoch}, although neither its "
            "subscription nor the preferred assignor nor any topic had changed",
            {"member": case.sender, "votes_tie": _votes_tie(case)},
        )


def _votes_tie(case: HeartbeatCase) -> bool:
    """Members vote for several assignors, with the vote of a newcomer."""
    return len({*case.ledger.vote_count, case.merged.server_assignor} - {None}) > 1


class TargetDue(_OfHeartbeat):
    """coordinator H10, §4.3. ``coordinator.config_in_force`` says how early is too early."""

    id = "target.when_due"
    sentence = (
        "A heartbeat computes a target exactly when the group epoch is ahead of the last one and "
        "the assignment interval is over; the target has the group epoch, and the time."
    )
    clauses = ("coordinator §2.4", "coordinator §4.3", "coordinator §5.1", "coordinator §5.5")
    violated_by = ("test:target-late", "test:target-for-nothing", "test:ignores-own-interval")

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Was one due, and what was written?"""
        if not case.is_accepted:
            return None
        ledger, written = case.ledger, case.written_target
        is_due = case.group_epoch > ledger.target_epoch and self._is_interval_over(case)
        if written is None:
            if not is_due:
                return None
            return Finding(
                f"a heartbeat of {self.model.who(case.sender)} found the group epoch "
                f"{case.group_epoch} ahead of the target epoch {ledger.target_epoch}, and computed "
                "no target",
                {"member": case.sender},
            )
        if case.group_epoch <= ledger.target_epoch:
            return Finding(f"a target was computed, and that of {case.group_epoch} was there")
        timestamp = wall_ms(step) if self.model.rules.writes_assignment_timestamp else None
        if (written.assignment_epoch, written.assignment_timestamp) == (
            case.group_epoch,
            timestamp,
        ):
            return None
        return Finding(
            f"the target of group epoch {case.group_epoch} at {timestamp} ms was written as that "
            f"of {written.assignment_epoch} at {written.assignment_timestamp} ms"
        )

    def _is_interval_over(self, case: HeartbeatCase) -> bool:
        last_ms = case.ledger.target_timestamp
        if not last_ms or not self.model.rules.has_assignment_interval:
            return True
        return assignment_interval_is_over(
            case.shard.configs, self.model.group_id, since_ms=last_ms, at_ms=wall_ms(case.step)
        )


class TargetRecords(_OfHeartbeat):
    """coordinator §5.5: a rebalance costs records in proportion to what changes."""

    id = "target.changes_only"
    sentence = (
        "A new target is written for members whose share changes, who had none or who have just "
        "inherited one, and for nobody else; afterwards every member has one."
    )
    clauses = ("coordinator §5.5", "coordinator L5")
    violated_by = ("test:writes-all-targets", "test:member-without-target")

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Go through the records, with the target as it changes."""
        if not case.is_accepted or case.written_target is None:
            return None
        ledger = case.ledger
        written: dict[str, frozenset[TopicPartition] | None] = {}
        for record in step.records:
            if type(record) is not ConsumerGroupTargetAssignmentMember:
                continue
            if record.group_id != ledger.group_id:
                continue
            member_id, share = record.member_id, record.value
            had = written.get(member_id, ledger.targets.get(member_id))
            is_heir = member_id == case.sender and case.predecessor is not None
            if share is not None and share == had and not is_heir:
                return Finding(
                    f"the target of {self.model.who(member_id)} was written, and is as it was",
                    {"member": member_id},
                )
            written[member_id] = share
        for member_id in (*ledger.members, case.sender):
            if member_id == case.predecessor and member_id != case.sender:
                continue
            if written.get(member_id, ledger.targets.get(member_id)) is None:
                return Finding(
                    f"a target was installed that {self.model.who(member_id)} has no share in",
                    {"member": member_id},
                )
        return None


class AssignmentOnlyThen(_OfHeartbeat):
    """coordinator §2.9, the other half: ``response.assignment_told`` says when it must be."""

    id = "response.assignment_in_place"
    sentence = "An answer carries the assignment only if it was asked for, or has changed."
    clauses = ("coordinator §2.9",)
    violated_by = ("test:tells-every-time",)

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Was there a reason to tell it?"""
        if not case.is_accepted or case.response.assignment is None or case.request.is_full:
            return None
        before, after = case.stored_current.assigned, case.written_current
        if after is not None and after.assigned != before:
            return None
        return Finding(
            f"{self.model.who(case.sender)} was told its assignment, which it had not asked for "
            "and which is as it was",
            {"member": case.sender},
        )


class SessionRenewed(_OfHeartbeat):
    """coordinator H12, §4.1. How long the session is, ``coordinator.config_in_force`` says."""

    id = "coordinator.session_renewed"
    sentence = (
        "An accepted heartbeat begins the session of its sender anew, and of nobody else; one that "
        "is refused, or a leave, begins none."
    )
    clauses = ("coordinator §2.4", "coordinator §2.11", "coordinator §4.1", "coordinator §4.5")
    violated_by = ("test:session-of-another", "test:refusal-renews-session")

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Look at the sessions that were armed."""
        if case.had_classic_group or any(type(r) is GroupMetadata for r in step.records):
            return None  # A conversion begins the sessions of all members.
        armed = [
            command.key
            for command in step.timers
            if type(command) is ScheduleTimer and command.key.kind == "session"
        ]
        expected = []
        if case.is_accepted:
            expected = [session_key(self.model.group_id, case.sender)]
        if armed == expected:
            return None
        names = ", ".join(self.model.who(key.member_id) for key in armed) or "nobody"
        return Finding(
            f"a heartbeat of {self.model.who(case.sender)}, answered "
            f"{case.response.error_code.name}, began the session of {names}",
            {"member": case.sender},
        )


class StaticTemporaryLeave(_OfHeartbeat):
    """coordinator §4.5."""

    id = "leave.static_temporary_leave"
    sentence = (
        "A static member that leaves for a while keeps what it is assigned, its state and its "
        "previous epoch, and lets go of what it was to revoke; nothing else is written."
    )
    clauses = ("coordinator §4.5",)
    violated_by = ("test:leaver-loses-partitions",)

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Compare its current assignment with the one before."""
        request = case.request
        if (
            request.member_epoch != STATIC_LEAVE_EPOCH
            or case.response.error_code is not ErrorCode.NONE
        ):
            return None
        written, stored = case.written_current, case.stored_current
        only = len(step.records) == 1
        if (
            only
            and written is not None
            and type(step.records[0]) is ConsumerGroupCurrentMemberAssignment
            and (written.member_epoch, written.previous_member_epoch, written.state)
            == (STATIC_LEAVE_EPOCH, stored.previous_member_epoch, stored.state)
            and written.assigned.keys() == stored.assigned.keys()
            and not written.pending_revocation
            and (not written.with_epochs or not any(written.assigned.values()))
        ):
            return None
        return Finding(
            f"{self.model.who(case.sender)} left for a while, and its place was not kept as it was",
            {"member": case.sender},
        )


def _differences(before: MemberMetadataValue, after: MemberMetadataValue) -> str:
    """The fields that differ, by name, with both values."""
    names = (
        "instance_id",
        "rack_id",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "rebalance_timeout_ms",
        "server_assignor",
    )
    told = [
        f"{name.replace('_', ' ')} {_told(getattr(before, name))} and {_told(getattr(after, name))}"
        for name in names
        if getattr(before, name) != getattr(after, name)
    ]
    return "; ".join(told) or "how it speaks to the group"


def _told(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return "none" if value in (None, "") else str(value)
