"""Transactions of read-process-write applications: their coordinator, and offsets in them."""
