"""An explanation holds for its own subject, and within its interval, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_sim.invariants.explanation import (
    THE_GROUP,
    Explanation,
    Seen,
    Subject,
    subjects_of,
)
from rebalance_sim.invariants.known.known_issues import KNOWN_ISSUES, explain
from rebalance_sim.invariants.property import Finding
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.topics import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOST = Seen(
    subject=Subject(member="m", partition=P0), step=10, at_ms=100, what="it was lost", until_step=20
)


@pytest.mark.parametrize(
    ("subject", "step", "holds"),
    [
        (Subject(member="m", partition=P0), 10, True),
        (Subject(client="a", member="m", partition=P0), 20, True),
        (Subject(member="n", partition=P0), 15, False),
        (Subject(member="m", partition=P1), 15, False),
        (Subject(member="m"), 15, False),
        (THE_GROUP, 15, False),
        (Subject(member="m", partition=P0), 9, False),
        (Subject(member="m", partition=P0), 21, False),
    ],
)
def test_a_cause_holds_for_its_subject_in_its_interval(
    subject: Subject, step: int, holds: bool
) -> None:
    assert LOST.holds(subject, step) is holds
    assert Explanation(issue="x", causes=(LOST,)).explains([subject], step) is holds


def test_what_is_about_the_group_is_about_everybody_in_it() -> None:
    everywhere = replace(LOST, subject=THE_GROUP)
    assert everywhere.holds(Subject(client="a", generation=3), 10)


def test_each_of_several_subjects_needs_a_cause_of_its_own_but_the_rightful_ones() -> None:
    both = [Subject(member="m", partition=P0), Subject(member="n", partition=P0)]
    explanation = Explanation(issue="x", causes=(LOST,))
    assert not explanation.explains(both, 15)
    assert explanation.explains(both, 15, rightful=1)
    assert not explanation.explains(both[1:], 15, rightful=1)
    assert not Explanation(issue="x", causes=()).explains(both, 15, rightful=2)


def test_evidence_says_who_it_is_about() -> None:
    assert subjects_of({}) == (THE_GROUP,)
    assert subjects_of({"client": "a", "partition": P0, "code": "X"}) == (
        Subject(client="a", partition=P0),
    )
    assert subjects_of({"subjects": (Subject(member="m"),), "client": "a"}) == (
        Subject(member="m"),
    )
    assert str(Subject(client="a", member="m")) == "client a, member m"
    assert str(THE_GROUP) == "the group"


LATE = Seen(subject=Subject(client="a"), step=10, at_ms=100, what="a took a late answer")


@pytest.mark.parametrize(
    ("client", "step", "seen", "issue"),
    [
        ("a", 12, LATE, "sim-late-answer"),
        ("b", 12, LATE, None),
        ("a", 9, LATE, None),
        ("a", 12, None, None),
        ("a", 12, True, None),
    ],
)
def test_a_violation_is_known_for_the_very_client_that_the_issue_befell(
    client: str, step: int, seen: object, issue: str | None
) -> None:
    finding = Finding("joins oddly", {"client": client, "took_late_answer": seen})
    found = explain(
        SEMANTICS["kafka-4.3"], "client.hb.join_shape", finding, step=step, at_ms=10 * step
    )
    assert (found and found.issue) == issue
    if found is not None:
        assert (found.first, found.about) == (LATE, "client a")


def test_every_issue_is_one_of_some_version_and_has_a_repair() -> None:
    """What could not be repaired could not be held against a run without it."""
    versions = [one for name, one in SEMANTICS.items() if not name.endswith("-clean")]
    shipped = {issue for semantics in versions for issue in semantics.shipped_defects}
    assert {entry.issue for entry in KNOWN_ISSUES} <= shipped <= DEFECTS.keys()
    for semantics in versions:
        assert all(semantics.can_repair(issue) for issue in semantics.shipped_defects)
        assert SEMANTICS[f"{semantics.name}-clean"].shipped_defects == ()
