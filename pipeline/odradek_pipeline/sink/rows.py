"""A frame's rows as records: columns as the stock connector's sink has them, and a digest that does not know order.

The digest is a sum of checksums over keys, values, headers and targets. Two runs of a task with the same rows have the
same digest, also where a shuffle brings the rows in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructType

from odradek.wire.records.checksum import crc32c
from odradek_pipeline.errors import OptionError

_BYTES: Final = (StringType, BinaryType)
_KINDS: Final = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "headers": (ArrayType,),
}
_DIGEST_MASK: Final = 2**64 - 1
_NULL_VALUE: Final = 1 << 40

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Rows for one topic, in their order. `partition` None leaves it to the keys; `headers` None: none has any."""

    topic: str
    partition: int | None
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers] | None = None

    def digest(self) -> int:
        """The sum over its rows."""
        base = crc32c(f"{self.topic}/{self.partition}".encode())
        total = 0
        for key, value in zip(self.keys, self.values, strict=True):
            found = base if key is None else crc32c(key, base ^ (len(key) + 1))
            total += _NULL_VALUE + found if value is None else crc32c(value, found)
        for headers in self.headers or ():
            total += sum(crc32c(content or b"", crc32c(name.encode(), 1)) for name, content in headers)
        return total & _DIGEST_MASK


def check_schema(schema: StructType, topic: str) -> None:
    """Raises OptionError for columns that cannot be written. `topic` is the option's, empty without it."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "value" not in kinds:
        raise OptionError(f"the frame has the columns {', '.join(kinds)}; it needs one named 'value'")
    if "topic" not in kinds and not topic:
        raise OptionError("no topic is named: set the option 'topic', or give the frame a column 'topic'")
    for name, kind in kinds.items():
        if name not in _KINDS:
            raise OptionError(f"column {name!r} has no place in a record; there are {', '.join(_KINDS)}")
        if not isinstance(kind, _KINDS[name]):
            raise OptionError(f"column {name!r} is {kind.simpleString()}; cast it to string or binary first")


def group_rows(batch: pa.RecordBatch, topic: str) -> Iterator[PartitionRows]:
    """The rows of an Arrow batch by topic and partition. Raises OptionError for a row without a topic."""
    columns = {name: batch.column(number) for number, name in enumerate(batch.schema.names)}
    values = columns["value"].cast(pa.binary()).to_pylist()
    keys = columns["key"].cast(pa.binary()).to_pylist() if "key" in columns else [None] * len(values)
    topics = columns["topic"].to_pylist() if "topic" in columns and not topic else [topic] * len(values)
    partitions = columns["partition"].to_pylist() if "partition" in columns else [None] * len(values)
    headers = [_headers(one) for one in columns["headers"].to_pylist()] if "headers" in columns else None
    if None in topics:
        raise OptionError("a row has no topic: its column 'topic' is null and the option 'topic' is not set")
    targets = list(zip(topics, partitions, strict=True))
    for target in dict.fromkeys(targets):
        numbers = range(len(values)) if targets.count(target) == len(values) else _numbers(targets, target)
        yield PartitionRows(
            *target,
            keys=[keys[number] for number in numbers],
            values=[values[number] for number in numbers],
            headers=None if headers is None else [headers[number] for number in numbers],
        )


def _numbers(targets: Sequence[Any], target: Any) -> list[int]:
    return [number for number, one in enumerate(targets) if one == target]


def _headers(given: Sequence[Any] | None) -> Headers:
    return tuple((one["key"], one["value"]) for one in given or ())
