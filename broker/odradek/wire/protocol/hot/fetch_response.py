"""The bytes of a Fetch response, packed by hand. Versions and topics are as in `fetch_request`.

    response  throttle time int32 ms, from v7 error int16 and session id int32,
              topics [ topic as in the request,
                  partitions [ index int32, error int16, high watermark int64, last stable offset int64,
                               from v5 log start offset int64,
                               aborted transactions nullable [ producer id int64, first offset int64 ],
                               from v11 preferred read replica int32, records nullable bytes ] ]

Tag 0 of a partition is the diverging epoch (int32, end offset int64). Tag 1, from v16, is `current_leaders`.

Neighbouring partitions of one topic share its entry. Small slices are read here when the page cache has them. So the
usual response at the end of a log is one run of bytes. Others stay slices of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import Final

from odradek.foundation.errors import FencedLeaderEpoch, NotLeaderOrFollower
from odradek.foundation.limits import SENDFILE_BYTES_MIN
from odradek.wire.protocol.errors import codes_of
from odradek.wire.protocol.frames import Frame, Part, Slice
from odradek.wire.protocol.hot.current_leaders import FETCH_TAG, CurrentLeaders
from odradek.wire.protocol.hot.fetch_request import (
    FIRST_FLEXIBLE,
    FIRST_WITH_LOG_START,
    FIRST_WITH_SESSIONS,
    FIRST_WITH_TOPIC_IDS,
)
from odradek.wire.protocol.varint import append_unsigned_varint

_FIRST_WITH_REPLICA: Final = 11
FIRST_WITH_LEADERS: Final = 16

_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
LED_ELSEWHERE: Final = codes_of(NotLeaderOrFollower, FencedLeaderEpoch)

# Slices read here, in all: a response that waits on its connection holds at most this much memory.
INLINE_BYTES_MAX: Final = 64 * 1024

_SIZE_AND_CORRELATION_ID: Final = Struct(">ii")
_ERROR_AND_SESSION: Final = Struct(">hi")
# Without the last one, the log start offset, before version 5.
_OFFSETS: Final = Struct(">ihqqq")
_ABORTED: Final = Struct(">qq")
# A response with one partition. In front: size, correlation id, no tags, throttle time, error, session. Then the topic,
# and of the partition all up to its records.
_ONE_HEAD: Final = Struct(">iiBihiB16sBihqqqBi")
# No tags of the partition, of the topic, and of the response.
_ONE_END: Final = b"\0\0\0"
_one_head = _ONE_HEAD.pack
_DIVERGING: Final = Struct(">BBBiqB")
_topic_of = attrgetter("topic")


class FetchedPartition:
    """The part of one partition in one response, in the values of the wire.

    `topic` is its name or the 16 bytes of its id. `records` is None when there are none, `size` their bytes.
    `aborted` are (producer id, first offset), `diverging` is (epoch, end offset).
    """

    __slots__ = (
        "aborted",
        "diverging",
        "error_code",
        "high_watermark",
        "index",
        "last_stable_offset",
        "log_start_offset",
        "preferred_replica",
        "records",
        "size",
        "topic",
    )

    def __init__(self, topic: str | bytes, index: int) -> None:
        self.topic = topic
        self.index = index
        self.error_code = 0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.records: Slice | None = None
        self.size = 0
        self.aborted: list[tuple[int, int]] | None = None
        self.diverging: tuple[int, int] | None = None
        self.preferred_replica = -1
        """The broker from which the client should read instead, -1 for this one."""


def pack_fetch_response(
    version: int,
    correlation_id: int,
    results: Sequence[FetchedPartition],
    *,
    session_id: int,
    error_code: int,
    leaders: CurrentLeaders | None = None,
    inline_bytes_max: int = INLINE_BYTES_MAX,
) -> Frame:
    """The whole frame: bytes, or a list of bytes and slices of files.

    `leaders` are the leaders of partitions that another broker leads, for versions that can name them.
    """
    if version >= FIRST_WITH_TOPIC_IDS and len(results) == 1 and not error_code and leaders is None:
        frame = _pack_one(correlation_id, results[0], session_id, inline_bytes_max)
        if frame is not None:
            return frame
    packing = Packing(version, leaders, inline_bytes_max)
    return packing.pack(correlation_id, results, session_id=session_id, error_code=error_code)


def _pack_one(
    correlation_id: int, fetched: FetchedPartition, session_id: int, inline_bytes_max: int
) -> Frame | None:
    """The frame of a response from version 13 on with one partition.

    None where it has aborted transactions or a diverging epoch: `Packing` packs it.
    """
    if fetched.diverging is not None or fetched.aborted:
        return None
    out = bytearray(
        _one_head(
            0,
            correlation_id,
            0,
            0,
            0,
            session_id,
            2,
            fetched.topic,
            2,
            fetched.index,
            fetched.error_code,
            fetched.high_watermark,
            fetched.last_stable_offset,
            fetched.log_start_offset,
            0 if fetched.aborted is None else 1,
            fetched.preferred_replica if fetched.preferred_replica >= 0 else -1,
        )
    )
    records, size = fetched.records, fetched.size
    append_unsigned_varint(out, size + 1)
    _INT.pack_into(out, 0, len(out) + size + len(_ONE_END) - 4)
    if records is not None:
        data = records.read_cached() if size < SENDFILE_BYTES_MIN and size < inline_bytes_max else None
        if data is None:
            return [out, records, _ONE_END]
        out += data
    out += _ONE_END
    return bytes(out)


class Packing:
    """One response while it is packed."""

    __slots__ = ("_inline_left", "_is_flexible", "_leaders", "_out", "_parts", "_size", "_version")

    def __init__(self, version: int, leaders: CurrentLeaders | None, inline_bytes_max: int) -> None:
        self._version = version
        self._leaders = leaders
        self._is_flexible = version >= FIRST_FLEXIBLE
        self._out = bytearray(8)
        self._parts: list[Part] = []
        self._size = 0
        self._inline_left = inline_bytes_max

    def pack(
        self, correlation_id: int, results: Sequence[FetchedPartition], *, session_id: int, error_code: int
    ) -> Frame:
        out = self._out
        self._no_tags()
        out += b"\0\0\0\0"
        if self._version >= FIRST_WITH_SESSIONS:
            out += _ERROR_AND_SESSION.pack(error_code, session_id)
        # Nearly every fetch of a client has one partition.
        runs = [results] if len(results) == 1 else [list(run) for _, run in groupby(results, _topic_of)]
        self._count(len(runs))
        for run in runs:
            self._put_topic(run[0])
            self._count(len(run))
            for fetched in run:
                self._put_partition(fetched)
            self._no_tags()
        if self._leaders is None:
            self._no_tags()
        else:
            self._out += self._leaders.endpoint_tags()
        # `out` is the first part still, wherever the last one ended.
        _SIZE_AND_CORRELATION_ID.pack_into(out, 0, self._size + len(self._out) - 4, correlation_id)
        if not self._parts:
            return bytes(out)
        self._parts.append(self._out)
        return self._parts

    def _count(self, count: int) -> None:
        if self._is_flexible:
            append_unsigned_varint(self._out, count + 1)
        else:
            self._out += _INT.pack(count)

    def _no_tags(self) -> None:
        if self._is_flexible:
            self._out.append(0)

    def _put_topic(self, fetched: FetchedPartition) -> None:
        topic = fetched.topic
        if isinstance(topic, bytes):
            self._out += topic
            return
        name = topic.encode()
        if self._is_flexible:
            append_unsigned_varint(self._out, len(name) + 1)
        else:
            self._out += _SHORT.pack(len(name))
        self._out += name

    def _put_partition(self, fetched: FetchedPartition) -> None:
        start = fetched.log_start_offset
        offsets = _OFFSETS.pack(
            fetched.index, fetched.error_code, fetched.high_watermark, fetched.last_stable_offset, start
        )
        self._out += offsets if self._version >= FIRST_WITH_LOG_START else offsets[:-8]
        self._put_aborted(fetched.aborted)
        if self._version >= _FIRST_WITH_REPLICA:
            if fetched.preferred_replica < 0:
                self._out += b"\xff\xff\xff\xff"
            else:
                self._out += _INT.pack(fetched.preferred_replica)
        self._put_records(fetched)
        if not self._is_flexible:
            return
        if fetched.diverging is None:
            if self._leaders is not None and fetched.error_code in LED_ELSEWHERE:
                self._out += self._leaders.partition_tags(FETCH_TAG, fetched.topic, fetched.index)
            else:
                self._out.append(0)
        else:
            epoch, end_offset = fetched.diverging
            self._out += _DIVERGING.pack(1, 0, 13, epoch, end_offset, 0)

    def _put_aborted(self, aborted: list[tuple[int, int]] | None) -> None:
        if aborted is None:
            self._out += b"\0" if self._is_flexible else b"\xff\xff\xff\xff"
            return
        self._count(len(aborted))
        for producer_id, first_offset in aborted:
            self._out += _ABORTED.pack(producer_id, first_offset)
            self._no_tags()

    def _put_records(self, fetched: FetchedPartition) -> None:
        self._count(fetched.size)
        records = fetched.records
        if records is None:
            return
        if fetched.size < min(SENDFILE_BYTES_MIN, self._inline_left):
            data = records.read_cached()
            if data is not None:
                self._inline_left -= fetched.size
                self._out += data
                return
        self._parts.append(self._out)
        self._parts.append(records)
        self._size += len(self._out) + fetched.size
        self._out = bytearray()
