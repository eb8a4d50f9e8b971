"""The decisions of a franz-go member in which versions or defects differ. Source: franz."""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.commit_rules import CommitRules


class FranzRules(CommitRules):
    """The decisions of franz-go 1.22.3, for both protocols."""
