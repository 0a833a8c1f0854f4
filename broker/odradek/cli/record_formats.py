"""Text as records: what `produce` reads. What `consume` prints is `record_printing`'s.

A JSON line is {"key": …, "value": …, "headers": [[name, value], …], "partition": …, "timestamp_ms": …}; bytes that are
not UTF-8 travel as `key_base64`, `value_base64` and header objects. What one verb prints the other reads back byte
for byte.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, NamedTuple

from odradek.foundation.errors import OdradekError

Headers = tuple[tuple[str, bytes | None], ...]

_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


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
