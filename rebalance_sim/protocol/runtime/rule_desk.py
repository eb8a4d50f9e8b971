"""What a rule of a coordinator may have of its own: the time, timers, and state that it declares.

A rules class declares them in its body, as ``waits = GroupState(False)`` or
``grace = GroupTimer("grace_is_over")``. Timers leave the coordinator as those of Kafka do, as
commands of the outcome. State is soft: no record has it, a batch that is lost takes nothing of it
back, and a coordinator that loads the group begins with the values at first; what its log says of
the group it may look at in ``after_load``. Timers end with the coordinator, as all timers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

from rebalance_sim.protocol.runtime.outcome import (
    CancelTimer,
    Outcome,
    ScheduleTimer,
    TimerCommand,
    TimerKey,
    TimerKind,
)
from rebalance_sim.protocol.runtime.snapshot import StateFields
from rebalance_sim.protocol.wire.errors import ProtocolBug

if TYPE_CHECKING:
    from typing import Self

    from rebalance_sim.protocol.runtime.context import CoordinatorContext

_LONG_AGO_MS = 3_600_000
"""Times that passed longer ago are the same in keys of states."""

_T = TypeVar("_T")
_Declared = TypeVar("_Declared", bound="Declared")


class RuleTimerKind(TimerKind):
    """The timers of rules. The name of the timer, and the member, stand in place of a member id."""

    RULE = "rule"

    @property
    def follows_soft_state(self) -> bool:
        """It goes with the state that its rule declares."""
        return True


class Moment(NamedTuple):
    """A time that a rule remembers, in keys of states relative to the clock."""

    at_ms: int


class RuleMemory:
    """The declared state of one coordinator: (name, group id, member id) -> value, where it is not
    the value at first."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str, str], Any] = {}


RULE_STATE: Mapping[type, StateFields] = {
    RuleMemory: StateFields(unordered=frozenset({"values"})),
    Moment: StateFields(times={"at_ms": _LONG_AGO_MS}),
}
"""What the fields mean where two states are compared."""


class RuleDesk:
    """What the rules of one coordinator have at hand while it handles something.

    ``acted``: the rules that have decided otherwise than what they replace, in what is being
    handled; one that replaces a value always has. ``members_of``: the members of a group by id,
    None where there is no group.
    """

    __slots__ = ("_always", "_members_of", "acted", "commands", "context", "declared", "now_ms")

    def __init__(self, context: CoordinatorContext[Any], members_of: Callable[[str], Any]) -> None:
        self.context = context
        self._members_of = members_of
        self.now_ms = 0
        self.commands: list[TimerCommand] = []
        kind: Any = type(context.rules)
        self.declared, self._always = _content_of(kind)
        self.acted = dict(self._always)

    def begin(self, now_ms: int) -> None:
        """Something is about to be handled: what an exception has left behind is no part of it."""
        self.now_ms = now_ms
        if self.commands:
            self.commands.clear()
        if self.acted:
            self.acted = dict(self._always)
        self.forget()

    def timers(self) -> tuple[TimerCommand, ...]:
        """The commands since ``begin``."""
        commands = tuple(self.commands)
        self.commands.clear()
        return commands

    def closed(self, outcome: Outcome) -> Outcome:
        """The outcome with what the rules add to it."""
        if not self.commands and not self.acted:
            return outcome
        return replace(outcome, timers=outcome.timers + self.timers(), acted=tuple(self.acted))

    @property
    def memory(self) -> RuleMemory:
        """The declared state."""
        return self.context.part(RuleMemory)

    def forget(self) -> None:
        """Drop the state of groups and members that there are no more."""
        if not self.declared:
            return
        values = self.memory.values
        for key in list(values):
            _, group_id, member_id = key
            members = self._members_of(group_id)
            if members is None or (member_id and member_id not in members):
                del values[key]

    def fired(self, key: TimerKey, group: Any) -> Outcome:
        """A timer of a rule has expired. Nothing happens if its group or member is gone.

        Raises ProtocolBug for a timer that no rule declares, and a method that returns anything but
        an outcome, or nothing."""
        name, member_id = timer_of(key)
        timer = self.declared.get(name)
        if not isinstance(timer, Timer):
            raise ProtocolBug(f"no rule declares a timer {name!r}")
        if group is None:
            return Outcome()
        about = [group]
        if timer.is_of_member:
            if member_id not in group.members:
                return Outcome()
            about.append(group.members[member_id])
        outcome = getattr(self.context.rules, timer.method)(*about)
        if outcome is None:
            return Outcome()
        if not isinstance(outcome, Outcome):
            raise ProtocolBug(f"{timer.method} returned {outcome!r}: return an Outcome, or nothing")
        if timer.rule:
            self.acted[timer.rule] = None
        return outcome


