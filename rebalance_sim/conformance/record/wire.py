"""The connections of one recording: one for administrators, and one for each client."""

from __future__ import annotations

import select
import socket
import struct
from typing import Any

from rebalance_sim.conformance import codec
from rebalance_sim.conformance.record.errors import RecordError

Address = tuple[str, int]

_TIMEOUT_S = 60
"""Longer than any answer that is waited for: a parked JoinGroup has its rebalance timeout."""

_NUMBER = struct.Struct(">i")


class Connection:
    """One connection to a broker: at most one request is under way on it. Messages are dicts, as
    ``conformance.codec`` has them. Raises OSError when the broker is gone."""

    def __init__(self, address: Address, client_id: str) -> None:
        self._socket = socket.create_connection(address, timeout=_TIMEOUT_S)
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._expected: Any = None  # the schema of the response to the request that is under way

    def call(self, api: str, version: int, message: codec.Message) -> codec.Message:
        """Send a request and wait for its response."""
        self.send(api, version, message)
        return self.receive()

    def send(self, api: str, version: int, message: codec.Message) -> None:
        """Send a request; its response is to be fetched with ``receive``. Raises RecordError for a
        version that is not known."""
        try:
            schema = codec.schema_of(api, version, "Request")
            self._expected = codec.schema_of(api, version, "Response")
        except ModuleNotFoundError:
            raise RecordError(f"{api} version {version} is not known; ask an older one") from None
        self._correlation_id += 1
        numbers = (schema.__api_key__, version, self._correlation_id, len(self._client_id))
        head = struct.pack(">hhih", *numbers) + self._client_id
        if schema.__flexible__:
            head += b"\0"  # no tagged fields
        payload = head + codec.write(schema, message)
        self._socket.sendall(_NUMBER.pack(len(payload)) + payload)

    def receive(self) -> codec.Message:
        """The response to the request that is under way."""
        (size,) = _NUMBER.unpack(self._read(_NUMBER.size))
        reader = codec.Reader(self._read(size))
        if reader.number(_NUMBER) != self._correlation_id:
            raise ConnectionError("the broker answered another request than the one sent")
        if self._expected.__flexible__:
            reader.skip_tagged()
        return codec.read(self._expected, reader)

    def has_answer(self, wait_s: float = 0.0) -> bool:
        """Whether a response has begun to come in."""
        return bool(select.select([self._socket], [], [], wait_s)[0])

    def close(self) -> None:
        """Close it; a request that is under way gets no response."""
        self._socket.close()

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self._socket.recv(size - len(received))
            if not part:
                raise ConnectionError("the broker closed the connection")
            received += part
        return bytes(received)


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
