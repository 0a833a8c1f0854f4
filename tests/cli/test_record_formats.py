"""Records as text: JSON lines both ways, byte for byte, and templates."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.records.json_lines import json_record
from odradek.cli.records.record_formats import InputError, NewRecord, parse_json_record, unescape
from odradek.client.consumer.blocks import ConsumerRecord

octets = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
headers = st.lists(st.tuples(st.text(max_size=5), octets), max_size=4).map(tuple)


def record(
    key: bytes | None = b"k", value: bytes | None = b"v", headers: tuple[tuple[str, bytes | None], ...] = ()
) -> ConsumerRecord:
    return ConsumerRecord("t", 3, 42, 1_772_366_400_000, 0, key, value, headers, 0)


@given(octets, octets, headers)
def test_what_consume_prints_produce_reads_back(
    key: bytes | None, value: bytes | None, given_headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    fields = {"partition": 3, **json_record(record(key, value, headers=given_headers))}
    line = json.dumps(fields, ensure_ascii=False).encode()
    assert parse_json_record(line, number=1) == NewRecord(key, value, given_headers, 3, 1_772_366_400_000)


def test_only_a_null_that_is_written_is_a_null() -> None:
    assert parse_json_record(b'{"value": null}', number=1) == NewRecord(None, None)
    with pytest.raises(
        InputError, match=r'line 2: it has no "value"; a record without one \(a tombstone\) is'
    ):
        parse_json_record(b'{"key": "a"}', number=2)


def test_a_field_that_is_not_known_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"line 3: there is no field 'valu'; did you mean 'value'\?"):
        parse_json_record(b'{"valu": "a"}', number=3)
    with pytest.raises(
        InputError, match=r"there is no field 'x'; there are headers, key, key_base64, partition"
    ):
        parse_json_record(b'{"value": "a", "x": 1}', number=3)
    with pytest.raises(InputError, match=r"of a header, there is no field 'valeu'; did you mean 'value'\?"):
        parse_json_record(b'{"value": "a", "headers": [{"name": "n", "valeu": "v"}]}', number=3)


def test_a_timestamp_in_words_counts_where_there_is_none_in_milliseconds() -> None:
    moment = b'{"value": "a", "timestamp": "2026-03-01T12:00:00Z"}'
    assert parse_json_record(moment, number=1).timestamp_ms == 1_772_366_400_000
    with pytest.raises(InputError, match="line 1: 'soon' is "):
        parse_json_record(b'{"value": "a", "timestamp": "soon"}', number=1)


def test_a_json_value_that_is_no_text_is_its_own_json() -> None:
    assert parse_json_record(b'{"value": {"a": [1, null]}, "headers": {"h": 1}}', number=1) == NewRecord(
        None, b'{"a":[1,null]}', (("h", b"1"),)
    )


@pytest.mark.parametrize(
    "line",
    [
        b"x",
        b"[]",
        b'{"value_base64": "!"}',
        b'{"value": "", "partition": "1"}',
        b'{"value": "", "headers": [1]}',
        b'{"value": "", "partition": true}',
        b'{"value": NaN}',
        b'{"value": 1e999}',
        b'{"value": "a", "value_base64": "YQ=="}',
        b'{"value": "a", "timestamp": 1}',
    ],
)
def test_a_line_that_is_no_record_is_named(line: bytes) -> None:
    with pytest.raises(InputError, match="line 7"):
        parse_json_record(line, number=7)


@pytest.mark.parametrize(
    "line", [b'{"value": "a", "value": "b"}', b'{"value": {"n": 1, "m": {"n": 1, "n": 2}}}']
)
def test_a_name_that_stands_twice_is_refused(line: bytes) -> None:
    with pytest.raises(InputError, match=r"line 7 is not JSON: an object has the name '(value|n)' twice"):
        parse_json_record(line, number=7)


def test_escapes() -> None:
    assert unescape(r"a\tb\\n\n\0") == "a\tb\\n\n\0"
