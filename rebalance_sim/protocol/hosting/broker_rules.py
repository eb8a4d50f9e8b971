"""Decisions of a broker in which defects differ, one small method or value each.

They concern what is around the coordinator: when an answer may go, when a shard is unloaded
(coordinator §9.4, §9.5; defects §9).
"""

from __future__ import annotations


class BrokerRules:
    """What a correct broker does."""

    serves_after_resignation = False
    """A deposed leader continues serving, and takes its own writes for committed."""

    loads_strictly = False
    """A load takes a record that contradicts an earlier one for an error."""

    reverts_failed_batches = True
    """Memory goes back to where it was before a batch that could not be written
    (coordinator §9.4)."""

    keeps_timers_of_failed_batches = False
    """Timers stay as an operation has left them whose records could not be written
    (coordinator D14)."""

    handles_overtaken_heartbeats = False
    """A heartbeat is handled that comes, on a connection which its client has given up, after a
    later one of the same member (docs/findings.md)."""

    unload_delay_ms = 0
    """How long after a resignation a shard is unloaded, whatever has happened meanwhile."""

    reads_newest = False
    """Describe and list show what is not committed yet."""

    fetches_to_stable_offset = True
    """A fetch with ``read_committed`` ends at the last stable offset (transactions §5)."""

    names_aborted_transactions = True
    """It names the aborted transactions of what it brings, so that the client drops them."""

    checks_sequences = True
    """A batch is not written again that a producer sends again."""

    def offset_to_await(self, end_offset: int, own_writes_end: int, record_count: int) -> int:
        """The high watermark at which an answer may go.

        ``end_offset`` is the end of the log after the operation, ``own_writes_end`` the end of what
        this shard has written itself since its load (0 if nothing). An answer without records
        waits too, so that it never shows what is not committed (coordinator §9.4, step 5).
        """
        return end_offset

    def gives_up(self, loaded_epoch: int, resigned_epoch: int) -> bool:
        """Whether a resignation with an epoch unloads a shard that was loaded with another."""
        return resigned_epoch > loaded_epoch
