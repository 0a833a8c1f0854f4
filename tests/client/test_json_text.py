"""Decoded values as one line of JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from google.protobuf import any_pb2, struct_pb2, timestamp_pb2, wrappers_pb2

from odradek.client.schemas.json_text import to_json


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "null"),
        ("a\nb\u2028ü", '"a\\nb\u2028ü"'),
        ({"a": [1, 2.5, True, None]}, '{"a": [1, 2.5, true, null]}'),
        (b"\x00\xff", '"\\u0000ÿ"'),
        (datetime(2026, 3, 1, 9, tzinfo=UTC), '"2026-03-01T09:00:00Z"'),
        (datetime(2026, 3, 1, 9, 0, 0, 250_000), '"2026-03-01T09:00:00.250000"'),
        ({"on": date(2026, 3, 1), "at": time(9, 30)}, '{"on": "2026-03-01", "at": "09:30:00"}'),
        (Decimal("2.50"), '"2.50"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (
            [float("nan"), {"x": float("-inf")}, (float("inf"), 1.5)],
            '["NaN", {"x": "-Infinity"}, ["Infinity", 1.5]]',
        ),
        (["\ud800", "ü"], '["\\ud800", "\\u00fc"]'),
        (timestamp_pb2.Timestamp(seconds=9), '"1970-01-01T00:00:09Z"'),
        (wrappers_pb2.Int64Value(value=5), '"5"'),
        (struct_pb2.Struct(fields={"ü": struct_pb2.Value(bool_value=True)}), '{"ü": true}'),
    ],
)
def test_one_line_of_json(found: Any, text: str) -> None:
    assert to_json(found).decode() == text
    json.loads(text)


def test_what_has_no_form_in_json_is_refused() -> None:
    with pytest.raises(TypeError, match="a set has no form in JSON"):
        to_json([{1}])
    with pytest.raises(TypeError, match="shop"):
        to_json(any_pb2.Any(type_url="type.googleapis.com/shop.Unknown", value=b"x"))
