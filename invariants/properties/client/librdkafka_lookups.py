"""What librdkafka looks up when it takes partitions over, and when.

Source: client §10.1, rows "assigned" and "offset requests"; client §8.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.pacing import least_backoff_ms
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CloseConnection,
    CommitAnswered,
    Disconnected,
    OffsetFetchAnswered,
    RequestExpired,
    SendCommit,
    SendOffsetFetch,
)
from rebalance_sim.protocol.clients.common.values import FetchState
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_KINDS
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 252


class _LookUp:
    """Requests about offsets that one process has in flight."""

    __slots__ = ("asked_for", "commits", "failed_ms", "failures", "number")

    def __init__(self) -> None:
        self.asked_for: frozenset[TopicPartition] = frozenset()
        """What the last look-up is about."""
        self.number = 0
        """Of the look-up in flight; 0: none."""
        self.failures = 0
        """How often the last one has failed in a row."""
        self.failed_ms = 0
        self.commits: set[int] = set()

    def note_failure(self, at_ms: int) -> None:
        """The look-up in flight has come to nothing."""
        self.number = 0
        self.failures += 1
        self.failed_ms = at_ms


class LibrdkafkaLooksUp(Property):
    """client §10.1, row "assigned"; client §8. Partitions that it has given up meanwhile are left
    out when a look-up is repeated."""

    id = "client.lookup.librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, looks up the committed offsets of partitions "
        "that it is assigned and has looked up nothing of, by one request at a time, while no "
        "commit is in flight; it repeats one that failed after its backoff, longer after each "
        "failure in a row."
    )
    clauses = ("client §10.1", "client §8", "client §2.2")
    violated_by = ("test:librdkafka-looks-up-what-is-reset",)
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(OffsetFetchAnswered, CommitAnswered, Disconnected, RequestExpired),
        effects=(SendOffsetFetch, SendCommit, CloseConnection),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._of: dict[str, _LookUp] = self.of_process({})

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Requests are over, well or badly."""
        look_up = self._of.get(entry.name)
        if look_up is None:
            return None
        event = step.event
        if type(event) is CommitAnswered:
            look_up.commits.discard(event.correlation_id)
        elif type(event) is OffsetFetchAnswered:
            if event.correlation_id == look_up.number:
                response = event.response
                if response.error_code or any(response.errors.values()):
                    look_up.note_failure(step.at_ms)
                else:
                    look_up.number = look_up.failures = 0
        else:
            look_up.commits.difference_update(event.correlation_ids)
            if look_up.number in event.correlation_ids:
                look_up.note_failure(step.at_ms)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A look-up or a commit leaves, or the connection is closed, with all in flight."""
        look_up = self._of.get(entry.name)
        if look_up is None:
            look_up = self._of[entry.name] = _LookUp()
        for effect in step.effects:
            kind = type(effect)
            if kind is SendCommit:
                look_up.commits.add(effect.correlation_id)
            elif kind is CloseConnection:
                look_up.commits.clear()
                if look_up.number:
                    look_up.note_failure(step.at_ms)
            elif kind is SendOffsetFetch:
                asked_for = effect.request.partitions
                is_rest = False
                if asked_for is not look_up.asked_for:
                    is_rest = self._is_rest(step, entry, look_up, asked_for)
                    look_up.failures = 0  # Another look-up, or what is left of that one.
                wrong = self._wrong(step, entry, look_up, asked_for, is_rest=is_rest)
                look_up.number, look_up.asked_for = effect.correlation_id, asked_for
                if wrong:
                    return Finding(f"{entry.name} looks {wrong}", {"client": entry.name})
        return None

    @staticmethod
    def _is_rest(
        step: Step,
        entry: AnyClientEntry,
        look_up: _LookUp,
        asked_for: frozenset[TopicPartition],
    ) -> bool:
        """Whether this may be a failed look-up again, without what was given up meanwhile: no
        commit holds that up."""
        if not look_up.failures or look_up.number or not asked_for <= look_up.asked_for:
            return False
        gap_ms = step.at_ms - look_up.failed_ms
        return gap_ms >= least_backoff_ms(entry.member, look_up.failures)

    def _wrong(
        self,
        step: Step,
        entry: AnyClientEntry,
        look_up: _LookUp,
        asked_for: frozenset[TopicPartition],
        *,
        is_rest: bool,
    ) -> str:
        assigned = entry.member.assigned

        def waits(partition: TopicPartition) -> bool:
            state = assigned.get(partition)
            return state is not None and state.fetch_state is FetchState.INITIALIZING

        if not asked_for:
            return "nothing up"
        if not all(map(waits, asked_for)):
            needless = [p for p in sorted(asked_for) if not waits(p)]
            return f"{self.model.names_of(needless)} up, which needs no looking up"
        if look_up.number and any(map(waits, look_up.asked_for - asked_for)):
            return f"{self.model.names_of(asked_for)} up, and waits for a look-up already"
        if not look_up.failures:
            if look_up.commits and not is_rest:
                return f"{self.model.names_of(asked_for)} up, and a commit is in flight"
            return ""
        least_ms = least_backoff_ms(entry.member, look_up.failures)
        gap_ms = step.at_ms - look_up.failed_ms
        if gap_ms < least_ms:
            return f"committed offsets up again after {gap_ms} ms; its backoff is {least_ms} ms"
        return ""
