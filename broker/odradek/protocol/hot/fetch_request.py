"""The bytes of a Fetch request, read by hand: a reader at the log's end sends one for every few records.

    up to v14 replica id int32, max wait int32 ms, min bytes int32, max bytes int32, isolation level int8,
    from v7 session id int32 and session epoch int32,
    topics [ name string | from v13 topic id 16 bytes,
        partitions [ index int32, from v9 current leader epoch int32, fetch offset int64,
                     from v12 last fetched epoch int32, from v5 log start offset int64, max bytes int32 ] ],
    from v7 forgotten topics [ topic, partitions [ int32 ] ], from v11 rack id string

From v12 on lengths are compact and each structure ends with tagged fields. From v15 on a follower names itself in the
request's tag 1: replica id int32, epoch of its registration int64. The ids of cluster and directory are passed over.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final, NamedTuple

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.limits import REQUEST_ARRAY_ELEMENTS_MAX
from odradek.protocol.varint import read_unsigned_varint, skip_tagged_fields

_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_LEADER_EPOCH: Final = 9
_FIRST_WITH_RACK: Final = 11
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITHOUT_REPLICA: Final = 15
FIRST_WITH_TOPIC_IDS: Final = 13
NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1

_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_HEAD: Final = Struct(">iiib")
_SESSION: Final = Struct(">ii")
_HEAD_WITH_SESSION: Final = Struct(">iiibii")
# Partition, epoch, offset, last epoch, log start, bytes: those that a version lacks are not there.
_PARTITION: Final = Struct(">iiqiqi")
_PARTITION_BYTES: Final = _PARTITION.size
_PARTITION_9: Final = Struct(">iiqqi")
_PARTITION_5: Final = Struct(">iqqi")
_PARTITION_4: Final = Struct(">iqi")
_REPLICA_STATE: Final = Struct(">iq")

_TAG_OF_REPLICA_STATE: Final = 1
# The replica id of a request that comes from a client.
NO_REPLICA: Final = -1

_int_at = _INT.unpack_from
_head_at = _HEAD_WITH_SESSION.unpack_from
_partition_at = _PARTITION.unpack_from
_new = tuple.__new__


# A topic's name or the 16 bytes of its id, and the partition.
Key = tuple[str | bytes, int]
# Topic, partition, fetch offset, most bytes, current leader epoch, last fetched epoch, the follower's log start offset.
AskedPartition = tuple[str | bytes, int, int, int, int, int, int]


class FetchRequest(NamedTuple):
    """What is asked for. Without a session its id is 0, its epoch -1 and nothing is forgotten.

    `replica_id` is that of the follower that asks, negative for a client. `replica_epoch` is that of its registration,
    -1 when the request has none. `rack_id` is the client's rack, "" when it names none.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: list[AskedPartition]
    forgotten: list[Key]
    replica_id: int = NO_REPLICA
    replica_epoch: int = -1
    rack_id: str = ""


def parse_fetch_request(version: int, frame: memoryview, position: int) -> FetchRequest:
    """The request whose body begins at `position`. Raises InvalidRequest when the bytes are no such request."""
    try:
        if version >= _FIRST_FLEXIBLE:
            return _parse_flexible(version, frame, position)
        return _Plain(version, frame, position).parse()
    except (error, IndexError) as failure:
        raise InvalidRequest(
            f"FETCH version {version}: the frame of {len(frame)} bytes ends within a field; it was cut off"
        ) from failure
    except UnicodeDecodeError as failure:
        raise InvalidRequest(f"FETCH version {version}: a name is not UTF-8: {failure}") from failure


# --- from version 12 on ---------------------------------------------------------------------------------------------


def _parse_flexible(version: int, frame: memoryview, position: int) -> FetchRequest:
    replica_id = NO_REPLICA
    if version < _FIRST_WITHOUT_REPLICA:
        (replica_id,) = _int_at(frame, position)
        position += 4
    head = _head_at(frame, position)
    position += _HEAD_WITH_SESSION.size
    has_ids = version >= FIRST_WITH_TOPIC_IDS
    count, position = _count(frame, position, "topics", 0)
    elements = count
    partitions: list[AskedPartition] = []
    topic: str | bytes
    for _ in range(count):
        if has_ids:
            topic = bytes(frame[position : position + 16])
            position += 16
        else:
            topic, position = _text(frame, position)
        partition_count, position = _count(frame, position, "partitions", elements)
        elements += partition_count
        for _ in range(partition_count):
            index, leader_epoch, offset, last_epoch, log_start, bytes_max = _partition_at(frame, position)
            position += _PARTITION_BYTES
            position = skip_tagged_fields(frame, position) if frame[position] else position + 1
            partitions.append((topic, index, offset, bytes_max, leader_epoch, last_epoch, log_start))
        position = skip_tagged_fields(frame, position) if frame[position] else position + 1
    forgotten: list[Key] = []
    count, position = _count(frame, position, "forgotten topics", elements)
    elements += count
    for _ in range(count):
        if has_ids:
            topic = bytes(frame[position : position + 16])
            position += 16
        else:
            topic, position = _text(frame, position)
        partition_count, position = _count(frame, position, "forgotten partitions", elements)
        elements += partition_count
        for _ in range(partition_count):
            forgotten.append((topic, _int_at(frame, position)[0]))
            position += 4
        position = skip_tagged_fields(frame, position) if frame[position] else position + 1
    rack_id = ""
    if frame[position] == 1:
        position += 1
    else:
        rack_id, position = _text(frame, position)
    replica_epoch = -1
    if frame[position]:
        if version >= _FIRST_WITHOUT_REPLICA:
            replica_id, replica_epoch = _replica_state(frame, position)
        else:
            skip_tagged_fields(frame, position)
    return _new(FetchRequest, (*head, partitions, forgotten, replica_id, replica_epoch, rack_id))


