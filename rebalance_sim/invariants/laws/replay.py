"""The log is the truth: what is served is what replaying it gives, and it can always be replayed.

Sources: coordinator §9.2-§9.5, §14.1; defects L6, S5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from rebalance_sim.invariants.formatting import first_difference
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.offset_model import OffsetModel
from rebalance_sim.invariants.property import Finding, Interest, Property, notes
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.hosting.shard import LOAD_FAILED
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.records import Record

FIRST_REPLAY_RECORDS = 64
"""A live log is replayed into an empty coordinator when it has this many records, and then each
time it has doubled: the cost per record stays bounded."""

_REPLAYED_FIELDS: Mapping[str, str] = {
    "resolved_regexes": "list of topics that {} matches",
    "subscribed_regexes": "number of members with the pattern {}",
    "group_epoch": "group epoch",
    "metadata_hash": "metadata hash",
    "members": "member {}",
    "target_assignment_timestamp": "time of the target",
    "target_assignment": "target of {}",
    "subscribed_topic_names": "number of subscribers of {}",
    "server_assignors": "number of votes for {}",
    "target_metadata": "metadata of the target of {}",
    "client_assignors": "number of members with the assignor {}",
    "static_members": "member with the instance id {}",
    "current_partition_epoch": "epoch at which {} is held",
    "inverted_target": "owner of {} in the target",
    "state": "state of the group",
}
"""Attribute of a group -> what it is, with {} for the key where it is a map."""

_METADATA = (
    *("subscribed_topic_names", "instance_id", "server_assignor", "rebalance_timeout_ms"),
    *("client_id", "client_host", "rack_id", "subscribed_topic_regex"),
)
_CURRENT = ("member_epoch", "previous_member_epoch", "state", "assigned", "pending_revocation")
_metadata, _current = attrgetter(*_METADATA), attrgetter(*_CURRENT)


class ReplayEquivalence(Property):
    """coordinator C17-C19, twice: against the shadow model after each batch, against the
    coordinator's own replay when the log has doubled and after each load."""

    id = "log.replay_equivalence"
    sentence = (
        "Replaying the log into an empty coordinator gives the groups and offsets that are served, "
        "also after a load, and after a write that failed."
    )
    clauses = (
        *("coordinator C17", "coordinator C18", "coordinator C19", "coordinator §8.4"),
        *("coordinator §9.3", "coordinator §9.5", "defects S5"),
    )
    violated_by = (
        *("KAFKA-16147", "KAFKA-19274"),
        *("mut-keeps-failed-batch", "mut-load-revives-offsets", "test:torn-batch"),
    )
    judges_mixed = True
    _next_at: dict[str, int] = notes(dict)

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Compare everything, in both ways."""
        shard = step.shard
        self._next_at[shard.name] = max(FIRST_REPLAY_RECORDS, 2 * shard.log_end_offset)
        return self._compare(shard, ledger) or self._offsets(shard) or self._replayed(shard)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare what was touched, and everything when the log has doubled."""
        shard, group, ledger = step.shard, change.group, change.ledger
        if group is None:
            return None if not ledger.members else Finding("the coordinator has lost the group")
        if (
            group.group_epoch != ledger.group_epoch
            or max(group.target_assignment_epoch, 0) != max(ledger.target_epoch, 0)
            or group.metadata_hash != ledger.metadata_hash
            or not all(
                _is_same(group.members.get(member_id), ledger.members.get(member_id))
                for member_id in change.members
            )
            or any(
                mine is not theirs and mine != theirs
                for member_id in change.targets
                for mine in (group.target_assignment.get(member_id),)
                for theirs in (ledger.targets.get(member_id),)
            )
        ):
            return self._compare(shard, ledger)
        if shard.log_end_offset >= self._next_at.get(shard.name, FIRST_REPLAY_RECORDS):
            self._next_at[shard.name] = 2 * shard.log_end_offset
            return self._replayed(shard)
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """An active shard whose memory went back."""
        shard = step.shard
        if not shard.is_active:
            return None
        return self._offsets(shard) or self._compare(shard, self.model.ledger_of(shard))

    def on_full_check(self, step: Step) -> Finding | None:
        """Compare everything with the shadow model, which is a replay by other code."""
        shard = self.model.acting_shard()
        return None if shard is None else self._compare(shard, self.model.ledger_of(shard))

    def _compare(self, shard: ShardView, ledger: GroupLedger) -> Finding | None:
        group = self.model.group_in(shard)
        if group is None:
            return Finding("the coordinator has no such group") if ledger.members else None
        epochs = max(group.target_assignment_epoch, 0), max(ledger.target_epoch, 0)
        rows = (
            ("group epoch", group.group_epoch, ledger.group_epoch),
            ("target epoch", *epochs),
            ("metadata hash", group.metadata_hash, ledger.metadata_hash),
            ("target of {}", group.target_assignment, ledger.targets),
        )
        return compared(self.model, shard, (*rows, *_odd_members(group, ledger)))

    def _offsets(self, shard: ShardView) -> Finding | None:
        logged = OffsetModel(self.model.group_id)
        logged.apply(shard.log_records(), first_offset=0)
        stored = shard.coordinator.offsets.of_group(self.model.group_id)
        served, expected = (
            {f"{topic}-{number}": value for (topic, number), value in offsets.items()}
            for offsets in (stored, logged.newest)
        )
        return compared(self.model, shard, (("commit for {}", served, expected),))

    def _replayed(self, shard: ShardView) -> Finding | None:
        served, live = self.model.group_in(shard), shard.coordinator
        try:
            replayed = _replay(self.model.group_id, live, shard.log_records())
        except ProtocolBug as bug:
            return Finding(f"the log of {shard.name} cannot be loaded: {bug}")
        if served is None or replayed is None:
            there = [None if one is None else "there" for one in (served, replayed)]
            return compared(self.model, shard, (("group", there[0], there[1]),))
        fields = _REPLAYED_FIELDS.items()
        rows = ((words, getattr(served, f), getattr(replayed, f)) for f, words in fields)
        # A group has no target at epoch 0, as it is born, and at -1, which a tombstone leaves. One
        # that was created again may be at either: a load reads of its former life what is left.
        mine, theirs = (max(one.target_assignment_epoch, 0) for one in (served, replayed))
        return compared(self.model, shard, (("target epoch", mine, theirs), *rows))


