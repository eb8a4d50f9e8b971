"""What known issues are called, and where one reads about them."""

from __future__ import annotations

import re
from typing import NamedTuple

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import SEMANTICS

_REPORTED = re.compile(r"(KAFKA|PR|KIP|librdkafka)-\d+")


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
