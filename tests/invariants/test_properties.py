"""The properties: complete, consistent, and the source of docs/properties.md."""

from __future__ import annotations

import importlib
import re
import zipfile
from pathlib import Path

import pytest
from falsified_at_work import FALSIFIED

from docs.generate import property_page
from rebalance_sim.invariants.engine import discovery
from rebalance_sim.invariants.engine.discovery import (
    INVARIANTS,
    LIVENESS,
    PROPERTIES,
    find_properties,
)
from rebalance_sim.invariants.property import TRIGGERS, Kind, Property
from rebalance_sim.protocol.defects import DEFECTS

DOCS = Path(__file__).parents[2] / "docs" / "properties.md"

CLAUSES = (
    *(f"coordinator C{n}" for n in range(1, 26)),
    *(f"coordinator E{n}" for n in range(1, 5)),
    *(f"coordinator L{n}" for n in range(1, 6)),
    *(f"client C{n}" for n in range(1, 29)),
    *(f"client O{n}" for n in range(1, 7)),
    *(f"defects S{n}" for n in range(1, 10)),
    *(f"defects L{n}" for n in range(1, 9)),
    *(f"classic C{n}" for n in range(1, 16)),
    *(f"classic H{n}" for n in range(1, 14)),
    *("TLA+ TypeOK", "TLA+ LegalTargetAssignment", "TLA+ NoDoubleClientAssignment"),
    *("TLA+ ValidPartitionEpoch", "TLA+ ValidStableGroupState", "TLA+ ValidMemberEpoch"),
    *("TLA+ EventuallyConverges", "TLA+ ClientSideMemberEpochIsMonotonic"),
    "TLA+ GcSideMemberEpochIsMonotonic",
)
"""What the references state, and the model checks."""


def test_ids_are_unique_lower_case_and_dotted():
    """They are keys in results that are kept for months."""
    ids = [item.id for item in PROPERTIES]
    assert len(set(ids)) == len(ids)
    for one in ids:
        assert re.fullmatch(r"[a-z][a-z_]*(\.[a-z0-9_-]+)+", one), one


@pytest.mark.parametrize("clause", CLAUSES)
def test_every_clause_has_a_property_or_a_reason(clause):
    """Nothing that the references state is left out silently."""
    claimed = {c for spec in PROPERTIES for c in spec.clauses}
    assert clause in claimed or clause in property_page.COVERED_BY_OTHERS


def test_every_property_names_what_violates_it_and_that_exists():
    """An invariant that never fired on a planted bug has proved nothing."""
    mutants = {*DEFECTS, *FALSIFIED}
    for spec in (*INVARIANTS, *LIVENESS):
        assert spec.violated_by, spec.id
        assert set(spec.violated_by) <= mutants, spec.id


def test_every_falsified_world_serves_a_property():
    """None is kept that no one needs."""
    wanted = {name for spec in (*INVARIANTS, *LIVENESS) for name in spec.violated_by}
    assert set(FALSIFIED) <= wanted


def test_every_invariant_listens_to_something_and_every_trigger_has_a_listener():
    """A trigger that is misspelt would be a property that no one checks."""
    received = set()
    for kind in INVARIANTS:
        methods = {name for name in dir(kind) if name.startswith(("on_", "before_"))}
        assert methods
        assert methods <= set(TRIGGERS), kind.id
        received |= methods
    assert set(TRIGGERS) - received <= {"on_client_gone"}  # Only coverage counts crashes.


def test_the_documentation_is_made_from_the_properties():
    """Run ``python docs/generate.py`` after a change."""
    assert DOCS.read_text() == property_page.as_markdown()


MODULE = """
from rebalance_sim.invariants.property import Property, goal

class {name}(Property):
    id = "found.{name}"
    sentence = "It is found."

class Without(Property):
    pass

GOALS = (goal("found.goal_of_{name}", "It happened.", "counter"),)
"""


@pytest.fixture
def zipped(tmp_path, monkeypatch):
    """Two modules of properties in a package that is in a zip, as a wheel may be run."""
    path = tmp_path / "found.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("found_properties/__init__.py", "")
        archive.writestr("found_properties/inner/__init__.py", "")
        archive.writestr("found_properties/inner/a.py", MODULE.format(name="late"))
        archive.writestr("found_properties/inner/b.py", MODULE.format(name="early"))
    monkeypatch.syspath_prepend(path)
    return importlib.import_module("found_properties")


def test_properties_are_found_by_being_there_also_in_a_zip(zipped, monkeypatch):
    """Modules that ``ORDER`` names first; a base class is no property."""
    monkeypatch.setattr(discovery, "ORDER", ("found_properties.inner.b",))
    found = find_properties(zipped)
    assert [item.id for item in found] == [
        "found.early",
        "found.goal_of_early",
        "found.late",
        "found.goal_of_late",
    ]
    assert [item.kind for item in found[:2]] == [Kind.ALWAYS, Kind.SOMETIMES]


def test_every_kind_has_what_it_is_judged_by():
    """An invariant is asked at steps, a liveness property what is late, a goal has counters."""
    for item in PROPERTIES:
        assert bool(item.triggers()) == (item.kind is Kind.ALWAYS), item.id
        assert (item.late is not Property.late) == (item.kind is Kind.EVENTUALLY), item.id
        assert bool(item.counters) == (item.kind is Kind.SOMETIMES), item.id
