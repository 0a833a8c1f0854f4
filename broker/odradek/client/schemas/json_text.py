"""What a schema made of bytes, as one line of JSON for people and for other programs.

Protobuf has a form of its own in JSON, which Confluent's tools print too. Names are in camelCase and 64-bit numbers are
text. Fields without presence are always there. Of Avro, bytes are text with a character for each byte, as in Avro's
own JSON. Times are in ISO 8601, and decimals and numbers that JSON lacks are text, so that no digit is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from uuid import UUID

from odradek.client.schemas.header import Decoded

if TYPE_CHECKING:
    from google.protobuf.message import Message

_WITHOUT_NUMBER: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def to_json(found: Decoded) -> bytes:
    """One line of JSON in UTF-8. Raises TypeError, ValueError or RecursionError for what JSON cannot hold."""
    if hasattr(found, "DESCRIPTOR"):
        return _format_message(found).encode()
    try:
        text = _encode(found)
    except ValueError:
        text = _encode(_replace_odd_numbers(found))
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only escape
        return json.dumps(json.loads(text)).encode()


def _encode(found: Decoded) -> str:
    return json.dumps(found, ensure_ascii=False, allow_nan=False, default=_convert)


def _format_message(message: Message) -> str:
    from google.protobuf.json_format import MessageToJson

    text: str = MessageToJson(
        message, indent=None, ensure_ascii=False, always_print_fields_with_no_presence=True
    )
    return text


def _convert(found: object) -> object:
    """A value that JSON has no form for, as one that it has."""
    for kind, convert in _CONVERSIONS:
        if isinstance(found, kind):
            return convert(found)
    raise TypeError(f"a {type(found).__name__} has no form in JSON")


def _format_moment(found: datetime) -> str:
    return found.isoformat().replace("+00:00", "Z")


# A datetime is a date too, so it comes first.
_CONVERSIONS: Final[tuple[tuple[type, Callable[..., object]], ...]] = (
    (bytes, lambda found: found.decode("latin-1")),
    (datetime, _format_moment),
    (date, date.isoformat),
    (time, time.isoformat),
    (Decimal, str),
    (UUID, str),
)


def _replace_odd_numbers(found: Decoded) -> Decoded:
    """The same, with a text for each number that JSON does not have."""
    if isinstance(found, float):
        return _WITHOUT_NUMBER.get(repr(found), found)
    if isinstance(found, dict):
        return {name: _replace_odd_numbers(one) for name, one in found.items()}
    if isinstance(found, list | tuple):
        return [_replace_odd_numbers(one) for one in found]
    return found