def _replica_state(frame: memoryview, position: int) -> tuple[int, int]:
    """(replica id, epoch) out of the request's tagged fields, which begin at `position`; -1 each when not there."""
    replica_id = replica_epoch = -1
    skip_tagged_fields(frame, position)
    count, position = read_unsigned_varint(frame, position)
    for _ in range(count):
        tag, position = read_unsigned_varint(frame, position)
        size, position = read_unsigned_varint(frame, position)
        end = position + size
        if tag == _TAG_OF_REPLICA_STATE:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(frame[:end], position)
            if skip_tagged_fields(frame[:end], position + _REPLICA_STATE.size) != end:
                raise InvalidRequest("a fetch's replica state is shorter than the tagged field that holds it")
        position = end
    return replica_id, replica_epoch


def _count(frame: memoryview, position: int, what: str, elements: int) -> tuple[int, int]:
    """(elements of an array, position after its length); `elements` were announced before it."""
    announced = frame[position]
    if announced < 0x80:
        position += 1
    else:
        announced, position = read_unsigned_varint(frame, position)
    _check_count(announced - 1, what, elements)
    return announced - 1, position


def _check_count(count: int, what: str, elements: int) -> None:
    if count < 0:
        raise InvalidRequest(f"a fetch says that its {what} are null; an empty array is allowed, null is not")
    if elements + count > REQUEST_ARRAY_ELEMENTS_MAX:
        # A hundred megabytes of partitions would become gigabytes of objects.
        raise InvalidRequest(f"a fetch announces {elements + count} topics and partitions; split it")


def _text(frame: memoryview, position: int) -> tuple[str, int]:
    length, position = read_unsigned_varint(frame, position)
    return _text_of(frame, position, length - 1)


def _text_of(frame: memoryview, position: int, length: int) -> tuple[str, int]:
    if length < 0:
        raise InvalidRequest("a fetch has null where a text has to be")
    end = position + length
    if end > len(frame):
        raise IndexError(end)
    return str(frame[position:end], "utf-8"), end


# --- up to version 11 -----------------------------------------------------------------------------------------------


class _Plain:
    """A request of an old version while it is read."""

    def __init__(self, version: int, frame: memoryview, position: int) -> None:
        self._version = version
        self._frame = frame
        self._position = position
        self._elements = 0

    def parse(self) -> FetchRequest:
        version = self._version
        (replica_id,) = self._take(_INT)
        wait_ms, bytes_min, bytes_max, isolation_level = self._take(_HEAD)
        session = (NO_SESSION, FINAL_EPOCH)
        if version >= _FIRST_WITH_SESSIONS:
            session_id, session_epoch = self._take(_SESSION)
            session = (session_id, session_epoch)
        partitions: list[AskedPartition] = []
        for _ in range(self._count("topics")):
            topic = self._text()
            partitions.extend(self._partition(topic) for _ in range(self._count("partitions")))
        forgotten: list[Key] = []
        if version >= _FIRST_WITH_SESSIONS:
            for _ in range(self._count("forgotten topics")):
                topic = self._text()
                count = self._count("forgotten partitions")
                forgotten.extend((topic, self._take(_INT)[0]) for _ in range(count))
        rack_id = self._text() if version >= _FIRST_WITH_RACK else ""
        limits = (wait_ms, bytes_min, bytes_max, isolation_level)
        return FetchRequest(*limits, *session, partitions, forgotten, replica_id, rack_id=rack_id)

    def _partition(self, topic: str) -> AskedPartition:
        leader_epoch = log_start = -1
        if self._version >= _FIRST_WITH_LEADER_EPOCH:
            index, leader_epoch, offset, log_start, bytes_max = self._take(_PARTITION_9)
        elif self._version >= _FIRST_WITH_LOG_START:
            index, offset, log_start, bytes_max = self._take(_PARTITION_5)
        else:
            index, offset, bytes_max = self._take(_PARTITION_4)
        return topic, index, offset, bytes_max, leader_epoch, -1, log_start

    def _take(self, fields: Struct) -> tuple[int, ...]:
        taken = fields.unpack_from(self._frame, self._position)
        self._position += fields.size
        return taken

    def _count(self, what: str) -> int:
        (count,) = self._take(_INT)
        _check_count(count, what, self._elements)
        self._elements += count
        return count

    def _text(self) -> str:
        (length,) = self._take(_SHORT)
        text, self._position = _text_of(self._frame, self._position, length)
        return text
