"""What a classic client does before it joins: it commits, and an eager one fetches no more then.

Source: classic §3.2.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    Call,
    ClientState,
    Close,
    SendCommit,
    Tick,
)
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.kinds import CLASSIC

ORDER = 186


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


class KeepsFetching(Property):
    """KIP-429: what a cooperative member keeps it works on all through the rebalance."""

    id = "classic.client.keeps_fetching"
    sentence = (
        "A cooperative Java client of the classic protocol that commits before it joins goes on "
        "fetching what it has."
    )
    clauses = ("classic §3.2",)
    violated_by = ("test:cooperative-stops-fetching",)
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(events=(), effects=(SendCommit,))

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """No partition may be marked as about to go."""
        config = entry.member.config
        assert isinstance(config, ClassicConsumerConfig)
        if not config.is_cooperative:
            return None
        for partition, state in entry.member.assigned.items():
            if state.pending_revocation:
                return Finding(
                    f"{entry.name} is cooperative, commits before a rebalance, and has stopped "
                    f"fetching {self.model.name_of(partition)}",
                    {"client": entry.name, "partition": partition},
                )
        return None
