"""Variable-length integers: known bytes, round trips, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import CorruptRecord
from odradek.wire.records.varint import decode_varint, decode_varlong, encode_varint, varint_size
from tests.wire.records.strategies import INT32, INT64

KNOWN = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "encoded"), KNOWN)
def test_known_bytes(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varlong(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(INT32)
def test_int32_is_read_back(value: int) -> None:
    encoded = encode_varint(value)
    assert len(encoded) == varint_size(value) <= 5
    assert decode_varint(b"\xff" + encoded + b"\xff", 1) == (value, 1 + len(encoded))


@given(INT64)
def test_int64_is_read_back(value: int) -> None:
    encoded = encode_varint(value)
    assert len(encoded) == varint_size(value) <= 10
    assert decode_varlong(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "8080808080", "ffffffffff0f", "ffffffff1f"])
def test_truncated_or_too_long_is_refused(encoded: str) -> None:
    with pytest.raises(CorruptRecord):
        decode_varint(bytes.fromhex(encoded), 0)


@given(st.binary(max_size=12))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    for decode, bits in ((decode_varint, 32), (decode_varlong, 64)):
        try:
            value, position = decode(data, 0)
        except CorruptRecord:
            continue
        assert -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
        assert 1 <= position <= len(data)
