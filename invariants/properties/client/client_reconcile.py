"""A client's reconciliation: stop before telling, tell what is applied, call back in balance.

Sources: client §3, §4, §12.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import (
    Finding,
    Interest,
    Property,
)
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CallbackCompleted,
    CallbackKind,
    ClientState,
    GroupMember,
    RecordsReturned,
    RunCallback,
)
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 220


_STRANGERS = (ClientState.FENCED, ClientState.STALE, ClientState.FATAL)

_REVOKED, _ASSIGNED, _LOST = CallbackKind.REVOKED, CallbackKind.ASSIGNED, CallbackKind.LOST


class SingleReconciliation(Property):
    """client C8."""

    id = "client.reconcile.single"
    sentence = "A client runs one reconciliation and one callback at a time."
    clauses = ("client C8", "client §4.3")
    violated_by = ("mut-client-second-reconciliation",)
    interest = Interest(events=(CallbackCompleted,), effects=(RunCallback,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._running: dict[str, RunCallback] = self.of_process({})

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Count reconciliations."""
        count = entry.member.reconciliation_count
        return None if count <= 1 else Finding(f"{entry.name} runs {count} reconciliations at once")

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A callback that returns leaves room for the next."""
        if type(step.event) is CallbackCompleted:
            self._running.pop(entry.name, None)
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A callback that starts must find none running."""
        for effect in step.effects:
            if type(effect) is RunCallback:
                running = self._running.get(entry.name)
                if running is not None:
                    return Finding(
                        f"{entry.name} started {effect.kind.value} while {running.kind.value} runs"
                    )
                self._running[entry.name] = effect
        return None


class RevokeBeforeAck(Property):
    """client C9. The request was built somewhere inside the event, so both ends of it are asked."""

    id = "client.revoke_before_ack"
    sentence = (
        "What a client may fetch is in every owned list it sends, and so is all it is "
        "assigned but for what still waits for the assigned callback; a heartbeat that librdkafka "
        "repeats is as it was."
    )
    clauses = ("client C9", "coordinator A3", "defects S1")
    violated_by = (
        "mut-ack-before-stop",
        "KAFKA-16258",
        "mut-client-rejoins-before-lost",
        "mut-client-reports-target",
    )

    def on_sent_owned(
        self, step: Step, entry: ClientEntry, request: ConsumerGroupHeartbeatRequest
    ) -> Finding | None:
        """Compare the owned list with what the client works on."""
        owned = request.topic_partitions
        if owned is None or request.member_epoch < JOIN_EPOCH or entry.repeats(request):
            return None
        member = entry.member
        hidden = (entry.fetchable & member.fetchable) - owned
        if hidden:
            return self._found(entry, owned, hidden, "may still fetch")
        hidden = frozenset(
            p
            for p, state in member.assigned.items()
            if p not in owned and not state.awaiting_assigned_callback and p in entry.assigned
        )
        return self._found(entry, owned, hidden, "still has") if hidden else None

    def _found(
        self,
        entry: ClientEntry,
        owned: frozenset[TopicPartition],
        hidden: frozenset[TopicPartition],
        what: str,
    ) -> Finding:
        return Finding(
            f"{entry.name} reports {self.model.names_of(owned)} and {what} "
            f"{self.model.names_of(hidden)}",
            client=entry.name,
        )


