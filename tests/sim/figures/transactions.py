"""Figures of transactions, from what applications were told of them."""

from __future__ import annotations

from recording import Recording

from rebalance_sim.protocol.clients.common.events import TransactionEnded


def transaction_figures(recording: Recording) -> dict[str, float]:
    """How many ended in which way; none of a world without transactions."""
    if all(one.transactions is None for one in recording.spec.clients):
        return {}
    ends = [one.event for one in recording.moments if type(one.event) is TransactionEnded]
    fenced = sum(one.is_fenced for one in ends)
    committed = sum(one.committed for one in ends)
    return {
        "transactions_committed": committed,
        "transactions_aborted": len(ends) - committed - fenced,
        "producers_fenced": fenced,
    }
