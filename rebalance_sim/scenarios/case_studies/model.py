"""The walk-throughs of KIP-848, chapter "Case Studies", as values.

A case study is a state of a group and a list of steps; a step is one action and the coordinator's
state after it. Partitions are written as the chapter writes them: ``foo-0``. Where the chapter
disagrees with itself about the moment at which a released partition passes to its next owner, a
step holds both readings (``Promotion``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib.resources import files
from typing import Any

from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean

CASE_STUDIES = (
    "basic",
    "incremental_revocation_assignment",
    "member_failure",
    "partition_added",
    "online_migration",
)
"""Names of the case studies of the accepted text, in the chapter's order."""

DRAFT = "basic_of_the_draft"
"""The case study of an early draft, whose members wait at their epoch (``draft``)."""


class Promotion(Enum):
    """When a partition that its former owner has released becomes its next owner's."""

    EAGER = "eager"  # with the release; the next heartbeat only delivers it (the text's majority)
    LAZY = "lazy"  # with the receiver's next heartbeat, as Apache Kafka does


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """What the coordinator has granted to a member, and what it still has to wait for."""

    epoch: int
    partitions: frozenset[str]
    pending: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseState:
    """A group as its coordinator holds it.

    ``is_classic``: it is a classic group, whose epoch is its generation, and whose target is what
    its members have. ``classic_members`` are those that speak the classic protocol, with the
    chapter's state of each.
    """

    group_epoch: int
    members: frozenset[str]
    target_epoch: int
    target: Mapping[str, frozenset[str]]
    current: Mapping[str, Current]
    is_classic: bool = False
    classic_members: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResponse:
    """What a member learns. ``revoke`` is the part of its partitions missing in ``assigned``.

    A classic member learns one thing at a time: a JoinGroup is answered with its ``epoch``, a
    SyncGroup with what is ``assigned``, a heartbeat with an ``error``. The rest is None then.
    """

    epoch: int | None = None
    assigned: frozenset[str] | None = None
    revoke: frozenset[str] | None = None
    pending: frozenset[str] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseStep:
    """One action. ``member`` or ``topic`` says whose; ``total`` is a topic's new size, ``owned``
    what a classic member says that it owns as it rejoins. In the draft a heartbeat says its epoch
    and what it owns."""

    number: int
    action: str
    member: str = ""
    topic: str = ""
    total: int = 0
    owned: tuple[str, ...] = ()
    epoch: int | None = None
    narrative: str
    note: str = ""
    response: CaseResponse | None = None
    eager: CaseState
    lazy: CaseState

    def expect(self, promotion: Promotion) -> CaseState:
        """The state after this step under the given reading."""
        return self.eager if promotion is Promotion.EAGER else self.lazy


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseStudy:
    """A walk-through. ``topics`` maps each topic to its number of partitions at the start."""

    name: str
    title: str
    source: str
    topics: Mapping[str, int]
    initial: CaseState
    steps: tuple[CaseStep, ...]


def load_case_study(name: str) -> CaseStudy:
    """The case study of this name. Raises ScenarioError if there is none."""
    names = (*CASE_STUDIES, DRAFT)
    if name not in names:
        raise ScenarioError(f"no case study {name!r}; {did_you_mean(name, names)}")
    text = (files("rebalance_sim.scenarios.case_studies") / f"{name}.json").read_text(
        encoding="utf-8"
    )
    data = json.loads(text)
    return CaseStudy(
        name=data["name"],
        title=data["title"],
        source=data["source"],
        topics=data["topics"],
        initial=_state(data["initial"]),
        steps=tuple(_step(number, row) for number, row in enumerate(data["steps"], start=1)),
    )


def _step(number: int, row: dict[str, Any]) -> CaseStep:
    action = dict(row["action"])
    action.pop("count", None)
    eager = _state(row["expect"])
    reported = row.get("response")
    return CaseStep(
        number=number,
        action=action.pop("type"),
        narrative=row["narrative"],
        note=row.get("source_inconsistency", row.get("derived", "")),
        response=None if reported is None else _response(reported),
        owned=tuple(action.pop("owned", ())),
        eager=eager,
        lazy=_with_current(eager, row.get("lazy_promotion_current", {})),
        **action,
    )


def _state(row: dict[str, Any]) -> CaseState:
    return CaseState(
        group_epoch=row["group"]["epoch"],
        members=frozenset(row["group"]["members"]),
        target_epoch=row["target"]["epoch"],
        target={m: frozenset(ps) for m, ps in row["target"]["members"].items()},
        current={m: _current(current) for m, current in row["current"].items()},
        is_classic=row["group"]["type"] == "classic",
        classic_members={
            m: member["state"]
            for m, member in row["group"]["members"].items()
            if member["protocol"] == "classic"
        },
    )


def _current(row: dict[str, Any]) -> Current:
    return Current(
        epoch=row["epoch"],
        partitions=frozenset(row["partitions"]),
        pending=frozenset(row["pending"]),
    )


def _with_current(state: CaseState, replaced: dict[str, Any]) -> CaseState:
    rows = {member: _current(row) for member, row in replaced.items()}
    return replace(state, current={**state.current, **rows})


def _response(row: dict[str, Any]) -> CaseResponse:
    named = {
        name: frozenset(row[name]) for name in ("assigned", "revoke", "pending") if name in row
    }
    return CaseResponse(epoch=row.get("epoch"), error=row.get("error"), **named)
