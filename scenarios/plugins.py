"""Plug-ins: modules from elsewhere whose properties, metrics, faults, assignors, kinds of client
and rules count.

A plug-in is a module, or a package. What it defines, or imports from its own modules, is found by
being there: a subclass of ``Property``, ``Metric``, ``Fault``, ``PartitionAssignor`` (client-side)
or ``ClassicAssignor``, a server-side assignor (any other class with ``name`` and ``assign``), a
``ClientKind``, a ``Rule``. All of them use the interfaces of the built-in ones; a rule is switched
on by its id, like a defect.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from rebalance_sim.invariants.engine.discovery import register as register_property
from rebalance_sim.invariants.property import Property
from rebalance_sim.protocol import defects
from rebalance_sim.protocol.assignors import classic, client_side, server
from rebalance_sim.protocol.clients import kinds
from rebalance_sim.protocol.clients.common.client_kind import ClientKind
from rebalance_sim.protocol.defects import Defect as Rule
from rebalance_sim.protocol.runtime.rule_set import compose_anew
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.own_metrics import Metric
from rebalance_sim.scenarios.own_metrics import register as register_metric
from rebalance_sim.scenarios.plugin_names import LOADED, installed_plugins, loaded_plugins
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.fault import register as register_fault

__all__ = ["Rule", "installed_plugins", "load_plugins", "loaded_plugins"]


def load_plugins(names: Iterable[str] | str) -> None:
    """Import these modules, or this one, and register what they bring; those that are loaded stay
    as they are.

    Raises ScenarioError for a module that cannot be imported, that brings nothing, or whose names
    are taken.
    """
    installed = frozenset(installed_plugins())
    for name in [names] if isinstance(names, str) else names:
        if name not in LOADED:
            _load(name)
            LOADED[name] = name in installed


def _load(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except Exception as problem:  # whatever a stranger's module does when it is imported
        if name in sys.modules:
            del sys.modules[name]
        reason = f"{type(problem).__name__}: {problem}"
        raise ScenarioError(f"plug-in {name!r} cannot be imported: {reason}") from problem
    found = list(_found_in(module))
    if not found:
        raise ScenarioError(
            f"plug-in {name!r} brings nothing: no property, metric, fault, assignor, kind of "
            "client or rule"
        )
    for value, register in found:
        try:
            register(value)
        except ValueError as problem:
            raise ScenarioError(f"plug-in {name!r}: {problem}") from problem


_Found = tuple[Any, Callable[[Any], Any]]


def _found_in(module: ModuleType) -> Iterator[_Found]:
    """Everything of the module's own, in the order in which it is defined; each thing once."""
    seen: set[int] = set()
    for value in list(vars(module).values()):
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Rule) and _is_own(value.rules[0], module):
            yield value, defects.register
        elif isinstance(value, ClientKind) and _is_own(value.make, module):
            yield value, kinds.register
        elif isinstance(value, type) and _is_own(value, module) and not inspect.isabstract(value):
            if issubclass(value, Property) and "id" in vars(value):
                yield value, register_property
            elif issubclass(value, Metric):
                yield value, register_metric
            elif issubclass(value, Fault):
                if Fault.kinds().get(value.kind) is not value:  # its decorator may have done it
                    yield value, register_fault
            elif isinstance(vars(value).get("name"), str) and hasattr(value, "assign"):
                yield value, _register_of(value)


def _register_of(assignor: type) -> Callable[[Any], None]:
    if client_side.PartitionAssignor in assignor.__mro__:
        return client_side.register
    if classic.ClassicAssignor in assignor.__mro__:
        return classic.register
    return _register_server_side


def _register_server_side(kind: Any) -> None:
    server.register(kind)
    compose_anew()


def _is_own(value: Any, module: ModuleType) -> bool:
    """Whether it comes from the module, or from one below it."""
    return f"{value.__module__}.".startswith(f"{module.__name__}.")
