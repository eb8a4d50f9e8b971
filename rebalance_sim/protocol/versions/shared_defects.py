"""Defects that several versions have (docs/findings.md). A version that repairs one leaves it out
of what it takes from here."""

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
    "sim-closing-commit",
    "sim-failed-callback",
    "sim-late-answer",
    "sim-late-downgrade",
    "sim-nameless-leave",
    "sim-outlived-membership",
    "sim-overtaken-commit",
    "sim-overtaken-heartbeat",
    "sim-repeated-ack",
    "sim-retried-commit",
    "sim-untold-revocation",
    "sim-unwatched-topic",
    "sim-waiting-commit",
)
"""Defects of the protocol itself, and of the clients."""

EVERY_BROKER: tuple[str, ...] = (
    "classic-dropped-group",
    "classic-early-conversion",
    "classic-stranded-members",
    "PR-23542",
    "sim-kept-timers",
    "sim-lost-pattern-withdrawal",
    "sim-stale-subscription-type",
)
"""Defects of the broker's code that no release has repaired so far."""
