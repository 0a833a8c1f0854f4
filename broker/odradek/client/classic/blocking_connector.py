"""ConsumerConnector for programs without an event loop: streams are iterators, each for a thread of the program."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping

from odradek.client.classic.connector import Connector
from odradek.client.classic.connector_face import ConnectorFace
from odradek.client.classic.group_offsets import StartOffsets
from odradek.client.classic.messages import Decoder
from odradek.client.classic.properties import CONSUMER, Properties
from odradek.client.classic.registrations import STATIC, Registration, TopicFilter
from odradek.client.classic.streams import KafkaStream, OnProgress
from odradek.client.own_loops import EngineThread, warn_unclosed
from odradek.foundation.ids import TopicPartition
from odradek.network.network import Network


class Consumer:
    """Makes consumers as document 002 does: `connector = Consumer.create(properties)`."""

    @staticmethod
    def create(
        properties: Mapping[str, object], *, start_offsets: StartOffsets | None = None
    ) -> ConsumerConnector:
        """Connect to the cluster. Takes and raises what ConsumerConnector does."""
        return ConsumerConnector(properties, start_offsets=start_offsets)


class ConsumerConnector(ConnectorFace[KafkaStream]):
    """`with ConsumerConnector({"zk.connect": "127.0.0.1:2181", "groupid": "billing"}) as connector: …`.

    It connects when it is made. `start_offsets` is for programs that keep offsets with their output. It gets the
    partitions that the consumer now owns, and returns the next offset of each that the program knows. Nothing is
    committed then.
    """

    _new_stream = KafkaStream

    def __init__(
        self,
        properties: Mapping[str, object],
        *,
        start_offsets: StartOffsets | None = None,
        network: Network | None = None,
    ) -> None:
        """Raises InvalidConfigException, StoreConnectionLost, NoBrokersForPartitionException, ConnectionFailed."""
        self.properties = Properties(CONSUMER, properties)
        self._engine = EngineThread("ConsumerConnector")
        try:
            self._engine.call(lambda: self._open(start_offsets, network))
        except BaseException:
            self._engine.close()
            raise
        self._closed = False
        self._unclosed = weakref.finalize(self, _warn_unclosed, self.consumer_id, os.getpid())

    async def _open(self, start_offsets: StartOffsets | None, network: Network | None) -> None:
        connector = Connector(self.properties, start_offsets=start_offsets, network=network)
        await connector.start()
        self._connector = connector

    def __enter__(self) -> ConsumerConnector:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def create_message_streams(
        self,
        topic_count_map: Mapping[str, int],
        *,
        decoder: Decoder | None = None,
        key_decoder: Decoder | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, list[KafkaStream]]:
        """Streams for topics, by the number that each topic shall have. Once for each connector.

        `on_progress` is called in the thread of a stream, before the first message of each batch.

        Raises MessageStreamsExistException, ConsumerRebalanceFailedException, StoreError.
        """
        own = Registration(STATIC, topic_count_map)
        self._engine.call(lambda: self._join(own))
        return self._streams(own, decoder, key_decoder, on_progress)

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        *,
        decoder: Decoder | None = None,
        key_decoder: Decoder | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[KafkaStream]:
        """Streams for all topics that a filter allows, also for those that are made later. Raises as above."""
        own = self._build_registration(topic_filter, num_streams)
        self._engine.call(lambda: self._join(own))
        return self._streams(own, decoder, key_decoder, on_progress)[topic_filter.expression]

    def commit_offsets(self) -> None:
        """Commit the offsets of all messages that streams have returned, those in hand too. Raises StoreError."""
        self._engine.call(self._connector.commit)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue from `offset`, forward or back. It is committed at once, so that it survives a rebalance.

        Raises InvalidConfigException for a partition that this consumer does not own.
        """
        self._engine.call(lambda: self._connector.seek(TopicPartition(topic, partition), offset))

    def shutdown(self) -> None:
        """Commit if that is automatic, leave the group, end the streams.

        What this thread has in hand comes again, unless `commit_offsets` was called. Other threads have 2 s to ask for
        their next message.
        """
        if not self._closed:
            self._closed = True
            self._unclosed.detach()
            caller = threading.get_ident()
            self._engine.call(lambda: self._connector.close(caller))
            self._engine.close()


def _warn_unclosed(consumer_id: str, process_id: int) -> None:
    if os.getpid() == process_id:
        warn_unclosed(
            f"the ConsumerConnector {consumer_id} was not shut down: what it returned and did not commit comes again"
        )
