"""What clients have pushed, as series for /metrics: bounded for each client, and for all of them together.

A push replaces its client's gauges, and adds to its counters: clients send the difference since their last push. A
client's series stay until it has been silent for as long as a broker remembers it, also when its connection ends. So a
scrape sees what a client sent with its end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from odradek.broker.telemetry.otlp import Attributes, DataPoint, MetricsReader, PointKind
from odradek.foundation.errors import CorruptRecord, InvalidRecord
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.telemetry_limits import TELEMETRY_SERIES_MAX, TELEMETRY_SERIES_PER_CLIENT_MAX
from odradek.wire.records.compression import decompress

if TYPE_CHECKING:
    from uuid import UUID

# Attributes that have labels of their own. Whose metrics they are is in the labels of the client.
_LABELS: Final = ("topic", "partition", "node_id")
_OF_THE_CLIENT: Final = ("client_id", "client_instance_id")


class SeriesName(NamedTuple):
    """The labels of a series beside those of its client; `attributes` has those that have no label of their own."""

    metric: str
    topic: str = ""
    partition: str = ""
    node_id: str = ""
    attributes: str = ""


class PushedMetrics(NamedTuple):
    """What a push has, ready to become series."""

    resource: Attributes
    points: list[tuple[SeriesName, PointKind, float]]
    unsupported: int
    left_out: int


class ClientLabels(NamedTuple):
    """What the series of a client name it by, and what describes it beside that."""

    client_id: str
    instance: str
    software_name: str = ""
    software_version: str = ""
    ip: str = ""


def read_push(metrics: bytes, compression: int, *, bytes_max: int) -> PushedMetrics:
    """Decompress and read a push: milliseconds for a usual one, so it runs in a thread. Raises InvalidRecord."""
    try:
        data = bytes(decompress(metrics, compression, size_max=bytes_max))
    except CorruptRecord as error:
        raise InvalidRecord(f"the pushed metrics cannot be decompressed: {error}") from None
    reader = MetricsReader(data, points_max=TELEMETRY_SERIES_PER_CLIENT_MAX)
    reader.read()
    points = [(name_series(point), point.kind, point.value) for point in reader.points]
    return PushedMetrics(reader.resource, points, reader.unsupported, reader.left_out)


def name_series(point: DataPoint) -> SeriesName:
    """The labels of a data point."""
    attributes = point.attributes
    topic, partition, node_id = (attributes.get(label, "") for label in _LABELS)
    others = [
        f"{name}={value}"
        for name, value in sorted(attributes.items())
        if name not in _LABELS and name not in _OF_THE_CLIENT
    ]
    return SeriesName(point.metric, topic, partition, node_id, ",".join(others))


class ClientSeries:
    """The series of one client."""

    __slots__ = ("counters", "expires_at", "gauges", "labels", "resource")

    def __init__(self, labels: ClientLabels) -> None:
        self.labels = labels
        self.resource: Attributes = {}
        self.gauges: dict[SeriesName, float] = {}
        self.counters: dict[SeriesName, float] = {}
        self.expires_at = 0.0

    def __len__(self) -> int:
        """As how many series it counts: one describes the client."""
        return 1 + len(self.gauges) + len(self.counters)

    def take(self, pushed: PushedMetrics) -> int:
        """Apply a push. Returns how many of its points have no place."""
        self.resource = pushed.resource
        self.gauges.clear()
        dropped = 0
        for name, kind, value in pushed.points:
            series = self.gauges if kind is PointKind.GAUGE else self.counters
            if name not in series and len(self) > TELEMETRY_SERIES_PER_CLIENT_MAX:
                dropped += 1
            elif kind is PointKind.DELTA:
                series[name] = series.get(name, 0) + value
            else:
                series[name] = value
        return dropped


class PushedSeries:
    """The series of all clients, in the order of their last push."""

    def __init__(self) -> None:
        self._clients: OrderedDict[UUID, ClientSeries] = OrderedDict()
        self.count = 0
        """The series of all clients."""
        self.unsupported = 0
        """Points that no series can have."""
        self.beyond_client_bound = 0
        """Points for which their client has too many series."""
        self.evicted = 0
        """Series of clients that went for others."""

    def __iter__(self) -> Iterator[ClientSeries]:
        return iter(self._clients.values())

    def __len__(self) -> int:
        return len(self._clients)

    def take(
        self, instance_id: UUID, labels: ClientLabels, pushed: PushedMetrics, *, expires_at: float
    ) -> None:
        """Apply a client's push, for which clients go that pushed longest ago."""
        client = self._clients.pop(instance_id, None)
        if client is None:
            client = ClientSeries(labels)
        else:
            self.count -= len(client)
        client.labels = labels
        client.expires_at = expires_at
        self.beyond_client_bound += client.take(pushed) + pushed.left_out
        self.unsupported += pushed.unsupported
        while self.count + len(client) > TELEMETRY_SERIES_MAX:
            _, oldest = self._clients.popitem(last=False)
            self.count -= len(oldest)
            self.evicted += len(oldest)
        self._clients[instance_id] = client
        self.count += len(client)

    def forget_silent(self, now: float) -> None:
        """Drop the series of clients that were silent for too long."""
        for instance_id in [one for one, client in self._clients.items() if client.expires_at <= now]:
            self.count -= len(self._clients.pop(instance_id))
