"""Pushed metrics are read as clients write them, and no bytes cost more than their length."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.telemetry.otlp import MetricsReader, PointKind
from odradek.broker.telemetry.series import read_push
from odradek.foundation.errors import InvalidRecord, UnsupportedCompressionType
from odradek.foundation.telemetry_limits import TELEMETRY_NAME_CHARACTERS_MAX, TELEMETRY_SERIES_PER_CLIENT_MAX
from odradek.wire.records.compression import Compression, compress
from tests.support.pushed_metrics import (
    CUMULATIVE,
    attributes,
    field,
    gauge,
    number_field,
    point,
    pushed,
    total,
    varint,
)

BYTES_MAX = 1 << 20


def read(data: bytes) -> MetricsReader:
    reader = MetricsReader(data, points_max=TELEMETRY_SERIES_PER_CLIENT_MAX)
    reader.read()
    return reader


def test_gauges_and_sums_have_their_labels_and_kinds() -> None:
    reader = read(
        pushed(
            gauge("org.apache.kafka.producer.connection.count", point(2)),
            gauge("lag", point(3.5, topic="t", partition="0"), point(-1, topic="t", partition="1")),
            total("bytes", point(10, node_id="1")),
            total("since.the.start", point(7), temporality=CUMULATIVE),
            total("open", point(4), temporality=CUMULATIVE, is_monotonic=False),
            group_id="g",
        )
    )
    assert reader.resource == {"group_id": "g"}
    assert reader.points == [
        ("org.apache.kafka.producer.connection.count", {}, PointKind.GAUGE, 2),
        ("lag", {"topic": "t", "partition": "0"}, PointKind.GAUGE, 3.5),
        ("lag", {"topic": "t", "partition": "1"}, PointKind.GAUGE, -1),
        ("bytes", {"node_id": "1"}, PointKind.DELTA, 10),
        ("since.the.start", {}, PointKind.CUMULATIVE, 7),
        ("open", {}, PointKind.GAUGE, 4),
    ]
    assert (reader.unsupported, reader.left_out) == (0, 0)


def test_other_fields_are_passed_over_and_plain_values_are_texts() -> None:
    values = {
        "is.bool": number_field(2, 1),
        "int": number_field(3, (1 << 64) - 5),
        "double": bytes([4 << 3 | 1]) + struct.pack("<d", 0.5),
    }
    body = b"".join(field(7, field(1, name) + field(2, value)) for name, value in values.items())
    body += bytes([6 << 3 | 1]) + struct.pack("<q", 1)
    other = field(3, "unit") + bytes([12 << 3 | 5]) + b"1234" + field(99, b"\xff" * 5000)
    reader = read(field(7, "what") + pushed(other + gauge("m", body + field(5, "exemplar"))))
    assert reader.points == [("m", {"is_bool": "true", "int": "-5", "double": "0.5"}, PointKind.GAUGE, 1)]


@pytest.mark.parametrize(
    ("metric", "unsupported"),
    [
        (gauge("m", point(float("nan"))), 0),
        (total("m", point(float("nan"))), 1),
        (gauge("m", point(float("inf"))), 1),
        (total("m", point(-1)), 1),
        (gauge("m", b""), 1),
        (gauge("m", point(1) + number_field(8, 1)), 1),
        (gauge("", point(1)), 1),
        (gauge("m" * (TELEMETRY_NAME_CHARACTERS_MAX + 1), point(1)), 1),
        (gauge("m" * 100_000, point(1)), 1),
        (gauge("m", point(1, topic="t" * (TELEMETRY_NAME_CHARACTERS_MAX + 1))), 1),
        (gauge("m", point(1, **{f"a{number}": "" for number in range(17)})), 1),
        (gauge("m", point(1) + field(7, field(1, "list") + field(2, field(5, b"")))), 1),
        (field(1, "m") + field(9, b"a histogram"), 1),
    ],
)
def test_what_can_be_no_sample_is_left_out(metric: bytes, unsupported: int) -> None:
    reader = read(pushed(metric))
    assert reader.points == []
    assert reader.unsupported == unsupported


def test_points_beyond_the_bound_are_counted_and_not_read() -> None:
    many = TELEMETRY_SERIES_PER_CLIENT_MAX + 5
    reader = read(pushed(gauge("m", *(point(one, topic=f"t{one}") for one in range(many)))))
    assert len(reader.points) == TELEMETRY_SERIES_PER_CLIENT_MAX
    assert reader.left_out == 5


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05",
        b"\x0b\x0c",
        b"\x00\x01",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\xff" * 20,
        pushed(gauge("m", bytes([6 << 3 | 1]) + b"1234")),
        pushed(field(1, b"\xff\xfe")),
        pushed(gauge("m", attributes(7, {"topic": "t"}).replace(b"\x01t", b"\x01\xff") + point(1))),
        pushed(gauge("m", point(1)))[:-1],
    ],
)
def test_damaged_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        read(data)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 400), st.integers(0, 255))
def test_any_bytes_are_read_or_refused(noise: bytes, position: int, byte: int) -> None:
    good = bytearray(
        pushed(gauge("m", point(1.5, topic="t", partition="1")), total("s", point(3)), group_id="g")
    )
    good[position % len(good)] = byte
    for data in (
        noise,
        bytes(good),
        bytes(good) + noise,
        field(1, noise),
        pushed(noise),
        pushed(gauge("m", noise)),
    ):
        try:
            reader = read(data)
        except InvalidRecord:
            continue
        assert len(reader.points) <= len(data)


def _nested(depth: int) -> bytes:
    data = b""
    while len(data) < depth:
        data = field(1, data)
    return data


@pytest.mark.parametrize(
    "make",
    [
        lambda size: _nested(min(size, 20_000)) * (size // 20_000),
        lambda size: field(1, field(2, b"\x12\x00" * (size // 2))),
        lambda size: pushed(field(1, "m") + field(5, b"\x0a\x00" * (size // 2))),
        lambda size: pushed(gauge("m", b"\x3a\x00" * (size // 2))),
        lambda size: b"\x0a\x00" * (size // 2),
        lambda size: b"\x08\x01" * (size // 2),
    ],
    ids=["deep", "metrics", "points", "attributes", "resources", "unknown"],
)
@pytest.mark.thorough
def test_hostile_bytes_cost_no_more_than_their_length(make: Callable[[int], bytes]) -> None:
    def seconds(size: int) -> float:
        data = make(size)
        started = time.thread_time()
        read(data)
        return time.thread_time() - started

    small = min(seconds(BYTES_MAX // 4) for _ in range(3))
    assert min(seconds(BYTES_MAX) for _ in range(3)) < 12 * small + 0.05


@pytest.mark.parametrize("codec", list(Compression))
def test_a_push_in_each_codec_is_read(codec: Compression) -> None:
    data = compress(pushed(gauge("m", point(1, topic="t", other="x", client_id="c"))), codec)
    taken = read_push(data, codec, bytes_max=BYTES_MAX)
    assert taken.points == [(("m", "t", "", "", "other=x"), PointKind.GAUGE, 1)]


@pytest.mark.parametrize("codec", [one for one in Compression if one])
def test_a_bomb_and_damage_are_refused(codec: Compression) -> None:
    bomb = compress(b"\x0a\x00" * BYTES_MAX, codec)
    assert len(bomb) < BYTES_MAX
    with pytest.raises(InvalidRecord):
        read_push(bomb, codec, bytes_max=BYTES_MAX)
    with pytest.raises(InvalidRecord):
        read_push(b"no such data", codec, bytes_max=BYTES_MAX)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(UnsupportedCompressionType):
        read_push(varint(1), 5, bytes_max=BYTES_MAX)
