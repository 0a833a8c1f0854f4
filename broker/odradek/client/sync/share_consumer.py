"""The synchronous `ShareConsumer`: the loop's thread fetches, and keeps the locks of what the program works on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odradek.client.share.deliveries import ShareRecord
from odradek.client.share.sessions import ShareBounds
from odradek.client.share.share_consumer import OnAcknowledged
from odradek.client.share.share_consumer import ShareConsumer as AsyncShareConsumer
from odradek.client.sync.client import Client, blocking_client_of
from odradek.client.sync.faces import Face, blocking, reading
from odradek.foundation.ids import TopicPartition


class ShareConsumer(Face[AsyncShareConsumer]):
    """`with ShareConsumer(client, "resize", ["images"]) as consumer:`, and then `for record in consumer:`.

    As `odradek.ShareConsumer`. `on_acknowledged` is called in the loop's thread.
    """

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        *,
        is_explicit: bool = False,
        bounds: ShareBounds | None = None,
        rack_id: str | None = None,
        on_acknowledged: OnAcknowledged | None = None,
    ) -> None:
        client = blocking_client_of(client, "ShareConsumer")
        # The loop's thread makes it, as all that changes the client.
        inner = client._engine.read(
            lambda: AsyncShareConsumer(
                client._inner,
                group_id,
                topics,
                is_explicit=is_explicit,
                bounds=bounds,
                rack_id=rack_id,
                on_acknowledged=on_acknowledged,
            )
        )
        super().__init__(client._engine, inner, owner=client)

    def __enter__(self) -> ShareConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """As in the asyncio form: send the answers, release all other records, and leave the group."""
        if not self._engine.is_closed:
            self._call(lambda inner: inner.close())

    def __iter__(self) -> Iterator[ShareRecord]:
        while True:
            passed, records = 0, self._call(lambda inner: inner.poll_for_loop())
            try:
                for record in records:
                    yield record
                    passed += 1
            finally:
                self._settle_loop(records, passed=passed)

    def _settle_loop(self, records: Sequence[ShareRecord], *, passed: int) -> None:
        if records and not self._engine.is_closed:
            self._read(lambda inner: inner.settle_loop(records, passed=passed))

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions whose records this member is given, with others."""
        return self._read(lambda inner: inner.assignment)

    @property
    def member_id(self) -> str:
        """The name of this member in its group."""
        return self._inner.member_id

    poll = blocking(AsyncShareConsumer.poll)
    poll_blocks = blocking(AsyncShareConsumer.poll_blocks)
    commit = blocking(AsyncShareConsumer.commit)
    acknowledge = reading(AsyncShareConsumer.acknowledge)
