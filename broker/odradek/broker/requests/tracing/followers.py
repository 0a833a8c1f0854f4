"""When each follower has a traced Produce request: its next Fetch says so, since it asks for what comes behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from odradek.foundation.errors import InvalidRequest, RequestError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.telemetry_limits import TRACED_WAITS_MAX
from odradek.wire.protocol.framing import RequestHeader
from odradek.wire.protocol.hot.fetch_request import FetchRequest, parse_fetch_request
from odradek.wire.protocol.hot.produce import ProduceRequest

if TYPE_CHECKING:
    from odradek.broker.replication.hosted_partitions import HostedPartitions
    from odradek.broker.replication.partition import Partition

Note = Callable[[int, TopicPartition], None]
"""Called with a follower's id and the partition that it has now."""


class _Wait(NamedTuple):
    end_offset: int
    note: Note
    noted: set[int]


class FollowerWaits:
    """The traced requests of a broker that wait for followers."""

    def __init__(self, partitions: HostedPartitions) -> None:
        self._partitions = partitions
        self._waits: dict[TopicPartition, list[_Wait]] = {}
        self._count = 0

    @property
    def is_empty(self) -> bool:
        return not self._waits

    def begin(self, request: ProduceRequest, note: Note) -> Callable[[], None]:
        """Note followers for a request that this turn of the loop has appended; the result ends it."""
        if self._count >= TRACED_WAITS_MAX:
            return _end_nothing
        begun: list[tuple[TopicPartition, _Wait]] = []
        for partition in self._find(
            (topic.key, index) for topic in request.topics for index, _ in topic.partitions
        ):
            wait = _Wait(partition.log.log_end_offset, note, set())
            self._waits.setdefault(partition.log.topic_partition, []).append(wait)
            begun.append((partition.log.topic_partition, wait))
        self._count += 1

        def end() -> None:
            self._count -= 1
            for name, wait in begun:
                waits = self._waits[name]
                waits.remove(wait)
                if not waits:
                    del self._waits[name]

        return end

    def note_fetch(self, header: RequestHeader, frame: memoryview) -> None:
        """Look at a Fetch request, which a follower may have sent."""
        try:
            request = parse_fetch_request(header.api_version, frame, header.body_position)
        except InvalidRequest:
            return
        if request.replica_id >= 0:
            self._note(request)

    def _note(self, request: FetchRequest) -> None:
        for key, index, fetch_offset, *_ in request.partitions:
            for partition in self._find([(key, index)]):
                for wait in list(self._waits.get(partition.log.topic_partition, ())):
                    if fetch_offset >= wait.end_offset and request.replica_id not in wait.noted:
                        wait.noted.add(request.replica_id)
                        wait.note(request.replica_id, partition.log.topic_partition)

    def _find(self, keys: Iterable[tuple[str | bytes, int]]) -> Iterable[Partition]:
        for key, index in keys:
            try:
                yield self._partitions.get_by_key(key, index)
            except RequestError:
                continue


def _end_nothing() -> None:
    pass