# -- what a rules class declares -------------------------------------------------------------------


class Declared:
    """``rule``: the id of the rule whose class declares it; empty until that is registered."""

    is_of_member = False
    name = ""
    rule = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def _key(self, about: Any) -> tuple[str, str, str]:
        """Of ids, or of a group or member id with it."""
        if not self.is_of_member:
            group_id, member_id = about, ""
        else:
            group_id, member_id = about if isinstance(about, tuple) else (None, None)
        if not isinstance(group_id, str) or not isinstance(member_id, str):
            ids = "group_id, member_id" if self.is_of_member else "group_id"
            raise TypeError(f"{self.name}[{about!r}]: write {self.name}[{ids}]")
        return self.name, group_id, member_id


class State(Declared, Generic[_T]):
    """A value for each group, or for each member. ``default``: what it is at first.

    ``is_time``: it is a time in ms, or None; states are then compared by how far it is from now.
    Values are hashable, so that none is changed in place. Raises TypeError for one that is not.
    """

    def __init__(self, default: _T, *, is_time: bool = False) -> None:
        self.default = _checked(default, is_time=is_time)
        self.is_time = is_time

    @overload
    def __get__(self, rules: None, owner: type) -> Self: ...
    @overload
    def __get__(self, rules: object, owner: type) -> Values[_T]: ...
    def __get__(self, rules: Any, owner: type) -> Self | Values[_T]:
        return self if rules is None else Values(self, rules.desk)


class GroupState(State[_T]):
    """A value for each group: ``self.NAME[group_id]``. It goes with the group."""


class MemberState(State[_T]):
    """A value for each member: ``self.NAME[group_id, member_id]``. It goes with the member."""

    is_of_member = True


class Values(Generic[_T]):
    """The values of one declared state in one coordinator."""

    __slots__ = ("_desk", "_state")

    def __init__(self, state: State[_T], desk: RuleDesk) -> None:
        self._state = state
        self._desk = desk

    def __getitem__(self, about: Any) -> _T:
        found = self._desk.memory.values.get(self._state._key(about), self._state.default)
        return found.at_ms if isinstance(found, Moment) else found  # type: ignore[return-value]

    def __setitem__(self, about: Any, value: _T) -> None:
        state, values = self._state, self._desk.memory.values
        _checked(value, is_time=state.is_time)
        key = state._key(about)
        if value == state.default:
            values.pop(key, None)
        else:
            values[key] = Moment(value) if state.is_time and isinstance(value, int) else value


class Timer(Declared):
    """A timer; ``method``: the decision of the rule that it expires into. It is given the group,
    and the member if it is one of a member, and returns an ``Outcome``, or nothing."""

    def __init__(self, method: str) -> None:
        if not isinstance(method, str):
            raise TypeError(f"{type(self).__name__}({method!r}): name the method it expires into")
        self.method = method

    @overload
    def __get__(self, rules: None, owner: type) -> Self: ...
    @overload
    def __get__(self, rules: object, owner: type) -> Alarm: ...
    def __get__(self, rules: Any, owner: type) -> Self | Alarm:
        return self if rules is None else Alarm(self, rules.desk)


