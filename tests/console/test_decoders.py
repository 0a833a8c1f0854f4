"""Bytes as text to look at: nothing is changed, all is bounded."""

from __future__ import annotations

import json

import pytest

from odradek.console.decoders import HEX, JSON, TEXT, dump, lay_out, show_bytes


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b'{"a": 1}', JSON),
        (b" [1, 2]", JSON),
        (b'{"a": ', TEXT),
        (b"5", TEXT),
        (b"", TEXT),
        ("ü\t\r\n\u202e".encode(), TEXT),
        (b"\x1b[31m", HEX),
        (b"\x00\x01", HEX),
        (b"\xff\xfe", HEX),
    ],
)
def test_the_form_is_chosen_by_the_bytes(data: bytes, form: str) -> None:
    shown = show_bytes(data, bytes_max=1000)
    assert (shown.form, shown.size_bytes, shown.is_shortened) == (form, len(data), False)


def test_a_form_that_is_asked_for_is_used_where_it_fits() -> None:
    assert show_bytes(b"5", JSON, bytes_max=10).form == JSON
    assert show_bytes(b"no", JSON, bytes_max=10).form == TEXT
    assert show_bytes(b'{"a":1}', TEXT, bytes_max=10).text == '{"a":1}'
    assert show_bytes(b"a\xff\x1b", TEXT, bytes_max=10).text == "a\ufffd\x1b"
    assert show_bytes(b"ab", HEX, bytes_max=100).text.startswith("00000000  61 62 ")


def test_json_keeps_its_digits_and_its_keys() -> None:
    text = r'{"a":1.0e5,"a":12345678901234567890.10,"b":{},"c":[[],"x,{}\"\\"],"d":true}'
    laid_out = lay_out(text)
    assert laid_out is not None
    assert laid_out.splitlines()[:3] == ["{", '  "a": 1.0e5,', '  "a": 12345678901234567890.10,']
    assert json.loads(laid_out) == json.loads(text)
    assert '"b": {},' in laid_out and '    "x,{}\\"\\\\"' in laid_out


def test_a_deep_document_is_text() -> None:
    assert show_bytes(b"[" * 100_000, bytes_max=1 << 20).form == TEXT
    deep = b"[" * 500 + b"]" * 500
    assert len(show_bytes(deep, bytes_max=1 << 20).text) < 500 * 2 * 100


def test_what_is_long_is_shortened_and_no_character_is_split() -> None:
    shown = show_bytes("ü".encode() * 100, bytes_max=11)
    assert (shown.text, shown.form, shown.size_bytes, shown.is_shortened) == ("ü" * 5, TEXT, 200, True)
    long = show_bytes(b'{"a":"' + b"x" * 100 + b'"}', bytes_max=50)
    assert (long.form, long.is_shortened, len(long.text)) == (TEXT, True, 50)
    noise = show_bytes(bytes(range(256)) * 100, bytes_max=1000)
    assert noise.is_shortened and len(noise.text) < 2000


def test_a_dump_has_lines_of_16_bytes() -> None:
    assert dump(b"0123456789abcdef\x00") == (
        "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef\n"
        "00000010  00                                               ."
    )
