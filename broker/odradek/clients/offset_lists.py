"""ListOffsets version 0, the one that answers with several offsets; brokers from Kafka 4.0 on do not have it.

    request   replica_id int32, [topic string, [partition int32, time int64, max_num_offsets int32]]
    answer    [topic string, [partition int32, error_code int16, [offset int64]]]

The schemas of today leave it out, so its few bytes are packed here.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from odradek.client.connection import BrokerConnection
from odradek.client.errors import ConnectionFailed, raise_for
from odradek.foundation.ids import TopicPartition
from odradek.protocol.api import ApiKey

OFFSET_LISTS_VERSION: Final = 0
_CONSUMER: Final = -1
_HEAD: Final = Struct(">iih")
_ROW: Final = Struct(">iiqi")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_ANSWER: Final = Struct(">iihi")


async def ask_offset_list(
    connection: BrokerConnection, partition: TopicPartition, time: int, max_num_offsets: int
) -> list[int]:
    """The offsets of one partition, descending. Raises the partition's error, ConnectionFailed, ClientTimeout."""
    name = partition.topic.encode()
    body = (
        _HEAD.pack(_CONSUMER, 1, len(name)) + name + _ROW.pack(1, partition.partition, time, max_num_offsets)
    )
    frame = await connection.request_bytes(ApiKey.LIST_OFFSETS, OFFSET_LISTS_VERSION, body)
    try:
        code, offsets = _parsed(frame)
    except error as failure:
        raise ConnectionFailed(
            f"{connection.address} sent {len(frame)} bytes that are no list of offsets"
        ) from failure
    raise_for(code, about=f"partition {partition}")
    return offsets


def _parsed(body: memoryview) -> tuple[int, list[int]]:
    """The error code and the offsets of an answer for one partition."""
    (name_bytes,) = _INT16.unpack_from(body, _INT32.size)
    position = _INT32.size + _INT16.size + name_bytes
    _, _, code, count = _ANSWER.unpack_from(body, position)
    if not 0 <= count <= len(body):
        raise error("a wrong number of offsets")
    return code, list(Struct(f">{count}q").unpack_from(body, position + _ANSWER.size))
