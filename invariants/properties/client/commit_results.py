"""An application learns what became of its commits.

Sources: client §6.2, §7; classic §4.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Finding, Interest, Kind, Late, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import Call, CallReturned, ClientState, Close
from rebalance_sim.protocol.clients.kinds import EVERY_KIND, JAVA_KINDS

ORDER = 247

_NEVER_MS = 1 << 60


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
                    yield Late(name, what, name, commit.since_ms)
                    break


class ClosesAfterCommits(Property):
    """client §6.2, §10.1; classic §4.5. After a fatal error librdkafka's returns at once."""

    id = "client.close.after_commits"
    sentence = (
        "close of a client of either protocol returns when the application has been told of all "
        "its commits; a Java client's at its timeout at the latest."
    )
    clauses = ("client §6.2", "client §10.1", "classic §4.5")
    violated_by = ("test:closes-without-results",)
    client_kinds = EVERY_KIND
    interest = Interest(events=(Close,), effects=(CallReturned,))
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._until_ms: dict[str, int] = self.of_process({})
        """Client -> until when its ``close`` may last."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """The application closes its consumer."""
        has_end = entry.kind in JAVA_KINDS
        self._until_ms[entry.name] = step.at_ms + step.event.timeout_ms if has_end else _NEVER_MS
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is a commit still open?"""
        if not entry.open_commits or step.at_ms >= self._until_ms.get(entry.name, 0):
            return None
        if not any(type(e) is CallReturned and e.call is Call.CLOSE for e in step.effects):
            return None
        if entry.kind not in JAVA_KINDS and entry.member.state is ClientState.FATAL:
            return None
        return Finding(
            f"close of {entry.name} returns, and {len(entry.open_commits)} of its application's "
            "commits have not",
            {"client": entry.name},
        )
