"""The history on the wire: records as JSON objects with camelCase names, one per line."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from datetime import UTC, datetime
from typing import Any

from holdfast.errors import Corrupt, InvalidArgument, InvalidImport
from holdfast.history.jsonform import from_json, to_json
from holdfast.history.lines import dumps_line, loads_line
from holdfast.history.records import RECORD_TYPES, Record, StoreEvent

__all__ = ["dumps_line", "from_wire", "loads_line", "to_wire"]


@dataclass(frozen=True, slots=True)
class Form:
    """How one kind of field is written; reading gives the value or raises ValueError with what was wanted."""

    write: Callable[[Any, str], Any]
    read: Callable[[Any], Any]


def to_wire(record: Record) -> dict[str, Any]:
    """A stored record as a JSON object. Optional fields that are None are left out."""
    if isinstance(record, StoreEvent):
        raise InvalidArgument("What concerns the store itself is no part of an agent's history and has no wire form")
    if record.at is None or record.seq < 1:
        raise InvalidArgument(
            f"This {record.type} has no number and time yet",
            hint="The store gives them: export what was read from a store.",
        )
    plain: dict[str, Any] = {"type": record.type}
    for column in _COLUMNS[record.type]:
        value = getattr(record, column.name)
        if value is not None or column.required:
            plain[column.wire_name] = column.form.write(value, column.wire_name)
    return plain


def from_wire(obj: dict[str, Any]) -> Record:
    """The record behind a JSON object. Whatever is not exactly one is an `InvalidImport` that names the field."""
    if not isinstance(obj, dict):
        raise InvalidImport(f"A record is a JSON object, not {obj!r:.60}")
    name = obj.get("type")
    cls = RECORD_TYPES.get(name) if isinstance(name, str) else None
    if cls is None or cls is StoreEvent:
        raise InvalidImport(f"There is no record type {name!r:.60}", path="type", seq=_seq(obj))
    columns = {column.wire_name: column for column in _COLUMNS[cls.type]}
    for unknown in obj.keys() - columns.keys() - {"type"}:
        raise InvalidImport(f"A {name} has no field {unknown!r:.60}", path=str(unknown), seq=_seq(obj))
    values = {}
    for column in columns.values():
        if column.wire_name in obj:
            values[column.name] = _read(column, obj)
        elif column.required:
            raise InvalidImport(f"A {name} needs the field {column.wire_name}", path=column.wire_name, seq=_seq(obj))
    return cls(**values)


def _read(column: Column, obj: dict[str, Any]) -> Any:
    try:
        return column.form.read(obj[column.wire_name])
    except (ValueError, Corrupt) as error:
        raise InvalidImport(
            f"The field {column.wire_name} of a {obj['type']} is wrong: {error}", path=column.wire_name, seq=_seq(obj)
        ) from error


def _seq(obj: dict[str, Any]) -> int | None:
    seq = obj.get("seq")
    return seq if type(seq) is int else None


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a record type: its name here and on the wire, and how it is written there."""

    name: str
    wire_name: str
    form: Form
    required: bool


def _columns(cls: type[Record]) -> tuple[Column, ...]:
    """A type's fields as a person wants to read them: the number and time, what is its own, what is optional."""
    common = {field.name for field in fields(Record)} - {"seq", "at"}
    ranked = sorted(fields(cls), key=lambda field: (field.name not in {"seq", "at"}, field.name in common))
    return tuple(map(_column, ranked))


def _column(field: Field[Any]) -> Column:
    head, *rest = field.name.split("_")
    form = _BY_NAME.get(field.name) or _BY_ANNOTATION[str(field.type)]
    required = field.default is MISSING or field.name in {"seq", "at"}
    return Column(field.name, head + "".join(map(str.capitalize, rest)), form, required)


def _expect(condition: object, wanted: str) -> None:
    if not condition:
        raise ValueError(f"it must be {wanted}")


def _write_as_is(value: Any, _path: str) -> Any:
    return str.__str__(value) if isinstance(value, str) else value  # Without a StrEnum's or subclass's type.


def _write_value(value: Any, path: str) -> Any:
    return to_json(value, path=path)


def _exactly(wanted: str, *types: type) -> Form:
    def read(plain: Any) -> Any:
        _expect(type(plain) in types, wanted)
        return plain

    return Form(_write_as_is, read)


def _number(smallest: int) -> Form:
    def read(plain: Any) -> int:
        _expect(type(plain) is int and plain >= smallest, f"a whole number from {smallest} on")
        return int(plain)

    return Form(_write_as_is, read)


def _made_of(wanted: str, cls: type) -> Form:
    def read(plain: Any) -> Any:
        value = from_json(plain)
        _expect(type(value) is cls, wanted)
        return value

    return Form(_write_value, read)


def _optional(form: Form) -> Form:
    return Form(
        lambda value, path: None if value is None else form.write(value, path),
        lambda plain: None if plain is None else form.read(plain),
    )


def _read_base64(plain: Any) -> bytes:
    _expect(type(plain) is str, "a text in base64")
    try:
        return base64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it must be a text in base64") from None


def _read_hex(plain: Any) -> bytes:
    _expect(type(plain) is str and re.fullmatch(r"(?:[0-9a-f]{2})*", plain), "a text in lower-case hexadecimal")
    return bytes.fromhex(plain)


def _write_moment(value: datetime, path: str) -> str:
    if value.tzinfo is None:
        raise InvalidArgument(f"{path} is {value}, without a time zone", path=path, hint="Give datetimes in UTC.")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _read_moment(plain: Any) -> datetime:
    wanted = "a time with its zone, as in 2026-01-31T12:00:00Z"
    _expect(type(plain) is str, wanted)
    try:
        moment = datetime.fromisoformat(plain)
        _expect(moment.tzinfo, wanted)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"it must be {wanted}") from None


def _read_tool_calls(plain: Any) -> list[dict[str, Any]]:
    wanted = "a list of objects with id, name and arguments"
    calls = from_json(plain)
    _expect(type(calls) is list, wanted)
    for call in calls:
        _expect(type(call) is dict and "arguments" in call, wanted)
        _expect(type(call.get("id")) is str and type(call.get("name")) is str, f"{wanted}, the first two texts")
    return list(calls)


_TEXT = _exactly("a text", str)
_FLAG = _exactly("true or false", bool)
_BASE64 = Form(lambda value, _path: base64.b64encode(value).decode(), _read_base64)
_ANY = Form(_write_value, from_json)
_BY_NAME = {
    "seq": _number(1),
    "at": Form(_write_moment, _read_moment),
    "digest": Form(lambda value, _path: bytes(value).hex(), _read_hex),
    "tool_calls": Form(_write_value, _read_tool_calls),
}
_BY_ANNOTATION = {
    "Any": _ANY,
    "str": _TEXT,
    "str | None": _optional(_TEXT),
    "int": _number(0),
    "int | None": _optional(_number(0)),
    "int | str": _exactly("a whole number or a text", int, str),
    "bool": _FLAG,
    "bool | None": _optional(_FLAG),
    "bytes | None": _optional(_BASE64),
    "dict[str, Any] | None": _optional(_made_of("an object", dict)),
    "list[Any] | None": _optional(_made_of("a list", list)),
}
_COLUMNS = {name: _columns(cls) for name, cls in RECORD_TYPES.items() if cls is not StoreEvent}
