"""No import circle inside a layer: neither of files nor of folders, type-checking imports included.

What imports what is a direction of reading. Where two modules need each other, the lower one says
what it needs (a ``typing.Protocol``), and whoever composes them hands it in.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from imports import circles, files_of, graph_of_children, graph_of_files

ROOT = Path(__file__).parents[2]

LAYERS = ("protocol", "invariants", "sim", "scenarios", "spark", "cli", "conformance")


def _circles_of(layer: str) -> set[frozenset[str]]:
    files = files_of(ROOT, layer)
    graph = graph_of_files(files)
    folders = {name for name, path in files.items() if path.name == "__init__.py"} | {layer}
    found = circles(graph)
    for folder in sorted(folders):
        found |= circles(graph_of_children(graph, folder))
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_has_no_circle(layer: str) -> None:
    assert sorted(map(sorted, _circles_of(layer))) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    texts = {
        "sim/__init__.py": "",
        "sim/alone.py": "from rebalance_sim.sim.net import wire\n",
        "sim/net/__init__.py": "",
        "sim/net/wire.py": "from rebalance_sim.sim.disk.log import Log\n",
        "sim/net/port.py": "import os\n",
        "sim/disk/__init__.py": "",
        "sim/disk/log.py": "import rebalance_sim.sim.disk.file\n",
        "sim/disk/file.py": (
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n"
            "    from rebalance_sim.sim.disk.log import Log\n"
            "from rebalance_sim.sim.net.port import Port\n"
        ),
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    graph = graph_of_files(files_of(tmp_path, "sim"))
    assert circles(graph) == {frozenset({"sim.disk.log", "sim.disk.file"})}
    assert circles(graph_of_children(graph, "sim")) == {frozenset({"sim.net", "sim.disk"})}
    assert circles(graph_of_children(graph, "sim.net")) == set()
