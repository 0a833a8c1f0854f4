"""The records of MirrorMaker 2's internal topics: checkpoints, heartbeats and offset syncs, byte for byte.

    checkpoint   key    group string, topic at the target string, partition int32
                 value  version int16 (0), source offset int64, target offset int64, metadata string
    heartbeat    key    source alias string, target alias string
                 value  version int16 (0), time in ms int64
    offset sync  key    topic at the source string, partition int32
                 value  source offset int64, target offset int64

A string is its length, int16, and UTF-8; none is null. All numbers are big-endian. A checkpoint is never deleted by an
empty value: `RemoteClusterUtils` of MirrorMaker 2 ends with a NullPointerException at one.

Ours carry more in record headers, which the tools of MirrorMaker 2 do not read:

    odradek.topics   ids of the topic at the source and at the target, 16 bytes each
    odradek.run      a run of `offset_translation`, int64 each: first and end at both sides (source, target), records

So a mirror that starts again knows which pairs belong to topics that were deleted and made again since.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from typing import Final

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.mirror.offset_translation import OffsetRun

TOPICS_HEADER: Final = "odradek.topics"
RUN_HEADER: Final = "odradek.run"

_VERSION: Final = 0
_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_CHECKPOINT: Final = struct.Struct(">hqq")
_HEARTBEAT: Final = struct.Struct(">hq")
_OFFSET_SYNC: Final = struct.Struct(">qq")
_RUN: Final = struct.Struct(">qqqqq")
_UUID_BYTES: Final = 16
_STRING_BYTES_MAX: Final = 2**15 - 1


class Checkpoint(NamedTuple):
    """Where a group is at the source, and the offset at the target from which it can continue."""

    group_id: str
    partition: TopicPartition
    """The partition at the target."""
    source_offset: int
    target_offset: int
    metadata: str


class Heartbeat(NamedTuple):
    """A flow's sign of life."""

    source_alias: str
    target_alias: str
    timestamp_ms: int


class OffsetSync(NamedTuple):
    """A record's offset at the source and at the target."""

    partition: TopicPartition
    """The partition at the source."""
    source_offset: int
    target_offset: int


class TopicIds(NamedTuple):
    """The ids of one mirrored topic at both clusters."""

    source: uuid.UUID
    target: uuid.UUID


# --- checkpoints -------------------------------------------------------------------------------------------------


def checkpoint_key(checkpoint: Checkpoint) -> bytes:
    """The key of a checkpoint's record."""
    topic, number = checkpoint.partition
    return _string(checkpoint.group_id) + _string(topic) + _PARTITION.pack(number)


def checkpoint_value(checkpoint: Checkpoint) -> bytes:
    """The value of a checkpoint's record."""
    fixed = _CHECKPOINT.pack(_VERSION, checkpoint.source_offset, checkpoint.target_offset)
    return fixed + _string(checkpoint.metadata)


def parse_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    """Read a checkpoint's record. Raises InvalidRequest when it is none."""
    group_id, position = _read_string(key, 0)
    topic, position = _read_string(key, position)
    number = _read(_PARTITION, key, position, whole=True)[0]
    _check_version(value)
    _, source_offset, target_offset = _read(_CHECKPOINT, value, 0)
    metadata, _ = _read_string(value, _CHECKPOINT.size)
    return Checkpoint(group_id, TopicPartition(topic, number), source_offset, target_offset, metadata)


# --- heartbeats --------------------------------------------------------------------------------------------------


def heartbeat_key(heartbeat: Heartbeat) -> bytes:
    """The key of a heartbeat's record."""
    return _string(heartbeat.source_alias) + _string(heartbeat.target_alias)


def heartbeat_value(heartbeat: Heartbeat) -> bytes:
    """The value of a heartbeat's record."""
    return _HEARTBEAT.pack(_VERSION, heartbeat.timestamp_ms)


