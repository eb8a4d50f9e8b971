"""Citations of docs/reference/: found in code, documentation and tests, and looked up.

The form is that of docs/reference/README.md: ``KEY ITEM``, an item being a heading or a row code.
Python is read by its comments and strings alone; a citation may be broken across their lines. A
code without a key is an error in comments, docstrings, documents, and sentences among the strings
of the packages; elsewhere it may be anybody's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "CLAUSE",
    "DOCUMENTS",
    "Document",
    "documents",
    "findings",
    "problems",
    "read_document",
    "sources",
]

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"

DOCUMENTS: Mapping[str, str] = {
    "coordinator": "consumer-group-coordinator.md",
    "client": "consumer-client.md",
    "franz": "franz-go.md",
    "classic": "classic-group-and-migration.md",
    "assignors": "assignors.md",
    "defects": "defects.md",
    "sweep": "spark-sweep.md",
    "transactions": "transactions.md",
}
"""KEY -> file name."""

_FORMER = "bug-zoo.md"
_FOLDERS = (
    *("benchmarks", "cli", "conformance", "docs", "examples", "experiments", "invariants"),
    *("notebooks", "protocol", "scenarios", "sim", "spark", "tests"),
)
_SUFFIXES = (".py", ".toml", ".md", ".ipynb")
_ABOUT_CITATIONS = ("docs/reference/README.md", "tests/docs/citations", "tests/docs/test_citations")

_KEY = rf"(?P<key>{'|'.join(DOCUMENTS)})"
_SECTION = r"§\d+(?:\.\d+)*"
_CODE = r"[A-Z]\d{1,2}(?!\w|\.\d)'?"
_ITEM = rf"(?:{_SECTION}|{_CODE}|Appendix [A-Z]\b)"
_ROWS = r"(?P<rows>,\s+rows? \d+[a-z]?(?:(?:, | and | to )\d+[a-z]?)*)?"
_CITATION = re.compile(rf"\b{_KEY}\s+(?P<items>{_ITEM}(?:(?:,\s+|-){_ITEM})*){_ROWS}")

CLAUSE = re.compile(rf"{_KEY} {_ITEM}(?:, row \d+)?")
"""What a property cites of the reference: one item."""

_BARE_SECTION = re.compile(r"§\s*\d+(?:\.\d+)*|\b[Ss]ections?\s+\d+(?:\.\d+)?")
# S3 is a store, and no row of a document.
_BARE_CODE = re.compile(rf"(?<![\w.§/+'-])(?!S3\b){_CODE}(?![\w(=])")
_NAME = re.compile(rf"(?P<before>[\w./-]*)\b({'|'.join([*DOCUMENTS.values(), _FORMER])})")
_FINDING = re.compile(r"findings\.md#([\w-]+)")
_QUOTED = re.compile(r"(?<!\")\"[^\"\s]{1,12}\"(?!\")|'[A-Z]\d'")
_ID = re.compile(rf"`{_CODE}`|\[{_CODE}\]\([^)\n]*#[^)\n]*\)|^### {_CODE}$", re.M)
_TOKEN = re.compile(
    r"(?P<comment>#[^\n]*)|(?:\b[rRbBfFuU]{1,2})?(?P<string>"
    r'"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*\'\'\''
    r'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')',
    re.S,
)
_CONTINUED = re.compile(r"(?m)^([ \t]*)#:?")


@dataclass(frozen=True)
class Document:
    """What can be cited: headings, rows by code, and numbered rows by heading."""

    sections: frozenset[str]
    codes: frozenset[str]
    rows: Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class _Piece:
    """Text to be read at one go, and the offset in its file at which it begins."""

    start: int
    text: str
    is_prose: bool


def read_document(text: str) -> Document:
    """The headings and rows of a document."""
    codes: set[str] = set()
    rows: dict[str, set[str]] = {}
    heading = ""
    for line in text.split("\n"):
        if match := re.match(r"#+ (?:Appendix )?(\d+(?:\.\d+)*|[A-Z](?=[.:]))", line):
            heading = match[1]
            rows[heading] = set()
        elif match := re.match(
            rf"(?:\|\s*|[-*] |\*\*)(?:\*\*|`)*(?P<code>{_CODE})(?=[\s,|:*`(])", line
        ):
            codes.add(match["code"])
        elif heading and (match := re.match(r"\|\s*(\d+[a-z]?)\s*\|", line)):
            rows[heading].add(match[1])
    return Document(
        frozenset(rows), frozenset(codes), {name: frozenset(found) for name, found in rows.items()}
    )


@cache
def documents() -> Mapping[str, Document]:
    """The documents of docs/reference/ by key."""
    return {
        key: read_document((REFERENCE / name).read_text(encoding="utf-8"))
        for key, name in DOCUMENTS.items()
    }


@cache
def findings() -> frozenset[str]:
    """The anchors of docs/findings.md."""
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    names = re.findall(r"(?m)^### (.+)$", text)
    return frozenset(re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-") for name in names)


@cache
def _all_codes() -> frozenset[str]:
    return frozenset().union(*(document.codes for document in documents().values()))


def sources() -> Iterator[Path]:
    """Every file that may cite."""
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            place = path.relative_to(ROOT).as_posix()
            if path.suffix in _SUFFIXES and not place.startswith(_ABOUT_CITATIONS):
                yield path
    yield from sorted(p for p in ROOT.glob("*") if p.suffix in _SUFFIXES)
    yield from sorted((ROOT / "rebalance_sim").glob("*.py"))


def problems(name: str, source: str) -> list[str]:
    """What is wrong with the citations of a file, each as ``file:line: what``."""
    own = next((key for key, file in DOCUMENTS.items() if name.endswith(f"reference/{file}")), "")
    found: list[tuple[int, str]] = []
    for piece in _pieces(name, source):
        for offset, what in _in_text(piece.text, is_prose=piece.is_prose, own=own):
            found.append((source.count("\n", 0, piece.start + offset) + 1, what))
    return [f"{name}:{line}: {what}" for line, what in sorted(found)]


def _pieces(name: str, source: str) -> Iterator[_Piece]:
    if name.endswith(".py"):
        yield from _python(source, is_test=name.startswith("tests/"))
    elif name.endswith(".toml"):
        yield from (_Piece(m.start(), m[0], True) for m in re.finditer(r"(?m)(?:^#.*\n?)+", source))
        yield from (_Piece(m.start(), m[0], False) for m in re.finditer(r'"[^"\n]*"', source))
    elif name.endswith(".ipynb"):
        cells = [cell for cell in json.loads(source)["cells"] if cell["cell_type"] == "markdown"]
        yield from (_Piece(0, "".join(cell["source"]), True) for cell in cells)
    else:
        unfenced = re.sub(r"(?ms)^```.*?^```", lambda m: re.sub(r"[^\n]", " ", m[0]), source)
        yield _Piece(0, unfenced, True)


def _python(source: str, *, is_test: bool) -> Iterator[_Piece]:
    comments: list[re.Match[str]] = []
    for match in _TOKEN.finditer(source):
        begin = source.rfind("\n", 0, match.start()) + 1
        is_alone = not source[begin : match.start()].strip()
        if match["comment"] is not None:
            if comments and not (is_alone and comments[-1].end() + 1 == begin):
                yield _comment(source, comments)
                comments = []
            comments.append(match)
            continue
        is_docstring = is_alone and match["string"].startswith('"""')
        is_sentence = not is_test and " " in match[0]
        yield _Piece(match.start(), match[0], is_docstring or is_sentence)
    if comments:
        yield _comment(source, comments)


