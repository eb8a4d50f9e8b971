"""Apache Kafka's own unit tests, restated as facts, hold for the model.

A row that is explained must fail, for the reason that stands beside it: a row that begins to pass
is reported, and its explanation goes.
"""

from __future__ import annotations

import importlib
from collections import Counter

import pytest
from peer import BOOK, Case, row_files

ROWS_AT_LEAST = {
    "assignors_client": 79,
    "assignors_racks": 129,
    "assignors_server": 35,
    "current_assignment_builder": 47,
    "group_classic": 176,
    "group_consumer": 88,
    "group_counts": 60,
    "group_interval": 22,
    "group_later": 5,
    "group_migration": 87,
    "group_regex": 9,
    "member_classic": 70,
    "member_fetching": 19,
    "member_heartbeats": 25,
    "member_side": 80,
    "migration_static": 12,
    "offsets": 92,
    "offsets_topic_ids": 7,
}


def cases_of_files() -> dict[str, list[Case]]:
    """By the file that holds a row, as some files use helpers of others."""
    names = row_files()
    for name in names:
        importlib.import_module(name)
    return {name: [c for c in BOOK.cases if c.run.__module__ == name] for name in names}


CASES = cases_of_files()


def parameter(case: Case):
    why = BOOK.explained.get(case.name)
    marks = (
        [] if why is None else [pytest.mark.xfail(strict=True, raises=AssertionError, reason=why)]
    )
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", [parameter(case) for case in BOOK.cases])
def test_what_kafkas_test_expects(case: Case) -> None:
    case.run()


def test_no_row_is_missing() -> None:
    assert {name: len(CASES[name]) >= n for name, n in ROWS_AT_LEAST.items()} == dict.fromkeys(
        ROWS_AT_LEAST, True
    )


def test_every_name_is_one_case_and_every_explanation_has_its_case() -> None:
    names = Counter(case.name for case in BOOK.cases)
    assert [name for name, n in names.items() if n > 1] == []
    assert set(BOOK.explained) <= set(names)
