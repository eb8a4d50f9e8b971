"""Commits say what was processed, and are signed; what is committed is where somebody continues.

Sources: client §4.1, §6.2, §7, §8, §12; coordinator §8.4; defects S4, KAFKA-14196, KAFKA-16460 and
KAFKA-18641. Those about records are about worlds with a data plane.

When a record may be processed twice, or not at all, follows from these. What is given up in good
order has been committed as far as it was handed out, an acknowledged commit is where the next
consumer starts, and no commit passes what was processed. So a record that comes again comes from a
consumer that was fenced, crashed or left by its poll timer, that does not commit, or whose last
commit was not acknowledged. librdkafka stores an offset as it hands the record out, and commits
after its revoked callback (client §10.1).
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.property import Finding, Interest, Property, notes, notes_of_process
from rebalance_sim.invariants.step import CommitsLeftOut, IntakeView, Step
from rebalance_sim.protocol.clients.common.effects import (
    ResetPositions,
    RunCallback,
    SendCommit,
    ValidatePositions,
)
from rebalance_sim.protocol.clients.common.events import (
    Close,
    CommitAnswered,
    OffsetFetchAnswered,
    PositionsKnown,
    RecordsReturned,
)
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.values import Call, CallbackKind
from rebalance_sim.protocol.clients.kinds import EVERY_KIND, JAVA, JAVA_KINDS
from rebalance_sim.protocol.wire.offset_messages import (
    NO_MEMBER_EPOCH,
    NO_OFFSET,
    OffsetCommitRequest,
)
from rebalance_sim.protocol.wire.records import OffsetCommit
from rebalance_sim.protocol.wire.topics import TopicPartition


def _intake_of(step: Step) -> IntakeView:
    """Records and positions of the step's client. Raises ValueError in a world without records."""
    client = step.client
    if client is None or client.intake is None:
        raise ValueError("a client of a world with a data plane must show what it takes in")
    return client.intake


def _identity_of(member: GroupMember) -> tuple[str, int]:
    identity = member.commit_identity
    return member.member_id, NO_MEMBER_EPOCH if identity is None else identity.member_epoch


def _is_old(request: OffsetCommitRequest, entry: ClientEntry) -> bool:
    """Whether a commit was made in a membership before the present one, and signed then."""
    member = entry.member
    signed = request.member_id, request.generation_id_or_member_epoch
    return member.signs_once and signed != (member.member_id, member.member_epoch)


