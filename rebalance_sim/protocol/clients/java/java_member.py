"""What the Java client does alike with either protocol."""

from __future__ import annotations

from typing import Any

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.java.blocking_calls import BlockingCalls
from rebalance_sim.protocol.clients.java.java_commits import JavaCommits
from rebalance_sim.protocol.clients.java.offset_lookup import OffsetLookup


class JavaMember(GroupMember):
    """A member of the Java client: calls of its application, and how one event is worked off."""

    rules: Any
    _commits: JavaCommits[Any]
    _calls: BlockingCalls
    _lookup: OffsetLookup

    def _run_managers(self) -> None:
        """What continues by itself, whether the application polls or not."""
        raise NotImplementedError

    def _go_on(self, event: events.Event) -> None:
        """See ``GroupMember``."""
        self._run_managers()
        if self._application.blocked_in is not None:
            self._go_on_with_call()

    def _go_on_with_call(self) -> None:
        """A call blocks the application: continue with it as far as possible."""
        while self._calls.advance():
            self._run_managers()

    def _on_poll(self, event: events.Poll) -> None:
        if self.subscription.exists:
            self._application.poll()

    def _on_unsubscribe(self, event: events.Unsubscribe) -> None:
        self._calls.unsubscribe()

    def _on_close(self, event: events.Close) -> None:
        self._calls.close(event)

    def _on_commit_offsets(self, event: events.CommitOffsets) -> None:
        self._commits.commit(event)

    def _on_records_returned(self, event: events.RecordsReturned) -> None:
        self.subscription.advance(event.positions)

    def _on_pattern_matched(self, event: events.PatternMatched) -> None:
        if self.subscription.exists:
            self.subscription.topic_names = event.topic_names

    @property
    def constants(self) -> tuple[object, ...]:
        """See ``GroupMember``."""
        return (*super().constants, self.rules)