def compared(
    model: ModelView, shard: ShardView, rows: Iterable[tuple[str, object, object]]
) -> Finding | None:
    """Of what is served, or shown, and what it should be, the first that differs."""
    for what, found, expected in rows:
        if found != expected:
            return differs(model, shard, what, found, expected)
    return None


def differs(
    model: ModelView, shard: ShardView, what: str, served: object, logged: object
) -> Finding:
    """Two values of what should be one."""
    what, found, expected = first_difference(what, served, logged, model.name_of)
    return Finding(f"{shard.name}: the {what} is {found}, and should be {expected}")


def _is_same(member: Member | None, entry: MemberEntry | None) -> bool:
    """Whether a stored member says what its records say."""
    if member is None or entry is None:
        return member is None and entry is None
    current, metadata = entry.current, entry.metadata
    if current is None:
        if member.assigned or member.pending_revocation:
            return False
    elif _current(member) != _current(current) or member.assignment_metadata != current.metadata:
        return False
    return metadata is None or (
        _metadata(member) == _metadata(metadata)
        and (member.client_assignors or None) == metadata.client_assignors
    )


def _odd_members(group: ConsumerGroup, ledger: GroupLedger) -> Iterator[tuple[str, object, object]]:
    """Members that are not as their records say."""
    for member_id in sorted({*group.members, *ledger.members}):
        member, entry = group.members.get(member_id), ledger.members.get(member_id)
        if _is_same(member, entry):
            continue
        what = f"member {member_id}"
        if member is None or entry is None:
            yield what, member, entry
            continue
        for record, names in ((entry.current, _CURRENT), (entry.metadata, _METADATA)):
            for name in names if record is not None else ():
                words = f"{name.replace('_', ' ')} of {what}"
                yield words, getattr(member, name), getattr(record, name)
        yield f"rest of {what}", "other", "as it was written"


def _replay(
    group_id: str, live: GroupCoordinator, records: Iterable[Record]
) -> ConsumerGroup | None:
    """The group as a coordinator has it that loads these records; ProtocolBug if it cannot."""
    empty = GroupCoordinator(
        config=live.config, semantics=live.semantics, image=live.image, new_member_id=_no_new_id
    )
    for record in records:
        if record.group_id == group_id:
            empty.replay(record, strict=False)
    empty.on_loaded(now_ms=0)
    return empty.groups_of(ConsumerGroup).get(group_id)


def _no_new_id() -> str:
    raise ProtocolBug("a replay makes no member ids")


class GroupKept(Property):
    """coordinator §9.3: what is in force is what the log says."""

    id = "coordinator.group_kept"
    sentence = "A group that is refused a JoinGroup is there afterwards as it was before."
    clauses = ("coordinator §9.3", "classic §2.2")
    violated_by = ("classic-dropped-group",)
    judges_mixed = True
    interest = Interest(requests=(JoinGroupRequest,))

    def on_request(self, step: Step) -> Finding | None:
        """Is a group of the log gone from memory?"""
        if not self.model.has_dropped_group(step.shard):
            return None
        epoch = self.model.ledger_of(step.shard).group_epoch
        return Finding(
            f"{step.shard.name} forgot the group that the log has at epoch {epoch} at a JoinGroup "
            f"of {self.model.who(step.request.member_id)}"
        )


class LoadSucceeds(Property):
    """defects L6: no state that a log can be in keeps a coordinator from loading it."""

    id = "log.load_succeeds"
    sentence = (
        "A coordinator can load whatever the log holds, in whichever order compaction left it."
    )
    clauses = ("defects L6", "coordinator §9.5")
    violated_by = ("KAFKA-17306", "KAFKA-19862", "KAFKA-20254")

    def on_unloaded(self, step: Step) -> Finding | None:
        """Was it a load that failed?"""
        if not step.detail.startswith(LOAD_FAILED):
            return None
        return Finding(f"{step.shard.name} could not load its log")


class NoUncaughtException(Property):
    """coordinator §9.4: a broker answers UNKNOWN_SERVER_ERROR to what a handler throws at."""

    id = "coordinator.no_uncaught_exception"
    sentence = "No exception escapes from a handler of a coordinator."
    clauses = ("coordinator §9.4",)
    violated_by = ("test:handler-escapes",)

    def on_escaped(self, step: Step) -> Finding | None:
        """Every such step is one."""
        what = step.event if step.request is None else step.request
        about = "" if what is None else f" at {type(what).__name__}"
        return Finding(f"{step.shard.name}{about}: {step.detail}")
