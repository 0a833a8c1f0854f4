"""Answers the creation times of records by their offsets, for callers that compute lag in seconds.

    POST /record-times  {"orders": {"0": 4711, "1": 12}}
    200                 {"orders": {"0": 1763740800123}}

The answer has the milliseconds of the record at each offset, or of the first kept record where that one was deleted.
Partitions that this broker does not lead, and offsets without a record, are absent. Each needs a read of the offset
index and the 61 bytes of a batch's header, from the page cache or else in a thread. The time is that of the batch's
first record. Topics that the caller may not see (`visible_names`) are absent too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.replication.partition import Partition
from odradek.foundation.errors import OdradekError
from odradek.foundation.limits import RECORD_TIMES_BYTES_MAX, RECORD_TIMES_PER_REQUEST_MAX
from odradek.security.authorization.acls import AclResourceType
from odradek.server.http.strangers import parse_json
from odradek.server.http.visible_names import Names
from odradek.wire.records.batch import HEADER_BYTES, read_header

if TYPE_CHECKING:
    from odradek.broker.process.broker_process import AnyBroker
    from odradek.storage.files import FileSlice


def parse_question(body: bytes) -> dict[tuple[str, int], int]:
    """The requested offsets by partition, from the bytes of a request. Raises ValueError that names the mistake."""
    if len(body) > RECORD_TIMES_BYTES_MAX:
        raise ValueError(
            f"the body has {len(body)} bytes, allowed are {RECORD_TIMES_BYTES_MAX}; ask for at most "
            f"{RECORD_TIMES_PER_REQUEST_MAX} partitions at once"
        )
    return parse_offsets(parse_json(body))


def parse_offsets(body: object) -> dict[tuple[str, int], int]:
    """The requested offsets by partition. Raises ValueError that names the mistake."""
    if not isinstance(body, Mapping):
        raise ValueError('the body must be an object as {"orders": {"0": 4711}}')
    offsets: dict[tuple[str, int], int] = {}
    for topic, rows in body.items():
        if not isinstance(rows, Mapping):
            raise ValueError(f"{topic}: must be an object of offsets by partition")
        for index, offset in rows.items():
            if not index.isdecimal() or isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise ValueError(f"{topic}: {index!r}: {offset!r} is not an offset of a partition")
            offsets[topic, int(index)] = offset
    if len(offsets) > RECORD_TIMES_PER_REQUEST_MAX:
        raise ValueError(
            f"{len(offsets)} partitions in one request; ask for at most {RECORD_TIMES_PER_REQUEST_MAX} at once"
        )
    return offsets


def describable(offsets: Mapping[tuple[str, int], int], names: Names) -> dict[tuple[str, int], int]:
    """Those of topics that the caller may see."""
    return {key: offset for key, offset in offsets.items() if names.may_see(AclResourceType.TOPIC, key[0])}


async def record_times(
    broker: AnyBroker, offsets: Mapping[tuple[str, int], int]
) -> dict[str, dict[str, int]]:
    """Milliseconds since 1970 by topic and partition, as in the answer."""
    found: dict[str, dict[str, int]] = {}
    for (topic, index), offset in offsets.items():
        partition = broker.partitions.find(topic, index)
        if partition is None or partition.gone is not None:
            continue
        try:
            partition.require_leader(-1)
            timestamp_ms = await _record_time(broker, partition, offset)
        except OdradekError:
            continue  # it moved, or its log failed: its next leader knows
        if timestamp_ms is not None:
            found.setdefault(topic, {})[str(index)] = timestamp_ms
    return found


async def _record_time(broker: AnyBroker, partition: Partition, offset: int) -> int | None:
    header = header_slice(partition, max(offset, partition.log.log_start_offset))
    if header is None or header.file is None:
        return None
    data = header.file.pread_cached(header.position, HEADER_BYTES)
    if data is None:
        data = await broker.blocking.submit(partial(header.file.pread, header.position, HEADER_BYTES))
    return base_timestamp_ms(data)


def header_slice(partition: Partition, offset: int) -> FileSlice | None:
    """The header of the batch with `offset`, as a slice of its file; None without a readable record there."""
    if offset >= partition.last_stable_offset:
        return None
    found = partition.log.read(offset, bytes_max=HEADER_BYTES, at_least_one_batch=True)
    return found if found.size >= HEADER_BYTES and found.file is not None else None


def base_timestamp_ms(header: bytes) -> int | None:
    """The time of a batch's first record; None in formats without one.

    Compaction puts the time at which tombstones may go into that place. Of such a batch the newest time is known alone.
    """
    if len(header) < HEADER_BYTES:
        return None
    fields = read_header(header)
    timestamp_ms = fields.max_timestamp_ms if fields.has_delete_horizon else fields.base_timestamp_ms
    return timestamp_ms if timestamp_ms >= 0 else None
