"""Versions of client libraries: one module for each that differs from what the machines do.

A module holds the changed rules and ``VERSION``; being in this package is all the registration
there is. A kind itself is the release that it names (``ClientKind.version``). Source: client
Appendix A.
"""

from __future__ import annotations

from typing import Any

from rebalance_sim.protocol.clients.common.client_kind import ClientKind
from rebalance_sim.protocol.clients.common.client_version import ClientVersion
from rebalance_sim.protocol.clients.kinds import KINDS
from rebalance_sim.protocol.runtime.discovery import declared_in
from rebalance_sim.protocol.runtime.rule_set import RuleSet

CLIENT_VERSIONS = tuple(declared_in(__name__, "VERSION", ClientVersion))
"""All but those that the kinds themselves are."""


def versions_of(kind: str) -> tuple[str, ...]:
    """What a client of this kind may name as its version; the first is the one without a name."""
    known = KINDS[kind]
    return (known.version, *(v.name for v in CLIENT_VERSIONS if v.is_of(known)))


def check_version(version: str | None, kind: str | None, name: str = "version") -> None:
    """Raises ValueError for a version that is not modelled of this kind; ``name`` is that of the
    field. None, the version that the kind is, passes. Without a kind, one of any library does."""
    known = dict.fromkeys(v for one in ((kind,) if kind else KINDS) for v in versions_of(one))
    if version is not None and version not in known:
        of_kind = f" of {kind}" if kind else ""
        raise ValueError(f"{name} {version!r}{of_kind} is not known; known are: {', '.join(known)}")


def version_in(kind: str, version: str | None) -> str | None:
    """The version, if a client of this kind may name it; else None: another library's is no more
    than the kind's own."""
    return version if version in versions_of(kind) else None


def client_rule_set(kind: ClientKind, version: str | None, semantics: RuleSet) -> RuleSet:
    """What a client decides with: the changes of its version, those of the semantics in front."""
    mine = (v for v in CLIENT_VERSIONS if v.name == version and v.is_of(kind))
    own = (change for one in mine for change in one.changes)
    return RuleSet(changes=(*own, *semantics.changes))


def client_rules(kind: ClientKind, version: str | None, semantics: RuleSet) -> type[Any] | None:
    """The rules of a member, in that rule set. None: the kind has none."""
    if kind.rules is None:
        return None
    return client_rule_set(kind, version, semantics).rules(kind.rules)
