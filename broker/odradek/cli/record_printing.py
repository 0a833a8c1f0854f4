"""Records as text: what `consume` prints. What `produce` reads is `record_formats`'s.

A template names fields in braces: `{key} {value} {offset} {partition} {topic} {timestamp} {headers}`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.cli.record_formats import unescape
from odradek.cli.times import format_moment

if TYPE_CHECKING:
    from odradek.client.consumer.positions import ConsumerRecord

_PLACE = re.compile(r"\{\{|\}\}|\{([a-z_]*)\}")


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
