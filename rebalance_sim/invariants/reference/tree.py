"""An importable tree of protocol machines: the one of this package, or a frozen copy of it; and in
which of its machines rules decide."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from rebalance_sim.protocol.runtime.outcome import ShardTimer, TimerKey, TimerKind
from rebalance_sim.protocol.wire.errors import ProtocolBug

PROTOCOL = "rebalance_sim.protocol"

_SHARED = (
    "wire",
    "runtime.outcome",
    "runtime.coordinator_config",
    "runtime.rebalance_causes",
    "assignors.client_side.client_side_assignor",
    *(f"clients.common.{name}" for name in ("events", "effects", "values", "member_states")),
    *(f"clients.common.{name}_config" for name in ("member", "classic", "consumer")),
)
"""What a frozen tree takes from this package: what goes into a machine and what comes out."""

_NAME = re.compile(rf"\b{re.escape(PROTOCOL)}\b(\.[\w.]+)?")
_FROM = re.compile(rf"^from {re.escape(PROTOCOL)}((?:\.\w+)*) import (\w+)((?:, \w+)*)$")


def _is_shared(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in _SHARED)


class _FrozenLoader(SourceLoader):
    """Loads a file of a tree under the tree's own name."""

    def __init__(self, path: str, package: str) -> None:
        self._path = path
        self._package = package

    def get_filename(self, fullname: str) -> str:
        """As of a loader."""
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        """The source, in which the tree's modules have the tree's names."""
        return self._renamed(Path(os.fsdecode(path)).read_text()).encode()

    def get_code(self, fullname: str) -> CodeType:
        """From the source, always: compiled files are those of the other names."""
        return self.source_to_code(self.get_data(self._path), self._path)

    def _renamed(self, source: str) -> str:
        return "\n".join(map(self._line, source.split("\n")))

    def _line(self, line: str) -> str:
        match = _FROM.match(line)
        if match is None:
            return _NAME.sub(self._name, line)
        folder = match.group(1)
        names = [match.group(2), *match.group(3).split(", ")[1:]]
        return "; ".join(
            f"from {self._package_of(f'{folder}.{name}')}{folder} import {name}" for name in names
        )

    def _name(self, match: re.Match[str]) -> str:
        return self._package_of(match.group(1) or "") + (match.group(1) or "")

    def _package_of(self, inner: str) -> str:
        return PROTOCOL if _is_shared(inner.lstrip(".")) else self._package


class _FrozenFinder:
    """Finds the modules of a frozen tree."""

    def __init__(self, package: str, folder: Path) -> None:
        self._package = package
        self._folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """As of a finder on ``sys.meta_path``."""
        if name != self._package and not name.startswith(f"{self._package}."):
            return None
        place = self._folder.joinpath(*name[len(self._package) :].split("."))
        folders = None
        if place.is_dir():
            folders, place = [str(place)], place / "__init__.py"
        else:
            place = place.with_suffix(".py")
        if not place.is_file():
            return None
        return spec_from_file_location(
            name,
            place,
            loader=_FrozenLoader(str(place), self._package),
            submodule_search_locations=folders,
        )


def frozen_tree(folder: Path) -> Tree:
    """A second copy of the protocol, from the sources in ``folder``: nothing that is changed in
    this package at run time reaches it, and it may be of another release, as long as the two agree
    in what goes into a machine and what comes out.

    Raises ValueError for a folder without a protocol, and ImportError where the two do not agree.
    """
    folder = folder.resolve()
    if not (folder / "runtime" / "coordinator.py").is_file():
        raise ValueError(f"{folder} holds no protocol: runtime/coordinator.py is missing")
    frozen = sum(isinstance(finder, _FrozenFinder) for finder in sys.meta_path)
    package = f"rebalance_sim_frozen_{frozen + 1}"
    sys.meta_path.insert(0, _FrozenFinder(package, folder))
    tree = Tree(package)
    tree.load()
    return tree


@dataclass(frozen=True)
class Tree:
    """The parts of a tree that a reference is made of. ``package``: its name for imports."""

    package: str = PROTOCOL

    def load(self) -> None:
        """Import it now. Raises ImportError."""
        for name in ("runtime.coordinator", "clients.kinds", "clients.versions"):
            self._module(name)
        self._module("versions.semantics")

    def _module(self, name: str) -> ModuleType:
        return import_module(self.own_module(f"{PROTOCOL}.{name}"))

    @property
    def is_own(self) -> bool:
        """Whether it is the tree of this package."""
        return self.package == PROTOCOL

    def own_module(self, name: str) -> str:
        """What a module of this package's protocol is called in this tree."""
        inner = name.removeprefix(PROTOCOL)
        if self.is_own or inner == name or _is_shared(inner.lstrip(".")):
            return name
        return self.package + inner

    def class_of(self, kind: type) -> Any:
        """A class of this package's protocol as this tree has it."""
        return getattr(import_module(self.own_module(kind.__module__)), kind.__qualname__)

    @cached_property
    def coordinator(self) -> Any:
        """The class of its coordinators."""
        return self._module("runtime.coordinator").GroupCoordinator

    @cached_property
    def kinds(self) -> Any:
        """Its kinds of clients, by name."""
        return self._module("clients.kinds").KINDS

    @cached_property
    def new_member(self) -> Any:
        """The class of what a kind makes a member of."""
        return self._module("clients.common.client_kind").NewMember

    @cached_property
    def client_rules(self) -> Any:
        """Kind, version and semantics -> the rules of a member."""
        return self._module("clients.versions").client_rules

    @cached_property
    def simulated(self) -> Any:
        """Name, defects and repairs -> semantics."""
        return self._module("versions.semantics").simulated

    @cached_property
    def _timer_kinds(self) -> dict[str, Any]:
        kinds: list[type] = TimerKind.__subclasses__()
        places = (f"{self.package}.", ShardTimer.__module__)
        return {kind.__name__: kind for kind in kinds if kind.__module__.startswith(places)}

    def timer_key(self, key: TimerKey) -> TimerKey:
        """A timer of this package's machines as this tree calls it. Raises ProtocolBug for a kind
        that the tree does not have."""
        if self.is_own:
            return key
        kind = self._timer_kinds.get(type(key.kind).__name__)
        if kind is None:
            raise ProtocolBug(f"{self.package} has no timers {type(key.kind).__name__}")
        return key._replace(kind=kind(key.kind.value))


class Place(Enum):
    """A part of a world that rules decide in."""

    COORDINATOR = "coordinator"
    CLIENT = "client"
    """Members, with the assignors that the leader of a classic group runs."""
    HOST = "host"
    """What is around machines, and so is seen by no reference: brokers, and assignors that an
    application runs by itself."""


def places_of(changes: Iterable[type]) -> frozenset[Place]:
    """Where these changes of rules decide."""
    return frozenset(_place_of(change.__bases__[0].__module__) for change in changes)


def _place_of(module: str) -> Place:
    for folder, place in _PLACES.items():
        if module.startswith(f"{PROTOCOL}.{folder}."):
            return place
    return Place.COORDINATOR


_PLACES = {
    "clients": Place.CLIENT,
    "assignors.classic": Place.CLIENT,
    "assignors.client_side": Place.HOST,
    "hosting": Place.HOST,
}
