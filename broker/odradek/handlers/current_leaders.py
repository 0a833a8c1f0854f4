"""Who leads instead (KIP-951): answers of Produce from version 10 and Fetch from 16 on that refuse a partition for want
of leadership name its leader and where that listens, so that a client moves at once instead of asking for metadata.

Bytes of the tagged fields, each with its number and size before it:

    of a partition   current leader: id int32, leader epoch int32, no tagged fields
    of the answer    node endpoints: compact array [ id int32, host string, port int32, rack nullable string ]
"""

from __future__ import annotations

import uuid
from struct import Struct
from typing import Final

from odradek.cluster.image import ClusterImage, TopicImage
from odradek.protocol.varint import append_unsigned_varint, unsigned_varint

PRODUCE_TAG: Final = 0
FETCH_TAG: Final = 1
NO_TAGS: Final = b"\0"

_NODE_ENDPOINTS_TAG: Final = 0
_LEADER: Final = Struct(">BBBiiB")
_LEADER_BYTES: Final = 9
_INT: Final = Struct(">i")


class CurrentLeaders:
    """Collects what one answer names: `tags_of` each refused partition, then `endpoint_tags`."""

    __slots__ = ("_image", "_listener_name", "_named", "_tag")

    def __init__(self, image: ClusterImage, listener_name: str, *, tag: int) -> None:
        """`tag` is the number of a partition's field: PRODUCE_TAG or FETCH_TAG."""
        self._image = image
        self._listener_name = listener_name
        self._tag = tag
        self._named: set[int] = set()

    def tags_of(self, topic: str | bytes, index: int) -> bytes:
        """The tagged fields of a partition, whose topic is given by name or id; none where no leader is reachable."""
        image = self._topic(topic)
        if image is None or not 0 <= index < len(image.partitions):
            return NO_TAGS
        partition = image.partitions[index]
        broker = self._image.brokers.get(partition.leader)
        if broker is None or self._listener_name not in broker.endpoints:
            return NO_TAGS
        self._named.add(partition.leader)
        return _LEADER.pack(1, self._tag, _LEADER_BYTES, partition.leader, partition.leader_epoch, 0)

    def _topic(self, topic: str | bytes) -> TopicImage | None:
        if isinstance(topic, bytes):
            return self._image.topics_by_id.get(uuid.UUID(bytes=topic))
        return self._image.topics.get(topic)

    def endpoint_tags(self) -> bytes:
        """The tagged fields of the answer: where the leaders listen that were named."""
        if not self._named:
            return NO_TAGS
        nodes = bytearray()
        append_unsigned_varint(nodes, len(self._named) + 1)
        for broker_id in sorted(self._named):
            broker = self._image.brokers[broker_id]
            host, port = broker.endpoints[self._listener_name]
            nodes += _INT.pack(broker_id)
            _put_text(nodes, host)
            nodes += _INT.pack(port)
            if broker.rack is None:
                nodes.append(0)
            else:
                _put_text(nodes, broker.rack)
            nodes.append(0)
        return bytes((1, _NODE_ENDPOINTS_TAG)) + unsigned_varint(len(nodes)) + bytes(nodes)


def _put_text(out: bytearray, text: str) -> None:
    data = text.encode()
    append_unsigned_varint(out, len(data) + 1)
    out += data
