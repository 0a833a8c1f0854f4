"""The bytes of a ShareFetch response, packed by hand, so that records stay slices of files.

    response  throttle time int32, error int16, message nullable string, acquisition lock timeout int32,
              topics [ id uuid,
                  partitions [ index int32, error int16, message nullable string,
                               acknowledge error int16, message nullable string,
                               current leader: id int32, epoch int32,
                               records nullable bytes,
                               acquired records [ first int64, last int64, delivery count int16 ] ] ],
              node endpoints [ id int32, host string, port int32, rack nullable string ]

All versions are flexible: lengths are compact, and each structure ends with its tagged fields, of which there are none.
Small slices are read here when the page cache has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import Final

from odradek.foundation.limits import SENDFILE_BYTES_MIN
from odradek.wire.protocol.frames import Frame, Part, Slice
from odradek.wire.protocol.hot.current_leaders import CurrentLeaders
from odradek.wire.protocol.hot.fetch_response import INLINE_BYTES_MAX
from odradek.wire.protocol.varint import append_unsigned_varint

_HEAD: Final = Struct(">iiBih")
_SIZE_AND_CORRELATION_ID: Final = Struct(">ii")
_INT: Final = Struct(">i")
_SHORT: Final = Struct(">h")
_INDEX_AND_ERROR: Final = Struct(">ih")
_LEADER: Final = Struct(">iiB")
_ACQUIRED: Final = Struct(">qqhB")
_NO_LEADER: Final = (0, 0)
_topic_of = attrgetter("topic_id")


class SharedPartition:
    """The part of one partition in one response, in the values of the wire; `acquired` are (first, last, count)."""

    __slots__ = (
        "acknowledge_error_code",
        "acknowledge_error_message",
        "acquired",
        "error_code",
        "error_message",
        "index",
        "records",
        "topic_id",
    )

    def __init__(self, topic_id: bytes, index: int) -> None:
        self.topic_id = topic_id
        self.index = index
        self.error_code = 0
        self.error_message: str | None = None
        self.acknowledge_error_code = 0
        self.acknowledge_error_message: str | None = None
        self.records: Slice | None = None
        self.acquired: Sequence[tuple[int, int, int]] = ()


def pack_share_fetch_response(
    correlation_id: int,
    results: Sequence[SharedPartition],
    *,
    lock_timeout_ms: int,
    throttle_ms: int = 0,
    error_code: int = 0,
    error_message: str | None = None,
    leaders: CurrentLeaders | None = None,
) -> Frame:
    """The whole frame: bytes, or a list of bytes and slices of files. Results of one topic are neighbours.

    `leaders` are the leaders of partitions that another broker leads.
    """
    packing = _Packing(leaders)
    return packing.pack(
        correlation_id,
        results,
        lock_timeout_ms=lock_timeout_ms,
        throttle_ms=throttle_ms,
        error_code=error_code,
        error_message=error_message,
    )


class _Packing:
    def __init__(self, leaders: CurrentLeaders | None) -> None:
        self._leaders = leaders
        self._out = bytearray()
        self._parts: list[Part] = []
        self._size = 0
        self._inline_left = INLINE_BYTES_MAX

    def pack(
        self,
        correlation_id: int,
        results: Sequence[SharedPartition],
        *,
        lock_timeout_ms: int,
        throttle_ms: int,
        error_code: int,
        error_message: str | None,
    ) -> Frame:
        out = self._out
        out += _HEAD.pack(0, correlation_id, 0, throttle_ms, error_code)
        self._put_text(error_message)
        out += _INT.pack(lock_timeout_ms)
        runs = [list(run) for _, run in groupby(results, _topic_of)]
        append_unsigned_varint(out, len(runs) + 1)
        for run in runs:
            self._out += run[0].topic_id
            append_unsigned_varint(self._out, len(run) + 1)
            for one in run:
                self._put_partition(one)
            self._out.append(0)
        self._put_nodes()
        self._out.append(0)
        # `out` is the first part still, wherever the last one ended.
        _SIZE_AND_CORRELATION_ID.pack_into(out, 0, self._size + len(self._out) - 4, correlation_id)
        if not self._parts:
            return bytes(out)
        self._parts.append(self._out)
        return self._parts

    def _put_partition(self, one: SharedPartition) -> None:
        self._out += _INDEX_AND_ERROR.pack(one.index, one.error_code)
        self._put_text(one.error_message)
        self._out += _SHORT.pack(one.acknowledge_error_code)
        self._put_text(one.acknowledge_error_message)
        leader = _NO_LEADER
        if self._leaders is not None:
            leader = self._leaders.by_partition.get((one.topic_id, one.index), _NO_LEADER)
        self._out += _LEADER.pack(*leader, 0)
        self._put_records(one.records)
        append_unsigned_varint(self._out, len(one.acquired) + 1)
        for first, last, delivery_count in one.acquired:
            self._out += _ACQUIRED.pack(first, last, delivery_count, 0)
        self._out.append(0)

    def _put_records(self, records: Slice | None) -> None:
        size = 0 if records is None else records.size
        append_unsigned_varint(self._out, size + 1)
        if records is None or not size:
            return
        if size < min(SENDFILE_BYTES_MIN, self._inline_left):
            data = records.read_cached()
            if data is not None:
                self._inline_left -= size
                self._out += data
                return
        self._parts.append(self._out)
        self._parts.append(records)
        self._size += len(self._out) + size
        self._out = bytearray()

    def _put_nodes(self) -> None:
        nodes = () if self._leaders is None else self._leaders.nodes
        append_unsigned_varint(self._out, len(nodes) + 1)
        for node_id, host, port, rack in nodes:
            self._out += _INT.pack(node_id)
            self._put_text(host)
            self._out += _INT.pack(port)
            self._put_text(rack)
            self._out.append(0)

    def _put_text(self, text: str | None) -> None:
        if text is None:
            self._out.append(0)
            return
        data = text.encode()
        append_unsigned_varint(self._out, len(data) + 1)
        self._out += data
