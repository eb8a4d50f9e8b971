"""Which plug-ins are loaded in this process, by name; ``plugins.py`` loads them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points

ENTRY_POINTS = "rebalance_sim.plugins"
"""The group of entry points by which an installed package names its plug-ins."""

LOADED: dict[str, bool] = {}
"""Module -> whether it is found by itself, because its package is installed."""


def loaded_plugins() -> tuple[str, ...]:
    """The modules that were loaded, in their order."""
    return tuple(LOADED)


def plugin_options(names: Iterable[str] | None = None) -> list[str]:
    """What to type so that a command loads these, or what is loaded here."""
    if names is None:
        return [f"--plugin={name}" for name, is_installed in LOADED.items() if not is_installed]
    missing = [name for name in names if name not in LOADED]
    installed = {name for name, found in LOADED.items() if found}
    installed |= set(installed_plugins() if missing else ())
    return [f"--plugin={name}" for name in names if name not in installed]


def installed_plugins() -> tuple[str, ...]:
    """The modules that installed packages name as plug-ins, in ascending order."""
    return tuple(sorted({entry.module for entry in entry_points(group=ENTRY_POINTS)}))
