"""How an application reads, processes and writes in transactions."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.protocol.transactions.transaction import TRANSACTION_MAX_TIMEOUT_MS
from rebalance_sim.protocol.wire.transaction_messages import DEFAULT_TRANSACTION_TIMEOUT_MS
from rebalance_sim.sim.checks import at_least, at_most, not_none

VERSIONS = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsSpec:
    """Exactly once: in a world with a data plane, the application writes what comes of its records
    and their offsets in one transaction (``sendOffsetsToTransaction``), and commits in no other
    way."""

    transactional_id: str | None = None
    """``transactional.id``: a new process with the same one aborts what the one before left open;
    none: the name of the client."""
    transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS
    """``transaction.timeout.ms``: how long a transaction may be open until its coordinator, which
    looks every 10 seconds, aborts it."""
    commit_interval_ms: int = 1_000
    """How often the application ends its transaction, as ``commit.interval.ms`` of Kafka Streams;
    it hands nothing out meanwhile."""
    max_block_ms: int = 60_000
    """``max.block.ms``: how long offsets that the coordinator does not take are tried again; after
    that the transaction aborts."""
    output_topic: str | None = None
    """The topic that what comes of records is written to: one record for each, in the transaction
    that has its offset, to the partition of the same number. A transaction begins with the first of
    them; none: with its offsets, and what comes of records is not simulated."""
    version: int = 2
    """Of the transactions: 2 is that of KIP-890, with another producer epoch for each; 1 is that
    of clients before."""

    def __post_init__(self) -> None:
        not_none(self, "transactional_id", "output_topic")
        if self.transactional_id == "":
            raise ValueError("transactional_id must not be empty; leave it out for the client's")
        at_least(self, 1, "transaction_timeout_ms", "commit_interval_ms", "max_block_ms")
        at_most(self, TRANSACTION_MAX_TIMEOUT_MS, "transaction_timeout_ms")
        if self.version not in VERSIONS:
            raise ValueError(f"version {self.version}: there are 1 and 2")
