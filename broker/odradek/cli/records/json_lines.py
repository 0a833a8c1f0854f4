"""Records as JSON lines, which `produce --json` reads back byte for byte.

Bytes that are not UTF-8 are printed as `key_base64` and `value_base64`. With nested values, a value that is a JSON
object, array, number or boolean is printed as JSON. It is read back as the same JSON, though white space and the
spelling of a number may differ. JSON strings and null stay quoted text. So do values that would be read back
differently: duplicate names, numbers beyond a double's precision. A key is nested only where it is read back byte for
byte, since its bytes choose the partition.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from odradek.cli.shared.times import format_moment

if TYPE_CHECKING:
    from odradek.cli.records.templates import Printer
    from odradek.client.consumer.blocks import ConsumerRecord, RecordBlock
    from odradek.wire.records.record import Record

_quoted = json.JSONEncoder(ensure_ascii=False).encode
# Makes the end of a field's name, and its value.
Part = Callable[[bytes | None], str]

_WITHOUT_LINES = str.maketrans("\r\n", "  ")


class JsonText(bytes):
    """A key or a value that a schema decoded, as one line of JSON. It stands in a JSON line as it is."""

    __slots__ = ()


def json_printer(*, is_nested: bool = False, is_decoded: bool = False) -> Printer:
    """A function from a block to its JSON lines. The module's docstring explains `is_nested`. With `is_decoded`, blocks
    may have JsonText.
    """
    key_part: Part = _nest_key if is_nested else _text_part
    value_part: Part = _nest_value if is_nested else _text_part
    if is_decoded:
        key_part, value_part = _json_or(key_part), _json_or(value_part)

    def lines(block: RecordBlock) -> bytes:
        topic, partition = block.topic_partition
        beginning = f'{{"topic": {_quoted(topic)}, "partition": {partition}, "offset": '
        moment_ms, moment = -1, "-"
        found: list[str] = []
        for offset, timestamp_ms, key, value, headers in block.records():
            if timestamp_ms != moment_ms:  # adjacent records mostly have the same one
                moment_ms, moment = timestamp_ms, format_moment(timestamp_ms)
            found.append(
                f'{beginning}{offset}, "timestamp_ms": {timestamp_ms}, "timestamp": "{moment}", '
                f'"key{key_part(key)}, "value{value_part(value)}, "headers": {_headers(headers)}}}\n'
            )
        return "".join(found).encode()

    return lines


def json_record(record: Record | ConsumerRecord) -> dict[str, object]:
    """A record as the fields of a JSON line, but for its topic and partition."""
    fields: dict[str, object] = {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp": format_moment(record.timestamp_ms),
    }
    _put(fields, "key", record.key)
    _put(fields, "value", record.value)
    fields["headers"] = [_json_header(name, value) for name, value in record.headers]
    return fields


def _put(fields: dict[str, object], name: str, value: bytes | None) -> None:
    if value is None:
        fields[name] = None
        return
    try:
        fields[name] = value.decode()
    except UnicodeDecodeError:
        fields[f"{name}_base64"] = base64.b64encode(value).decode()


def _json_header(name: str, value: bytes | None) -> list[object] | dict[str, object]:
    fields: dict[str, object] = {"name": name}
    _put(fields, "value", value)
    return [name, fields["value"]] if "value" in fields else fields


def _headers(headers: tuple[tuple[str, bytes | None], ...]) -> str:
    return _quoted([_json_header(name, value) for name, value in headers]) if headers else "[]"


# --- the rest of a field: the end of its name, and its value ---------------------------------------------------------


def _text_part(octets: bytes | None) -> str:
    if octets is None:
        return '": null'
    try:
        return f'": {_quoted(octets.decode())}'
    except UnicodeDecodeError:
        return f'_base64": "{base64.b64encode(octets).decode()}"'


def _json_or(part: Part) -> Part:
    """The same part, but for what was decoded."""
    return lambda octets: f'": {octets.decode()}' if isinstance(octets, JsonText) else part(octets)


def _nest_value(octets: bytes | None) -> str:
    text, _ = _nest(octets)
    return _text_part(octets) if text is None else f'": {text}'


def _nest_key(octets: bytes | None) -> str:
    text, read_back = _nest(octets)
    return f'": {text}' if text is not None and read_back == octets else _text_part(octets)


def _nest(octets: bytes | None) -> tuple[str | None, bytes]:
    """JSON as one line and as `produce --json` reads it; None for a value that has to stay text."""
    try:
        text = (octets or b"").decode()
        found = json.loads(
            text, object_pairs_hook=_unambiguous, parse_float=_exact, parse_constant=_no_such_number
        )
        if found is None or isinstance(found, str):
            return None, b""
        read_back = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return None, b""
    return text.translate(_WITHOUT_LINES), read_back  # line ends stand between tokens only


def _unambiguous(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _exact(text: str) -> float:
    number = float(text)
    if Decimal(repr(number)) != Decimal(text):
        raise ValueError("more digits than a double has")
    return number


def _no_such_number(text: str) -> float:
    raise ValueError(f"{text} is not a number of JSON")
