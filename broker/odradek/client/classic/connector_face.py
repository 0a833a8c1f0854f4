"""The common part of both faces of ConsumerConnector: facts about the consumer, and the making of streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from odradek.client.classic.connector import Connector
from odradek.client.classic.messages import Decoder, DefaultDecoder
from odradek.client.classic.properties import Properties
from odradek.client.classic.registrations import STATIC, Registration, TopicFilter
from odradek.client.classic.streams import OnProgress
from odradek.foundation.ids import TopicPartition

StreamT = TypeVar("StreamT")


class ConnectorFace(Generic[StreamT]):
    """A face whose streams `_new_stream` makes."""

    _new_stream: Callable[..., StreamT]
    _connector: Connector
    properties: Properties

    @property
    def consumer_id(self) -> str:
        """The name of this consumer's id node."""
        return self._connector.id

    @property
    def owned_partitions(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer owns now."""
        return self._connector.owned

    def _build_registration(self, topic_filter: TopicFilter, num_streams: int) -> Registration:
        return Registration(
            topic_filter.pattern,
            {topic_filter.expression: num_streams},
            is_excluding_internal=self.properties["exclude.internal.topics"],
        )

    async def _join(self, own: Registration) -> None:
        self._connector.create_streams(own)
        await self._connector.join()

    def _streams(
        self,
        own: Registration,
        decoder: Decoder | None,
        key_decoder: Decoder | None,
        on_progress: OnProgress | None,
    ) -> dict[str, list[StreamT]]:
        """The streams by the topics, or the filter, that were registered."""
        return {
            name: [
                self._new_stream(
                    self._connector.buffers[name if own.pattern == STATIC else None, number],
                    self._connector.lease,
                    decoder=decoder or DefaultDecoder(),
                    key_decoder=key_decoder or DefaultDecoder(),
                    timeout_ms=self.properties["consumer.timeout.ms"],
                    on_progress=on_progress,
                )
                for number in range(count)
            ]
            for name, count in own.subscription.items()
        }
