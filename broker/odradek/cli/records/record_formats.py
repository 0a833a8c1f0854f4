"""Text as records, for `produce`. `templates` prints records for `consume`.

A JSON line is {"key": …, "value": …, "headers": [[name, value], …], "partition": …, "timestamp_ms": …}; bytes that are
not UTF-8 are `key_base64`, `value_base64` and header objects. `produce` reads the output of `consume` byte for byte.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from typing import NamedTuple

from odradek.cli.shared.times import parse_moment_ms
from odradek.foundation.errors import OdradekError
from odradek.foundation.words import nearest_name

Headers = tuple[tuple[str, bytes | None], ...]

_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


# Fields of `consume --output json` that a new record gets from the broker: ignored.
_ONLY_PRINTED = frozenset({"topic", "offset"})
_FIELDS = _ONLY_PRINTED | {
    "key",
    "key_base64",
    "value",
    "value_base64",
    "headers",
    "partition",
    "timestamp",
    "timestamp_ms",
}
_HEADER_FIELDS = frozenset({"name", "value", "value_base64"})


class InputError(OdradekError):
    """A line of input that is not a record. The message has the line's number and the reason."""


class NewRecord(NamedTuple):
    """A record to produce."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def unescape(text: str) -> str:
    """`\\t`, `\\n`, `\\r`, `\\0` and `\\\\` as the characters they stand for, which a shell cannot pass easily."""
    return re.sub(r"\\[tnr0\\]", lambda match: _ESCAPES[match[0]], text)


def parse_json_record(line: bytes, *, number: int) -> NewRecord:
    """One JSON line as a record. Raises InputError naming the line's number."""
    try:
        fields = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as failure:
        raise InputError(f"line {number} is not JSON: {failure}") from failure
    if not isinstance(fields, dict):
        raise InputError(f'line {number} is not a JSON object; write it like {{"key": "a", "value": "b"}}')
    try:
        if not fields.keys() <= _FIELDS:
            raise ValueError(_unknown_field(fields, _FIELDS))
        if "value" not in fields and "value_base64" not in fields:
            raise ValueError(
                'it has no "value"; a record without one (a tombstone) is written as "value": null'
            )
        return NewRecord(
            key=_part(fields, "key"),
            value=_part(fields, "value"),
            headers=_headers(fields.get("headers")),
            partition=_whole_number(fields, "partition"),
            timestamp_ms=_timestamp_ms(fields),
        )
    except (ValueError, TypeError, binascii.Error) as failure:
        raise InputError(f"line {number}: {failure}") from failure


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object. JSON allows a name twice, but all values except the last would be lost silently."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the name {twice!r} twice")
    return fields


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON has")


def _unknown_field(fields: dict[str, object], known: frozenset[str]) -> str:
    unknown = next(name for name in fields if name not in known)
    names = sorted(known - _ONLY_PRINTED)
    nearest = nearest_name(unknown, names)
    hint = f"there are {', '.join(names)}" if nearest is None else f"did you mean {nearest!r}?"
    return f"there is no field {unknown!r}; {hint}"


def _part(fields: dict[str, object], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        if fields.get(name) is not None:
            raise ValueError(f'it has both "{name}" and "{name}_base64"; one of them says what the {name} is')
        if not isinstance(encoded, str):
            raise ValueError(f"{name}_base64 is {encoded!r}; it must be text")
        return base64.b64decode(encoded, validate=True)
    return _bytes(fields.get(name))


def _bytes(value: object) -> bytes | None:
    """Text as UTF-8, null as None, any other JSON value as its own JSON text."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _timestamp_ms(fields: dict[str, object]) -> int | None:
    """`timestamp_ms`, or else the time in `timestamp`."""
    milliseconds, moment = _whole_number(fields, "timestamp_ms"), fields.get("timestamp")
    if milliseconds is not None or moment is None or moment == "-":
        return milliseconds
    if not isinstance(moment, str):
        raise ValueError(
            f'timestamp is {moment!r}; it is text like "2026-03-01T12:00:00Z", timestamp_ms a number'
        )
    return parse_moment_ms(moment, now_ms=time.time_ns() // 1_000_000)


def _whole_number(fields: dict[str, object], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; it must be a whole number")
    return value


def _headers(given: object) -> Headers:
    if given is None:
        return ()
    if isinstance(given, dict):
        return tuple((str(name), _bytes(value)) for name, value in given.items())
    if not isinstance(given, list):
        raise ValueError("headers must be an object, or a list of [name, value]")
    headers: list[tuple[str, bytes | None]] = []
    for item in given:
        if isinstance(item, dict) and "name" in item:
            if not item.keys() <= _HEADER_FIELDS:
                raise ValueError(f"of a header, {_unknown_field(item, _HEADER_FIELDS)}")
            headers.append((str(item["name"]), _part(item, "value")))
        elif isinstance(item, list) and len(item) == 2:
            headers.append((str(item[0]), _bytes(item[1])))
        else:
            raise ValueError("headers must be an object, or a list of [name, value]")
    return tuple(headers)
