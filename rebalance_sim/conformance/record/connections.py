"""The connections of one recording: one for administrators, and one for each client."""

from __future__ import annotations

from rebalance_sim.conformance.record.wire import Address, Connection


class Connections:
    """They are opened when they are first needed."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._open: dict[str, Connection] = {}

    @property
    def admin(self) -> Connection:
        """For what members do not ask."""
        return self.of("admin")

    def of(self, client: str | None) -> Connection:
        """The connection of a client; it is also its client id."""
        name = client or "anonymous"
        if name not in self._open:
            self._open[name] = Connection(self._address, name)
        return self._open[name]

    def close(self) -> None:
        """Close them all; they can be opened again."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()
