"""What the project's pages show: commands with their output, code, links and headings.

A fenced block ``console`` holds commands, each after ``$ ``, with what they print. A line may go on
after a backslash. A comment ``# exit 1: why`` names the exit code, else it is 0. In the output
``...`` stands for anything, alone for any lines. A block ``python`` is a program of its own.

After the language a word for the tests may follow, which readers do not see: ``slow`` (run with the
slow tests only), ``parse`` (not run, but it has to be well-formed), or the name of the file that a
reader is asked to put the block into.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("conformance/**/*.md")],
        key=lambda page: page.relative_to(ROOT).as_posix(),
    )
)

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.M | re.S)
_INLINE = re.compile(r"(?<!`)`(rebalance-sim [^`\n]+)`(?!`)")
_EXIT = re.compile(r"\s#\s*exit (\d+)\b")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the word for the tests, and its text."""

    page: Path
    line: int
    language: str
    mode: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command as a page shows it, with the lines that it is said to print."""

    line: int
    words: str
    exit_code: int
    output: tuple[str, ...]
    mode: str


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        language, _, mode = match["info"].strip().partition(" ")
        line = text.count("\n", 0, match.start()) + 2
        yield Block(page, line, language, mode, match["text"])


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block. Raises ValueError for one that begins with output."""
    chunks = re.split(r"^\$ ", block.text, flags=re.M)
    if chunks[0].strip():
        raise ValueError(f"{block.page.name}:{block.line}: begins with no command: {chunks[0]!r}")
    line = block.line
    for chunk in chunks[1:]:
        words, _, output = re.sub(r"\\\n\s*", "", chunk).partition("\n")
        code = _EXIT.search(words)
        yield Command(
            line=line,
            words=words.strip(),
            exit_code=int(code[1]) if code else 0,
            output=tuple(output.splitlines()),
            mode=block.mode,
        )
        line += chunk.count("\n")


def inline_commands(page: Path) -> Iterator[str]:
    """The commands in the running text of a page that name more than a sub-command."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    yield from (words for words in _INLINE.findall(text) if len(words.split()) > 2)


def missing_line(shown: Sequence[str], printed: str) -> str | None:
    """The first line shown that was not printed after the ones before it; None if all were.

    Hashes and digests have to be the ones that are shown. A page has ``...`` for the version of the
    code, which every commit changes.
    """
    lines = [line.rstrip() for line in printed.splitlines()]
    position = 0
    for line in shown:
        if line.strip() in ("", "..."):
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in line.rstrip().split("...")))
        found = next((i for i in range(position, len(lines)) if pattern.fullmatch(lines[i])), None)
        if found is None:
            return line
        position = found + 1
    return None


def links(page: Path) -> list[str]:
    """The targets of a page's links, code left out."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", text))


def anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    found: list[str] = []
    seen: Counter[str] = Counter()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", text, re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(found)
