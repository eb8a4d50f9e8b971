"""Who imports whom inside a layer, read from the sources: also where only type checkers look."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, frozenset[str]]
"""Node -> the nodes that it imports."""

PACKAGE = "rebalance_sim"


def files_of(root: Path, layer: str) -> dict[str, Path]:
    """Dotted name -> source of every module of a layer; a package goes by its own name."""
    found = {}
    for path in sorted((root / layer).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def graph_of_files(files: Mapping[str, Path]) -> Graph:
    """The imports between the modules of a layer."""
    return {
        name: frozenset(set(_imports(path.read_text(encoding="utf-8"), files)) - {name})
        for name, path in files.items()
    }


def graph_of_children(graph: Graph, folder: str) -> Graph:
    """The imports between the files and folders that lie directly in a folder."""
    depth = folder.count(".") + 2
    found: dict[str, set[str]] = {}
    for name, imported in graph.items():
        if name.startswith(f"{folder}."):
            child = _cut(name, depth)
            children = {_cut(other, depth) for other in imported if other.startswith(f"{folder}.")}
            found.setdefault(child, set()).update(children - {child})
    return {child: frozenset(imported) for child, imported in found.items()}


def circles(graph: Graph) -> set[frozenset[str]]:
    """The strongly connected parts of more than one node."""
    reaches = {node: _reachable(graph, node) for node in graph}
    found = set()
    for node, reached in reaches.items():
        if node in reached:
            found.add(frozenset(other for other in reached if node in reaches[other]))
    return found


def _reachable(graph: Graph, start: str) -> frozenset[str]:
    seen: set[str] = set()
    to_do = [start]
    while to_do:
        for node in graph.get(to_do.pop(), ()):
            if node not in seen:
                seen.add(node)
                to_do.append(node)
    return frozenset(seen)


def _imports(text: str, files: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (name for alias in node.names if (name := _strip(alias.name)) in files)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            module = _strip(node.module)
            for alias in node.names:
                name = f"{module}.{alias.name}"
                found = name if name in files else module
                if found in files:
                    yield found


def _strip(name: str) -> str:
    return name.removeprefix(f"{PACKAGE}.")


def _cut(name: str, depth: int) -> str:
    return ".".join(name.split(".")[:depth])
