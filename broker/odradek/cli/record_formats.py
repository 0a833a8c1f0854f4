"""Records as text: what `produce` reads and `consume` prints.

A JSON line is {"key": …, "value": …, "headers": [[name, value], …], "partition": …, "timestamp_ms": …}; text that is
not UTF-8 travels as `key_base64`, `value_base64` and header objects, so that what one verb prints the other reads back
byte for byte. A template names fields in braces: `{key} {value} {offset} {partition} {topic} {timestamp} {headers}`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.cli.times import format_moment
from odradek.foundation.errors import OdradekError

if TYPE_CHECKING:
    from odradek.client.consumer.positions import ConsumerRecord

Headers = tuple[tuple[str, bytes | None], ...]

_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}
_PLACE = re.compile(r"\{\{|\}\}|\{([a-z_]*)\}")


class InputError(OdradekError):
    """A line of input that is no record. The message says which line and why."""


class NewRecord(NamedTuple):
    """A record to be produced."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def unescape(text: str) -> str:
    """`\\t`, `\\n`, `\\r`, `\\0` and `\\\\` as the characters they stand for: what a shell cannot pass easily."""
    return re.sub(r"\\[tnr0\\]", lambda match: _ESCAPES[match[0]], text)


# --- in -------------------------------------------------------------------------------------------------------------


def parse_json_record(line: bytes, *, number: int) -> NewRecord:
    """One JSON line as a record. Raises InputError naming the line's number."""
    try:
        fields = json.loads(line)
    except ValueError as failure:
        raise InputError(f"line {number} is no JSON: {failure}") from failure
    if not isinstance(fields, dict):
        raise InputError(f'line {number} is no JSON object; write it like {{"key": "a", "value": "b"}}')
    try:
        return NewRecord(
            key=_part(fields, "key"),
            value=_part(fields, "value"),
            headers=_headers(fields.get("headers")),
            partition=_whole_number(fields, "partition"),
            timestamp_ms=_whole_number(fields, "timestamp_ms"),
        )
    except (ValueError, TypeError, binascii.Error) as failure:
        raise InputError(f"line {number}: {failure}") from failure


def _part(fields: dict[str, Any], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    return _bytes(fields.get(name))


def _bytes(value: Any) -> bytes | None:
    """Text as UTF-8, null as null; any other JSON value as its own JSON text."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _whole_number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; it must be a whole number")
    return value


def _headers(given: Any) -> Headers:
    if given is None:
        return ()
    if isinstance(given, dict):
        return tuple((str(name), _bytes(value)) for name, value in given.items())
    headers: list[tuple[str, bytes | None]] = []
    for item in given:
        if isinstance(item, dict) and "name" in item:
            headers.append((str(item["name"]), _part(item, "value")))
        elif isinstance(item, list) and len(item) == 2:
            headers.append((str(item[0]), _bytes(item[1])))
        else:
            raise ValueError("headers must be an object, or a list of [name, value]")
    return tuple(headers)


# --- out ------------------------------------------------------------------------------------------------------------


def json_record(record: ConsumerRecord) -> dict[str, Any]:
    """A record as the fields of a JSON line."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp": format_moment(record.timestamp_ms),
    }
    _put(fields, "key", record.key)
    _put(fields, "value", record.value)
    fields["headers"] = [_json_header(name, value) for name, value in record.headers]
    return fields


def _put(fields: dict[str, Any], name: str, value: bytes | None) -> None:
    if value is None:
        fields[name] = None
        return
    try:
        fields[name] = value.decode()
    except UnicodeDecodeError:
        fields[f"{name}_base64"] = base64.b64encode(value).decode()


def _json_header(name: str, value: bytes | None) -> Any:
    fields: dict[str, Any] = {"name": name}
    _put(fields, "value", value)
    return [name, fields["value"]] if "value" in fields else fields


def _headers_text(record: ConsumerRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


_FIELDS: dict[str, Callable[[ConsumerRecord], bytes]] = {
    "key": lambda record: record.key or b"",
    "value": lambda record: record.value or b"",
    "offset": lambda record: b"%d" % record.offset,
    "partition": lambda record: b"%d" % record.partition,
    "topic": lambda record: record.topic.encode(),
    "timestamp": lambda record: format_moment(record.timestamp_ms).encode(),
    "timestamp_ms": lambda record: b"%d" % record.timestamp_ms,
    "headers": _headers_text,
    "key_bytes": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
    "value_bytes": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
}


def compile_template(template: str) -> Callable[[ConsumerRecord], bytes]:
    """A function from a record to its line, newline included. Raises ValueError for a field that is not known."""
    text = unescape(template)
    pieces: list[bytes | Callable[[ConsumerRecord], bytes]] = []
    end = 0
    for match in _PLACE.finditer(text):
        pieces.append(text[end : match.start()].encode())
        end = match.end()
        if match[0] in ("{{", "}}"):
            pieces.append(match[0][:1].encode())
        elif match[1] in _FIELDS:
            pieces.append(_FIELDS[match[1]])
        else:
            raise ValueError(f"{match[0]} is no field of a record; there are {', '.join(sorted(_FIELDS))}")
    pieces.append(text[end:].encode() + b"\n")

    def render(record: ConsumerRecord) -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else piece(record) for piece in pieces)

    return render
