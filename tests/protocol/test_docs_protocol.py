"""The generated parts of the documentation agree with the code."""

from __future__ import annotations

import pytest

from docs.generate import PAGES, regenerate, transition_diagram, transition_table
from rebalance_sim.protocol.consumer.reconciliation import TRANSITIONS, Effect


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_as_it_would_be_written_anew(page: object) -> None:
    text = page.read_text(encoding="utf-8")  # type: ignore[attr-defined]
    assert regenerate(text) == text, "run: python docs/generate.py"


def test_what_stands_in_a_generated_part_is_replaced() -> None:
    stale = "before\n<!-- generated: transition-table -->\nold\n<!-- end -->\nafter\n"
    fresh = regenerate(stale)
    assert "old" not in fresh
    assert fresh.startswith("before\n<!-- generated: transition-table -->\n| state |")
    assert fresh.endswith("<!-- end -->\nafter\n")
    assert regenerate(fresh) == fresh


def test_a_part_that_no_one_generates_is_an_error() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        regenerate("<!-- generated: nonsense -->\n<!-- end -->")


def test_table_and_diagram_show_every_transition() -> None:
    assert len(transition_table().splitlines()) == 2 + len(TRANSITIONS)
    changing = [t for t in TRANSITIONS.values() if t.effect is not Effect.NOTHING]
    arrows = [line for line in transition_diagram().splitlines() if "-->" in line]
    assert len(arrows) == 1 + len(changing)
