"""Mutants of the package: one expression changed or one statement dropped, never on disk.

A mutant is found in the text of a file and named by its function, its statement and what is
changed, so that its name outlives edits elsewhere. It is put into a process that has not imported
the package yet: an import hook compiles the one changed text. The same hook compiles files in which
every statement that could be changed notes that it was reached; a mutant of a statement that a run
does not reach cannot change that run.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

__all__ = ["Mutant", "find_mutants", "install", "noting_reached"]

LEFT_OUT = (
    *("defect", "describe", "__init__", "messages", "records", "errors", "interface", "events"),
    *("effects", "values", "kip_848", "client_side", "computation", "computing"),
    *("assignment_requests", "names", "config", "semantics", "shard.py"),
)
"""Words of paths that are left out: values without behaviour, tables, defects, what is only shown,
and what no profile of the plan uses: assignors of members."""

_FLIPPED = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_ERRORS = (
    *("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "ILLEGAL_GENERATION"),
    *("REBALANCE_IN_PROGRESS", "FENCED_INSTANCE_ID", "COORDINATOR_NOT_AVAILABLE"),
    "NOT_COORDINATOR",
)
_NOTED = "__reached__"
_SHOWN = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one file. ``start`` and ``end`` are byte offsets of what ``new`` replaces.

    ``place`` (path and function), ``code`` (first line of the statement) and ``change`` name it.
    """

    path: str
    function: str
    line: int
    statement: int  # line of the innermost statement around it
    code: str
    change: str
    start: int
    end: int
    new: str

    @property
    def place(self) -> str:
        return f"{self.path}:{self.function}"

    def mutate(self, source: bytes) -> bytes:
        """The changed text of the file."""
        return source[: self.start] + self.new.encode() + source[self.end :]


# -- finding -------------------------------------------------------------------------------------


def find_mutants(checkout: Path, within: Iterable[str], rng: random.Random) -> list[Mutant]:
    """Every mutant of the files below these paths, in order; those that do not compile are not.

    In a path ``*`` stands for any part of a name. Raises FileNotFoundError if there is none."""
    found: list[Mutant] = []
    for root in within:
        places = [checkout] if root == "." else sorted(checkout.glob(root))
        if not places:
            raise FileNotFoundError(root)
        for path in (file for place in places for file in _files(place)):
            name = path.relative_to(checkout).as_posix()
            if not any(word in name for word in LEFT_OUT):
                found += _File(name, path.read_bytes()).mutants(rng)
    return found


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


