"""Every citation of the reference names a heading or a row that is there, and none stands alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from citations import CLAUSE, DOCUMENTS, documents, findings, problems, read_document, sources

from docs.generate import property_page
from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.scenarios.defects import DEFECTS

ROOT = Path(__file__).parents[2]


def test_every_citation_resolves_and_none_is_bare() -> None:
    found = [
        problem
        for path in sources()
        for problem in problems(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_the_files_that_cite_are_read() -> None:
    """A search that finds no files, or no citations, finds no faults either."""
    texts = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in sources()}
    assert {"README.md", "docs/findings.md", "docs/reference/defects.md"} <= texts.keys()
    assert {"protocol", "invariants", "sim", "scenarios", "tests"} <= {
        n.split("/")[0] for n in texts
    }
    cited = "|".join(DOCUMENTS)
    assert sum(len(re.findall(rf"\b(?:{cited}) §", text)) for text in texts.values()) > 500


def test_an_error_is_found_in_any_real_file() -> None:
    """Break the first citation of each file that has one: the file is reported, with the line."""
    broken = 0
    for path in sources():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        match = re.search(r"\b(coordinator|client|classic) §\d+(\.\d+)?", text)
        if match is None or path.suffix == ".ipynb" or "```" in text:
            continue
        broken += 1
        line = text.count("\n", 0, match.start()) + 1
        wrong = f"{text[: match.end()]}.99{text[match.end() :]}"
        assert any(p.startswith(f"{name}:{line}: ") for p in problems(name, wrong)), name
    assert broken > 200


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.py",
            '"""Source: coordinator §2.99."""\n',
            "a.py:1: consumer-group-coordinator.md has no §2.99",
        ),
        ("a.py", '"""A.\n\nSee client C1-C99."""\n', "a.py:3: consumer-client.md has no C29"),
        (
            "a.py",
            "x = 1  # coordinator H10, H99\n",
            "a.py:1: consumer-group-coordinator.md has no H99",
        ),
        ("a.py", 'x = ("classic C16",)\n', "a.py:1: classic-group-and-migration.md has no C16"),
        (
            "a.py",
            "# a (coordinator\n# §2.4, §2.99)\n",
            "a.py:1: consumer-group-coordinator.md has no §2.99",
        ),
        (
            "a.py",
            "# coordinator §13, row 99\n",
            "a.py:1: consumer-group-coordinator.md §13 has no row 99",
        ),
        ("a.py", "# client Appendix Z\n", "a.py:1: consumer-client.md has no Appendix Z"),
        ("a.py", "# client C9-C3\n", "a.py:1: consumer-client.md has no range C9-C3"),
        ("a.py", "# client C9-O3\n", "a.py:1: consumer-client.md has no range C9-O3"),
        ("a.py", '\n"""C7: held."""\n', "a.py:2: no document named: C7"),
        ("a.py", "# -- H4, who is it ---\n", "a.py:1: no document named: H4"),
        ("a.py", "# coordinator C1 (and C2)\n", "a.py:1: no document named: C2"),
        ("a.py", 'x = "what D12 means"\n', "a.py:1: no document named: D12"),
        ("a.py", '"""See section 4.2."""\n', "a.py:1: no document named: section 4.2"),
        ("a.py", '"""See\n§4.2."""\n', "a.py:2: no document named: §4.2"),
        (
            "a.py",
            '"""Source: consumer-client.md."""\n',
            "a.py:1: bare document name: consumer-client.md",
        ),
        ("a.py", "# docs/reference/bug-zoo.md\n", "a.py:1: no such document: bug-zoo.md"),
        ("a.py", "# docs/findings.md#nothing\n", "a.py:1: docs/findings.md has no nothing"),
        ("tests/a.py", "def f() -> None:\n    # C7 holds\n", "tests/a.py:2: no document named: C7"),
        ("a.md", "One\n\nof `C7` and more\n", "a.md:3: no document named: C7"),
        ("a.md", "| zoo S4 | x |\n", "a.md:1: no document named: S4"),
        ("a.md", "```\nC7\n```\nsweep §99\n", "a.md:4: spark-sweep.md has no §99"),
        ("a.toml", '# as S4 says\nx = "y"\n', "a.toml:1: no document named: S4"),
        ("a.toml", 'x = 1\nproperties = ["defects S99"]\n', "a.toml:2: defects.md has no S99"),
        (
            "a.ipynb",
            '{"cells": [{"cell_type": "markdown", "source": ["by C7"]}]}',
            "a.ipynb:1: no document named: C7",
        ),
        (
            "docs/reference/defects.md",
            "\nas §99 says\n",
            "docs/reference/defects.md:2: defects.md has no §99",
        ),
    ],
)
def test_a_bad_citation_is_reported_with_its_place(name: str, text: str, expected: str) -> None:
    assert expected in problems(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.py",
            '"""Source: coordinator §2.4, §2.8; classic §7.7, H3-H5. On 4.3 there is more."""\n',
        ),
        ("a.py", "# (coordinator §13, rows 11 and 12)\n"),
        ("a.py", "# client §7, §8, Appendix B; client R9'\n"),
        ("a.py", '"""Asked of KAFKA-19233, KIP-848 and RE2 (docs/reference/defects.md)."""\n'),
        ("a.py", '# ids: "A2" comes before "B2"\n'),
        ("a.py", 'x = section("Outcomes", C7)\n'),
        ("tests/a.py", 'bench.join("A2", "fenced by member A2")\n'),
        ("a.md", "the finding `D12`, at [D12](#d12), cites coordinator D12\n\n### D12\n"),
        ("a.md", "[the coordinator](reference/consumer-group-coordinator.md)\n"),
        ("a.toml", 'defects = ["C7"]\n'),
        ("docs/reference/defects.md", "as S4 and §3 say\n"),
    ],
)
def test_a_good_one_is_not(name: str, text: str) -> None:
    assert problems(name, text) == []


def test_a_document_is_known_by_its_headings_and_the_rows_that_begin_with_a_code() -> None:
    document = read_document(
        "# Title\n## 1. One\n### 1.2 Two\n| C1 | a, see C2 |\n| **C3** | b |\n- C4: c\nC5 also\n"
        "| 7 | d |\n**R1, range.** e\n| `C6` x | f |\n## Appendix A. g\n| C7, C8 | h |\nsee C9\n"
    )
    assert document.sections == {"1", "1.2", "A"}
    assert document.codes == {"C1", "C3", "C4", "C6", "C7", "R1"}
    assert document.rows["1.2"] == {"7"}


def test_all_documents_are_there() -> None:
    assert all(document.sections for document in documents().values())
    assert "sim-late-answer" in findings()


def test_what_a_property_cites_is_one_item_of_the_reference() -> None:
    model = (ROOT / "docs" / "reference" / DOCUMENTS["client"]).read_text(encoding="utf-8")
    for clause in [
        *property_page.COVERED_BY_OTHERS,
        *(c for item in PROPERTIES for c in item.clauses),
    ]:
        if clause.startswith("TLA+ "):
            assert f"\n| {clause.removeprefix('TLA+ ')} |" in model, clause
        else:
            assert CLAUSE.fullmatch(clause) or re.fullmatch(r'KIP-\d+, ".+"', clause), clause


def test_what_a_defect_breaks_is_what_a_property_cites() -> None:
    cited = {*property_page.COVERED_BY_OTHERS, *(c for item in PROPERTIES for c in item.clauses)}
    for defect in DEFECTS.values():
        assert set(defect.properties) <= cited, defect.id
