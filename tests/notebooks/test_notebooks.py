"""The notebooks run from top to bottom, and are committed with what they show, for readers of the
repository."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

MOST_BYTES = 2_000_000
NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

ONLY_WITH_AN_EXTRA = {
    "a_run_under_faults": ("application/vnd.jupyter.widget-view+json",),
    "tables": ("│ seed  │ outcome │",),
}
"""What shows that a cell ran whose library a reader may not have: the slider, and a table of
DuckDB's."""


def test_there_are_notebooks() -> None:
    assert "case_studies" in [path.stem for path in NOTEBOOKS]


@pytest.fixture(scope="module")
def kernel() -> Iterator[AsyncKernelManager]:
    """One for all: it takes longer to start than most notebooks take to run."""
    manager = AsyncKernelManager(kernel_name="python3")
    yield manager
    if manager.has_kernel:
        asyncio.run(manager.shutdown_kernel(now=True))


@pytest.mark.quick_one_of(6)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_plots(path: Path, kernel: AsyncKernelManager) -> None:
    notebook = nbformat.read(path, as_version=4)
    stored = _digests(notebook)
    folder = {"metadata": {"path": str(path.parent)}}
    # What another has defined is none of this one's.
    notebook.cells.insert(0, nbformat.v4.new_code_cell(f"%reset -f\n%cd -q {path.parent}"))
    NotebookClient(notebook, timeout=300, km=kernel, resources=folder).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert not [output for output in shown if output.output_type == "error"]
    for words in ONLY_WITH_AN_EXTRA.get(path.stem, ()):
        assert any(words in str(output) for output in shown), words
    assert _digests(notebook) == stored, "store the notebook as it runs now"


def _digests(notebook: nbformat.NotebookNode) -> list[str]:
    """Of the runs that it shows."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [
        one
        for output in outputs
        for one in re.findall(r"digest \W*(?:code>)?(\w{32})", str(output))
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_as_it_ran(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    shown = [output for cell in code for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert not [output for output in shown if output.output_type == "error"]
    assert path.stat().st_size < MOST_BYTES
