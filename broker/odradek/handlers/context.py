"""What a handler may know beyond the request itself: who asks, from where, since when, and the broker's
parts.

`principal` is where authentication will put who asks; until then everyone is ANONYMOUS, as Kafka calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.handlers.table import CONTROLLER_HANDLERS, HANDLERS, Handler

if TYPE_CHECKING:
    from odradek.cluster.image import ImageHolder
    from odradek.controller.controller import Controller
    from odradek.controller.leadership import Leadership
    from odradek.foundation.clock import Clock
    from odradek.groups.coordinator import GroupCoordinator
    from odradek.handlers.counters import RequestCounters
    from odradek.handlers.fetch_sessions import FetchSessions
    from odradek.log.directory import LogDirectories
    from odradek.protocol.headers import RequestHeader
    from odradek.replication.blocking import BlockingWork
    from odradek.replication.partitions import Partitions
    from odradek.replication.producer_ids import ProducerIds
    from odradek.replication.purgatory import Purgatory

ANONYMOUS: Final = "User:ANONYMOUS"


class BrokerParts:
    """The parts of one broker that handlers call. `settings` is the broker's frozen settings."""

    __slots__ = (
        "_groups",
        "_leadership",
        "blocking",
        "broker_id",
        "clock",
        "controller",
        "counters",
        "directories",
        "fetch_sessions",
        "handlers",
        "images",
        "partitions",
        "producer_ids",
        "purgatory",
        "settings",
    )

    is_broker: Final = True

    def __init__(
        self,
        *,
        broker_id: int,
        settings: Any,
        clock: Clock,
        images: ImageHolder,
        controller: Any,
        partitions: Partitions,
        directories: LogDirectories,
        producer_ids: ProducerIds,
        groups: Callable[[], GroupCoordinator],
        leadership: Callable[[], Leadership],
        purgatory: Purgatory,
        fetch_sessions: FetchSessions,
        counters: RequestCounters,
        blocking: BlockingWork,
        handlers: Mapping[int, Handler] = HANDLERS,
    ) -> None:
        """`controller` is the `Controller` of this process, or in a cluster what asks the active one."""
        self.broker_id = broker_id
        self.settings = settings
        self.clock = clock
        self.images = images
        self.controller = controller
        self.partitions = partitions
        self.directories = directories
        self.producer_ids = producer_ids
        self._groups = groups
        self._leadership = leadership
        self.purgatory = purgatory
        self.fetch_sessions = fetch_sessions
        self.counters = counters
        self.blocking = blocking
        self.handlers = handlers

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator; it starts when it is first asked for."""
        return self._groups()

    @property
    def leadership(self) -> Leadership:
        """What this process decides on partitions; not of a cluster's broker, which hands such requests on."""
        return self._leadership()


class ControllerParts:
    """The parts of the active controller that its handlers call; those that it shares with a broker have one name."""

    __slots__ = (
        "broker_id",
        "clock",
        "controller",
        "counters",
        "handlers",
        "images",
        "leadership",
        "settings",
    )

    is_broker: Final = False

    def __init__(
        self,
        *,
        broker_id: int,
        settings: Any,
        clock: Clock,
        images: ImageHolder,
        controller: Controller,
        leadership: Leadership,
        counters: RequestCounters,
    ) -> None:
        self.broker_id = broker_id
        self.settings = settings
        self.clock = clock
        self.images = images
        self.controller = controller
        self.leadership = leadership
        self.counters = counters
        self.handlers: Mapping[int, Handler] = CONTROLLER_HANDLERS


class RequestContext:
    """One request's surroundings. `received_at` is when its frame was taken up, monotonic."""

    __slots__ = ("broker", "connection", "header", "principal", "received_at")

    def __init__(
        self, header: RequestHeader, connection: Any, broker: BrokerParts, *, received_at: float
    ) -> None:
        self.header = header
        self.connection = connection
        self.broker = broker
        self.received_at = received_at
        self.principal = ANONYMOUS

    @property
    def client_host(self) -> str:
        """The peer's address without its port."""
        peer = self.connection.peer
        return str(peer[0]) if peer else ""

    @property
    def listener_name(self) -> str:
        """The listener that the connection came in by: clients are told its advertised addresses."""
        name: str = self.connection.listener_name
        return name
