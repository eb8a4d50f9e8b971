"""What goes wrong in every version: issues of the protocol itself, and those of client libraries,
of each of which there is one version only (docs/findings.md)."""

from __future__ import annotations

EVERY_VERSION: tuple[str, ...] = (
    "D12",
    "D13",
    "D14",
    "classic-deleted-topic-delay",
    "classic-early-sync",
    "classic-forgotten-assignor",
    "classic-forgotten-owners",
    "classic-quiet-return",
    "classic-recreated-topic",
    "classic-reused-generation",
    "classic-unheard-removal",
    "classic-unseen-growth",
    "classic-unseen-subscription",
    "classic-unwatched-join",
    "classic-vanished-partition",
    "librdkafka-4533",
    "sim-failed-callback",
    "sim-late-answer",
    "sim-outlived-membership",
    "sim-overtaken-commit",
    "sim-overtaken-heartbeat",
    "sim-repeated-ack",
    "sim-retried-commit",
)
"""Ids of ``protocol/defects/``. A version ships with these beside its own; the one without shipped
defects, such as ``kafka-4.3-clean``, is without them too."""
