"""An application learns what became of its commits.

Sources: client §6.2, §7, §10.1; classic §4.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Finding, Interest, Kind, Late, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CloseConnection,
    CommitAnswered,
    CommitOffsets,
    CommitReturned,
    Disconnected,
    RequestExpired,
    SendCommit,
)
from rebalance_sim.protocol.clients.kinds import EVERY_KIND
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 247

_NEVER_MS = 1 << 60
_NOBODY: dict[int, OpenResult] = {}


class OpenResult:
    """A commit that the application has not been told about yet. ``correlation_id``: of the only
    request that was sent for it so far, as far as that is clear; ``is_last``: no other commit has
    left since; ``went_well``: whether everything, or nothing, in the answer to that was good; None:
    it is open, partly good, or may be of no matter because of a later one."""

    __slots__ = ("correlation_id", "is_last", "is_sync", "went_well")

    def __init__(self, is_sync: bool) -> None:
        self.is_sync = is_sync
        self.correlation_id: int | None = None
        self.is_last = True
        self.went_well: bool | None = None


class CommitTold(Property):
    """client §7, rows "commitSync" and "commitAsync". Only a commit that is sent while it is asked
    for is judged by its answer, and by the first one: what is sent later may be another one."""

    id = "client.commit.told"
    sentence = (
        "A client of either protocol tells its application once what has become of each commit "
        "that it was asked for: success if it was acknowledged, of a commitSync at once, but none "
        "when all of it was refused or no answer came, and nothing was sent since."
    )
    clauses = ("client §7",)
    violated_by = ("test:tells-results-again",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(
        events=(CommitOffsets, CommitAnswered, Disconnected, RequestExpired),
        effects=(CommitReturned, SendCommit, CloseConnection),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._open: dict[str, dict[int, OpenResult]] = self.of_process({})
        """Client -> number of a commit of its application -> what it can be told."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """The application commits, or what was sent has come to an end."""
        event = step.event
        if type(event) is CommitOffsets:
            results = self._open.setdefault(entry.name, {})
            results[event.commit_id] = OpenResult(event.is_sync)
            return None
        waiting = self._open.get(entry.name)
        if not waiting:
            return None
        is_answer = type(event) is CommitAnswered
        for result in waiting.values():
            sent = result.correlation_id
            if is_answer and event.correlation_id == sent:
                codes = event.response.errors.values()
                is_bad = all(codes) and result.is_last
                result.went_well = not any(codes) or (False if is_bad else None)
            elif is_answer or sent not in event.correlation_ids:
                continue
            else:
                result.went_well = False if result.is_last else None
            result.correlation_id = None
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is it told about one that is open, and what is so?"""
        results = self._open.get(entry.name, _NOBODY)
        for effect in step.effects:
            kind = type(effect)
            if kind is CommitReturned:
                result = results.pop(effect.commit_id, None)
                if result is None:
                    return Finding(
                        f"{entry.name} tells its application again what has become of commit "
                        f"{effect.commit_id}",
                        client=entry.name,
                    )
                if result.went_well is not None and result.went_well is bool(effect.error_code):
                    told = effect.error_code.name if effect.error_code else "success"
                    was = "was acknowledged" if result.went_well else "has failed"
                    return Finding(
                        f"{entry.name} tells its application {told} about commit "
                        f"{effect.commit_id}, which {was}",
                        client=entry.name,
                    )
            elif results:
                self._note_sent(step, effect, entry.name)
        return None

    def _note_sent(self, step: Step, effect: object, client: str) -> None:
        results = self._open[client]
        if type(effect) is CloseConnection:
            for result in results.values():
                result.correlation_id = None
        elif type(effect) is SendCommit:
            for result in results.values():
                result.went_well = result.went_well or None
                result.is_last = False
            event = step.event
            if type(event) is CommitOffsets and event.commit_id in results:
                own = results[event.commit_id]
                is_only = sum(type(other) is SendCommit for other in step.effects) == 1
                own.correlation_id = effect.correlation_id if is_only else None
                own.is_last = is_only

    def on_handled(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Does somebody still wait for what is acknowledged?"""
        if type(step.event) is CommitAnswered:
            for number, result in self._open.get(entry.name, _NOBODY).items():
                if result.is_sync and result.went_well:
                    return Finding(
                        f"commitSync of {entry.name} has been acknowledged, and does not return: "
                        f"commit {number}",
                        client=entry.name,
                    )
        return None


_PASSING = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Errors after which another attempt may succeed (client §7; classic §4.3)."""


class CommitsReturn(Property):
    """client §7, rows "commitSync" and "commitAsync"."""

    id = "client.commit.returns"
    sentence = (
        "Once faults stop, commitSync of a client of either protocol returns, and the callback of "
        "commitAsync runs if the application polls."
    )
    clauses = ("client §7",)
    violated_by = ("test:commits-into-nothing",)
    client_kinds = EVERY_KIND
    kind = Kind.EVENTUALLY
    deadline = Deadline.END

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Commits that nobody has heard of for longer than a call may last."""
        for name, entry in self.model.every_client():
            member = entry.member
            if not entry.open_commits or member.running_callback is not None or member.is_closed:
                continue
            limit_ms = member.config.default_api_timeout_ms + quiet.slack_ms
            for commit in entry.open_commits.values():
                if at_ms - commit.since_ms > limit_ms and (commit.is_sync or member.is_polling):
                    what = "waits in commitSync" if commit.is_sync else "waits for its commitAsync"
                    yield Late(name, what, commit.since_ms)
                    break
