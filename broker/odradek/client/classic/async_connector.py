"""ConsumerConnector for asyncio: streams are asynchronous iterators, all in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from odradek.client.classic.connector import Connector
from odradek.client.classic.connector_face import ConnectorFace
from odradek.client.classic.group_offsets import StartOffsets
from odradek.client.classic.messages import Decoder
from odradek.client.classic.properties import CONSUMER, Properties
from odradek.client.classic.registrations import STATIC, Registration, TopicFilter
from odradek.client.classic.streams import AsyncKafkaStream, OnProgress
from odradek.foundation.ids import TopicPartition
from odradek.network.network import Network


class ConsumerConnector(ConnectorFace[AsyncKafkaStream]):
    """`async with ConsumerConnector({"zk.connect": "127.0.0.1:2181", "groupid": "billing"}) as connector: …`.

    As the blocking one. `start_offsets` is called in a thread. A program that blocks the loop stops the pings to
    ZooKeeper, and loses its session.
    """

    _new_stream = AsyncKafkaStream

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

    async def create_message_streams(
        self,
        topic_count_map: Mapping[str, int],
        *,
        decoder: Decoder | None = None,
        key_decoder: Decoder | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, list[AsyncKafkaStream]]:
        """Streams for topics, by the number that each topic shall have; as the blocking one."""
        own = Registration(STATIC, topic_count_map)
        await self._join(own)
        return self._streams(own, decoder, key_decoder, on_progress)

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
        own = self._build_registration(topic_filter, num_streams)
        await self._join(own)
        return self._streams(own, decoder, key_decoder, on_progress)[topic_filter.expression]

    async def commit_offsets(self) -> None:
        """Commit the offsets of all messages that streams have returned, those in hand too. Raises StoreError."""
        await self._connector.commit()

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue from `offset`; as the blocking one."""
        await self._connector.seek(TopicPartition(topic, partition), offset)

    async def shutdown(self) -> None:
        """Commit if that is automatic, leave the group, end the streams; as the blocking one."""
        await self._connector.close(asyncio.current_task())
