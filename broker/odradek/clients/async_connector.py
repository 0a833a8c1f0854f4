"""ConsumerConnector for asyncio: streams are asynchronous iterators, all in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from odradek.clients.connector import Connector
from odradek.clients.group_offsets import StartOffsets
from odradek.clients.messages import Decoder, DefaultDecoder
from odradek.clients.properties import CONSUMER, Properties
from odradek.clients.registrations import STATIC, Registration, TopicFilter
from odradek.clients.streams import AsyncKafkaStream, OnProgress
from odradek.foundation.ids import TopicPartition
from odradek.transport.network import Network


class ConsumerConnector:
    """`async with ConsumerConnector({"zk.connect": "127.0.0.1:2181", "groupid": "billing"}) as connector: …`.

    As the blocking one. `start_offsets` is called in a thread. A program that blocks the loop stops the pings to
    ZooKeeper, and loses its session.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        *,
        start_offsets: StartOffsets | None = None,
        network: Network | None = None,
    ) -> None:
        """Raises InvalidConfigException."""
        self.properties = Properties(CONSUMER, properties)
        self._connector = Connector(self.properties, start_offsets=start_offsets, network=network)

    async def __aenter__(self) -> ConsumerConnector:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def start(self) -> None:
        """Connect. Raises StoreConnectionLost, NoBrokersForPartitionException, ConnectionFailed."""
        await self._connector.start()

    @property
    def consumer_id(self) -> str:
        """The name of this consumer's id node."""
        return self._connector.id

    @property
    def owned_partitions(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer owns now."""
        return self._connector.owned

    async def create_message_streams(
        self,
        topic_count_map: Mapping[str, int],
        *,
        decoder: Decoder | None = None,
        key_decoder: Decoder | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, list[AsyncKafkaStream]]:
        """Streams for topics, by the number that each topic shall have; as the blocking one."""
        streams = await self._streams(
            Registration(STATIC, topic_count_map), decoder, key_decoder, on_progress
        )
        return {
            topic: [streams[topic, number] for number in range(count)]
            for topic, count in topic_count_map.items()
        }

    async def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        *,
        decoder: Decoder | None = None,
        key_decoder: Decoder | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[AsyncKafkaStream]:
        """Streams for all topics that a filter allows; as the blocking one."""
        own = Registration(
            topic_filter.pattern,
            {topic_filter.expression: num_streams},
            is_excluding_internal=self.properties["exclude.internal.topics"],
        )
        streams = await self._streams(own, decoder, key_decoder, on_progress)
        return [streams[None, number] for number in range(num_streams)]

    async def _streams(
        self,
        own: Registration,
        decoder: Decoder | None,
        key_decoder: Decoder | None,
        on_progress: OnProgress | None,
    ) -> dict[tuple[str | None, int], AsyncKafkaStream]:
        buffers = self._connector.create_streams(own)
        await self._connector.join()
        return {
            key: AsyncKafkaStream(
                buffer,
                self._connector.lease,
                decoder=decoder or DefaultDecoder(),
                key_decoder=key_decoder or DefaultDecoder(),
                timeout_ms=self.properties["consumer.timeout.ms"],
                on_progress=on_progress,
            )
            for key, buffer in buffers.items()
        }

    async def commit_offsets(self) -> None:
        """Commit the offsets of all messages that streams have returned, those in hand too. Raises StoreError."""
        await self._connector.commit()

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on from `offset`; as the blocking one."""
        await self._connector.seek(TopicPartition(topic, partition), offset)

    async def shutdown(self) -> None:
        """Commit if that is automatic, leave the group, end the streams; as the blocking one."""
        await self._connector.close(asyncio.current_task())
