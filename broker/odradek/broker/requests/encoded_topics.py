"""A cache of the encoded topics of Metadata answers.

To encode 10,000 topics takes half a second, which would block all other clients, and clients ask again every few
minutes. A topic's bytes are cached as long as its image is the same object. The bytes of a version and listener are
all dropped when the brokers change, or when twice as many are cached as there are topics.

Layout of the answer from its end: tagged fields (version 9 on, one byte here), error_code (13 on), the cluster's
authorised operations (8 to 10). The array of topics comes before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from odradek.broker.requests.partition_metadata import partition_fields, reachable_brokers
from odradek.foundation.turn_limits import PARTITIONS_ENCODED_AT_ONCE_MAX
from odradek.metadata.image.image import ClusterImage, TopicImage
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import encode_response
from odradek.wire.protocol.messages import structure_builder
from odradek.wire.protocol.schema import RESPONSE, fields_of, message_class
from odradek.wire.protocol.varint import encode_unsigned_varint
from odradek.wire.protocol.writing import structure_writer

_FLEXIBLE_VERSION: Final = 9
_ERROR_CODE_VERSION: Final = 13
_CLUSTER_OPERATIONS_VERSIONS: Final = range(8, 11)

# How many topics beyond twice their number may be cached before all are dropped.
_KEPT_MARGIN: Final = 64


class EncodedTopics:
    """The bytes of topics, by version, listener and whether operations were asked for."""

    def __init__(self) -> None:
        self._tables: dict[tuple[int, str, int], _TopicTable] = {}
        self._brokers: object = None

    def frame(
        self,
        version: int,
        correlation_id: int,
        *,
        image: ClusterImage,
        listener_name: str,
        topics: Sequence[TopicImage],
        failed: Sequence[Mapping[str, object]],
        topic_operations: int,
        fields: Mapping[str, object],
        operations_of: Callable[[str], int] | None = None,
    ) -> bytes:
        """The whole frame. `failed` are the fields of topics with an error, `fields` are all others.

        `operations_of` gives each topic's own operations, where they differ.
        """
        encoded = self.part(
            version,
            image=image,
            listener_name=listener_name,
            topics=topics,
            failed=failed,
            topic_operations=topic_operations,
            operations_of=operations_of,
        )
        return whole(version, correlation_id, encoded, fields)

    def part(
        self,
        version: int,
        *,
        image: ClusterImage,
        listener_name: str,
        topics: Sequence[TopicImage],
        failed: Iterable[Mapping[str, object]],
        topic_operations: int,
        operations_of: Callable[[str], int] | None = None,
    ) -> list[bytes]:
        """The bytes of topics, for a frame that is made of several parts by `whole`; arguments as of `frame`."""
        table = self._table(version, image, listener_name, topic_operations)
        encoded = table.encode_topics(topics, topic_count=len(image.topics))
        if operations_of is not None:
            encoded = [
                table.with_operations(data, operations_of(topic.name))
                for topic, data in zip(topics, encoded, strict=True)
            ]
        encoded.extend(table.encode(failure) for failure in failed)
        return encoded

    def unmade(
        self,
        version: int,
        *,
        image: ClusterImage,
        listener_name: str,
        topics: Sequence[TopicImage],
        topic_operations: int,
    ) -> Callable[[], None] | None:
        """What encodes the topics that are not kept, on any thread, if they are too many for a turn of the loop."""
        if sum(len(topic.partitions) for topic in topics) <= PARTITIONS_ENCODED_AT_ONCE_MAX:
            return None
        table = self._table(version, image, listener_name, topic_operations)
        left = [topic for topic in topics if not table.has(topic)]
        if sum(len(topic.partitions) for topic in left) <= PARTITIONS_ENCODED_AT_ONCE_MAX:
            return None
        return lambda: table.keep(left)

    def _table(
        self, version: int, image: ClusterImage, listener_name: str, topic_operations: int
    ) -> _TopicTable:
        if image.brokers is not self._brokers:
            self._tables.clear()
            self._brokers = image.brokers
        key = (version, listener_name, topic_operations)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = _TopicTable(
                version, image, listener_name=listener_name, operations=topic_operations
            )
        return table


def whole(version: int, correlation_id: int, encoded: list[bytes], fields: Mapping[str, object]) -> bytes:
    """The whole frame of these topics' bytes."""
    message = messages.response(ApiKey.METADATA, version, topics=(), **fields)
    return _splice(encode_response(ApiKey.METADATA, version, correlation_id, message), encoded, version)


def _splice(empty: bytes, encoded: list[bytes], version: int) -> bytes:
    """The frame with topics, from the frame without any."""
    trailer = 4 if version in _CLUSTER_OPERATIONS_VERSIONS else 0
    trailer += 2 if version >= _ERROR_CODE_VERSION else 0
    if version >= _FLEXIBLE_VERSION:
        trailer += 1
        count = encode_unsigned_varint(len(encoded) + 1)
        position = len(empty) - trailer - 1
    else:
        count = len(encoded).to_bytes(4, "big")
        position = len(empty) - trailer - 4
    body = b"".join((empty[4:position], count, *encoded, empty[len(empty) - trailer :]))
    return len(body).to_bytes(4, "big") + body


class _TopicTable:
    """The bytes of topics in one version, seen from one listener."""

    def __init__(self, version: int, image: ClusterImage, *, listener_name: str, operations: int) -> None:
        self._version = version
        topics_field = next(
            field
            for field in fields_of(message_class(ApiKey.METADATA, version, RESPONSE))
            if field.name == "topics"
        )
        self._build = structure_builder(topics_field.structure)
        self._write = structure_writer(topics_field.structure)
        self._live = frozenset(image.brokers)
        self._reachable = reachable_brokers(image, listener_name)
        self._operations = operations
        self._kept: dict[str, tuple[TopicImage, bytes]] = {}

    def encode_topics(self, topics: Sequence[TopicImage], *, topic_count: int) -> list[bytes]:
        """Each topic's bytes, in the order of `topics`."""
        if len(self._kept) > 2 * topic_count + _KEPT_MARGIN:
            self._kept.clear()
        kept = self._kept
        found: list[bytes] = []
        for topic in topics:
            entry = kept.get(topic.name)
            if entry is None or entry[0] is not topic:
                entry = kept[topic.name] = (topic, self.encode(self._fields(topic)))
            found.append(entry[1])
        return found

    def has(self, topic: TopicImage) -> bool:
        """Whether the topic's bytes are kept."""
        entry = self._kept.get(topic.name)
        return entry is not None and entry[0] is topic

    def keep(self, topics: Iterable[TopicImage]) -> None:
        for topic in topics:
            self._kept[topic.name] = (topic, self.encode(self._fields(topic)))

    def encode(self, fields: Mapping[str, object]) -> bytes:
        out = bytearray()
        self._write(out, self._build(fields))
        return bytes(out)

    def with_operations(self, encoded: bytes, operations: int) -> bytes:
        """The topic's bytes with its own operations, which are the last field that is no tag."""
        end = len(encoded) - (1 if self._version >= _FLEXIBLE_VERSION else 0)
        return encoded[: end - 4] + operations.to_bytes(4, "big", signed=True) + encoded[end:]

    def _fields(self, topic: TopicImage) -> dict[str, object]:
        return {
            "error_code": 0,
            "name": topic.name,
            "topic_id": topic.id,
            "is_internal": topic.is_internal,
            "partitions": partition_fields(topic.partitions, live=self._live, reachable=self._reachable),
            "topic_authorized_operations": self._operations,
        }
