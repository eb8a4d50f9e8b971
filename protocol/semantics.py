"""Which protocol is simulated: one value that names the rules of coordinator and member.

``kafka-4.3`` is the default; ``kafka-4.1`` and ``kip-848`` are the other two. A value may carry
known defects and mutants (bug-zoo.md) by name: each is a mixin class put in front of the rules, so
that a defect which is off costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from protocol.consumer_group.defects import COORDINATOR_DEFECTS
from protocol.consumer_group.kip848 import Kip848Rules
from protocol.consumer_group.rules import ConsumerGroupRules, Kafka41Rules
from protocol.member import MEMBER_DEFECTS, MemberRules

_Rules = TypeVar("_Rules")

__all__ = ["DEFAULT_SEMANTICS", "SEMANTICS", "Semantics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantics:
    """A protocol version: clean rules, the defects it shipped with, and those switched on in it."""

    name: str
    coordinator: type[ConsumerGroupRules]
    member: type[MemberRules]
    shipped_defects: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()

    def with_defects(self, *names: str) -> Semantics:
        """This version with the named defects and mutants switched on.

        Raises ValueError for a name that is not in the zoo.
        """
        mixed = self._mixed_with(names)
        return replace(mixed, defects=tuple(sorted({*self.defects, *names})))

    def shipped_with(self, *names: str) -> Semantics:
        """These rules with the defects that were in a release."""
        mixed = self._mixed_with(names)
        return replace(mixed, shipped_defects=tuple(sorted({*self.shipped_defects, *names})))

    def _mixed_with(self, names: Iterable[str]) -> Semantics:
        result = self
        for name in names:
            coordinator = COORDINATOR_DEFECTS.get(name)
            member = MEMBER_DEFECTS.get(name)
            if coordinator is None and member is None:
                known = ", ".join(sorted({*COORDINATOR_DEFECTS, *MEMBER_DEFECTS}))
                raise ValueError(f"unknown defect {name!r}; known are: {known}")
            if coordinator is not None:
                result = replace(result, coordinator=_mix(coordinator, result.coordinator))
            if member is not None:
                result = replace(result, member=_mix(member, result.member))
        return result


def _mix(mixin: type, base: type[_Rules]) -> type[_Rules]:
    """A class with the mixin's overrides in front of the base's rules."""
    if issubclass(base, mixin):
        return base
    return type(f"{mixin.__name__}{base.__name__}", (mixin, base), {})


SEMANTICS: Mapping[str, Semantics] = {
    "kafka-4.3": Semantics(
        name="kafka-4.3", coordinator=ConsumerGroupRules, member=MemberRules
    ).shipped_with("PR-23542", "KAFKA-20601"),
    "kafka-4.1": Semantics(
        name="kafka-4.1", coordinator=Kafka41Rules, member=MemberRules
    ).shipped_with("PR-23542", "KAFKA-20601", "KAFKA-19233", "KAFKA-19431"),
    "kip-848": Semantics(name="kip-848", coordinator=Kip848Rules, member=MemberRules),
}
"""Every version by name."""

DEFAULT_SEMANTICS = SEMANTICS["kafka-4.3"]
