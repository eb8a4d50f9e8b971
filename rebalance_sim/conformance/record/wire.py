"""One connection to a broker: requests out, responses in, in order."""

from __future__ import annotations

import io
import select
import socket
import struct
from datetime import timedelta
from typing import TypeVar

from kio.schema.request_header.v1.header import RequestHeader as RequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as RequestHeaderV2
from kio.schema.response_header.v0.header import ResponseHeader as ResponseHeaderV0
from kio.schema.response_header.v1.header import ResponseHeader as ResponseHeaderV1
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta
from kio.static.protocol import RequestPayload, ResponsePayload

Address = tuple[str, int]
_Response = TypeVar("_Response", bound=ResponsePayload)

_TIMEOUT_S = 60
"""Longer than any answer that is waited for: a parked JoinGroup has its rebalance timeout."""


def milliseconds(count: int) -> i32Timedelta:
    """A duration as requests carry it."""
    return i32Timedelta.parse(timedelta(milliseconds=count))


class Connection:
    """At most one request is under way on it. Raises OSError when the broker is gone."""

    def __init__(self, address: Address, client_id: str) -> None:
        self._socket = socket.create_connection(address, timeout=_TIMEOUT_S)
        self._client_id = client_id
        self._correlation_id = 0

    def call(self, request: RequestPayload, kind: type[_Response]) -> _Response:
        """Send a request and wait for its response."""
        self.send(request)
        return self.receive(kind)

    def send(self, request: RequestPayload) -> None:
        """Send a request; its response is to be fetched with ``receive``."""
        self._correlation_id += 1
        header_type = request.__header_schema__
        assert issubclass(header_type, RequestHeaderV1 | RequestHeaderV2)
        header = header_type(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=i32(self._correlation_id),
            client_id=self._client_id,
        )
        frame = io.BytesIO()
        entity_writer(header_type)(frame, header)
        entity_writer(type(request))(frame, request)
        payload = frame.getvalue()
        self._socket.sendall(struct.pack(">i", len(payload)) + payload)

    def receive(self, kind: type[_Response]) -> _Response:
        """The response to the request that is under way."""
        (size,) = struct.unpack(">i", self._read(4))
        frame = memoryview(self._read(size))
        header_type: type[ResponseHeaderV0] | type[ResponseHeaderV1] = kind.__header_schema__
        header, header_size = entity_reader(header_type)(frame, 0)
        if header.correlation_id != self._correlation_id:
            raise ConnectionError("the broker answered another request than the one sent")
        response, _ = entity_reader(kind)(frame, header_size)
        return response

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