def parse_heartbeat(key: bytes, value: bytes) -> Heartbeat:
    """Read a heartbeat's record. Raises InvalidRequest when it is none."""
    source_alias, position = _read_string(key, 0)
    target_alias, _ = _read_string(key, position)
    _check_version(value)
    return Heartbeat(source_alias, target_alias, _read(_HEARTBEAT, value, 0)[1])


# --- offset syncs ------------------------------------------------------------------------------------------------


def offset_sync_key(sync: OffsetSync) -> bytes:
    """The key of an offset sync's record."""
    return _string(sync.partition.topic) + _PARTITION.pack(sync.partition.partition)


def offset_sync_value(sync: OffsetSync) -> bytes:
    """The value of an offset sync's record. It has no version."""
    return _OFFSET_SYNC.pack(sync.source_offset, sync.target_offset)


def parse_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    """Read an offset sync's record. Raises InvalidRequest when it is none."""
    topic, position = _read_string(key, 0)
    number = _read(_PARTITION, key, position, whole=True)[0]
    source_offset, target_offset = _read(_OFFSET_SYNC, value, 0)
    return OffsetSync(TopicPartition(topic, number), source_offset, target_offset)


# --- headers -----------------------------------------------------------------------------------------------------


def topics_header(ids: TopicIds) -> tuple[str, bytes]:
    """The header with a topic's ids."""
    return TOPICS_HEADER, ids.source.bytes + ids.target.bytes


def run_header(run: OffsetRun) -> tuple[str, bytes]:
    """The header with the run that an offset sync is of."""
    return RUN_HEADER, _RUN.pack(*run)


def parse_topics_header(headers: Iterable[tuple[str, bytes | None]]) -> TopicIds | None:
    """The ids in a record's headers; None where MirrorMaker 2 wrote it."""
    content = dict(headers).get(TOPICS_HEADER)
    if content is None or len(content) != 2 * _UUID_BYTES:
        return None
    return TopicIds(uuid.UUID(bytes=content[:_UUID_BYTES]), uuid.UUID(bytes=content[_UUID_BYTES:]))


def parse_run_header(headers: Iterable[tuple[str, bytes | None]]) -> OffsetRun | None:
    """The run in a record's headers; None where MirrorMaker 2 wrote it, and for one that cannot be."""
    content = dict(headers).get(RUN_HEADER)
    if content is None or len(content) != _RUN.size:
        return None
    run = OffsetRun(*_RUN.unpack(content))
    return run if run.is_possible else None


# --- parts -------------------------------------------------------------------------------------------------------


def _string(text: str) -> bytes:
    content = text.encode()
    if len(content) > _STRING_BYTES_MAX:
        raise InvalidRequest(
            f"{text[:40]!r}… has {len(content)} bytes; a name in a mirror's records has at most {_STRING_BYTES_MAX}"
        )
    return _LENGTH.pack(len(content)) + content


def _read(layout: struct.Struct, content: bytes, position: int, *, whole: bool = False) -> tuple[int, ...]:
    end = position + layout.size
    if end > len(content) or (whole and end != len(content)):
        raise InvalidRequest(
            f"a record of a mirror's topic has {len(content)} bytes, where {end} were expected"
        )
    return layout.unpack_from(content, position)


def _read_string(content: bytes, position: int) -> tuple[str, int]:
    size = _read(_LENGTH, content, position)[0]
    begin = position + _LENGTH.size
    if size < 0 or begin + size > len(content):
        raise InvalidRequest(f"a record of a mirror's topic names a text of {size} bytes beyond its end")
    try:
        return content[begin : begin + size].decode(), begin + size
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"a record of a mirror's topic has a text that is not UTF-8: {error}") from error


def _check_version(value: bytes) -> None:
    version = _read(_LENGTH, value, 0)[0]
    if version != _VERSION:
        raise InvalidRequest(
            f"a record of a mirror's topic has the version {version}; only {_VERSION} is known"
        )
