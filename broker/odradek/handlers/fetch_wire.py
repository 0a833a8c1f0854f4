"""The bytes of a fetch answer, packed by hand around file slices.

    throttle time int32 ms, from v7 error int16 and session id int32,
    topics [ name string | from v13 topic id 16 bytes,
        partitions [ index int32, error int16, high watermark int64, last stable offset int64,
                     from v5 log start offset int64,
                     aborted transactions nullable [ producer id int64, first offset int64 ],
                     from v11 preferred read replica int32, records nullable bytes ] ]

From v12 on lengths are compact and each structure ends with tagged fields; tag 0 of a partition is the
diverging epoch (epoch int32, end offset int64), tag 1 from v16 on its leader (`current_leaders`). Neighbouring
partitions of one topic share its entry. Small slices are read here when the page cache has them, so that the usual
answer of a tail read is one piece of bytes; others stay slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from odradek.foundation.limits import SENDFILE_BYTES_MIN
from odradek.handlers.current_leaders import CurrentLeaders
from odradek.handlers.fetch_reading import Fetched
from odradek.protocol.varint import append_unsigned_varint
from odradek.transport.connection import Part, Reply

FIRST_WITH_LEADERS: Final = 16
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITH_REPLICA: Final = 11
_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_LOG_START: Final = 5

# NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH.
_LED_ELSEWHERE: Final = (6, 74)

# Slices read here, in all: an answer that waits its turn on a connection holds this much memory at the most.
_INLINE_BYTES_MAX: Final = 64 * 1024

_HEAD: Final = Struct(">ii")
_INT: Final = Struct(">i")
_SHORT: Final = Struct(">h")
_ERROR_AND_SESSION: Final = Struct(">hi")
_OFFSETS: Final = Struct(">ihqq")
_OFFSETS_AND_START: Final = Struct(">ihqqq")
_ABORTED: Final = Struct(">qq")
_DIVERGING: Final = Struct(">BBBiqB")


def encode_fetch_answer(
    version: int,
    correlation_id: int,
    results: Sequence[Fetched],
    *,
    session_id: int,
    error_code: int,
    leaders: CurrentLeaders | None = None,
) -> Reply:
    """The whole frame: bytes, or bytes and file slices in order.

    `leaders` tell of partitions that are not led here, where the version can say it.
    """
    return _Answer(version, leaders).encode(
        correlation_id, results, session_id=session_id, error_code=error_code
    )


class _Answer:
    """One answer in the making."""

    __slots__ = ("_inline_left", "_is_flexible", "_leaders", "_out", "_parts", "_size", "_version")

    def __init__(self, version: int, leaders: CurrentLeaders | None) -> None:
        self._version = version
        self._leaders = leaders
        self._is_flexible = version >= _FIRST_FLEXIBLE
        self._out = bytearray(8)
        self._parts: list[Part] = []
        self._size = 0
        self._inline_left = _INLINE_BYTES_MAX

    def encode(
        self, correlation_id: int, results: Sequence[Fetched], *, session_id: int, error_code: int
    ) -> Reply:
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

    def _put_topic(self, fetched: Fetched) -> None:
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

    def _put_partition(self, fetched: Fetched) -> None:
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
            if self._leaders is not None and fetched.error_code in _LED_ELSEWHERE:
                self._out += self._leaders.tags_of(fetched.topic, fetched.index)
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

    def _put_records(self, fetched: Fetched) -> None:
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


def names_leaders(version: int, results: Sequence[Fetched]) -> bool:
    """Whether an answer has a partition that another broker leads, and a version that can tell which."""
    return version >= FIRST_WITH_LEADERS and any(one.error_code in _LED_ELSEWHERE for one in results)


def _runs(results: Sequence[Fetched]) -> list[tuple[int, int]]:
    """Stretches of neighbours of one topic, as (start, end)."""
    runs: list[tuple[int, int]] = []
    start = 0
    for position in range(1, len(results) + 1):
        if position < len(results) and results[position].topic == results[start].topic:
            continue
        runs.append((start, position))
        start = position
    return runs if results else []
