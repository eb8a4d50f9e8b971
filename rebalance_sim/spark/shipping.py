"""How the code reaches the workers, and how to know that it did.

Workers do not share the driver's ``sys.path``, not even on one machine. So every Spark sweep ships
one zip of the packages, as they are when it starts: an edit in mid-sweep cannot mix two versions.
Pure Python only, that of others included; what has compiled parts must be installed where executors
run (``spark.preflight``).
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from importlib.machinery import ModuleSpec
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Any, cast

from rebalance_sim.spark.errors import SweepError

# What a row of results depends on, apart from the runner.
_LAYERS = tuple(
    f"rebalance_sim.{name}" for name in ("re2_engine", "protocol", "invariants", "sim", "scenarios")
)
_OWN = "rebalance_sim.spark"


_AROUND = "rebalance_sim.__init__"
"""The module alone: what stands beside its layers is not needed by workers."""


_PURE = ("simpy", "tomli_w")
"""What a run imports of others' that is pure Python: it travels too."""


def packages_of(runner: str, plugins: Iterable[str] = ()) -> tuple[str, ...]:
    """The packages that decide what the named runner returns, with these plug-ins."""
    modules = (runner.partition(":")[0], *plugins)
    tops = dict.fromkeys(module.partition(".")[0] for module in modules)
    tops.pop("rebalance_sim", None)
    return (*_LAYERS, *tops)


def shipped_packages(runner: str, plugins: Iterable[str] = ()) -> tuple[str, ...]:
    """The packages that a worker needs and that can be sent, the one around them first."""
    return (_AROUND, *packages_of(runner, plugins), _OWN, *_PURE)


def code_digest(packages: Iterable[str]) -> str:
    """A digest over path and content of every file of the packages, wherever they were loaded from.

    Raises SweepError if one cannot be imported.
    """
    digest = blake2b(digest_size=12)
    for name, content in _sources(packages):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def build_zip(packages: Iterable[str], path: Path) -> None:
    """Write the packages to a zip that Python can import from.

    Folders have entries of their own: without, one that has no ``__init__.py`` is not found in the
    zip, and a worker takes it from whatever is installed there, or fails.
    """
    folders: set[str] = set()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _sources(packages):
            for folder in reversed(PurePosixPath(name).parents[:-1]):
                if f"{folder}/" not in folders:
                    folders.add(f"{folder}/")
                    archive.writestr(_entry(f"{folder}/"), b"")
            archive.writestr(_entry(name), content, zipfile.ZIP_DEFLATED)


def _entry(name: str) -> zipfile.ZipInfo:
    """A fixed date keeps equal code equal, byte for byte."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _sources(packages: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for package in packages:
        spec = _spec_of(package)
        path = package.replace(".", "/")
        if spec.submodule_search_locations is not None:
            yield from _walk(files(package), path)
        else:
            yield f"{path}.py", cast(Any, spec.loader).get_data(spec.origin)


def _spec_of(package: str) -> ModuleSpec:
    try:
        spec = importlib.util.find_spec(package)
    except ImportError as problem:
        raise SweepError(f"cannot import {package} ({problem})") from problem
    if spec is None:
        raise SweepError(f"cannot import {package}")
    if not hasattr(spec.loader, "get_data"):
        raise SweepError(f"cannot ship {package}: it was not loaded from a file or a zip")
    return spec


def _walk(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name == "__pycache__" or entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry, f"{name}/{entry.name}")
        else:
            yield f"{name}/{entry.name}", entry.read_bytes()
