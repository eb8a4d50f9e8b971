"""A broker that only has a stored session: it answers the requests of that with its bytes.

To store the session of ``record_session.toml`` again, ask a real Kafka 4.3.1:
``python tests/conformance/played_broker.py HOST:PORT``.
"""

from __future__ import annotations

import base64
import json
import socket
import socketserver
import struct
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

SCRIPT = Path(__file__).with_name("record_session.toml")
STORED = Path(__file__).with_name("record_session.json")
PREFIX = uuid.UUID(int=0x5EED << 112)
"""What the session took for its random prefix: requests are the stored ones only with the same."""

Answer = Callable[[bytes], bytes | None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A server on loopback: HOST:PORT. A request without an answer ends its connection."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while (request := read_frame(self.request)) is not None:
                response = answer(request)
                if response is None:
                    return
                self.request.sendall(struct.pack(">i", len(response)) + response)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def read_frame(connection: socket.socket) -> bytes | None:
    """A request or response without its length; None once the other side has closed."""
    with_length = _read(connection, 4)
    return None if with_length is None else _read(connection, *struct.unpack(">i", with_length))


def _read(connection: socket.socket, size: int) -> bytes | None:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            return None
        received += part
    return received


class PlayedSession:
    """Answers each stored request once, in their order. ``unknown``: what was not stored."""

    def __init__(self) -> None:
        self._exchanges = [
            (base64.b64decode(request), base64.b64decode(response))
            for request, response in json.loads(STORED.read_text())
        ]
        self.unknown: list[bytes] = []

    def __call__(self, request: bytes) -> bytes | None:
        if not self._exchanges or self._exchanges[0][0] != request:
            self.unknown.append(request)
            return None
        return self._exchanges.pop(0)[1]


def main(bootstrap: str) -> None:
    """Play the script to a real broker, and store what goes over the wire."""
    from rebalance_sim.cli.main import invoke

    host, _, port = bootstrap.rpartition(":")
    exchanges: list[tuple[str, str]] = []
    connections = threading.local()

    def relay(request: bytes) -> bytes | None:
        if not hasattr(connections, "broker"):
            connections.broker = socket.create_connection((host, int(port)))
        connections.broker.sendall(struct.pack(">i", len(request)) + request)
        response = read_frame(connections.broker)
        assert response is not None
        exchanges.append((base64.b64encode(request).decode(), base64.b64encode(response).decode()))
        return response

    with patch("uuid.uuid4", return_value=PREFIX), serving(relay) as address:
        out = ["--out", "results/record-session", "--jobs", "1"]
        invoke(["record", "--version", "4.3.1", "--bootstrap", address, *out, str(SCRIPT)])
    STORED.write_text(json.dumps(exchanges, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
