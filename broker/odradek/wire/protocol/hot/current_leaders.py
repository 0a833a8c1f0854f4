"""Which broker leads instead (KIP-951): the tagged fields by which a response names leaders, so clients move at once.

    of a partition   current leader: id int32, leader epoch int32, no tagged fields
    of the response  node endpoints: compact array [ id int32, host string, port int32, rack nullable string ]

Each tagged field has its number and size before it. Produce has them from version 10 on, Fetch from version 16 on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.varint import append_unsigned_varint, encode_unsigned_varint

PRODUCE_TAG: Final = 0
FETCH_TAG: Final = 1
NO_TAGS: Final = b"\0"

_NODE_ENDPOINTS_TAG: Final = 0
_LEADER: Final = Struct(">BBBiiB")
_LEADER_BYTES: Final = 9
_INT: Final = Struct(">i")


class CurrentLeaders(NamedTuple):
    """The leaders that one response names.

    `by_partition` has (leader, its epoch) by (topic's name or the 16 bytes of its id, partition), `nodes` the leaders
    as (id, host, port, rack).
    """

    by_partition: Mapping[tuple[str | bytes, int], tuple[int, int]]
    nodes: Sequence[tuple[int, str, int, str | None]]

    def partition_tags(self, tag: int, topic: str | bytes, index: int) -> bytes:
        """The tagged fields of a partition; `tag` is PRODUCE_TAG or FETCH_TAG."""
        leader = self.by_partition.get((topic, index))
        return NO_TAGS if leader is None else _LEADER.pack(1, tag, _LEADER_BYTES, *leader, 0)

    def endpoint_tags(self) -> bytes:
        """The tagged fields of the response: where the named leaders listen."""
        if not self.nodes:
            return NO_TAGS
        nodes = bytearray()
        append_unsigned_varint(nodes, len(self.nodes) + 1)
        for node_id, host, port, rack in self.nodes:
            nodes += _INT.pack(node_id)
            _put_text(nodes, host)
            nodes += _INT.pack(port)
            if rack is None:
                nodes.append(0)
            else:
                _put_text(nodes, rack)
            nodes.append(0)
        return bytes((1, _NODE_ENDPOINTS_TAG)) + encode_unsigned_varint(len(nodes)) + bytes(nodes)


def _put_text(out: bytearray, text: str) -> None:
    data = text.encode()
    append_unsigned_varint(out, len(data) + 1)
    out += data
