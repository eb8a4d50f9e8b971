"""Which protocol is simulated: one value that names the rules of coordinator and member.

``kafka-4.3`` is the default; ``kafka-4.1`` and ``kip-848`` are the other two. A value may carry
defects and mutants (docs/reference/defects.md) by name: each is a mixin class put in front of
the rules, so that a defect which is off costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rebalance_sim.protocol.assignors.classic import (
    CLASSIC_ASSIGNORS,
    LIBRDKAFKA_ASSIGNORS,
    ClassicAssignor,
)
from rebalance_sim.protocol.assignors.client_side import StreamsAssignor
from rebalance_sim.protocol.clients import MemberRules
from rebalance_sim.protocol.clients.java.classic import ClassicMemberRules
from rebalance_sim.protocol.defects.classic_assignor_defects import (
    STICKY_DEFECTS,
    librdkafka_assignors_with_defects,
)
from rebalance_sim.protocol.defects.classic_assignor_defects import (
    assignors_with_defects as classic_assignors_with_defects,
)
from rebalance_sim.protocol.defects.classic_member_defects import CLASSIC_MEMBER_DEFECTS
from rebalance_sim.protocol.defects.coordinator_defects import COORDINATOR_DEFECTS
from rebalance_sim.protocol.defects.member_defects import MEMBER_DEFECTS
from rebalance_sim.protocol.defects.server_assignor_defects import (
    RANGE_DEFECTS,
    UNIFORM_DEFECTS,
    assignors_with_defects,
)
from rebalance_sim.protocol.defects.streams_defects import STREAMS_DEFECTS
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions.kafka_4_1 import Kafka41Rules
from rebalance_sim.protocol.versions.kip_848 import Kip848Rules

_Rules = TypeVar("_Rules")
_MIXED = "WithDefects"

ASSIGNOR_DEFECTS = frozenset({*UNIFORM_DEFECTS, *RANGE_DEFECTS})

DEFECT_IDS: tuple[str, ...] = tuple(
    sorted(
        {
            *COORDINATOR_DEFECTS,
            *MEMBER_DEFECTS,
            *ASSIGNOR_DEFECTS,
            *STREAMS_DEFECTS,
            *CLASSIC_MEMBER_DEFECTS,
            *STICKY_DEFECTS,
        }
    )
)
"""Every defect and mutant that can be switched on."""

__all__ = ["DEFAULT_SEMANTICS", "DEFECT_IDS", "SEMANTICS", "Semantics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantics:
    """A protocol version: clean rules, the defects it shipped with, and those switched on in it.

    ``streams`` is the client-side assignor of that name, where the version has such assignors.
    ``classic_member`` and ``classic_assignors`` are the rules of clients that speak the classic
    protocol, and by name the assignors of their leaders; ``librdkafka_assignors`` those of
    librdkafka's.
    """

    name: str
    coordinator: type[MigrationRules]
    member: type[MemberRules]
    streams: type[StreamsAssignor] = StreamsAssignor
    classic_member: type[ClassicMemberRules] = ClassicMemberRules
    classic_assignors: Mapping[str, ClassicAssignor] = field(
        default_factory=lambda: CLASSIC_ASSIGNORS
    )
    librdkafka_assignors: Mapping[str, ClassicAssignor] = field(
        default_factory=lambda: LIBRDKAFKA_ASSIGNORS
    )
    shipped_defects: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()

    def with_defects(self, *names: str) -> Semantics:
        """This version with the named defects and mutants switched on.

        Raises ValueError for a name that is no defect's id.
        """
        mixed = self._mixed_with(names)
        return replace(mixed, defects=tuple(sorted({*self.defects, *names})))

    def shipped_with(self, *names: str) -> Semantics:
        """These rules with the defects that were in a release."""
        mixed = self._mixed_with(names)
        return replace(mixed, shipped_defects=tuple(sorted({*self.shipped_defects, *names})))

    def _mixed_with(self, names: Sequence[str]) -> Semantics:
        result = self
        for name in names:
            if name not in DEFECT_IDS:
                raise ValueError(f"unknown defect {name!r}; known are: {', '.join(DEFECT_IDS)}")
            if name in COORDINATOR_DEFECTS:
                coordinator = _mix(COORDINATOR_DEFECTS[name], result.coordinator)
                result = replace(result, coordinator=coordinator)
            if name in MEMBER_DEFECTS:
                result = replace(result, member=_mix(MEMBER_DEFECTS[name], result.member))
            if name in STREAMS_DEFECTS:
                result = replace(result, streams=_mix(STREAMS_DEFECTS[name], result.streams))
            if name in CLASSIC_MEMBER_DEFECTS:
                classic_member = _mix(CLASSIC_MEMBER_DEFECTS[name], result.classic_member)
                result = replace(result, classic_member=classic_member)
        of_classic = [n for n in (*self.defects, *names) if n in STICKY_DEFECTS]
        if of_classic:
            result = replace(
                result,
                classic_assignors=classic_assignors_with_defects(of_classic),
                librdkafka_assignors=librdkafka_assignors_with_defects(of_classic),
            )
        of_assignors = [n for n in (*self.defects, *names) if n in ASSIGNOR_DEFECTS]
        if of_assignors:
            assignors = {"assignors": assignors_with_defects(of_assignors)}
            coordinator = type(result.coordinator.__name__, (result.coordinator,), assignors)
            result = replace(result, coordinator=coordinator)
        return result


def _mix(mixin: type, base: type[_Rules]) -> type[_Rules]:
    """A class with the mixin's overrides in front of the base's rules.

    Its name says whose rules they are; which mixins are in front stands in ``__mro__``.
    """
    if issubclass(base, mixin):
        return base
    return type(f"{base.__name__.removesuffix(_MIXED)}{_MIXED}", (mixin, base), {})


_SHIPPED_IN_4_3 = (
    "PR-23542",
    "KAFKA-20601",
    "sim-lost-pattern-withdrawal",
    "sim-stale-subscription-type",
)
_SHIPPED_IN_4_1 = (
    *_SHIPPED_IN_4_3,
    "KAFKA-19233",
    "KAFKA-19431",
    "KAFKA-20066",
    "KAFKA-20640",
    # Of the client: docs/reference/defects.md for the first; the second stands in the byte code of
    # 4.1.2.
    "KAFKA-20332",
    "KAFKA-19813",
)

SEMANTICS: Mapping[str, Semantics] = {
    "kafka-4.3": Semantics(
        name="kafka-4.3", coordinator=MigrationRules, member=MemberRules
    ).shipped_with(*_SHIPPED_IN_4_3),
    "kafka-4.1": Semantics(
        name="kafka-4.1", coordinator=Kafka41Rules, member=MemberRules
    ).shipped_with(*_SHIPPED_IN_4_1),
    "kip-848": Semantics(
        name="kip-848",
        coordinator=Kip848Rules,
        member=MemberRules,
        # Not a switch: it comes of the text's eager promotion (docs/findings.md).
        shipped_defects=("sim-unheard-grant",),
    ),
}
"""Every version by name."""

DEFAULT_SEMANTICS = SEMANTICS["kafka-4.3"]
