"""Records as Arrow batches with the stock connector's columns, built from their places without an object for a record.

Arrow wants bytes one after the other, and records have other fields between keys and values. So the fetched bytes are
first one Arrow array that alternates between what is wanted and what lies between. `take` copies every second element,
in C. The arrays come from buffers throughout: the first `pa.array` of a process would import pandas, which takes
seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.client.consumer.blocks import RecordBlock
from odradek.client.consumer.columns import BlockColumns
from odradek.wire.records.columns import Ints
from odradek.wire.records.record import read_headers

_FIELDS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
_HEADERS: Final = StructField(
    "headers",
    ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
)
_PAIR: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])


def schema(*, with_headers: bool) -> StructType:
    """The columns of the source: those of the stock connector, in its order."""
    return StructType([*_FIELDS, _HEADERS] if with_headers else [*_FIELDS])


def record_batch(blocks: Sequence[RecordBlock], *, with_headers: bool) -> pa.RecordBatch:
    """The records of blocks of one partition. Raises CorruptRecord when they cannot be decoded."""
    columns = BlockColumns(blocks)
    topic, partition = blocks[0].topic_partition
    chosen = columns.chosen
    count = len(chosen)
    arrays = [
        _binary(columns.data, columns.key_start[chosen], columns.key_size[chosen]),
        _binary(columns.data, columns.value_start[chosen], columns.value_size[chosen]),
        _repeat_text(topic, count),
        _numbers(np.full(count, partition, np.int32), pa.int32()),
        _numbers(columns.offset[chosen], pa.int64()),
        _numbers(columns.timestamp_ms[chosen] * 1000, pa.timestamp("us", tz="UTC")),
        _numbers(columns.timestamp_type[chosen], pa.int32()),
    ]
    names = [field.name for field in _FIELDS]
    if with_headers:
        arrays.append(_headers(columns.data, columns.headers_start[chosen], columns.end[chosen]))
        names.append(_HEADERS.name)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _numbers(values: Any, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _repeat_text(text: str, count: int) -> pa.Array:
    encoded = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(encoded * count)]
    )


def _binary(data: bytes, starts: Ints, sizes: Ints) -> pa.Array:
    """The runs of bytes that begin at `starts`, which rise; one of the size -1 is null."""
    count = len(starts)
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = starts
    edges[1::2] = starts + np.maximum(sizes, 0)
    alternating = pa.Array.from_buffers(
        pa.binary(), max(2 * count - 1, 0), [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    found = alternating.take(_numbers(np.arange(0, 2 * count, 2, dtype=np.int32), pa.int32()))
    is_null = sizes < 0
    if not is_null.any():
        return found
    _, offsets, content = found.buffers()
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), count, [validity, offsets, content])


def _headers(data: bytes, starts: Ints, ends: Ints) -> pa.Array:
    """The headers of each record; null for a record without any, as the stock connector has it."""
    keys: list[bytes] = []
    values: list[bytes | None] = []
    edges = [0]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if data[start]:
            for key, value in read_headers(data, start, end):
                keys.append(key.encode())
                values.append(value)
        edges.append(len(keys))
    pairs = pa.StructArray.from_buffers(
        _PAIR,
        len(keys),
        [None],
        children=[_join_arrays(keys, pa.string()), _join_arrays(values, pa.binary())],
    )
    offsets = np.array(edges, np.int32)
    validity = np.packbits(np.diff(offsets) > 0, bitorder="little")
    return pa.Array.from_buffers(
        pa.list_(_PAIR), len(starts), [pa.py_buffer(validity), pa.py_buffer(offsets)], children=[pairs]
    )


def _join_arrays(parts: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    edges = np.zeros(len(parts) + 1, np.int32)
    np.cumsum([len(part or b"") for part in parts], out=edges[1:])
    validity = np.packbits(np.array([part is not None for part in parts], np.bool_), bitorder="little")
    content = pa.py_buffer(b"".join(part or b"" for part in parts))
    return pa.Array.from_buffers(kind, len(parts), [pa.py_buffer(validity), pa.py_buffer(edges), content])
