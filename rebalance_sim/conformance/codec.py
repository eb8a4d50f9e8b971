"""Messages of Kafka's wire protocol as dicts, read and written by the schemas of ``kio``.

A field stands under the name that ``kio`` gives it (times without their unit: ``session_timeout``),
times are whole milliseconds, and error codes are numbers. The same code reads and writes all
versions of a message: what a version does not have is not read, and not written.

Lengths are compared with what is left of the frame before anything is made of them. ``kio`` has
readers of its own, which make room first: a frame of 20 bytes that announces 2^31-1 items ends the
process.
"""

from __future__ import annotations

import datetime
import importlib
import re
import struct
import uuid
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin

from rebalance_sim.conformance.errors import WireError

MAX_ITEMS = 100_000
"""How many items all arrays of a frame may have together; each takes far more room than a byte."""

Message = dict[str, Any]
_Read = Callable[["Reader"], Any]
_Write = Callable[[bytearray, Any], object]

_NUMBERS = {
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint8": ">B",
    "uint16": ">H",
    "uint32": ">I",
    "uint64": ">Q",
    "float64": ">d",
    "bool": ">?",
    "error_code": ">h",
    "timedelta_i32": ">i",
    "timedelta_i64": ">q",
    "datetime_i64": ">q",
}
_NO_UUID = uuid.UUID(int=0)
_ZERO: dict[str, Any] = {"string": "", "bytes": b"", "records": b"", "uuid": _NO_UUID}
_VARINT_BITS = 35