class FetchSubset(Property):
    """client C11, with callbacks as the client reports them, not by the flags that it keeps."""

    id = "client.fetch.subset"
    sentence = (
        "A client fetches only what it is assigned, after the assigned callback has returned "
        "(well, if it is a Java client), and not while it is being revoked, nor, if it is a Java "
        "client, while its loss is being told."
    )
    clauses = ("client C11", "client §8", "defects S1")
    violated_by = ("mut-client-fetches-during-callback",)
    interest = Interest(events=(CallbackCompleted,), effects=(RunCallback,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._unannounced: dict[str, set[TopicPartition]] = self.of_process({})
        self._assigning: set[str] = self.of_process(set())

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A successful assigned callback announces everything that is assigned; librdkafka takes
        no notice of a callback that throws."""
        if type(step.event) is CallbackCompleted and entry.name in self._assigning:
            self._assigning.discard(entry.name)
            if not step.event.failed or entry.member.kind == LIBRDKAFKA:
                self._unannounced.pop(entry.name, None)
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Remember what an assigned callback is about to announce."""
        for effect in step.effects:
            if type(effect) is RunCallback and effect.kind is _ASSIGNED:
                self._unannounced.setdefault(entry.name, set()).update(effect.partitions)
                self._assigning.add(entry.name)
        return None

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Judge the fetchable set of the client that moved."""
        member = entry.member
        fetchable = member.fetchable
        if not fetchable:
            return None
        early = fetchable & self._unannounced.get(entry.name, set())
        if early:
            return Finding(
                f"{entry.name} may fetch {self.model.names_of(early)} before its assigned callback "
                "has returned",
                client=entry.name,
            )
        return self._judge(entry.name, member)

    def _judge(self, name: str, member: GroupMember) -> Finding | None:
        if not member.fetchable <= member.assigned.keys():
            foreign = member.fetchable - member.assigned.keys()
            return Finding(f"{name} may fetch {self.model.names_of(foreign)}, not assigned to it")
        running = member.running_callback
        if running is None or (running.kind is _LOST and member.kind == LIBRDKAFKA):
            return None
        busy = member.fetchable & running.partitions
        if busy:
            return Finding(
                f"{name} may fetch {self.model.names_of(busy)} during {running.kind.value}",
                client=name,
            )
        return None


class DeliverOwned(Property):
    """client C12."""

    id = "client.deliver.owned"
    sentence = "Records are handed out only of partitions that may be fetched."
    clauses = ("client C12", "defects S1", "defects S4")
    violated_by = ("KAFKA-20332",)
    interest = Interest(events=(RecordsReturned,))

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Look at the partitions of the records, as they stood before the event."""
        if type(step.event) is not RecordsReturned:
            return None
        for partition, position in step.event.positions.items():
            state = entry.member.assigned.get(partition)
            if partition not in entry.fetchable:
                return Finding(
                    f"{entry.name} handed out records of {self.model.name_of(partition)}, which "
                    "it may not fetch",
                    client=entry.name,
                    partition=partition,
                )
            if state is not None and state.position != position:
                return Finding(
                    f"{entry.name} handed out {self.model.name_of(partition)} up to {position}, "
                    f"its position is {state.position}",
                    client=entry.name,
                    partition=partition,
                )
        return None


class CallbackBalance(Property):
    """client C13, for partitions whose history of callbacks is known."""

    id = "client.callback.balance"
    sentence = (
        "For each partition the application is told that it is assigned, then once that it is "
        "revoked or lost; only a callback that failed, or was overtaken, is repeated, and that of "
        "a revocation which unsubscribe or close cuts short."
    )
    clauses = ("client C13",)
    violated_by = (
        "mut-client-revokes-twice",
        "mut-client-rejoins-before-lost",
    )
    interest = Interest(events=(CallbackCompleted,), effects=(RunCallback,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._reported: dict[str, dict[TopicPartition, tuple[CallbackKind, bool]]] = (
            self.of_process({})
        )
        """Client -> partition -> its last callback, and whether that one may be repeated."""
        self._running: dict[str, RunCallback] = self.of_process({})

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A callback that failed may come again."""
        if type(step.event) is CallbackCompleted:
            running = self._running.pop(entry.name, None)
            if running is not None and step.event.failed:
                reported = self._reported.setdefault(entry.name, {})
                for partition in running.partitions:
                    reported[partition] = running.kind, True
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare each callback with the last one of its partitions."""
        for effect in step.effects:
            if type(effect) is not RunCallback:
                continue
            self._running[entry.name] = effect
            reported = self._reported.setdefault(entry.name, {})
            for partition in sorted(effect.partitions):
                kind, is_open = reported.get(partition, (None, True))
                if effect.is_obsolete:
                    # Overtaken by a fence or a leave, before or after the callback of that.
                    if kind is _ASSIGNED:
                        reported[partition] = effect.kind, True
                    continue
                ends = effect.kind is not _ASSIGNED
                # Lost may follow on revoked: the member was fenced in between.
                is_fine = is_open or (kind is _ASSIGNED if ends else kind in (_REVOKED, _LOST))
                if kind is _REVOKED and ends and entry.member.blocked_in is not None:
                    # The new set is taken over with the assigned callback, which never comes now:
                    # what was revoked is still assigned (client R8, docs/findings.md).
                    state = entry.member.assigned.get(partition)
                    is_fine = is_fine or (state is not None and state.pending_revocation)
                if not is_fine and not (effect.kind is _LOST and kind is _REVOKED):
                    last = kind.value if kind else "nothing"
                    return Finding(
                        f"{entry.name} runs {effect.kind.value} for "
                        f"{self.model.name_of(partition)} after {last}",
                        client=entry.name,
                        partition=partition,
                    )
                reported[partition] = effect.kind, False
        return None


class CallbackIdentity(Property):
    """client C14. A revoked callback that a fence or a leave has overtaken is let off."""

    id = "client.callback.identity"
    sentence = (
        "onPartitionsRevoked is for members, and onPartitionsLost for who is none any more; but "
        "librdkafka still revokes what it was about to revoke when it was fenced."
    )
    clauses = ("client C14", "client §4.2")
    violated_by = (
        "mut-client-revokes-on-fence",
        "mut-client-keeps-identity-on-fence",
        "mut-client-rejoins-before-lost",
    )
    interest = Interest(effects=(RunCallback,))

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Is the client a member as the callback starts?"""
        for effect in step.effects:
            if type(effect) is not RunCallback or effect.kind is _ASSIGNED or effect.is_obsolete:
                continue
            if not self._fits(effect.kind, entry):
                is_member = effect.kind is _LOST
                return Finding(
                    f"{entry.name} runs {effect.kind.value} at epoch {entry.member.member_epoch} "
                    f"in {entry.member.state.value}, and {'is still' if is_member else 'is no'} "
                    "member",
                    client=entry.name,
                )
        return None

    @staticmethod
    def _fits(kind: CallbackKind, entry: ClientEntry) -> bool:
        """Does the callback fit? librdkafka keeps its identity until it joins again, and begins no
        other rebalance, not even for a fence or a close, before the one under way has ended
        (client §10.1).
        """
        member = entry.member
        if member.kind == LIBRDKAFKA:
            return kind is _REVOKED or member.state in _STRANGERS or entry.state in _STRANGERS
        return (member.commit_identity is not None) is (kind is _REVOKED)
