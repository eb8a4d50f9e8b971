"""The table of the rules classes that a rule of a plug-in may derive from."""

from __future__ import annotations

from rebalance_sim.protocol.clients.versions import CLIENT_VERSIONS
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import SEMANTICS


def rules_classes() -> list[type]:
    """Every class of which a version, a client's version or a built-in defect replaces a decision,
    with the classes that these inherit decisions from."""
    changes = {change for one in SEMANTICS.values() for change in one.changes}
    changes |= {change for one in CLIENT_VERSIONS for change in one.changes}
    changes |= {change for one in DEFECTS.values() for change in one.rules}
    built_in = [one for one in changes if one.__module__.startswith("rebalance_sim.")]
    classes = {
        base for change in built_in for base in change.__bases__[0].__mro__ if _is_ours(base)
    }
    return sorted((one for one in classes if decisions(one)), key=_place)


def decisions(rules: type) -> list[str]:
    """What a class decides itself, in the order of its definitions; not what rules have at hand."""
    return [
        name
        for name, value in vars(rules).items()
        if not name.startswith("_") and not isinstance(value, property)
    ]


def rules_rows() -> list[tuple[str, str, str]]:
    """Class, module and decisions of each."""
    return [
        (
            f"`{rules.__name__}`",
            f"`{rules.__module__.removeprefix('rebalance_sim.')}`",
            ", ".join(f"`{name}`" for name in decisions(rules)),
        )
        for rules in rules_classes()
    ]


def _is_ours(base: type) -> bool:
    return base.__module__.startswith("rebalance_sim.protocol.")


def _place(rules: type) -> tuple[bool, str, str]:
    """Rules of coordinators and clients first, then assignors."""
    return not rules.__name__.endswith("Rules"), rules.__module__, rules.__name__
