"""Which properties each known issue violates, and where one reads about it.

A shipped version carries defects (``Semantics.shipped_defects``), and so does the protocol itself.
A violation of one of these properties may be the issue's doing, in a run whose version has it and
where no one has switched it on. Whether it is shows in a run without it
(``scenarios/counterfactual.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import SEMANTICS, Semantics

_REPORTED = re.compile(r"(KAFKA|PR|KIP|librdkafka)-\d+")

KNOWN_ISSUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "KAFKA-19233": ("refusal.cause",),
        "KAFKA-19431": ("coordinator.subscribed_only",),
        "KAFKA-19813": ("client.hb.pace",),
        "KAFKA-20066": ("offsets.commit_refusal_cause",),
        "KAFKA-20273": ("liveness.classic_partitions_owned", "liveness.partitions_owned"),
        "KAFKA-20332": ("client.deliver.owned", "client.revocation.committed"),
        "KAFKA-20434": ("coordinator.epoch_cause",),
        "KAFKA-20442": ("coordinator.emptied_group_settled",),
        "KAFKA-20601": ("classic.refusal_cause", "refusal.cause"),
        "KAFKA-20747": ("coordinator.static_members",),
        "PR-23542": ("refusal.cause",),
        "classic-dropped-group": ("conversion.keeps", "coordinator.group_kept"),
        "classic-early-conversion": ("coordinator.timers_armed", "refusal.server_error"),
        "classic-early-sync": ("classic.sync_is_durable",),
        "classic-forgotten-assignor": ("classic.refusal_cause",),
        "classic-forgotten-owners": ("classic.exclusive_consumption", "offsets.commit_of_owner"),
        "classic-quiet-return": ("liveness.classic_partitions_owned", "liveness.partitions_owned"),
        "classic-recreated-topic": ("classic.exclusive_consumption", "offsets.commit_of_owner"),
        "classic-reused-generation": ("classic.exclusive_consumption",),
        "classic-stranded-members": ("liveness.classic_settles", "liveness.partitions_owned"),
        "classic-unheard-removal": ("classic.exclusive_consumption", "offsets.commit_of_owner"),
        "classic-unseen-growth": ("liveness.partitions_owned",),
        "classic-unseen-subscription": ("liveness.classic_settles", "liveness.partitions_owned"),
        "classic-unwatched-join": (
            "liveness.converges",
            "liveness.partitions_owned",
            "liveness.stale_members_removed",
        ),
        "classic-vanished-partition": (
            "classic.refusal_cause",
            "liveness.classic_settles",
            "liveness.converges",
            "liveness.partitions_owned",
            "refusal.server_error",
        ),
        "D12": (
            "classic.exclusive_consumption",
            "cross.assigned_is_held",
            "cross.current_fits_target",
            "cross.exclusive_consumption",
            "offsets.commit_of_owner",
        ),
        "D13": ("client.start.committed", "offsets.of_this_topic"),
        "D14": (
            "coordinator.removal_due",
            "coordinator.timers_armed",
            "liveness.classic_settles",
            "liveness.converges",
            "liveness.partitions_owned",
            "liveness.revocation_bounded",
            "liveness.stale_members_removed",
            "liveness.target_computed",
        ),
        "librdkafka-4533": ("liveness.classic_partitions_owned",),
        "sim-closing-commit": (
            "client.commit.owned",
            "client.start.committed",
            "offsets.commit_of_owner",
        ),
        "sim-failed-callback": (
            "client.lookup.completes",
            "client.stable.means_equal",
            "cross.assigned_is_held",
            "liveness.partitions_owned",
        ),
        "sim-kept-timers": ("coordinator.removal_due", "coordinator.timers_armed"),
        "sim-late-answer": (
            "client.join.cause",
            "cross.assigned_is_held",
            "cross.current_fits_target",
        ),
        "sim-late-downgrade": ("classic.exclusive_consumption",),
        "sim-lost-pattern-withdrawal": ("liveness.converges", "liveness.partitions_owned"),
        "sim-nameless-leave": ("client.leave.once",),
        "sim-outlived-membership": ("classic.exclusive_consumption", "offsets.commit_of_owner"),
        "sim-overtaken-commit": ("client.start.committed",),
        "sim-overtaken-heartbeat": ("liveness.partitions_owned",),
        "sim-repeated-ack": ("liveness.partitions_owned",),
        "sim-retried-commit": ("client.commit.processed",),
        "sim-stale-subscription-type": (
            "coordinator.subscribed_only",
            "target.complete",
            "target.current",
        ),
        "sim-unheard-grant": ("liveness.converges", "liveness.partitions_owned"),
        "sim-untold-revocation": ("client.callback.balance",),
        "sim-unwatched-topic": ("liveness.classic_partitions_owned",),
        "sim-waiting-commit": ("offsets.commit_of_owner",),
        "tied-assignor-votes": (
            "coordinator.epoch_cause",
            "liveness.converges",
            "liveness.partitions_owned",
        ),
    }
)
"""Issue -> ids of the properties that it violates."""


def suspects_of(
    semantics: Semantics, known_issues: Mapping[str, tuple[str, ...]] = KNOWN_ISSUES
) -> dict[str, tuple[str, ...]]:
    """Property id -> the known issues that may be why a run with these semantics violates it."""
    found: dict[str, tuple[str, ...]] = {}
    for issue, property_ids in known_issues.items():
        if issue in semantics.shipped_defects and issue not in semantics.defects:
            for property_id in property_ids:
                found[property_id] = (*found.get(property_id, ()), issue)
    return found


class IssuePage(NamedTuple):
    """A line about an issue, and its place in the documentation, relative to the checkout."""

    title: str
    page: str


def page_of(issue: str) -> IssuePage:
    """Where an issue is described: what somebody has reported among the defects, what this
    simulator has shown among the findings. Raises KeyError for an id that no defect has."""
    title = DEFECTS[issue].title
    if _REPORTED.match(issue):
        return IssuePage(title, f"docs/reference/defects.md#{_anchor(f'{issue}: {title}')}")
    return IssuePage(title, f"docs/findings.md#{_anchor(issue)}")


def every_issue() -> frozenset[str]:
    """Ids of all known issues, of whatever version."""
    return frozenset(issue for one in SEMANTICS.values() for issue in one.shipped_defects)


def _anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