class _File:
    """The text of a file, and where its nodes stand in it."""

    def __init__(self, name: str, data: bytes) -> None:
        self._name = name
        self._data = data
        self._lines = data.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def mutants(self, rng: random.Random) -> Iterator[Mutant]:
        node: Any
        for function, statement, node in _nodes(ast.parse(self._data)):
            for kind, start, end, new, what in self._changes(node, rng):
                mutant = Mutant(
                    path=self._name,
                    function=function,
                    line=node.lineno,
                    statement=statement.lineno,
                    code=self._lines[statement.lineno - 1].decode().strip(),
                    change=f"{kind}: {what}",
                    start=start,
                    end=end,
                    new=new,
                )
                try:
                    compile(mutant.mutate(self._data), self._name, "exec")
                except SyntaxError:
                    continue
                yield mutant

    def _changes(self, node: Any, rng: random.Random) -> Iterator[tuple[str, int, int, str, str]]:
        """Kind, offsets, new text and description of each change of a node."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            old, new = _FLIPPED[type(node.ops[0])]
            start, end = self._span(node.left)[1], self._span(node.comparators[0])[0]
            middle = self._text(start, end)
            if old in middle:
                changed = middle.replace(old, new, 1)
                yield "compare", start, end, changed, f"{self._shown(node)}: {old} -> {new}"
        elif isinstance(node, ast.BoolOp):
            start, end = self._span(node.values[0])[1], self._span(node.values[1])[0]
            middle = self._text(start, end)
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            if old in middle.split():
                changed = middle.replace(old, new, 1)
                yield "bool", start, end, changed, f"{self._shown(node)}: {old} -> {new}"
        elif isinstance(node, ast.BinOp):
            is_one = isinstance(node.right, ast.Constant) and node.right.value == 1
            if is_one and isinstance(node.op, ast.Add | ast.Sub):
                yield "off by one", *self._span(node.right), "0", f"{self._shown(node)}: 1 -> 0"
        elif isinstance(node, ast.Attribute):
            is_code = isinstance(node.value, ast.Name) and node.value.id == "ErrorCode"
            if is_code and node.attr in _ERRORS:
                other = rng.choice([error for error in _ERRORS if error != node.attr])
                yield (
                    "error code",
                    *self._span(node),
                    f"ErrorCode.{other}",
                    f"{node.attr} -> {other}",
                )
        elif isinstance(node, ast.If):
            is_guard = len(node.body) == 1 and isinstance(
                node.body[0], ast.Raise | ast.Return | ast.Continue
            )
            if is_guard and not node.orelse:
                what = f"if {self._shown(node.test)}"
                yield "guard off", *self._span(node.test), "False", what
        elif _is_effect(node):
            yield "drop", *self._span(node), "pass", self._shown(node)

    def _span(self, node: Any) -> tuple[int, int]:
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _text(self, start: int, end: int) -> str:
        return self._data[start:end].decode()

    def _shown(self, node: Any) -> str:
        return " ".join(self._text(*self._span(node)).split())[:_SHOWN]


def _is_effect(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    return isinstance(node, ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    )


def _nodes(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
    """Every node inside a function, once, with the function and the innermost statement."""

    def visit(
        node: ast.AST, scope: tuple[str, ...], function: str, statement: ast.stmt | None
    ) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
        if isinstance(node, ast.stmt):
            statement = node
        if function and statement is not None and hasattr(node, "lineno"):
            yield function, statement, node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            for child in ast.iter_child_nodes(node):
                yield from visit(child, scope, function, statement)
        elif isinstance(node, ast.ClassDef) or not node.name.startswith("__"):
            # Decorators and defaults are no part of the function: they run on import.
            name = (*scope, node.name)
            inner = function if isinstance(node, ast.ClassDef) else ".".join(name)
            for part in node.body:
                yield from visit(part, name, inner, part)

    return visit(tree, (), "", None)


# -- putting it in -------------------------------------------------------------------------------


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a given tree or text instead of the file."""

    def __init__(self, name: str, path: str, source: ast.Module | bytes) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._source, self.path, "exec")
        return code


class _Finder(MetaPathFinder):
    """Finds modules by path as ever, but gives some of them another source."""

    def __init__(self, sources: Mapping[Path, ast.Module | bytes]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("rebalance_sim."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            source = self._sources.get(Path(spec.origin).resolve())
            if source is not None:
                spec.loader = _Loader(fullname, spec.origin, source)
        return spec


def install(sources: Mapping[Path, ast.Module | bytes]) -> None:
    """From now on these files (resolved) are imported with these sources."""
    if any(name.startswith("rebalance_sim.") for name in sys.modules):
        raise RuntimeError("the package is imported already: install mutants before")
    sys.meta_path.insert(0, _Finder(sources))


def noting_reached(
    checkout: Path, mutants: Iterable[Mutant]
) -> tuple[dict[Path, ast.Module | bytes], set[tuple[str, int]]]:
    """Sources in which the statements of these mutants note that they are reached; and the set in
    which they do, as (path, line). Function bodies alone: what stands elsewhere runs on import."""
    reached: set[tuple[str, int]] = set()
    setattr(builtins, _NOTED, reached)
    lines: dict[str, set[int]] = {}
    for mutant in mutants:
        lines.setdefault(mutant.path, set()).add(mutant.statement)
    sources: dict[Path, ast.Module | bytes] = {}
    for name, wanted in lines.items():
        path = (checkout / name).resolve()
        tree = _Noting(name, wanted).visit(ast.parse(path.read_bytes()))
        sources[path] = ast.fix_missing_locations(tree)
    return sources, reached


class _Noting(ast.NodeTransformer):
    def __init__(self, name: str, lines: set[int]) -> None:
        self._name = name
        self._lines = lines
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if self._depth and isinstance(block, list):
                setattr(node, field, list(self._noted(block)))
        return node

    def _noted(self, block: list[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in block:
            if statement.lineno in self._lines:
                [note] = ast.parse(f"{_NOTED}.add(({self._name!r}, {statement.lineno}))").body
                yield ast.copy_location(note, statement)
            yield statement