def _comment(source: str, lines: list[re.Match[str]]) -> _Piece:
    start = lines[0].start()
    text = source[start : lines[-1].end()]
    return _Piece(start, _CONTINUED.sub(lambda m: " " * len(m[0]), text), True)


def _in_text(text: str, *, is_prose: bool, own: str) -> Iterator[tuple[int, str]]:
    """(offset, what is wrong)."""
    rest = list(text)
    for match in _CITATION.finditer(text):
        rest[match.start() : match.end()] = _blank(match)
        for what in _unresolved(match["key"], match["items"], match["rows"] or ""):
            yield match.start(), what
    bare = "".join(rest)
    for match in _BARE_SECTION.finditer(bare):
        if not own:
            yield match.start(), f"no document named: {match[0]}"
        elif match[0].startswith("§"):
            yield from ((match.start(), w) for w in _unresolved(own, match[0].replace(" ", ""), ""))
    for match in _FINDING.finditer(text):
        if match[1] not in findings():
            yield match.start(), f"docs/findings.md has no {match[1]}"
    for match in _NAME.finditer(bare):
        if match[2] == _FORMER:
            yield match.start(), f"no such document: {match[2]}"
        elif not match["before"].endswith("reference/") and not own:
            yield match.start(), f"bare document name: {match[2]}"
    if is_prose and not own:
        for match in _BARE_CODE.finditer(_ID.sub(_without_findings, _QUOTED.sub(_blank, bare))):
            if match[0] in _all_codes():
                yield match.start(), f"no document named: {match[0]}"


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _without_findings(match: re.Match[str]) -> str:
    """Some findings have a code for an id; they are named as code, in links and in headings."""
    code = re.search(_CODE, match[0])
    return _blank(match) if code and code[0].lower() in findings() else match[0]


def _unresolved(key: str, items: str, rows: str) -> Iterator[str]:
    document = documents()[key]
    for first, last in _spans(items):
        for item in _between(first, last):
            name = item.removeprefix("§").removeprefix("Appendix ")
            known = document.codes if re.match(r"[A-Z]\d", item) else document.sections
            if name not in known:
                yield f"{DOCUMENTS[key]} has no {item}"
    numbers = re.findall(r"\d+[a-z]?", rows)
    table = document.rows.get(last.removeprefix("§"), frozenset())
    yield from (f"{DOCUMENTS[key]} {last} has no row {n}" for n in numbers if n not in table)


def _spans(items: str) -> Iterator[tuple[str, str]]:
    """``§1, C1-C3`` as (first, last) of each entry."""
    for entry in re.split(r",\s+", items):
        first, _, last = entry.partition("-")
        yield first, last or first


def _between(first: str, last: str) -> Iterator[str]:
    """All codes from the first to the last; of headings those two."""
    if first == last:
        yield first
    elif first[0] == last[0] != "§":
        start, end = int(first[1:].rstrip("'")), int(last[1:].rstrip("'"))
        if start >= end:
            yield f"range {first}-{last}"
        yield from (f"{first[0]}{number}" for number in range(start, end + 1))
    elif first[0] == last[0]:
        yield from (first, last)
    else:
        yield f"range {first}-{last}"
