"""Values that modules of a package declare, found by being there."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TypeVar

_Value = TypeVar("_Value")


def declared_in(package: str, name: str, kind: type[_Value]) -> list[_Value]:
    """The value ``name`` of each module of the package that has one, in the order of the modules'
    names; a package in a zip is no different.

    A module that begins with an underscore is left out. Raises TypeError for a value of another
    kind.
    """
    found = []
    paths = importlib.import_module(package).__path__
    for module_name in sorted(module.name for module in pkgutil.iter_modules(paths)):
        if module_name.startswith("_"):
            continue
        module = importlib.import_module(f"{package}.{module_name}")
        value = getattr(module, name, None)
        if value is None:
            continue
        if not isinstance(value, kind):
            raise TypeError(f"{module.__name__}.{name} is no {kind.__name__}: {value!r}")
        found.append(value)
    return found
