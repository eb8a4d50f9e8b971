"""A reconciliation that begins with a commit goes on when that commit is over, and no sooner.

Source: client §4.1, client R4-R6; client §7, row "auto, before revocation".
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CallbackCompleted,
    CallbackKind,
    ClientState,
    CommitAnswered,
    Disconnected,
    Poll,
    RequestExpired,
    RunCallback,
    SendCommit,
    StateChanged,
    Tick,
)
from rebalance_sim.protocol.clients.kinds import JAVA
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 244

_TRIED_AGAIN = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
"""Of a member that gives something up; STALE_MEMBER_EPOCH too, as long as it is one."""

_ENDS_IT = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

_POLLS = (Poll, CallbackCompleted)


class _First:
    """The commit that a reconciliation has begun with."""

    __slots__ = ("began_ms", "has_failed", "is_over", "is_overtaken", "number")

    def __init__(self, number: int, began_ms: int, *, is_over: bool = False) -> None:
        self.number = number
        """Correlation id of its last attempt."""
        self.began_ms = began_ms
        self.has_failed = False
        """The last attempt has, and there is to be another one."""
        self.is_overtaken = False
        """A younger commit was sent: nothing may be left of this one to be sent again."""
        self.is_over = is_over
        """It has ended, or cannot be told from others any more."""


class CommitsFirst(Property):
    """client §4.1, client R4. Two commits of one poll are this one, and after it that of the
    interval. A client whose application commits by itself is let off."""

    id = "client.reconcile.commits_first"
    sentence = (
        "A Java client of KIP-848 that commits before it takes a target over goes on as soon as "
        "that commit is stored, or refused because a topic is gone, and no sooner unless "
        "max.poll.interval.ms have passed or the commit was refused for good."
    )
    clauses = ("client §4.1", "client §7")
    violated_by = ("KAFKA-16133", "KAFKA-16224")
    client_kinds = (JAVA,)
    interest = Interest(
        events=(CommitAnswered, Disconnected, RequestExpired, CallbackCompleted),
        effects=(SendCommit, RunCallback, StateChanged),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._firsts: dict[str, _First] = self.of_process({})
        """Client -> the first commit of the reconciliation that runs."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """The commit is over, or a callback that may end the reconciliation."""
        first = self._firsts.get(entry.name)
        if first is None:
            return None
        event = step.event
        if type(event) is CallbackCompleted:
            if event.failed:
                del self._firsts[entry.name]  # It begins anew, with another commit.
        elif type(event) is CommitAnswered:
            if event.correlation_id == first.number and not first.is_over:
                error_code = _first_error(event)
                first.has_failed = not first.is_overtaken and (
                    error_code in _TRIED_AGAIN
                    or (
                        error_code is ErrorCode.STALE_MEMBER_EPOCH
                        and entry.member.commit_identity is not None
                    )
                )
                first.is_over = not first.has_failed
        elif first.number in event.correlation_ids and not first.is_over:
            first.has_failed = not first.is_overtaken
            first.is_over = first.is_overtaken
        return None

    def on_handled(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Has the client gone on, or will it with its next poll?"""
        event, member = step.event, entry.member
        first = self._firsts.get(entry.name)
        if (
            type(event) is not CommitAnswered
            or first is None
            or event.correlation_id != first.number
            or _first_error(event) not in _ENDS_IT
            or member.reconciliation_count != 1
            or member.running_callback is not None
            or member.blocked_in is not None
        ):
            return None
        due_ms = member.poll_due_ms
        if due_ms is not None and due_ms <= step.at_ms:
            return None
        return Finding(
            f"{entry.name} waits on, though the commit before its reconciliation is over: "
            f"{_first_error(event).name}",
            {"client": entry.name},
        )

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A commit is sent, or the reconciliation goes on."""
        member, name = entry.member, entry.name
        if not member.config.enable_auto_commit or entry.commits_itself:
            return None
        for effect in step.effects:
            kind = type(effect)
            if kind is SendCommit:
                self._note_commit(step, entry, effect.correlation_id)
            elif kind is StateChanged:
                finding = None
                if effect.to_state is ClientState.ACKNOWLEDGING:
                    finding = self._judge(step, entry)
                if effect.to_state is not ClientState.RECONCILING:
                    self._firsts.pop(name, None)
                if finding is not None:
                    return finding
            elif (
                kind is RunCallback
                and member.state is ClientState.RECONCILING
                and member.blocked_in is None
                and effect.kind is not CallbackKind.LOST
                and not effect.is_obsolete
            ):
                finding = self._judge(step, entry)
                self._firsts[name] = _First(0, step.at_ms, is_over=True)
                if finding is not None:
                    return finding
        return None

    def _note_commit(self, step: Step, entry: ClientEntry, number: int) -> None:
        first = self._firsts.get(entry.name)
        if first is None:
            member = entry.member
            if (
                member.state is ClientState.RECONCILING
                and member.reconciliation_count == 1
                and member.blocked_in is None
            ):
                # Outside of poll it is the first one, or that of the interval, which has waited for
                # a coordinator as well.
                is_first = type(step.event) in _POLLS
                self._firsts[entry.name] = _First(
                    number if is_first else 0, step.at_ms, is_over=not is_first
                )
        elif first.has_failed and type(step.event) is not Tick:
            # It, or that of the interval, which may have waited for a coordinator.
            first.is_over, first.has_failed = True, False
        elif first.has_failed:
            first.number, first.has_failed = number, False
        else:
            first.is_overtaken = True

    def _judge(self, step: Step, entry: ClientEntry) -> Finding | None:
        first = self._firsts.get(entry.name)
        if first is None or first.is_over or entry.member.blocked_in is not None:
            return None
        if first.is_overtaken:
            return None
        limit_ms = entry.member.config.max_poll_interval_ms
        passed_ms = step.at_ms - first.began_ms
        if passed_ms >= limit_ms:
            return None
        what = "has failed, and may succeed yet" if first.has_failed else "is not answered"
        return Finding(
            f"{entry.name} goes on with its reconciliation {passed_ms} ms after the commit before "
            f"it, which {what}",
            {"client": entry.name},
        )


def _first_error(event: CommitAnswered) -> ErrorCode:
    """What decides: the error of the first partition that has one."""
    errors = event.response.errors
    failed = [partition for partition in errors if errors[partition]]
    return errors[min(failed)] if failed else ErrorCode.NONE
