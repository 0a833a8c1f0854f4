"""The surroundings of a request that its handler may know: its client, its arrival, and the broker's parts.

`principal` is the authenticated client. Without authentication it is Kafka's ANONYMOUS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, Final, Protocol

from odradek.broker.requests.table import CONTROLLER_HANDLERS, HANDLERS, Handler
from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.named_tuple import NamedTuple
from odradek.network.connection import Connection
from odradek.wire.protocol import messages

if TYPE_CHECKING:
    from odradek.broker.groups.coordinator import GroupCoordinator
    from odradek.broker.groups.zookeeper_groups import ZookeeperGroups
    from odradek.broker.replication.blocking import BlockingWork
    from odradek.broker.replication.hosted_partitions import HostedPartitions
    from odradek.broker.replication.producer_ids import ProducerIds
    from odradek.broker.replication.purgatory import Purgatory
    from odradek.broker.replication.transaction_verifier import TransactionVerifier
    from odradek.broker.requests.counters import RequestCounters
    from odradek.broker.requests.fetch.sessions import FetchSessionCache
    from odradek.broker.requests.mutations import MutationQuotas
    from odradek.broker.transactions.coordinator import TransactionCoordinator
    from odradek.foundation.clock import Clock
    from odradek.foundation.settings import Settings
    from odradek.metadata.controller.api import ControllerApi
    from odradek.metadata.controller.controller import Controller
    from odradek.metadata.controller.leadership import Leadership
    from odradek.metadata.image.image import ImageHolder
    from odradek.security.authorization.authorizer import Authorizer
    from odradek.storage.directories.log_manager import LogManager
    from odradek.wire.protocol.framing import RequestHeader


_NOTHING: Final[Set[object]] = frozenset()


class DispatcherParts(Protocol):
    """The parts that a dispatcher itself needs."""

    @property
    def counters(self) -> RequestCounters: ...

    @property
    def handlers(self) -> Mapping[int, Handler]: ...


class CoordinatorParts(Protocol):
    """The coordinators of one broker; the first use of each starts it."""

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def transactions(self) -> TransactionCoordinator: ...

    @property
    def verifier(self) -> TransactionVerifier: ...

    @property
    def zookeeper_groups(self) -> ZookeeperGroups | None: ...


class FetchThrottling(Protocol):
    """Answers the questions of a fetch about quotas; see `broker.requests.throttling`."""

    def exempt(self) -> None: ...

    def fetch_bytes_max(self, context: RequestContext) -> int | None: ...

    def fetch_throttle(self, context: RequestContext, size: int) -> tuple[int, bool]: ...


class BrokerParts:
    """The parts of one broker that handlers call. `settings` is the broker's frozen settings."""

    is_broker: Final = True

    def __init__(
        self,
        *,
        broker_id: int,
        settings: Settings,
        clock: Clock,
        images: ImageHolder,
        controller: ControllerApi,
        partitions: HostedPartitions,
        log_manager: LogManager,
        producer_ids: ProducerIds,
        coordinators: CoordinatorParts,
        active_controller: Controller | None,
        leadership: Callable[[], Leadership],
        purgatory: Purgatory,
        fetch_sessions: FetchSessionCache,
        counters: RequestCounters,
        blocking: BlockingWork,
        handlers: Mapping[int, Handler] = HANDLERS,
        authorizer: Authorizer | None = None,
        mutations: MutationQuotas | None = None,
        long_work: BlockingWork | None = None,
    ) -> None:
        """`controller` asks the active controller, wherever it runs; `active_controller` is the one of this process."""
        self.broker_id = broker_id
        self.settings = settings
        self.clock = clock
        self.images = images
        self.controller = controller
        self.partitions = partitions
        self.log_manager = log_manager
        self.producer_ids = producer_ids
        self._coordinators = coordinators
        self._active_controller = active_controller
        self._leadership = leadership
        self.purgatory = purgatory
        self.fetch_sessions = fetch_sessions
        self.counters = counters
        self.blocking = blocking
        self.long_work = long_work or blocking
        """The thread for what takes more of a processor than a turn of the loop may."""
        self.handlers = handlers
        self.authorizer = authorizer
        """Decides what each principal may do; None where every client may do everything."""
        self.mutations = mutations
        """The quotas of partitions created and deleted, for a broker that decides on them itself."""
        self.throttling: FetchThrottling | None = None
        """Holds consumers to their quotas; None while no client has one."""

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator; the first use starts it."""
        return self._coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator; the first use starts it."""
        return self._coordinators.transactions

    @property
    def verifier(self) -> TransactionVerifier:
        """Asks transaction coordinators for this broker's partitions; the first use starts it."""
        return self._coordinators.verifier

    @property
    def zookeeper_groups(self) -> ZookeeperGroups | None:
        """The groups that share partitions through the registry; None where consumers cannot reach it."""
        return self._coordinators.zookeeper_groups

    @property
    def active_controller(self) -> Controller:
        """The controller of this process. A cluster's broker has none: it forwards the requests that need one."""
        assert self._active_controller is not None, "a cluster's broker forwards such requests"
        return self._active_controller

    @property
    def leadership(self) -> Leadership:
        """The decisions of this process on partitions. A cluster's broker forwards the requests that need it."""
        return self._leadership()


class ControllerParts(NamedTuple):
    """The parts of the active controller that its handlers call. A part that a broker has too has the same name."""

    broker_id: int
    settings: Settings
    clock: Clock
    images: ImageHolder
    controller: Controller
    leadership: Leadership
    counters: RequestCounters
    handlers: Mapping[int, Handler] = CONTROLLER_HANDLERS
    authorizer: Authorizer | None = None
    mutations: MutationQuotas | None = None
    long_work: BlockingWork | None = None
    """The thread for what takes more of a processor than a turn of the loop may."""

    @property
    def is_broker(self) -> bool:
        return False

    @property
    def active_controller(self) -> Controller:
        return self.controller


# What a broker and an active controller both have, for handlers that run in either.
SharedParts = BrokerParts | ControllerParts


class RequestContext(NamedTuple):
    """One request's surroundings. `received_at` is when its frame was received, in monotonic seconds."""

    header: RequestHeader
    connection: Connection
    broker: BrokerParts
    received_at: float
    principal: str = ANONYMOUS

    @property
    def named_twice(self) -> Set[object]:
        """The elements of a large request that it names more than once, which is answered in parts (`PartContext`)."""
        return _NOTHING

    @property
    def client_host(self) -> str:
        """The peer's address without its port."""
        peer = self.connection.peer
        return str(peer[0]) if peer else ""

    @property
    def listener_name(self) -> str:
        """The listener of the connection: answers name the advertised addresses of this listener."""
        return self.connection.listener_name

    def response(self, **fields: object) -> messages.Message:
        """The answer to the request, of its API and version, with these fields (`wire.protocol.messages`)."""
        header = self.header
        return messages.response(header.api_key, header.api_version, **fields)


class PartContext(RequestContext):
    """The surroundings of a part of a large request."""

    named_twice: Set[object] = _NOTHING


class SharedContext(Protocol):
    """The surroundings of a request with a handler that runs in a broker or in a controller."""

    @property
    def broker(self) -> SharedParts: ...

    @property
    def connection(self) -> Connection: ...

    @property
    def header(self) -> RequestHeader: ...

    @property
    def client_host(self) -> str: ...

    def response(self, **fields: object) -> messages.Message: ...