class CommitEpoch(Property):
    """client C22. A commit is built inside the event, so the identity at either end of it will do.
    One that is sent again as it was made has that of its making."""

    id = "client.commit.epoch"
    client_kinds = EVERY_KIND
    sentence = "A commit is signed with the identity that its client has when it is sent."
    clauses = ("client C22", "client §7")
    violated_by = ("mut-client-signs-at-creation",)
    interest = Interest(effects=(SendCommit,))
    _signed: dict[str, set[tuple[str, int]]] = notes_of_process(dict)
    """Client that signs once -> identities that it has had."""

    def on_moved(self, step: Step, entry: ClientEntry) -> None:
        """Remember who it is: a commit may be made now, and sent later."""
        if entry.member.signs_once:
            self._signed.setdefault(entry.name, set()).add(_identity_of(entry.member))

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare the epoch of each commit."""
        member = entry.member
        own, before = _identity_of(member), entry.identity
        known = self._signed.setdefault(entry.name, set()) if member.signs_once else set()
        known.add(own)
        if before is not member.commit_identity:
            known.add((own[0], NO_MEMBER_EPOCH) if before is None else before)
        for effect in step.effects_of(SendCommit):
            signer, epoch = effect.request.member_id, effect.request.generation_id_or_member_epoch
            if (signer, epoch) not in known:
                return Finding(
                    f"{entry.name} signs a commit as {signer} at epoch {epoch}; its own is "
                    f"{max(epoch for _, epoch in known)}"
                )
        return None


class CommitOwned(Property):
    """client C24. A commit that had to wait names what was assigned when it was made, and so it may
    come after a revocation; not after a rejoin, unless it carries the epoch of its making. One that
    goes out unsigned is no one's. An application may commit what it likes."""

    id = "client.commit.owned"
    client_kinds = EVERY_KIND
    is_seen_from_outside = True
    sentence = "An automatic commit names only partitions assigned since the client joined."
    clauses = ("client C24",)
    violated_by = ("KAFKA-16258", "mut-client-rejoins-before-lost", "sim-closing-commit")
    interest = Interest(effects=(SendCommit,))

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Look at the partitions of each commit."""
        for effect in step.effects_of(SendCommit) if not entry.commits_itself else ():
            request, own = effect.request, entry.had_assigned
            epoch = request.generation_id_or_member_epoch
            is_own = request.offsets.keys() <= own or epoch == NO_MEMBER_EPOCH
            if not is_own and not _is_old(request, entry):
                foreign = request.offsets.keys() - own
                return Finding(
                    f"{entry.name} commits {self.model.names_of(foreign)} at epoch {epoch}; "
                    "that was not assigned to it since it joined"
                )
        return None


class CommitProcessed(Property):
    """client C23, defects S4. An application may commit what it likes; what librdkafka commits was
    handed out. One that was made before a rejoin is about what was assigned then."""

    id = "client.commit.processed"
    client_kinds = EVERY_KIND
    is_seen_from_outside = True
    sentence = "An automatic commit does not pass what the application has processed."
    clauses = ("client C23", "defects S4", "client §7", "client §8")
    violated_by = ("KAFKA-18641", "mut-client-commits-undelivered")
    interest = Interest(effects=(SendCommit,))
    needs_data_plane = True

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare each offset with what is processed by now."""
        if entry.commits_itself:
            return None
        intake = _intake_of(step)
        come_to = intake.processed_offset if entry.kind in JAVA_KINDS else intake.handed_out_offset
        for effect in step.effects_of(SendCommit):
            if not _is_old(effect.request, entry):
                for partition, offset in effect.request.offsets.items():
                    done = come_to(partition)
                    if done is not None and offset > done:
                        return Finding(
                            f"{entry.name} commits {self.model.name_of(partition)} at {offset}, "
                            f"and its application has come to {done}",
                            partition=partition,
                        )
        return None


class DeliverOwned(Property):
    """client C12, §8."""

    id = "client.deliver.owned"
    client_kinds = EVERY_KIND
    is_seen_from_outside = True
    sentence = (
        "Records are handed out only of partitions that may be fetched, and after they were "
        "fetched, and produced."
    )
    clauses = ("client C12", "client §8", "defects S1", "defects S4")
    violated_by = ("KAFKA-20332", "test:hands-out-unfetched")
    interest = Interest(events=(RecordsReturned,))

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Look at the partitions of the records, as they stood before the event."""
        intake = None if step.client is None else step.client.intake
        assigned, fetchable = entry.member.assigned, entry.fetchable
        for partition, position in step.event.positions.items():
            state = assigned.get(partition)
            if partition not in fetchable:
                what = "which it may not fetch"
            elif state is not None and state.position != position:
                what = f"and its position is {state.position}"
            elif intake is None:
                continue
            else:
                fetched, end = intake.fetched_offset(partition), intake.log_end_offset(partition)
                if fetched is None or position <= fetched <= end:
                    continue
                what = f"has fetched up to {fetched}, and the log ends at {end}"
            return Finding(
                f"{entry.name} handed out {self.model.name_of(partition)} up to {position}, {what}",
                partition=partition,
            )
        return None


class PositionSource(Property):
    """client C25, where the client decides: at the answer to its offset fetch."""

    id = "client.position.source"
    sentence = (
        "A partition starts at its committed offset; only if none is committed does the reset "
        "policy decide."
    )
    clauses = ("client C25", "defects S4")
    violated_by = ("platformatic-267",)
    interest = Interest(events=(OffsetFetchAnswered,))

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare the positions asked for with the answer."""
        response = step.event.response
        known = response.offsets if not response.error_code else None
        for effect in step.effects:
            asked: dict[TopicPartition, int] = {}
            if type(effect) is ResetPositions:
                asked = dict.fromkeys(effect.partitions, NO_OFFSET)
            elif type(effect) is ValidatePositions:
                asked = {**effect.positions}
            for partition, offset in sorted(asked.items()):
                if known is None or known.get(partition, NO_OFFSET) != offset:
                    fetched = response.error_code.name if known is None else known.get(partition)
                    return Finding(
                        f"{entry.name} starts {self.model.name_of(partition)} at "
                        f"{'no offset' if offset == NO_OFFSET else offset}, and got {fetched}"
                    )
        return None


