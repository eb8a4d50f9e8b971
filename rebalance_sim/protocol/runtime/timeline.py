"""State at the last committed offset beside the newest state, and the way back.

Source: coordinator §9.4: operations work on the newest state, reads on that of the last committed
offset, and a batch that cannot be written is undone. Every change of an uncommitted record keeps
what was there before, by key: a read of one key costs one look-up, nothing is ever copied, and
where everything is committed there is nothing to look up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

_ABSENT: Final = object()
_Befores = dict[Any, list[Any]]
"""Key -> values it had before each uncommitted change, oldest first."""
_Change = tuple[int, "TimelineDict[Any, Any] | TimelineFields", Sequence[Any]]
"""Offset, table, and a key for this offset and each that follows it; the table has kept the
previous values."""


class Timeline:
    """The uncommitted changes of one coordinator, oldest first, each under its record's offset.

    ``offset`` is that of the record being replayed; None while what changes counts as committed.
    ``end`` is the offset of the next record.
    """

    __slots__ = ("changes", "end", "offset")

    def __init__(self) -> None:
        self.offset: int | None = None
        self.end = 0
        self.changes: deque[_Change] = deque()

    def commit_to(self, offset: int) -> None:
        """Everything below this offset is committed: what was there before it is forgotten."""
        if offset > self.end:
            self.end = offset
        changes = self.changes
        if changes and changes[-1][0] + len(changes[-1][2]) <= offset:  # Nearly always: all of it.
            for _, table, _ in changes:
                table.befores.clear()
            changes.clear()
        while changes and changes[0][0] < offset:
            first, table, keys = changes.popleft()
            count = offset - first
            if count < len(keys):
                changes.appendleft((offset, table, keys[count:]))
            for key in keys[:count]:
                befores = table.befores[key]
                if len(befores) == 1:
                    del table.befores[key]
                else:
                    del befores[0]

    def revert_to(self, offset: int) -> None:
        """Undo what records from this offset on have changed, latest first."""
        self.end = min(self.end, offset)
        changes = self.changes
        while changes and changes[-1][0] + len(changes[-1][2]) > offset:
            first, table, keys = changes.pop()
            count = max(0, offset - first)
            if count:
                changes.append((first, table, keys[:count]))
            for key in reversed(keys[count:]):
                befores = table.befores[key]
                table.restore(key, befores.pop())
                if not befores:
                    del table.befores[key]


class TimelineDict(dict[_K, _V]):
    """A dict whose changes are on a timeline. To read it is to read the newest state, as ever."""

    __slots__ = ("_timeline", "befores")

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self._timeline = timeline
        self.befores: _Befores = {}

    def __setitem__(self, key: _K, value: _V) -> None:
        timeline = self._timeline
        if timeline.offset is not None:
            self._note(timeline, timeline.offset, key)
        dict.__setitem__(self, key, value)

    def set_each(self, items: Mapping[_K, _V], *, offset: int) -> None:
        """Set a key for each of several records, of which the first stands at ``offset``."""
        befores = self.befores
        for key in items:
            before = self.get(key, _ABSENT)
            if key in befores:
                befores[key].append(before)
            else:
                befores[key] = [before]
        self._timeline.changes.append((offset, self, list(items)))
        dict.update(self, items)

    def __delitem__(self, key: _K) -> None:
        timeline = self._timeline
        if timeline.offset is not None and key in self:
            self._note(timeline, timeline.offset, key)
        super().__delitem__(key)

    def pop(self, key: _K, *default: Any) -> Any:
        """As of a dict."""
        timeline = self._timeline
        if timeline.offset is not None and key in self:
            self._note(timeline, timeline.offset, key)
        return super().pop(key, *default)

    def setdefault(self, key: _K, default: Any = None) -> Any:
        """As of a dict."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As of a dict."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def clear(self) -> None:
        """As of a dict."""
        for key in list(self):
            del self[key]

    def restore(self, key: _K, before: Any) -> None:
        """Put back what was there before a change."""
        if before is not _ABSENT:
            super().__setitem__(key, before)
        elif key in self:
            super().__delitem__(key)

    def _note(self, timeline: Timeline, offset: int, key: _K) -> None:
        """Only while the record at this offset, which is not committed, is replayed."""
        before = self.get(key, _ABSENT)
        befores = self.befores
        if key in befores:
            befores[key].append(before)
        else:
            befores[key] = [before]
        timeline.changes.append((offset, self, (key,)))


class TimelineFields:
    """An object of which some fields are on a timeline: those that ``set_field`` changes."""

    def __init__(self, timeline: Timeline | None) -> None:
        self._timeline = timeline
        self.befores: _Befores = {}

    def set_field(self, name: str, value: object) -> None:
        """Change a field, and remember what it was."""
        timeline = self._timeline
        if timeline is not None and timeline.offset is not None:
            self.befores.setdefault(name, []).append(getattr(self, name))
            timeline.changes.append((timeline.offset, self, (name,)))
        setattr(self, name, value)

    def committed_field(self, name: str) -> Any:
        """What the field is at the last committed offset."""
        befores = self.befores.get(name)
        return befores[0] if befores else getattr(self, name)

    def restore(self, name: str, before: object) -> None:
        """Put back what was there before a change."""
        setattr(self, name, before)


class _Committed(Mapping[_K, _V]):
    """A table as it is at the last committed offset; a view, not a copy."""

    __slots__ = ("_table",)

    def __init__(self, table: TimelineDict[_K, _V]) -> None:
        self._table = table

    def __getitem__(self, key: _K) -> _V:
        befores = self._table.befores.get(key)
        if befores is None:
            return self._table[key]
        if befores[0] is _ABSENT:
            raise KeyError(key)
        return cast(_V, befores[0])

    def __iter__(self) -> Iterator[_K]:
        table = self._table
        for key in table:
            befores = table.befores.get(key)
            if befores is None or befores[0] is not _ABSENT:
                yield key
        for key, befores in table.befores.items():
            if key not in table and befores[0] is not _ABSENT:
                yield key

    def __len__(self) -> int:
        table = self._table
        count = len(table)
        for key, befores in table.befores.items():
            count += (befores[0] is not _ABSENT) - (key in table)
        return count


def new_table(timeline: Timeline | None) -> dict[Any, Any]:
    """An empty table: a plain dict where there is no timeline to keep."""
    return {} if timeline is None else TimelineDict(timeline)


def committed(table: Mapping[_K, _V]) -> Mapping[_K, _V]:
    """The table as it is at the last committed offset: itself, if nothing newer is in it."""
    if isinstance(table, TimelineDict) and table.befores:
        return _Committed(table)
    return table
