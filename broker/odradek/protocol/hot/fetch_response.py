"""The bytes of a Fetch response, packed by hand around slices of files.

    throttle time int32 ms, from v7 error int16 and session id int32,
    topics [ name string | from v13 topic id 16 bytes,
        partitions [ index int32, error int16, high watermark int64, last stable offset int64,
                     from v5 log start offset int64,
                     aborted transactions nullable [ producer id int64, first offset int64 ],
                     from v11 preferred read replica int32, records nullable bytes ] ]

From v12 on lengths are compact and each structure ends with tagged fields. Tag 0 of a partition is the diverging epoch
(epoch int32, end offset int64). Tag 1, from v16 on, is its leader (`current_leaders`). Neighbouring partitions of one
topic share its entry. Small slices are read here when the page cache has them. So the usual response at the end of a
log is one run of bytes. Others stay slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from odradek.foundation.errors import FencedLeaderEpoch, NotLeaderOrFollower
from odradek.foundation.limits import SENDFILE_BYTES_MIN
from odradek.protocol.errors import codes_of
from odradek.protocol.frames import Frame, Part, Slice
from odradek.protocol.hot.current_leaders import FETCH_TAG, CurrentLeaders
from odradek.protocol.varint import append_unsigned_varint

FIRST_WITH_LEADERS: Final = 16
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITH_REPLICA: Final = 11
_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_LOG_START: Final = 5

LED_ELSEWHERE: Final = codes_of(NotLeaderOrFollower, FencedLeaderEpoch)

# Slices read here, in all: a response that waits on its connection holds at most this much memory.
_INLINE_BYTES_MAX: Final = 64 * 1024

_HEAD: Final = Struct(">ii")
_INT: Final = Struct(">i")
_SHORT: Final = Struct(">h")
_ERROR_AND_SESSION: Final = Struct(">hi")
_OFFSETS: Final = Struct(">ihqq")
_OFFSETS_AND_START: Final = Struct(">ihqqq")
_ABORTED: Final = Struct(">qq")
_DIVERGING: Final = Struct(">BBBiqB")


class FetchedPartition:
    """What one partition gives to one response, in the values of the wire.

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
) -> Frame:
    """The whole frame: bytes, or bytes and slices of files in order.

    `leaders` are the leaders of partitions that another broker leads, for versions that can name them.
    """
    return _Packing(version, leaders).pack(
        correlation_id, results, session_id=session_id, error_code=error_code
    )


class _Packing:
    """One response while it is packed."""

    __slots__ = ("_inline_left", "_is_flexible", "_leaders", "_out", "_parts", "_size", "_version")

    def __init__(self, version: int, leaders: CurrentLeaders | None) -> None:
        self._version = version
        self._leaders = leaders
        self._is_flexible = version >= _FIRST_FLEXIBLE
        self._out = bytearray(8)
        self._parts: list[Part] = []
        self._size = 0
        self._inline_left = _INLINE_BYTES_MAX

    def pack(
        self, correlation_id: int, results: Sequence[FetchedPartition], *, session_id: int, error_code: int
    ) -> Frame:
        out = self._out
        if self._is_flexible:
            out.append(0)
        out += b"\0\0\0\0"
        if self._version >= _FIRST_WITH_SESSIONS:
            out += _ERROR_AND_SESSION.pack(error_code, session_id)
        runs = _runs(results)
        self._count(len(runs))
        for start, end in runs:
            self._put_topic(results[start])
            self._count(end - start)
            for fetched in results[start:end]:
                self._put_partition(fetched)
            self._no_tags()
        if self._leaders is None:
            self._no_tags()
        else:
            self._out += self._leaders.endpoint_tags()
        # `out` is the first part still, wherever the last one ended.
        _HEAD.pack_into(out, 0, self._size + len(self._out) - 4, correlation_id)
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
        if self._version >= _FIRST_WITH_LOG_START:
            self._out += _OFFSETS_AND_START.pack(
                fetched.index,
                fetched.error_code,
                fetched.high_watermark,
                fetched.last_stable_offset,
                fetched.log_start_offset,
            )
        else:
            self._out += _OFFSETS.pack(
                fetched.index, fetched.error_code, fetched.high_watermark, fetched.last_stable_offset
            )
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


def _runs(results: Sequence[FetchedPartition]) -> list[tuple[int, int]]:
    """Stretches of neighbours of one topic, as (start, end)."""
    runs: list[tuple[int, int]] = []
    start = 0
    for position in range(1, len(results) + 1):
        if position < len(results) and results[position].topic == results[start].topic:
            continue
        runs.append((start, position))
        start = position
    return runs if results else []
