"""The few fields of OpenTelemetry's MetricsData that Kafka's clients send, read from the bytes of protobuf.

    MetricsData      1 ResourceMetrics...
    ResourceMetrics  1 Resource, 2 ScopeMetrics...
    Resource         1 KeyValue...
    ScopeMetrics     2 Metric...
    Metric           1 name, 5 Gauge, 7 Sum; 9 to 11 are histograms and summaries
    Gauge            1 NumberDataPoint...
    Sum              1 NumberDataPoint..., 2 temporality (1 delta, 2 cumulative), 3 is monotonic
    NumberDataPoint  4 double, 6 integer of 64 bits, 7 KeyValue..., 8 flags (1: there is no value)
    KeyValue         1 key, 2 AnyValue
    AnyValue         1 string, 2 boolean, 3 integer, 4 double

Nesting is as deep as this table, whatever the bytes are: other fields are passed over, and groups are refused. So each
byte is looked at once for each row, at most. Raises InvalidRecord for bytes that are no such message.

What it leaves out: exemplars, times, units and descriptions, which no sample of Prometheus has a place for.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from enum import Enum
from typing import Final

from odradek.foundation.errors import InvalidRecord
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.telemetry_limits import TELEMETRY_ATTRIBUTES_MAX, TELEMETRY_NAME_CHARACTERS_MAX

Attributes = dict[str, str]

# The wire types of protobuf.
_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5
_VARINT_BYTES_MAX: Final = 10

_DOUBLE: Final = struct.Struct("<d")
_INT64: Final = struct.Struct("<q")
_DELTA: Final = 1
_HAS_NO_VALUE: Final = 1


def _key(number: int, wire_type: int) -> int:
    return number << 3 | wire_type


# Of MetricsData, ResourceMetrics, Resource, KeyValue, Gauge and Sum, the first field is what their own hold.
_FIRST: Final = _key(1, _LENGTH)
_SECOND: Final = _key(2, _LENGTH)
_METRIC_GAUGE: Final = _key(5, _LENGTH)
_METRIC_SUM: Final = _key(7, _LENGTH)
_METRIC_OTHERS: Final = frozenset((_key(9, _LENGTH), _key(10, _LENGTH), _key(11, _LENGTH)))
_SUM_TEMPORALITY: Final = _key(2, _VARINT)
_SUM_IS_MONOTONIC: Final = _key(3, _VARINT)
_POINT_DOUBLE: Final = _key(4, _FIXED64)
_POINT_INTEGER: Final = _key(6, _FIXED64)
_POINT_ATTRIBUTE: Final = _key(7, _LENGTH)
_POINT_FLAGS: Final = _key(8, _VARINT)
_ANY_BOOLEAN: Final = _key(2, _VARINT)
_ANY_INTEGER: Final = _key(3, _VARINT)
_ANY_DOUBLE: Final = _key(4, _FIXED64)


class PointKind(Enum):
    """How a point changes its series."""

    GAUGE = "gauge"
    DELTA = "delta"
    CUMULATIVE = "cumulative"


class DataPoint(NamedTuple):
    """One number of a metric."""

    metric: str
    attributes: Attributes
    kind: PointKind
    value: float


class MetricsReader:
    """Reads one message, from `data`. Of its points it keeps the first `points_max`."""

    def __init__(self, data: bytes, *, points_max: int) -> None:
        self._data = data
        self._points_max = points_max
        self.resource: Attributes = {}
        """What describes the client, such as its group."""
        self.points: list[DataPoint] = []
        self.unsupported = 0
        """Metrics and points that are none of Kafka's clients: histograms, too long names, sums that are no number."""
        self.left_out = 0
        """Points beyond `points_max`."""

    def read(self) -> None:
        for key, start, end in self._fields(0, len(self._data)):
            if key != _FIRST:
                continue
            for inner_key, inner_start, inner_end in self._fields(start, end):
                if inner_key == _FIRST:
                    self._read_resource(inner_start, inner_end)
                elif inner_key == _SECOND:
                    self._read_scope(inner_start, inner_end)

    def _read_resource(self, start: int, end: int) -> None:
        for key, at, stop in self._fields(start, end):
            if key == _FIRST and len(self.resource) < TELEMETRY_ATTRIBUTES_MAX:
                self._read_attribute(at, stop, self.resource)

    def _read_scope(self, start: int, end: int) -> None:
        for key, at, stop in self._fields(start, end):
            if key == _SECOND:
                self._read_metric(at, stop)

    def _read_metric(self, start: int, end: int) -> None:
        name = ""
        bodies: list[tuple[int, int, int]] = []
        for key, at, stop in self._fields(start, end):
            if key == _FIRST:
                name = self._text(at, stop)
            elif key in (_METRIC_GAUGE, _METRIC_SUM):
                bodies.append((key, at, stop))
            elif key in _METRIC_OTHERS:
                self.unsupported += 1
        for key, at, stop in bodies:
            if not 0 < len(name) <= TELEMETRY_NAME_CHARACTERS_MAX:
                self.unsupported += 1
            elif key == _METRIC_GAUGE:
                self._read_points(name, at, stop, PointKind.GAUGE)
            else:
                self._read_points(name, at, stop, self._kind_of_sum(at, stop))

    def _kind_of_sum(self, start: int, end: int) -> PointKind:
        """A sum that may fall is a gauge, as long as it is a whole and no difference."""
        temporality = is_monotonic = 0
        for key, value, _ in self._fields(start, end):
            if key == _SUM_TEMPORALITY:
                temporality = value
            elif key == _SUM_IS_MONOTONIC:
                is_monotonic = value
        if temporality == _DELTA:
            return PointKind.DELTA
        return PointKind.CUMULATIVE if is_monotonic else PointKind.GAUGE

    def _read_points(self, name: str, start: int, end: int, kind: PointKind) -> None:
        for key, at, stop in self._fields(start, end):
            if key != _FIRST:
                continue
            if len(self.points) >= self._points_max:
                self.left_out += 1
            else:
                self._read_point(name, at, stop, kind)

    def _read_point(self, name: str, start: int, end: int, kind: PointKind) -> None:
        value: float | None = None
        attributes: Attributes = {}
        is_supported = True
        for key, at, stop in self._fields(start, end):
            if key == _POINT_DOUBLE:
                value = _DOUBLE.unpack_from(self._data, at)[0]
            elif key == _POINT_INTEGER:
                value = _INT64.unpack_from(self._data, at)[0]
            elif key == _POINT_FLAGS:
                is_supported = is_supported and not at & _HAS_NO_VALUE
            elif key == _POINT_ATTRIBUTE and is_supported:
                is_supported = len(attributes) < TELEMETRY_ATTRIBUTES_MAX and self._read_attribute(
                    at, stop, attributes
                )
        if kind is PointKind.GAUGE and value is not None and math.isnan(value):
            # A Java client's average of nothing: there is no value, which is no mistake.
            return
        if value is None or not is_supported or not math.isfinite(value):
            self.unsupported += 1
            return
        if kind is PointKind.DELTA and value < 0:
            self.unsupported += 1
            return
        self.points.append(DataPoint(name, attributes, kind, value))

    def _read_attribute(self, start: int, end: int, into: Attributes) -> bool:
        """Whether key and value are short, and the value is no list."""
        name, value = "", ""
        is_plain = True
        for key, at, stop in self._fields(start, end):
            if key == _FIRST:
                name = self._text(at, stop)
            elif key == _SECOND:
                found = self._value(at, stop)
                is_plain = found is not None
                value = found or ""
        is_plain = is_plain and max(len(name), len(value)) <= TELEMETRY_NAME_CHARACTERS_MAX
        if is_plain:
            # librdkafka writes node.id where Java's clients write node_id.
            into[name.replace(".", "_")] = value
        return is_plain

    def _value(self, start: int, end: int) -> str | None:
        value: str | None = None
        for key, at, stop in self._fields(start, end):
            if key == _FIRST:
                value = self._text(at, stop)
            elif key == _ANY_BOOLEAN:
                value = "true" if at else "false"
            elif key == _ANY_INTEGER:
                value = str(at - (1 << 64) if at >> 63 else at)
            elif key == _ANY_DOUBLE:
                value = repr(_DOUBLE.unpack_from(self._data, at)[0])
            else:
                return None
        return value

    def _text(self, start: int, end: int) -> str:
        # A character takes four bytes at most; a longer text is too long, whatever it says.
        if end - start > 4 * TELEMETRY_NAME_CHARACTERS_MAX:
            return " " * (TELEMETRY_NAME_CHARACTERS_MAX + 1)
        try:
            return self._data[start:end].decode()
        except UnicodeDecodeError as error:
            raise InvalidRecord(f"a name in the pushed metrics is not UTF-8: {error}") from None

    def _fields(self, position: int, end: int) -> Iterator[tuple[int, int, int]]:
        """(key, start, end) of each field between two positions; of a varint its value stands in place of the start."""
        data = self._data
        while position < end:
            key = data[position]
            position += 1
            if key >= 0x80:
                key, position = self._varint(position - 1, end)
            wire_type = key & 7
            if key < 8:
                raise self._refusal(position, "a field without a number")
            if wire_type in (_LENGTH, _VARINT):
                if position >= end:
                    raise self._refusal(position, "a field without a value")
                value = data[position]
                position += 1
                if value >= 0x80:
                    value, position = self._varint(position - 1, end)
                if wire_type == _VARINT:
                    yield key, value, position
                    continue
                stop = position + value
            elif wire_type == _FIXED64:
                stop = position + 8
            elif wire_type == _FIXED32:
                stop = position + 4
            else:
                raise self._refusal(position, f"the wire type {wire_type}")
            if stop > end:
                raise self._refusal(position, "a field that is cut off")
            yield key, position, stop
            position = stop

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        value = shift = 0
        data = self._data
        for at in range(position, min(end, position + _VARINT_BYTES_MAX)):
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at + 1
            shift += 7
        raise self._refusal(position, "a number that is cut off or too long")

    def _refusal(self, position: int, what: str) -> InvalidRecord:
        return InvalidRecord(f"the pushed metrics are no MetricsData: before byte {position} is {what}")
