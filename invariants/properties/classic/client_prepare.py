"""What a classic client does before it joins: it commits, and an eager one fetches no more then;
and what it gives up at the end of a membership.

Sources: classic §3.2, §4.3, §4.5.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    Call,
    ClientState,
    Close,
    CommitAnswered,
    CommitOffsets,
    CoordinatorFound,
    Disconnected,
    MetadataKnown,
    Poll,
    RequestExpired,
    ResetPositions,
    RunCallback,
    SendCommit,
    SendJoinGroup,
    StateChanged,
    Tick,
)
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.kinds import CLASSIC
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 186

_NEVER_MS = -1 << 40
_PASSES = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
"""After these errors of a commit the same one may succeed; that of a topic that is gone is given up
by some versions."""


class StopsBeforeCommit(Property):
    """KAFKA-14196: what is handed out after the positions were taken is not committed, and the next
    owner hands it out again. Clients whose application commits are left out."""

    id = "classic.client.stops_before_commit"
    sentence = (
        "An eager Java client of the classic protocol that commits before it gives its partitions "
        "up fetches none of them meanwhile."
    )
    clauses = ("classic §3.2", "defects S4")
    violated_by = ("KAFKA-14196",)
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(events=(), effects=(SendCommit,))

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Nothing may be fetchable when the commit goes out."""
        member = entry.member
        if member.state is not ClientState.RECONCILING or not member.fetchable:
            return None
        if type(step.event) is Tick:
            return None  # The commit of every interval, before the application has polled again.
        if type(step.event) is Close or member.blocked_in is Call.CLOSE:
            return None  # Its application polls no more, so that nothing is handed out.
        config = member.config
        assert isinstance(config, ClassicConsumerConfig)
        if config.is_cooperative or not config.enable_auto_commit or entry.commits_itself:
            return None
        return Finding(
            f"{entry.name} commits before a rebalance, and goes on fetching "
            f"{self.model.names_of(member.fetchable)}",
            {"client": entry.name},
        )


class PrepareBackoff(Property):
    """classic §3.2: the commit of *prepare* is repeated for as long as the rebalance may take. One
    that fails before that is over is repeated even if the backoff ends later: that is the last."""

    id = "classic.client.prepare_backoff"
    sentence = (
        "A Java client of the classic protocol that commits before it joins repeats that commit "
        "when retry.backoff.ms have passed since it failed; after an error that passes it does not "
        "go on without, as long as max.poll.interval.ms are not over, and does not repeat one that "
        "has failed after that."
    )
    clauses = ("classic §3.2", "classic §4.3")
    violated_by = ("test:prepares-without-backoff", "test:prepares-without-commit", "KAFKA-14024")
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(
        events=(CommitAnswered, Disconnected, RequestExpired, CommitOffsets, CoordinatorFound),
        effects=(SendCommit, SendJoinGroup, RunCallback, StateChanged, ResetPositions),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._sent: dict[str, int] = self.of_process({})
        """Client -> correlation id of the commit that it makes before it joins."""
        self._failed_ms: dict[str, int] = self.of_process({})
        self._will_pass: set[str] = self.of_process(set())
        """Clients whose commit has failed so that it has to be repeated."""
        self._began_ms: dict[str, int] = self.of_process({})
        """Client -> when it first made that commit, unless it had to look for its coordinator."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """The commit has failed."""
        event, sent = step.event, self._sent.get(entry.name)
        if type(event) is CoordinatorFound:
            self._began_ms.pop(entry.name, None)  # Meanwhile it may have begun anew.
            return None
        if sent is None:
            return None
        if type(event) is CommitOffsets:
            del self._sent[entry.name]
        elif type(event) is CommitAnswered:
            codes = {*event.response.errors.values()} - {ErrorCode.NONE}
            if event.correlation_id == sent and codes:
                self._failed_ms[entry.name] = step.at_ms
                if codes <= _PASSES:
                    self._will_pass.add(entry.name)
        elif sent in event.correlation_ids:
            self._failed_ms[entry.name] = step.at_ms
            self._will_pass.add(entry.name)
        return None

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Compare the times of two of them."""
        name, member = entry.name, entry.member
        if any(type(effect) is ResetPositions for effect in step.effects):
            if type(step.event) is MetadataKnown:
                self._will_pass.discard(name)  # A topic was made anew: nothing may be left.
            return None
        will_pass = name in self._will_pass
        self._will_pass.discard(name)
        for effect in step.effects:
            if (
                will_pass
                and type(effect) in (SendJoinGroup, RunCallback)
                and type(step.event) is Poll
                and member.blocked_in is None
                and step.at_ms - entry.state_since_ms < member.config.max_poll_interval_ms
            ):
                return Finding(
                    f"{name} does not repeat the commit before it joins, which has failed by an "
                    "error that passes",
                    {"client": name},
                )
            if type(effect) is not SendCommit:
                self._sent.pop(name, None)
                self._failed_ms.pop(name, None)
                self._began_ms.pop(name, None)
            elif (
                type(step.event) is Poll
                and member.state is ClientState.RECONCILING is entry.state
                and member.config.enable_auto_commit
                and member.blocked_in is None
            ):
                failed_ms = self._failed_ms.pop(name, _NEVER_MS)
                if failed_ms == _NEVER_MS:
                    self._began_ms[name] = step.at_ms
                passed_ms = failed_ms - self._began_ms.get(name, failed_ms)
                if passed_ms >= member.config.max_poll_interval_ms:
                    return Finding(
                        f"{name} repeats the commit before it joins, which has failed after "
                        f"{passed_ms} ms; max.poll.interval.ms is "
                        f"{member.config.max_poll_interval_ms}",
                        {"client": name},
                    )
                self._sent[name] = effect.correlation_id
                wait_ms = member.config.retry_backoff_ms
                if step.at_ms - failed_ms < wait_ms:
                    return Finding(
                        f"{name} repeats the commit before it joins {step.at_ms - failed_ms} ms "
                        f"after it has failed; retry.backoff.ms is {wait_ms}",
                        {"client": name},
                    )
        return None
