"""What a rule of a plug-in has to be, asked when it is loaded.

A rule that replaces nothing changes nothing; one that keeps something where no snapshot has it
would be explored, replayed and compared wrongly, and one that looks at a clock of the machine would
never come out the same again.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from rebalance_sim.invariants.engine.discovery import every_property
from rebalance_sim.invariants.property import Kind
from rebalance_sim.protocol.defects import Defect as Rule
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules
from rebalance_sim.protocol.runtime.rule_desk import Declared, Timer
from rebalance_sim.scenarios.errors import did_you_mean
from rebalance_sim.scenarios.plugin_checks import NAME

_MUTABLE = (list, dict, set, bytearray)
_NOT_REPEATED = ("time", "datetime", "random", "secrets", "uuid", "os")
_CONSTANT = "make it a tuple, a frozenset or a MappingProxyType, or declare GroupState"


def check_rule(rule: Rule) -> None:
    """Raises ValueError for a rule that cannot be named, that replaces nothing, or that keeps
    state which it does not declare."""
    if not isinstance(rule.id, str) or not NAME.fullmatch(rule.id):
        raise ValueError(f"rule {rule.id!r}: an id has letters, digits, '-', '_' and '.'")
    if not isinstance(rule.rules, tuple) or not rule.rules:
        raise ValueError(f"rule {rule.id!r}: rules must be a tuple of classes, as in (MyRules,)")
    for change in rule.rules:
        if not isinstance(change, type):
            raise ValueError(f"rule {rule.id!r}: {change!r} is no class")
        base = change.__bases__[0]
        if not base.__module__.startswith("rebalance_sim."):
            raise ValueError(
                f"rule {rule.id!r}: {change.__name__} replaces nothing: derive it from a rules "
                "class of the simulator, such as ConsumerGroupRules"
            )
        replaced = [name for name in vars(change) if not name.startswith("__")]
        if not any(hasattr(base, name) for name in replaced):
            remedy = did_you_mean(replaced[0], decisions_of(base)) if replaced else "give it one"
            raise ValueError(
                f"rule {rule.id!r}: {change.__name__} has no decision of {base.__name__}; {remedy}"
            )
        for name, value in vars(change).items():
            problem = _problem_of(change, name, value)
            if problem:
                raise ValueError(f"rule {rule.id!r}: {change.__name__}.{name} {problem}")


def check_replaces(rule: Rule) -> None:
    """Raises ValueError where ``replaces`` of a rule is no tuple of ids of properties, or the rule
    is none of a coordinator: only those notice when they act."""
    said = rule.replaces
    place = f"rule {rule.id!r}: replaces"
    if not isinstance(said, tuple) or not all(isinstance(one, str) for one in said):
        raise ValueError(f"{place} must be a tuple of ids, as in ('target.current',)")
    known = {one.id: one for one in every_property()}
    for one in said:
        if one not in known:
            raise ValueError(f"{place}: no property {one!r}; {did_you_mean(one, known)}")
        if known[one].kind is Kind.SOMETIMES:
            raise ValueError(f"{place}: {one!r} is a goal of sweeps, by which no run is judged")
    others = [change for change in rule.rules if not issubclass(change, CoordinatorRules)]
    if said and others:
        raise ValueError(
            f"{place} needs rules of a coordinator, and {others[0].__name__} is one of "
            f"{others[0].__bases__[0].__name__}: leave replaces out"
        )


def decisions_of(base: type[Any]) -> list[str]:
    """The names of what a rules class decides."""
    return [name for name in dir(base) if not name.startswith("_")]


def _problem_of(change: type[Any], name: str, value: Any) -> str:
    """What is wrong with something in the body of a rules class; empty: nothing."""
    base = change.__bases__[0]
    if isinstance(value, Declared):
        return _problem_of_declared(change, base, name, value)
    if isinstance(value, _MUTABLE) and not name.startswith("__"):
        return f"is a {type(value).__name__}, which all runs would share: {_CONSTANT}"
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    return next(_hidden_state(value), "") if isinstance(value, FunctionType) else ""


def _problem_of_declared(change: type[Any], base: type[Any], name: str, value: Declared) -> str:
    if not issubclass(base, CoordinatorRules):
        return f"is for rules of a coordinator, and {base.__name__} are none"
    if hasattr(base, name):
        return f"is a decision of {base.__name__}: name the {type(value).__name__} otherwise"
    if isinstance(value, Timer) and not callable(getattr(change, value.method, None)):
        own = [name for name, one in vars(change).items() if isinstance(one, FunctionType)]
        return f"expires into {value.method!r}, which is missing; {did_you_mean(value.method, own)}"
    return ""


def _hidden_state(function: FunctionType) -> Iterator[str]:
    """What a function keeps from one call to the next, or takes from the machine."""
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if any(isinstance(one, _MUTABLE) for one in defaults):
        yield f"has a default that can be changed in place: {_CONSTANT}"
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    if any(isinstance(one, _MUTABLE) for one in cells):
        yield f"uses a variable around it that can be changed in place: {_CONSTANT}"
    for code in _codes(function.__code__):
        before: dis.Instruction | None = None
        for one in dis.get_instructions(code):
            if one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                yield f"sets {one.argval} of its module, which no snapshot has: declare GroupState"
            is_of_self = before is not None and before.argval == "self"
            if one.opname == "STORE_ATTR" and is_of_self:
                yield f"sets self.{one.argval}, which no snapshot has: declare GroupState"
            if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                yield from _problems_of_global(one.argval, function.__globals__.get(one.argval))
            before = one


def _problems_of_global(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, _MUTABLE):
        yield f"uses {name} of its module, a {type(value).__name__}: {_CONSTANT}"
    owner = getattr(value, "__self__", value)
    module = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", "")
    if module in _NOT_REPEATED:
        yield f"uses {name}, which is another at each run: the time is self.now_ms"


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