class Reader:
    """A position in the bytes of one frame. Raises WireError where the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._items_left = MAX_ITEMS

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if not 0 <= size <= self.left:
            raise WireError(f"{size} bytes are announced, {self.left} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, form: struct.Struct) -> Any:
        """The next number."""
        return form.unpack(self.take(form.size))[0]

    def varint(self) -> int:
        """The next unsigned varint of at most 32 bits."""
        value = shift = 0
        while shift < _VARINT_BITS:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise WireError("a varint of more than 32 bits")

    def skip_tagged(self) -> None:
        """Pass over the tagged fields at the end of a header: none of them is read."""
        for _ in range(self.count(self.varint())):
            self.varint()
            self.take(self.varint())

    def count(self, items: int) -> int:
        """So many items are announced; each takes at least a byte."""
        if items > self.left or items > self._items_left:
            raise WireError(f"{items} items are announced, {self.left} bytes are left")
        self._items_left -= items
        return items


def write_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


@cache
def schema_of(api: str, version: int, kind: str) -> Any:
    """The schema of a message, a class of ``kio``; ``kind`` is ``Request`` or ``Response``."""
    folder = re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower()
    module = importlib.import_module(f"kio.schema.{folder}.v{version}.{kind.lower()}")
    return getattr(module, f"{api}{kind}")


def read(schema: type, reader: Reader) -> Message:
    """Read a message, or a part of one. Raises WireError for what is none."""
    message: Message = _struct(schema)[0](reader)
    return message


def write(schema: type, message: Message) -> bytes:
    """The bytes of a message. Fields that are left out have their default; tagged ones stand
    there only if they are given."""
    out = bytearray()
    _struct(schema)[1](out, message)
    return bytes(out)


@cache
def _struct(schema: Any) -> tuple[_Read, _Write]:
    is_flexible: bool = schema.__flexible__
    plain: list[tuple[str, _Read, _Write, Any]] = []
    tagged: dict[int, tuple[str, _Read, _Write]] = {}
    for field in fields(schema):
        reads, writes = _field(field, is_flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = (field.name, reads, writes)
        else:
            plain.append((field.name, reads, writes, _default(field)))

    def read_struct(reader: Reader) -> Message:
        message = {name: reads(reader) for name, reads, _, _ in plain}
        if is_flexible:
            for _ in range(reader.count(reader.varint())):
                tag, size = reader.varint(), reader.varint()
                content = Reader(reader.take(size))
                if tag in tagged:
                    name, reads, _ = tagged[tag]
                    message[name] = reads(content)
        return message

    def write_struct(out: bytearray, message: Message) -> None:
        for name, _, writes, default in plain:
            writes(out, message.get(name, default))
        if is_flexible:
            given = [(tag, *row) for tag, row in sorted(tagged.items()) if row[0] in message]
            write_varint(out, len(given))
            for tag, name, _, writes in given:
                content = bytearray()
                writes(content, message[name])
                write_varint(out, tag)
                write_varint(out, len(content))
                out += content

    return read_struct, write_struct


def _field(field: Field[Any], is_flexible: bool) -> tuple[_Read, _Write]:
    kind: Any
    kind, is_nullable = _without_none(field.type)
    primitive = field.metadata.get("kafka_type", "")
    if get_origin(kind) is tuple:
        item, _ = _without_none(get_args(kind)[0])
        parts = _struct(item) if _is_struct(item) else _primitive(primitive, False, is_flexible)
        return _array(parts, is_nullable, is_flexible)
    if _is_struct(kind):
        return _nullable_struct(kind) if is_nullable else _struct(kind)
    return _primitive(primitive, is_nullable, is_flexible)


def _is_struct(kind: Any) -> bool:
    return is_dataclass(kind)


def _without_none(kind: Any) -> tuple[Any, bool]:
    parts = get_args(kind)
    if NoneType not in parts:
        return kind, False
    (kind,) = (part for part in parts if part is not NoneType)
    return kind, True


def _array(
    item: tuple[_Read, _Write], is_nullable: bool, is_flexible: bool
) -> tuple[_Read, _Write]:
    read_item, write_item = item
    read_length, write_length = _length(">i", is_flexible)

    def read_array(reader: Reader) -> list[Any] | None:
        count = read_length(reader)
        if count < 0:
            _check_null(is_nullable, "array")
            return None
        return [read_item(reader) for _ in range(reader.count(count))]

    def write_array(out: bytearray, items: Any) -> None:
        write_length(out, -1 if items is None else len(items))
        for one in items or ():
            write_item(out, one)

    return read_array, write_array


def _nullable_struct(schema: type) -> tuple[_Read, _Write]:
    read_struct, write_struct = _struct(schema)
    marker = struct.Struct(">b")

    def read_it(reader: Reader) -> Message | None:
        return None if reader.number(marker) < 0 else read_struct(reader)

    def write_it(out: bytearray, message: Message | None) -> None:
        out += marker.pack(-1 if message is None else 1)
        if message is not None:
            write_struct(out, message)

    return read_it, write_it


def _primitive(kind: str, is_nullable: bool, is_flexible: bool) -> tuple[_Read, _Write]:
    if kind in _NUMBERS:
        form = struct.Struct(_NUMBERS[kind])
        # A time that is not known is null to kio, and -1 on the wire.
        missing = -1 if is_nullable else 0
        return (
            lambda reader: reader.number(form),
            lambda out, value: out.extend(form.pack(missing if value is None else value)),
        )
    if kind == "uuid":
        return (
            lambda reader: uuid.UUID(bytes=reader.take(16)),
            lambda out, value: out.extend((value or _NO_UUID).bytes),
        )
    is_text = kind == "string"
    read_length, write_length = _length(">h" if is_text else ">i", is_flexible)
    is_nullable = is_nullable or kind == "records"

    def read_bytes(reader: Reader) -> str | bytes | None:
        size = read_length(reader)
        if size < 0:
            _check_null(is_nullable, kind)
            return None
        data = reader.take(size)
        try:
            return data.decode() if is_text else data
        except UnicodeDecodeError as problem:
            raise WireError(f"a string is no UTF-8: {problem.reason}") from None

    def write_bytes(out: bytearray, value: Any) -> None:
        if value is None and is_nullable:
            write_length(out, -1)
            return
        data = (value or "").encode() if is_text else value or b""
        write_length(out, len(data))
        out += data

    return read_bytes, write_bytes


def _length(form: str, is_flexible: bool) -> tuple[_Read, _Write]:
    """Lengths of arrays, strings and bytes; -1 is null."""
    if is_flexible:
        return (lambda reader: reader.varint() - 1, lambda out, size: write_varint(out, size + 1))
    fixed = struct.Struct(form)
    return (lambda reader: reader.number(fixed), lambda out, size: out.extend(fixed.pack(size)))


def _check_null(is_nullable: bool, kind: str) -> None:
    if not is_nullable:
        raise WireError(f"null for a {kind} that may not be null")


def _default(field: Field[Any]) -> Any:
    kind, is_nullable = _without_none(field.type)
    value = field.default
    if value is MISSING:
        if get_origin(kind) is tuple:
            return ()
        if _is_struct(kind) and not is_nullable:
            return {}
        return None if is_nullable else _ZERO.get(field.metadata.get("kafka_type", ""), 0)
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    return value
