"""Which protocol is simulated: one value that names the rules of coordinator, broker and member.

Each version is a module beside this one and is found there. It is also there without its shipped
defects, as ``kafka-4.4-clean``. A value may carry further defects by id
(docs/reference/defects.md); one that is off costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.migration.group_semantics import GroupSemantics
from rebalance_sim.protocol.runtime.discovery import declared_in
from rebalance_sim.protocol.runtime.suggestion import did_you_mean
from rebalance_sim.protocol.versions.version import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantics(GroupSemantics):
    """A protocol version: correct rules, what the version changes in them, the defects it was
    shipped with, and those switched on in it.

    ``about`` says in a line what it simulates. ``shipped_defects`` are names of all that is known
    to go wrong in the version by itself, ``repairs`` those that were taken away from it.
    """

    name: str
    about: str = ""
    shipped_defects: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()

    @property
    def member(self) -> type[MemberRules]:
        """The rules of a client that speaks the consumer protocol."""
        return self.rules(MemberRules)

    @property
    def as_released(self) -> Semantics:
        """The version without the defects that were switched on in it."""
        if not self.defects:
            return self
        shipped = {rule for one in self.shipped_defects for rule in _rules_of(one)}
        switched = {rule for one in self.defects for rule in _rules_of(one)} - shipped
        changes = tuple(change for change in self.changes if change not in switched)
        return replace(self, changes=changes, defects=())

    def with_defects(self, *ids: str) -> Semantics:
        """This version with defects switched on.

        Raises ValueError for an id that no defect has.
        """
        changed = self._with_rules_of(ids)
        return replace(changed, defects=tuple(sorted({*self.defects, *ids})))

    def shipped_with(self, *ids: str) -> Semantics:
        """These rules with the defects that were in a release."""
        changed = self._with_rules_of(ids)
        return replace(changed, shipped_defects=tuple(sorted({*self.shipped_defects, *ids})))

    def without(self, *ids: str) -> Semantics:
        """This version with some of the defects that it shipped with repaired.

        Raises ValueError for an id that the version did not ship with, and for one that was
        switched on.
        """
        for one in ids:
            self._check_repair(one)
        kept = tuple(one for one in self.shipped_defects if one not in ids)
        staying = {rule for one in (*kept, *self.defects) for rule in _rules_of(one)}
        repaired = {rule for one in ids for rule in _rules_of(one)} - staying
        return replace(
            self,
            changes=tuple(change for change in self.changes if change not in repaired),
            shipped_defects=kept,
            repairs=tuple(sorted({*self.repairs, *ids})),
        )

    @property
    def replaced(self) -> Mapping[str, tuple[str, ...]]:
        """Of the rules that are switched on, by id: the properties that they make untrue on
        purpose."""
        said = {one: DEFECTS[one].replaces for one in self.defects if one in DEFECTS}
        return {rule: properties for rule, properties in said.items() if properties}

    def can_repair(self, issue: str) -> bool:
        """Whether ``without`` takes this id."""
        is_shipped = issue in self.shipped_defects and issue not in self.defects
        return is_shipped or issue in self.repairs

    def _check_repair(self, issue: str) -> None:
        if self.can_repair(issue):
            return
        if issue in self.defects:
            raise ValueError(f"{issue} is switched on: it cannot be repaired as well")
        raise ValueError(
            f"{self.name} has no issue {issue!r} to repair; "
            + did_you_mean(issue, self.shipped_defects)
        )

    def _with_rules_of(self, ids: Iterable[str]) -> Semantics:
        for one in ids:
            if one not in DEFECTS:
                raise ValueError(f"no defect {one!r}; {did_you_mean(one, DEFECTS)}")
        return self.changed_by(*(rule for one in ids for rule in DEFECTS[one].rules))


def _rules_of(issue: str) -> tuple[type, ...]:
    return DEFECTS[issue].rules if issue in DEFECTS else ()


def simulated(name: str, *, defects: Iterable[str] = (), repairs: Iterable[str] = ()) -> Semantics:
    """The version of this name with defects switched on, and without what is repaired.

    Raises ValueError, which says which of the three it is about, for a name or an id that there is
    not, for something that cannot be repaired, and for what is switched on and repaired.
    """
    semantics = semantics_named(name)
    try:
        semantics = semantics.with_defects(*defects)
    except ValueError as error:
        raise ValueError(f"defects: {error}") from None
    try:
        return semantics.without(*repairs)
    except ValueError as error:
        raise ValueError(f"repairs: {error}") from None


def semantics_named(name: str) -> Semantics:
    """The semantics of this name.

    Raises ValueError, with the nearest name, if there are none.
    """
    if name not in SEMANTICS:
        raise ValueError(f"no semantics {name!r}; {did_you_mean(name, SEMANTICS)}")
    return SEMANTICS[name]


def _semantics_of(version: Version) -> Iterator[Semantics]:
    about = f"{version.about}, with the defects it shipped with"
    shipped = Semantics(name=version.name, about=about, changes=version.changes)
    yield shipped.shipped_with(*version.shipped_defects)
    yield replace(
        shipped, name=f"{version.name}-clean", about=f"{version.name} without those defects"
    )


_VERSIONS = declared_in("rebalance_sim.protocol.versions", "VERSION", Version)

SEMANTICS: Mapping[str, Semantics] = MappingProxyType(
    {semantics.name: semantics for version in _VERSIONS for semantics in _semantics_of(version)}
)
"""Every version by name, with and without its shipped defects."""

DEFAULT_SEMANTICS = SEMANTICS["kafka-4.4"]
"""Where no version is named. A new version does not become it by itself: runs would change."""

CLEAN_SEMANTICS = SEMANTICS[f"{DEFAULT_SEMANTICS.name}-clean"]
"""The same without those defects."""

RELEASES: Mapping[str, Semantics] = MappingProxyType(
    {line: SEMANTICS[version.name] for version in _VERSIONS for line in version.releases}
)
"""The semantics of a release line of Apache Kafka, such as 4.4."""

WITH_CLIENT_ASSIGNORS = tuple(
    name for name, one in SEMANTICS.items() if one.coordinator.has_client_assignors
)
"""Names of the semantics in which members may compute targets."""