class GroupTimer(Timer):
    """A timer for each group: ``self.NAME.set(group_id, after_ms=...)``."""


class MemberTimer(Timer):
    """A timer for each member: ``self.NAME.set((group_id, member_id), after_ms=...)``."""

    is_of_member = True


class Alarm:
    """One declared timer in one coordinator."""

    __slots__ = ("_desk", "_timer")

    def __init__(self, timer: Timer, desk: RuleDesk) -> None:
        self._timer = timer
        self._desk = desk

    def set(self, about: Any, *, after_ms: int) -> None:
        """Arm it, or arm it again. Raises ValueError for a time that is no whole number of ms, or
        negative."""
        if type(after_ms) is not int or after_ms < 0:
            raise ValueError(f"{self._timer.name}: after_ms is {after_ms!r}, no whole number of ms")
        at_ms = self._desk.now_ms + after_ms
        self._desk.commands.append(ScheduleTimer(self._key(about), at_ms))

    def cancel(self, about: Any) -> None:
        """Disarm it, if it is armed."""
        self._desk.commands.append(CancelTimer(self._key(about)))

    def _key(self, about: Any) -> TimerKey:
        name, group_id, member_id = self._timer._key(about)
        return TimerKey(RuleTimerKind.RULE, group_id, f"{name} {member_id}" if member_id else name)


def timer_of(key: TimerKey) -> tuple[str, str]:
    """The name of the timer that such a key is of, and the member; empty for one of a group."""
    name, _, member_id = key.member_id.partition(" ")
    return name, member_id


def _values_of(rules: type, kind: type[_T]) -> Iterator[_T]:
    """What of this kind stands in a rules class, or in one that it inherits from."""
    for one in rules.__mro__:
        yield from (value for value in vars(one).values() if isinstance(value, kind))


def declared_in(rules: type) -> Iterator[Declared]:
    """What a rules class declares, and what it inherits."""
    return _values_of(rules, Declared)


@lru_cache(maxsize=1024)
def _content_of(rules: type) -> tuple[Mapping[str, Declared], Mapping[str, None]]:
    """What a rules class declares, by name, and the rules in it that replace a value; every
    coordinator asks again."""
    return (
        {one.name: one for one in declared_in(rules)},
        dict.fromkeys(one.rule for one in _values_of(rules, _OtherValue)),
    )


def remembers_times(rules: type) -> bool:
    """Whether a state that a rules class declares is a time."""
    return any(one.is_time for one in _values_of(rules, State))


def _checked(value: _T, *, is_time: bool) -> _T:
    if is_time and not (value is None or type(value) is int):
        raise TypeError(f"state {value!r}: a time is a whole number of ms, or None")
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"state {value!r} can be changed in place: keep a tuple, a frozenset or a number"
        ) from None
    return value


# -- whether a rule acts ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OtherValue:
    """A rule replaces a value: it acts from the start."""

    rule: str


def watch(change: type, rule: str) -> None:
    """Have a change note, under the id of its rule, where it decides otherwise than what it
    replaces. Once for each class."""
    base = change.__bases__[0]
    for name, value in list(vars(change).items()):
        if isinstance(value, Declared):
            value.rule = rule
        elif not hasattr(base, name) or name.startswith("__"):
            continue
        elif isinstance(value, FunctionType):
            setattr(change, name, _noting(change, name, value, rule))
        elif value != getattr(base, name):
            setattr(change, f"_other_{name}", _OtherValue(rule))


def _noting(change: type, name: str, decide: FunctionType, rule: str) -> Callable[..., Any]:
    @wraps(decide)
    def decides(self: Any, *about: Any, **more: Any) -> Any:
        decision = decide(self, *about, **more)
        desk = self.desk
        if rule not in desk.acted and decision != getattr(super(change, self), name)(
            *about, **more
        ):
            desk.acted[rule] = None
        return decision

    return decides