class RevocationCommitted(Property):
    """KAFKA-14196 and KAFKA-16460: between the position that is committed before a revocation and
    the revocation itself nothing more is handed out. A commit that failed is another matter, and so
    is unsubscribe, which commits nothing, or a close that has no time left (client §6.2)."""

    id = "client.revocation.committed"
    sentence = (
        "When onPartitionsRevoked of a Java client runs, and the commit before it was "
        "acknowledged, that covers all that was handed out."
    )
    clauses = ("defects S4", "client §8", "client §4.1")
    violated_by = ("KAFKA-16460",)
    client_kinds = (JAVA,)
    interest = Interest(
        events=(CommitAnswered, PositionsKnown, Close), effects=(SendCommit, RunCallback)
    )
    needs_data_plane = True
    outlives_clock_steps = False
    _last: dict[str, dict[TopicPartition, tuple[int, int]]] = notes_of_process(dict)
    """Client -> partition -> correlation id of its last commit, 0: acknowledged, and offset."""
    _close_until_ms: dict[str, int] = notes_of_process(dict)

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """Enter an answer, or that a partition starts, maybe where somebody else has committed."""
        event, last = step.event, self._last.setdefault(entry.name, {})
        if type(event) is Close:
            self._close_until_ms[entry.name] = step.at_ms + event.timeout_ms
        elif type(event) is PositionsKnown:
            for partition in event.positions:
                last.pop(partition, None)
        else:
            for partition, code in event.response.errors.items():
                number, offset = last.get(partition, (0, 0))
                if number == event.correlation_id and not code:
                    last[partition] = 0, offset

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Enter commits, and judge callbacks."""
        last = self._last.setdefault(entry.name, {})
        for effect in step.effects:
            if type(effect) is SendCommit:
                for partition, offset in effect.request.offsets.items():
                    last[partition] = effect.correlation_id, offset
            elif self._is_judged(step, entry, effect):
                for partition in sorted(effect.partitions):
                    number, committed = last.get(partition, (-1, 0))
                    handed_out = _intake_of(step).handed_out_offset(partition)
                    if number == 0 and handed_out is not None and committed < handed_out:
                        return Finding(
                            f"{entry.name} gives {self.model.name_of(partition)} up, committed up "
                            f"to {committed}, and has handed out up to {handed_out}",
                            partition=partition,
                        )
        return None

    def _is_judged(self, step: Step, entry: ClientEntry, effect: object) -> bool:
        return (
            type(effect) is RunCallback
            and effect.kind is CallbackKind.REVOKED
            and not effect.is_obsolete
            and entry.member.config.enable_auto_commit
            and not entry.commits_itself
            and entry.member.blocked_in is not Call.UNSUBSCRIBE
            and step.at_ms < self._close_until_ms.get(entry.name, step.at_ms + 1)
        )


_NO_MEMBER = "", 0
"""Who has stored a partition that no one has, and the place of that in the order of sending."""


class StartCommitted(Property):
    """defects S4, S5. Commits of the application may go back, whether their answers arrive or not;
    and clients send an older commit after a newer one: ``sim-overtaken-commit`` in
    ``known/known_issues.py``.

    A coordinator stores commits of a member in the order in which they arrive. That is the order of
    sending on one connection alone: what was sent on a former one may come later, and takes back
    what was committed since (client §2.4). A client that is no member may delete or reset what is
    committed. With a topic go its offsets, and one of the next of that name may be beyond its end.
    A member that was removed, and has not heard of it, may start from an answer that was long under
    way.
    """

    id = "client.start.committed"
    client_kinds = EVERY_KIND
    is_seen_from_outside = True
    outlives_lost_commits = False
    sentence = (
        "A record is handed out again only if no commit that covers it was acknowledged, or an "
        "older one of that member, or one of an application, arrived after it."
    )
    clauses = ("defects S4", "defects S5", "client C25", "client §2.4")
    violated_by = ("test:forgets-commit",)
    interest = Interest(events=(CommitAnswered, PositionsKnown), effects=(SendCommit,))
    needs_data_plane = True
    _committed: dict[tuple[str, int], tuple[int, str]] = notes(dict)
    """Partition -> the highest offset that was acknowledged, and to whom."""
    _sent: dict[str, dict[int, OffsetCommitRequest]] = notes_of_process(dict)
    _numbers: dict[int, tuple[OffsetCommitRequest, int, bool]] = notes(dict)
    """Identity of a commit -> itself, its place in the order in which they were sent, and whether
    it may be one of an application."""
    _newest: dict[tuple[str, int], tuple[str, int]] = notes(dict)
    """Partition -> the member that has stored something last, and the last sent of that."""
    _left: dict[tuple[str, int], int] = notes(dict)
    """Partition -> what an older commit, an application, or who is no member, has stored, while
    nothing was stored since: what was stored before may be acknowledged after."""
    _count: int = notes(int)

    def on_effects(self, step: Step, entry: ClientEntry) -> None:
        """Enter commits; one that is sent once more has a new place."""
        for effect in step.effects_of(SendCommit):
            self._count += 1
            self._numbers[id(effect.request)] = effect.request, self._count, entry.commits_itself
            self._sent.setdefault(entry.name, {})[effect.correlation_id] = effect.request

    def on_append(self, step: Step) -> None:
        """What others do to committed offsets is theirs to answer for; and an older commit takes a
        younger one back, as that of an application may."""
        request, by_name = step.request, step.shard.coordinator.image.by_name
        is_of_member = (
            type(request) is OffsetCommitRequest and request.generation_id_or_member_epoch >= 0
        )
        _, number, is_own = self._numbers.get(id(request), (request, self._count, False))
        signed = (request.member_id, number) if is_of_member else _NO_MEMBER
        for record in step.records:
            if type(record) is not OffsetCommit or record.topic not in by_name:
                continue
            partition = by_name[record.topic].topic_id, record.partition
            sender, newest = self._newest.get(partition, _NO_MEMBER)
            if type(step.event) is CommitsLeftOut:
                if partition in self._committed and record.value is not None:
                    who = self._committed[partition][1]
                    self._committed[partition] = record.value.offset, who
                continue
            if not is_of_member:
                self._committed.pop(partition, None)
                self._left[partition] = record.value.offset if record.value else 0
                continue
            is_older = number < newest and sender == signed[0]
            if not is_older:
                self._newest[partition] = signed
            if (is_older or is_own) and record.value is not None:
                offset, known = record.value.offset, self._committed.get(partition)
                self._left[partition] = offset
                if known is not None and offset < known[0]:
                    self._committed[partition] = offset, known[1]
            else:
                self._left.pop(partition, None)

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Enter an answer, or judge where a partition starts that the client has by now."""
        if type(step.event) is CommitAnswered:
            self._answer(step.event, entry)
            return None
        for partition, position in step.event.positions.items():
            state = entry.member.assigned.get(partition)
            known = self._committed.get(partition)
            if (
                state is not None
                and state.has_valid_position
                and state.position == position
                and known is not None
                and position < known[0] <= _intake_of(step).log_end_offset(partition)
                and self._counts(entry, partition)
            ):
                return Finding(
                    f"{entry.name} starts {self.model.name_of(partition)} at {position}; "
                    f"{self.model.who(known[1])} was told that {known[0]} is committed",
                    partition=partition,
                )
        return None

    def _answer(self, event: CommitAnswered, entry: ClientEntry) -> None:
        sent = self._sent.setdefault(entry.name, {})
        request = sent.pop(event.correlation_id, None)
        if request is None:
            return
        errors, left, committed = event.response.errors, self._left, self._committed
        for partition, offset in request.offsets.items():
            if errors.get(partition, True):
                continue
            if partition in left:
                offset = min(offset, left[partition])
            known = committed.get(partition)
            if known is None or offset >= known[0] or entry.commits_itself:
                committed[partition] = offset, entry.member.member_id
        if not any(other is request for other in sent.values()):
            self._numbers.pop(id(request), None)

    def _counts(self, entry: ClientEntry, partition: TopicPartition) -> bool:
        shard = self.model.acting_shard()
        return (
            shard is not None
            and partition.topic_id in shard.coordinator.image.by_id
            and self.model.is_member_in(shard, entry.member)
        )
