"""A client's commits, positions and poll timer.

Sources: client §6.1, §7, §8, §12.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Finding, Interest, Kind, Late, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    CommitOffsets,
    OffsetFetchAnswered,
    PositionsKnown,
    RecordsReturned,
    ResetPositions,
    SendCommit,
    ValidatePositions,
)
from rebalance_sim.protocol.clients.kinds import EVERY_KIND, LIBRDKAFKA
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import NO_MEMBER_EPOCH, NO_OFFSET
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 240

_LIBRDKAFKA_LOOKS_EVERY_MS = 500


class CommitEpoch(Property):
    """client C22. A commit is built inside the event, so the identity at either end of it will
    do."""

    id = "client.commit.epoch"
    sentence = (
        "A commit carries the client's identity of the moment in which it is sent; one that "
        "librdkafka repeats, that of its first sending."
    )
    clauses = ("client C22", "client §7")
    violated_by = ("mut-client-signs-at-creation",)
    interest = Interest(effects=(SendCommit,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._signed: dict[str, set[int]] = self.of_process({})
        """Librdkafka client -> epochs that its commits were rightly signed with."""

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare the epoch of each commit."""
        for effect in step.effects:
            if type(effect) is not SendCommit:
                continue
            epoch = effect.request.generation_id_or_member_epoch
            known = {
                NO_MEMBER_EPOCH if identity is None else identity.member_epoch
                for identity in (entry.identity, entry.member.commit_identity)
            }
            if entry.member.kind == LIBRDKAFKA:
                signed = self._signed.setdefault(entry.name, set())
                signed |= known
                known = signed
            if epoch not in known or effect.request.member_id != entry.member.member_id:
                return Finding(
                    f"{entry.name} signs a commit as {effect.request.member_id} at epoch {epoch}; "
                    f"its own is {max(known)}",
                    client=entry.name,
                )
        return None


class CommitPosition(Property):
    """client C23. A commit that had to wait names the positions of the time at which it was made,
    so what counts is the furthest that the application has come; what it asks for by number is its
    own. That positions themselves keep to what was handed out is ``client.deliver.owned``."""

    id = "client.commit.position"
    sentence = (
        "A commit that names no offsets of the application's own covers only records that "
        "were handed to it."
    )
    clauses = ("client C23", "defects S4")
    violated_by = ("mut-client-commits-undelivered",)
    interest = Interest(
        events=(PositionsKnown, RecordsReturned, CommitOffsets),
        effects=(SendCommit,),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._reached: dict[str, dict[TopicPartition, int]] = self.of_process({})
        """Client -> partition -> where it started, or the end of what it was handed, if later."""
        self._by_application: set[str] = self.of_process(set())

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A position was looked up, or records were handed out."""
        event = step.event
        if type(event) is CommitOffsets:
            if event.offsets is not None:
                self._by_application.add(entry.name)
            return None
        reached = self._reached.setdefault(entry.name, {})
        for partition, position in event.positions.items():
            if position > reached.get(partition, -1):
                reached[partition] = position
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare the offsets of each commit."""
        if entry.name in self._by_application:
            return None
        reached = self._reached.get(entry.name, {})
        for effect in step.effects:
            if type(effect) is not SendCommit:
                continue
            offsets = effect.request.offsets
            early = [p for p, offset in offsets.items() if offset > reached.get(p, -1)]
            if early:
                partition = min(early)
                return Finding(
                    f"{entry.name} commits {self.model.name_of(partition)} up to "
                    f"{offsets[partition]}; its application has come to "
                    f"{reached.get(partition, 'nothing of it')}",
                    client=entry.name,
                    partition=partition,
                )
        return None


class CommitOwned(Property):
    """client C24. A commit that had to wait names what was assigned when it was made, and so it may
    come after a revocation; not after a rejoin, for it carries the epoch of its sending. One that
    goes out unsigned is nobody's. An application may commit what it likes: such a client is let
    off."""

    id = "client.commit.owned"
    sentence = (
        "Automatic commits that are signed name only partitions that the client has been "
        "assigned since it joined."
    )
    clauses = ("client C24",)
    violated_by = (
        "KAFKA-16258",
        "mut-client-rejoins-before-lost",
    )
    interest = Interest(effects=(SendCommit,))

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Look at the partitions of each commit."""
        if entry.commits_itself:
            return None
        for effect in step.effects:
            if (
                type(effect) is SendCommit
                and effect.request.generation_id_or_member_epoch != NO_MEMBER_EPOCH
            ):
                foreign = effect.request.offsets.keys() - entry.had_assigned
                if foreign:
                    return Finding(
                        f"{entry.name} commits {self.model.names_of(foreign)} at epoch "
                        f"{effect.request.generation_id_or_member_epoch}; that was not assigned to "
                        "it since it joined",
                        client=entry.name,
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
        event = step.event
        if type(event) is not OffsetFetchAnswered:
            return None
        response = event.response
        is_error = response.error_code is not ErrorCode.NONE
        for effect in step.effects:
            if type(effect) is ResetPositions:
                wrong = {
                    p
                    for p in effect.partitions
                    if is_error or response.offsets.get(p, NO_OFFSET) != NO_OFFSET
                }
                if wrong:
                    return Finding(
                        f"{entry.name} resets {self.model.names_of(wrong)} "
                        + (
                            f"after {response.error_code.name}, which says nothing of offsets"
                            if is_error
                            else "although offsets are committed there"
                        ),
                        client=entry.name,
                    )
            elif type(effect) is ValidatePositions:
                for partition, offset in effect.positions.items():
                    if offset != response.offsets.get(partition):
                        return Finding(
                            f"{entry.name} starts {self.model.name_of(partition)} at {offset}, "
                            f"committed is {response.offsets.get(partition)}",
                            client=entry.name,
                        )
        return None


class HandsOut(Property):
    """client §8, §12, F: what may be fetched may be handed out."""

    id = "client.deliver.all"
    sentence = (
        "Once faults stop, poll of a client of either protocol hands records of every partition "
        "out that the client fetches."
    )
    clauses = ("client §8", "client §12")
    violated_by = ("test:hands-nothing-out",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    kind = Kind.EVENTUALLY
    deadline = Deadline.END

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Clients at rest that keep records to themselves."""
        for name, entry in self.model.every_client():
            member = entry.member
            if member.state is not ClientState.STABLE or not member.is_polling:
                continue
            kept = sorted(member.fetchable - member.deliverable)
            if kept:
                yield Late(name, f"fetches {self.model.names_of(kept)}, and hands nothing out")
