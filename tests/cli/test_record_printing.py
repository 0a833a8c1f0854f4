"""Records as text: templates and their fields."""

from __future__ import annotations

import pytest

from odradek.cli.record_printing import compile_template
from odradek.client.consumer.positions import ConsumerRecord


def record(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> ConsumerRecord:
    return ConsumerRecord("t", 3, 42, 1_772_366_400_000, 0, key, value, headers, 0)


def test_templates() -> None:
    render = compile_template(r"{topic}/{partition}:{offset}\t{key}={value} {{x}} {key_bytes},{value_bytes}")
    assert render(record(value=None)) == b"t/3:42\tk= {x} 1,-1\n"
    render = compile_template("{timestamp} {timestamp_ms} {headers}")
    with_headers = record(headers=(("a", b"1"), ("b", None)))
    assert render(with_headers) == b"2026-03-01T12:00:00.000Z 1772366400000 a=1,b=\n"


def test_values_are_printed_as_they_are() -> None:
    assert compile_template("{value}")(record(value=b"\xff\x00")) == b"\xff\x00\n"


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\{vlaue\} is no field of a record; there are headers, key"):
        compile_template("{vlaue}")
