"""Blocks of records as lines: values, templates of both styles, JSON."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.records.json_lines import json_printer, json_record
from odradek.cli.records.record_formats import NewRecord, parse_json_record
from odradek.cli.records.templates import compile_template, null_on_terminal, plain_printer
from odradek.client.consumer.blocks import RecordBlock
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch

Headers = tuple[tuple[str, bytes | None], ...]
Row = tuple[bytes | None, bytes | None, Headers]

TIMESTAMP_MS = 1_772_366_400_000
octets = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
headers = st.lists(st.tuples(st.text(max_size=5), octets), max_size=4).map(tuple)


def block(*rows: Row) -> RecordBlock:
    """Records of partition t-3 from offset 42 on."""
    batch = BatchView(build_batch([(TIMESTAMP_MS, *row) for row in rows], base_offset=42))
    return RecordBlock(TopicPartition("t", 3), batch, batch.header, 42, 42 + len(rows))


def one(key: bytes | None = b"k", value: bytes | None = b"v", headers: Headers = ()) -> RecordBlock:
    return block((key, value, headers))


def test_values_are_printed_as_they_are() -> None:
    rows: list[Row] = [(b"a", b"\xff\x00", ()), (None, b"", ()), (None, b"x", ())]
    print_values = plain_printer(keys=False, headers=False, offsets=False, timestamps=False)
    assert print_values(block(*rows)) == b"\xff\x00\n\nx\n"
    print_lines = plain_printer(keys=True, headers=False, offsets=True, timestamps=False)
    assert print_lines(block(*rows)) == (b"3:42\ta\t\xff\x00\n3:43\t\t\n3:44\t\tx\n")


@pytest.mark.parametrize("keys", [True, False])
def test_null_is_told_from_empty(keys: bool) -> None:
    print_lines = plain_printer(keys=keys, headers=False, offsets=False, timestamps=False, null=b"NIL")
    key, empty = (b"NIL\t", b"\t") if keys else (b"", b"")
    assert print_lines(block((None, None, ()), (b"", b"", ()))) == key + b"NIL\n" + empty + b"\n"


@pytest.mark.parametrize(("color", "shown"), [(True, b"\x1b[2mNULL\x1b[0m"), (False, b"NULL")])
def test_null_is_dimmed_where_there_is_colour(color: bool, shown: bytes) -> None:
    with click.Context(click.Command("consume"), color=color):
        assert null_on_terminal() == shown


# --- templates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "line"),
    [
        (
            r"{topic}/{partition}:{offset}\t{key}={value} {{x}} {key_bytes},{value_bytes}",
            b"t/3:42\tk= {x} 1,-1\n",
        ),
        ("{timestamp} {timestamp_ms} {headers}", b"2026-03-01T12:00:00.000Z 1772366400000 a=1,b=\n"),
        (r'{"a": 1, "key": "{key}"} 100% %d \x41\102\q', b'{"a": 1, "key": "k"} 100% %d AB\\q\n'),
        ("{key:>4}|{key:<4}|{key:^4}|{key:*>4}|{topic:4}|", b"   k|k   | k  |***k|t   |\n"),
        ("{offset:5}|{offset:<5}|{offset:0>5}|{headers:.3}|", b"   42|42   |00042|a=1|\n"),
        ("no field", b"no field\n"),
        ("%t %p %o %k %s|", b"t 3 42 k |"),
        (r"%S %K %T %h%%\n", b"-1 1 1772366400000 a=1,b=NULL%\n"),
        (r"%R%k {key_} {%k}\x41\102\q", b"\xff\xff\xff\xffk {key_} {k}ABq"),
    ],
)
def test_templates(template: str, line: bytes) -> None:
    shown = one(value=None, headers=(("a", b"1"), ("b", None)))
    assert compile_template(template)(shown) == line


def test_a_template_fills_every_record_of_a_block() -> None:
    shown = block((b"a", b"1", ()), (None, None, (("h", None),)))
    assert (
        compile_template("{offset} {key} {value} {headers}", null=b"NIL")(shown)
        == b"42 a 1 \n43 NIL NIL h=NIL\n"
    )
    assert compile_template(r"%o%s\n", null=b"NIL")(shown) == b"421\n43NIL\n"
    assert compile_template("{topic}")(shown) == b"t\nt\n"
    assert compile_template("-")(shown) == b"-\n-\n"


def test_a_width_counts_characters_and_keeps_what_is_not_text() -> None:
    assert compile_template("{value:>3}|{value:.1}")(one(value="ü€".encode())) == " ü€|ü\n".encode()
    assert compile_template("{value:>3}|")(one(value=b"\xff")) == b"  \xff|\n"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{vlaue}", r"\{vlaue\} is not a field of a record; did you mean \{value\}\?"),
        ("{key", r"\{key has no closing brace; write \{key\}"),
        ("{key {value}", r"\{key has no closing brace"),
        ("{}", r"\{\} is not a field of a record; there are key"),
        ("{ key }", "did you mean {key}"),
        ("{key!r}", "is not a field"),
        ("{key:>10d}", "a layout that is not understood; after the colon can stand"),
        ("{key:>9999}", "a width below 1000"),
        ("{offset:.1}", "would truncate a number"),
        ("{key} and %s", r"the template mixes \{key\} with %s; use fields in braces, or kcat.s tokens"),
        ("%s %z", "%z is not a token of kcat.s; there are %s %S"),
        ("%s 5%", "% is not a token"),
    ],
)
def test_what_a_template_cannot_have_is_refused(template: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compile_template(template)


# --- JSON -----------------------------------------------------------------------------------------------------------


def read_back(lines: bytes) -> list[NewRecord]:
    return [parse_json_record(line, number=1) for line in lines.splitlines()]


@pytest.mark.thorough
@given(st.lists(st.tuples(octets, octets, headers), min_size=1, max_size=3))
def test_what_consume_prints_produce_reads_back(rows: list[Row]) -> None:
    shown = block(*rows)
    lines = json_printer()(shown)
    assert [json.loads(line) for line in lines.split(b"\n")[:-1]] == [
        {"topic": record.topic, "partition": record.partition, **json_record(record)}
        for record in shown.consumer_records()
    ]
    assert [parse_json_record(line, number=1) for line in lines.split(b"\n")[:-1]] == [
        NewRecord(key, value, given_headers, 3, TIMESTAMP_MS) for key, value, given_headers in rows
    ]


def nested(value: bytes, key: bytes | None = None) -> Any:
    (line,) = json_printer(is_nested=True)(one(key, value)).splitlines()
    return json.loads(line)


@pytest.mark.parametrize("value", [b'{"a": [1, null]}', b"[1, 2.50]", b"5", b"true", b' {"a":\r\n {}}'])
def test_values_that_are_json_are_nested_where_asked_for(value: bytes) -> None:
    assert nested(value)["value"] == json.loads(value)
    assert json.loads(json_printer()(one(None, value)))["value"] == value.decode()


@pytest.mark.parametrize(
    "value",
    [
        b'"text"', b"null", b"text", b"", b"{", b"NaN", b"[Infinity]", b'{"a":1,"a":2}', b"[0.12345678901234567890]",
        b"[1e999]", b'["\\ud800"]', b"[" * 100_000, b"9" * 5_000,
    ],
)  # fmt: skip
def test_what_would_not_be_read_back_as_the_same_stays_text(value: bytes) -> None:
    assert nested(value)["value"] == value.decode()
    (record,) = read_back(json_printer(is_nested=True)(one(None, value)))
    assert record.value == value


def test_a_key_is_nested_only_where_its_bytes_come_back() -> None:
    assert nested(b"v", key=b'{"id":1}')["key"] == {"id": 1}
    assert nested(b"v", key=b'{"id": 1}')["key"] == '{"id": 1}'


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(json_values, st.sampled_from((None, 2)))
def test_nested_values_are_read_back_as_the_same_json(document: Any, indent: int | None) -> None:
    value = json.dumps(document, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    (record,) = read_back(json_printer(is_nested=True)(one(value, value)))
    assert record.key == value
    assert record.value is not None
    assert json.loads(record.value.decode("utf-8", "surrogatepass")) == document
