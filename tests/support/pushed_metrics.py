"""MetricsData of OpenTelemetry as clients push it, written by hand: no library shares a mistake with its reader."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

DELTA: Final = 1
CUMULATIVE: Final = 2


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: bytes | str) -> bytes:
    """A field that begins with its length."""
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def attributes(number: int, values: Mapping[str, str]) -> bytes:
    pairs = (field(1, name) + field(2, field(1, value)) for name, value in values.items())
    return b"".join(field(number, pair) for pair in pairs)


def point(value: float, **labels: str) -> bytes:
    """A NumberDataPoint, with its time as clients send it."""
    body = attributes(7, labels) + bytes([3 << 3 | 1]) + struct.pack("<q", 1_700_000_000_000_000_000)
    if isinstance(value, int):
        return body + bytes([6 << 3 | 1]) + struct.pack("<q", value)
    return body + bytes([4 << 3 | 1]) + struct.pack("<d", value)


def gauge(name: str, *points: bytes) -> bytes:
    """A Metric."""
    return field(1, name) + field(5, b"".join(field(1, one) for one in points))


def total(name: str, *points: bytes, temporality: int = DELTA, is_monotonic: bool = True) -> bytes:
    """A Metric that is a sum."""
    body = b"".join(field(1, one) for one in points)
    return field(1, name) + field(7, body + number_field(2, temporality) + number_field(3, is_monotonic))


def pushed(*metrics: bytes, **resource: str) -> bytes:
    """Metrics as a Java client sends them: a ResourceMetrics for each."""
    described = field(1, attributes(1, resource))
    return b"".join(field(1, described + field(2, field(2, metric))) for metric in metrics)
