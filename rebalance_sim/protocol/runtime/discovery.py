"""Values that the modules of a package declare."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import TypeVar

_Value = TypeVar("_Value")


def modules_in(package: str) -> list[ModuleType]:
    """The modules of a package, imported, in the order of their names; a package in a zip is no
    different. A module that begins with an underscore is left out."""
    paths = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(paths))
    return [importlib.import_module(f"{package}.{name}") for name in names if name[0] != "_"]


def declared_in(package: str, name: str, kind: type[_Value]) -> list[_Value]:
    """The value ``name`` of each module of the package that has one (``modules_in``).

    Raises TypeError for a value of another kind.
    """
    found = []
    for module in modules_in(package):
        value = getattr(module, name, None)
        if value is None:
            continue
        if not isinstance(value, kind):
            raise TypeError(f"{module.__name__}.{name} is no {kind.__name__}: {value!r}")
        found.append(value)
    return found
