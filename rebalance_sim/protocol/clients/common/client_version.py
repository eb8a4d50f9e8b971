"""A release of a client library: what it changes in the rules of the library's kinds."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientVersion:
    """A table of differences from the rules classes of a library, which are those of the release
    that its kinds name (``ClientKind.version``).

    ``library`` is the library as kinds have it, ``name`` the release line, as scenarios have it.
    ``about`` says in a line what is different. ``changes`` are classes that derive from the rules
    class they change; one of a kind's rules applies to that kind alone. Assignors that a classic
    leader runs may be changed as well. ``protocol`` is the one that the release has as it is
    modelled; None: both.
    """

    library: str
    name: str
    about: str
    changes: tuple[type, ...]
    protocol: GroupProtocol | None = None

    def is_of(self, kind: ClientKind) -> bool:
        """Whether a client of this kind may be of this release."""
        return kind.library == self.library and self.protocol in (None, kind.protocol)
