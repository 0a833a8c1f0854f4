"""The bytes of a Fetch request: a reader at the log's end sends one for every few records. Read by hand.

    request   up to v14 replica id int32, max wait int32 ms, min bytes int32, max bytes int32, isolation level int8,
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
from typing import Final

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.limits import REQUEST_ARRAY_ELEMENTS_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.hot.elements import ELEMENTS_BEFORE, TooManyElements
from odradek.wire.protocol.varint import (
    read_tagged_structure,
    read_unsigned_varint,
    skip_tagged_fields,
)

FIRST_WITH_LOG_START: Final = 5
FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_LEADER_EPOCH: Final = 9
_FIRST_WITH_RACK: Final = 11
FIRST_FLEXIBLE: Final = 12
FIRST_WITH_TOPIC_IDS: Final = 13
_FIRST_WITHOUT_REPLICA: Final = 15
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
# The usual request of a session from version 15 on: up to the number of topics, one partition of one topic, the end.
_USUAL_HEAD: Final = Struct(">iiibiiB")
_ONE_ASKED: Final = Struct(">16sBiiqiqiBB")
_CLIENT_END: Final = b"\1\1\0"
_FOLLOWER_END: Final = Struct(">5siqB")
_FOLLOWER_END_BYTES: Final = _FOLLOWER_END.size
# Nothing forgotten, no rack, and one tag: the replica's state, of 13 bytes.
_FOLLOWER_END_START: Final = b"\1\1\1\1\x0d"

_TAG_OF_REPLICA_STATE: Final = 1
# The replica id of a request that comes from a client.
NO_REPLICA: Final = -1

_int_at = _INT.unpack_from
_head_at = _HEAD_WITH_SESSION.unpack_from
_partition_at = _PARTITION.unpack_from
_usual_head_at = _USUAL_HEAD.unpack_from
_one_asked_at = _ONE_ASKED.unpack_from
_follower_end_at = _FOLLOWER_END.unpack_from
_new = tuple.__new__


# A topic's name or the 16 bytes of its id, and the partition.
Key = tuple[str | bytes, int]
# Topic, partition, fetch offset, most bytes, current leader epoch, last fetched epoch, the follower's log start offset.
AskedPartition = tuple[str | bytes, int, int, int, int, int, int]


class FetchRequest(NamedTuple):
    """The contents of a request. Without a session its id is 0, its epoch -1 and nothing is forgotten.

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


def parse_fetch_request(
    version: int, frame: memoryview, position: int, elements_before: int = ELEMENTS_BEFORE
) -> FetchRequest:
    """The request whose body begins at `position`. Raises InvalidRequest, and TooManyElements (`elements`)."""
    try:
        if version >= FIRST_FLEXIBLE:
            if version >= _FIRST_WITHOUT_REPLICA:
                # Read in a third of the time.
                usual = parse_usual(frame, position)
                if usual is not None:
                    return usual
            return parse_flexible(version, frame, position, elements_before)
        return _Plain(version, frame, position, elements_before).parse()
    except (error, IndexError) as failure:
        raise InvalidRequest(
            f"FETCH version {version}: the frame of {len(frame)} bytes ends within a field; it was cut off"
        ) from failure
    except UnicodeDecodeError as failure:
        raise InvalidRequest(f"FETCH version {version}: a name is not UTF-8: {failure}") from failure


def parse_usual(frame: memoryview, position: int) -> FetchRequest | None:
    """A request from version 15 on with one partition or none, which forgets none and names no rack.

    None for any other request, and for an incomplete one: `parse_flexible` says what is wrong with it.
    """
    try:
        *head, topics = _usual_head_at(frame, position)
        position += _USUAL_HEAD.size
        partitions: list[AskedPartition] = []
        if topics == 2:
            topic, count, *asked, partition_tags, topic_tags = _one_asked_at(frame, position)
            if count != 2 or partition_tags or topic_tags:
                return None
            position += _ONE_ASKED.size
            index, leader_epoch, offset, last_epoch, log_start, bytes_max = asked
            partitions.append((topic, index, offset, bytes_max, leader_epoch, last_epoch, log_start))
        elif topics != 1:
            return None
        replica_id, replica_epoch = NO_REPLICA, -1
        if len(frame) == position + _FOLLOWER_END_BYTES:
            start, replica_id, replica_epoch, tags = _follower_end_at(frame, position)
            if start != _FOLLOWER_END_START or tags:
                return None
        elif bytes(frame[position:]) != _CLIENT_END:
            return None
    except error:
        return None
    return _new(FetchRequest, (*head, partitions, [], replica_id, replica_epoch, ""))


# --- from version 12 on ---------------------------------------------------------------------------------------------


def parse_flexible(version: int, frame: memoryview, position: int, elements: int) -> FetchRequest:
    replica_id = NO_REPLICA
    if version < _FIRST_WITHOUT_REPLICA:
        (replica_id,) = _int_at(frame, position)
        position += 4
    head = _head_at(frame, position)
    position += _HEAD_WITH_SESSION.size
    has_ids = version >= FIRST_WITH_TOPIC_IDS
    count, position = _count(frame, position, "topics", elements)
    elements += count
    partitions: list[AskedPartition] = []
    for _ in range(count):
        topic, position = _topic(frame, position, has_ids=has_ids)
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
        topic, position = _topic(frame, position, has_ids=has_ids)
        partition_count, position = _count(frame, position, "forgotten partitions", elements)
        elements += partition_count
        for _ in range(partition_count):
            forgotten.append((topic, _int_at(frame, position)[0]))
            position += 4
        position = skip_tagged_fields(frame, position) if frame[position] else position + 1
    rack_id = ""
    position += 1
    if frame[position - 1] != 1:
        rack_id, position = _text(frame, position - 1)
    replica_epoch = -1
    if frame[position]:
        if version >= _FIRST_WITHOUT_REPLICA:
            state, _ = read_tagged_structure(frame, position, _TAG_OF_REPLICA_STATE, _REPLICA_STATE)
            replica_id, replica_epoch = state or (-1, -1)
        else:
            skip_tagged_fields(frame, position)
    return _new(FetchRequest, (*head, partitions, forgotten, replica_id, replica_epoch, rack_id))


def _topic(frame: memoryview, position: int, *, has_ids: bool) -> tuple[str | bytes, int]:
    return (bytes(frame[position : position + 16]), position + 16) if has_ids else _text(frame, position)


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
        raise TooManyElements(f"a fetch announces {elements + count} topics and partitions; split it")


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

    def __init__(self, version: int, frame: memoryview, position: int, elements: int) -> None:
        self._version = version
        self._frame = frame
        self._position = position
        self._elements = elements

    def parse(self) -> FetchRequest:
        version = self._version
        (replica_id,) = self._take(_INT)
        wait_ms, bytes_min, bytes_max, isolation_level = self._take(_HEAD)
        session = (NO_SESSION, FINAL_EPOCH)
        if version >= FIRST_WITH_SESSIONS:
            session_id, session_epoch = self._take(_SESSION)
            session = (session_id, session_epoch)
        partitions: list[AskedPartition] = []
        for _ in range(self._count("topics")):
            topic = self._text()
            partitions.extend(self._partition(topic) for _ in range(self._count("partitions")))
        forgotten: list[Key] = []
        if version >= FIRST_WITH_SESSIONS:
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
        elif self._version >= FIRST_WITH_LOG_START:
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
