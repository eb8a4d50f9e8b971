"""The state of one coordinator for another: of other rules, of another tree, or of both."""

from __future__ import annotations

import copyreg
import io
import pickle
from types import BuiltinMethodType, FunctionType, MappingProxyType, MethodType
from typing import Any

from rebalance_sim.invariants.reference.tree import PROTOCOL, Tree
from rebalance_sim.protocol.runtime.timeline import TimelineDict

_HOSTING = f"{PROTOCOL}.hosting."


class _Pickler(pickle.Pickler):
    """Puts aside what both have in common: their own parts, by place, and what is the host's."""

    def __init__(self, file: io.BytesIO, parts: list[object]) -> None:
        super().__init__(file, protocol=5)
        self._numbers = {id(part): number for number, part in enumerate(parts)}
        self.kept = list(parts)

    def reducer_override(self, obj: Any) -> Any:
        """A table that keeps history takes its content in as it stands."""
        if isinstance(obj, MappingProxyType):
            return _proxy, (dict(obj),)
        if not isinstance(obj, TimelineDict):
            return NotImplemented
        state = (obj._timeline, dict(obj), obj.befores)
        return (copyreg.__newobj__, (type(obj),), state, None, None, _fill)  # type: ignore[attr-defined]

    def persistent_id(self, obj: Any) -> int | None:
        number = self._numbers.get(id(obj))
        if number is None and _is_of_host(obj):
            number = self._numbers[id(obj)] = len(self.kept)
            self.kept.append(obj)
        return number


def _proxy(items: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(items)


def _fill(table: Any, state: tuple[Any, dict[Any, Any], dict[Any, list[Any]]]) -> None:
    table._timeline, items, befores = state
    table.befores = befores
    dict.update(table, items)


def _is_of_host(obj: Any) -> bool:
    if isinstance(obj, MethodType | BuiltinMethodType):
        obj = obj.__self__
        return not type(obj).__module__.startswith(PROTOCOL)
    if isinstance(obj, FunctionType):
        return "<locals>" in obj.__qualname__
    return type(obj).__module__.startswith(_HOSTING)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, kept: list[object], tree: Tree) -> None:
        super().__init__(file)
        self._kept = kept
        self._tree = tree

    def persistent_load(self, pid: int) -> object:
        return self._kept[pid]

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(self._tree.own_module(module), name)


def take_over(mine: Any, reference: Any, tree: Tree) -> None:
    """Let ``reference`` be in the state in which ``mine`` is: groups, offsets, history, soft state,
    topics and settings. Its rules stay."""
    theirs = reference._context
    ours = mine._context
    for name in ("configs", "config", "image", "newest_topic_version", "term", "wall_offset_ms"):
        setattr(theirs, name, getattr(ours, name))
    our_parts = _parts_of(mine)
    their_parts = _parts_of(reference, like=mine, tree=tree)
    our_tables = [part for part in our_parts if isinstance(part, dict)]
    content = [(dict(table), getattr(table, "befores", None)) for table in our_tables]
    timeline = ours.timeline
    history = None if timeline is None else (timeline.offset, timeline.end, timeline.changes)
    file = io.BytesIO()
    pickler = _Pickler(file, our_parts)
    pickler.dump((content, history, ours.state[1]))
    kept = [*their_parts, *pickler.kept[len(our_parts) :]]
    content, history, shared = _Unpickler(io.BytesIO(file.getvalue()), kept, tree).load()
    their_tables = [part for part in their_parts if isinstance(part, dict)]
    for table, (items, befores) in zip(their_tables, content, strict=True):
        dict.clear(table)
        dict.update(table, items)
        if befores is not None:
            table.befores = befores  # type: ignore[attr-defined]
    if history is not None:
        theirs.timeline.offset, theirs.timeline.end, theirs.timeline.changes = history
    theirs.state[1].clear()
    theirs.state[1].update(shared)


def _parts_of(coordinator: Any, *, like: Any = None, tree: Tree | None = None) -> list[object]:
    """What a coordinator has once, for good: rules, components, timeline and tables; those of two
    coordinators stand at the same places."""
    context = coordinator._context
    tables = context.state[0]
    if like is None or tree is None:
        classes = list(tables)
    else:
        classes = [tree.class_of(kind) for kind in like._context.state[0]]
    return [
        context,
        context.rules,
        *coordinator._components,
        *([] if context.timeline is None else [context.timeline]),
        *(context.groups_of(kind) for kind in classes),
        coordinator.offsets.state,
    ]
