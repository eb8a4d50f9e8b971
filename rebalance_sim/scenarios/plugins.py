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
import re
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
from rebalance_sim.protocol.runtime.rule_desk import (
    GroupState,
    GroupTimer,
    MemberState,
    MemberTimer,
)
from rebalance_sim.protocol.runtime.rule_set import compose_anew
from rebalance_sim.scenarios import plugin_checks as checks
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.plugin_names import LOADED, installed_plugins, loaded_plugins
from rebalance_sim.scenarios.rule_checks import check_replaces, check_rule
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.fault import register as register_fault
from rebalance_sim.sim.observe.metric import Metric
from rebalance_sim.sim.observe.metric import register as register_metric

__all__ = [
    "GroupState",
    "GroupTimer",
    "MemberState",
    "MemberTimer",
    "Rule",
    "installed_plugins",
    "load_plugins",
    "loaded_plugins",
]


def load_plugins(names: Iterable[str] | str) -> None:
    """Import these modules, or this one, and register what they bring; those that are loaded stay
    as they are.

    Raises ScenarioError for a module that cannot be imported, that brings nothing, or whose names
    are taken.
    """
    installed = frozenset(installed_plugins())
    if not isinstance(names, Iterable):
        raise ScenarioError(f"plug-in {names!r}: give the names of modules")
    for name in [names] if isinstance(names, str) else names:
        if name not in LOADED:
            _load(name)
            LOADED[name] = name in installed


def _load(name: str) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"\w+(\.\w+)*", name) or name.endswith(".py"):
        raise ScenarioError(
            f"plug-in {name!r}: give the name of a module, as import takes it, and no file; it is "
            "looked for in the folder in which the command runs"
        )
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as problem:  # whatever a stranger's module does
        if name in sys.modules:
            del sys.modules[name]
        reason = f"{type(problem).__name__}: {problem}"
        raise ScenarioError(f"plug-in {name!r} cannot be imported: {reason}") from problem
    try:
        found = list(_found_in(module))
    except (ValueError, TypeError, AttributeError) as problem:
        raise ScenarioError(f"plug-in {name!r}: {problem}") from problem
    if not found:
        raise ScenarioError(
            f"plug-in {name!r} brings nothing: no property, metric, fault, assignor, kind of "
            "client or rule"
        )
    for value, register in sorted(found, key=lambda one: one[1] is _register_rule):
        try:
            register(value)
        except Exception as problem:  # that of a name, or of a class that cannot be made
            raise ScenarioError(f"plug-in {name!r}: {problem}") from problem


_Found = tuple[Any, Callable[[Any], Any]]


def _found_in(module: ModuleType) -> Iterator[_Found]:
    """Everything of the module's own, in the order in which it is defined; each thing once.

    Raises ValueError for what is meant to count, and cannot.
    """
    values = {id(value): value for value in vars(module).values()}.values()
    own = [value for value in values if isinstance(value, type) and _is_own(value, module)]
    for value in values:
        if isinstance(value, Rule):
            if defects.DEFECTS.get(value.id) is not value:
                check_rule(value)
                yield value, _register_rule
        elif isinstance(value, ClientKind) and _is_own(value.make, module):
            yield value, kinds.register
        elif isinstance(value, type) and _is_own(value, module):
            checks.check_complete(value, own)
            if not inspect.isabstract(value):
                yield from _counting(value)


def _counting(value: type[Any]) -> Iterator[_Found]:
    """A class that is complete, if it is something that counts."""
    if issubclass(value, Property):
        if "id" in vars(value):
            checks.check_property(value)
            yield value, register_property
    elif issubclass(value, Metric):
        checks.check_metric(value)
        yield value, register_metric
    elif issubclass(value, Fault):
        checks.check_fault(value)
        if Fault.kinds().get(value.kind) is not value:  # its decorator may have done it
            yield value, register_fault
    elif hasattr(value, "assign") and "name" in vars(value):
        checks.check_assignor(value)
        yield value, _register_of(value)


def _register_of(assignor: type) -> Callable[[Any], None]:
    if client_side.PartitionAssignor in assignor.__mro__:
        return client_side.register
    if classic.ClassicAssignor in assignor.__mro__:
        return classic.register
    return _register_server_side


def _register_rule(rule: Rule) -> None:
    """After the properties of the same module, of which it may replace some."""
    check_replaces(rule)
    defects.register(rule)


def _register_server_side(kind: Any) -> None:
    server.register(kind)
    compose_anew()


def _is_own(value: Any, module: ModuleType) -> bool:
    """Whether it comes from the module, or from one below it."""
    return f"{value.__module__}.".startswith(f"{module.__name__}.")
