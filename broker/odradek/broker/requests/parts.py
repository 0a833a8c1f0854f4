"""What the handlers of each family of requests may use of their broker, or of the active controller.

    family          requests that                                       in
    produce         append records                                      a broker
    fetch           read records                                        a broker
    partitions      look at or truncate the logs of partitions          a broker
    metadata        describe the cluster and its topics                 a broker
    groups          are about consumer groups                           a broker
    coordinators    find coordinators                                   a broker
    transactions    are about transactions and their producers          a broker
    markers         end transactions in partitions                      a broker
    shares          acquire records for share groups                    a broker
    share_groups    are about where share groups stand                  a broker
    share_states    are about stored states of share-partitions         a broker
    configs         describe settings, and change some of them          both
    admin           change topics, settings, users and their rights     a single node, a controller
    replicas        elect leaders and move replicas                     a single node, a controller
    tokens          are about delegation tokens                         both
    telemetry       are about metrics that clients push                 a broker that takes them
    shared          need no more than every request                     both

The process makes one object of each family. A handler declares its family as the type of its context, and reaches
nothing else. `families` says which API belongs to which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from odradek.broker.requests.context import AnyContext, RequestParts
from odradek.foundation.named_tuple import NamedTuple

if TYPE_CHECKING:
    from odradek.broker.groups.coordinator import GroupCoordinator
    from odradek.broker.groups.share.offsets import ShareOffsets
    from odradek.broker.groups.zookeeper_groups import ZookeeperGroups
    from odradek.broker.replication.blocking import BlockingWork
    from odradek.broker.replication.hosted_partitions import HostedPartitions
    from odradek.broker.replication.log_moves import LogMoves
    from odradek.broker.replication.producer_ids import ProducerIds
    from odradek.broker.replication.purgatory import Purgatory
    from odradek.broker.replication.transaction_verifier import TransactionVerifier
    from odradek.broker.requests.fetch.sessions import FetchSessionCache
    from odradek.broker.requests.mutations import MutationQuotas
    from odradek.broker.share_states.coordinator import ShareCoordinator
    from odradek.broker.shares.leader import ShareLeader
    from odradek.broker.telemetry.client_telemetry import ClientTelemetry
    from odradek.broker.transactions.coordinator import TransactionCoordinator
    from odradek.foundation.clock import Clock
    from odradek.foundation.settings.broker_settings import Settings
    from odradek.metadata.controller.api import ControllerApi
    from odradek.metadata.controller.controller import Controller
    from odradek.metadata.controller.leadership import Leadership
    from odradek.metadata.image.image import ImageHolder
    from odradek.storage.directories.log_manager import LogManager


class _Family(RequestParts):
    """The parts of a family beside those of every request."""

    def __init__(self, shared: RequestParts) -> None:
        super().__init__(
            images=shared.images,
            counters=shared.counters,
            handlers=shared.handlers,
            authorizer=shared.authorizer,
            optional_long_work=shared.optional_long_work,
            is_broker=shared.is_broker,
            node_id=shared.node_id,
        )


# --- coordinators, whose first use starts them ----------------------------------------------------------------------


class HasVerifier(Protocol):
    @property
    def verifier(self) -> TransactionVerifier:
        """Asks transaction coordinators for this broker's partitions."""
        ...


class HasGroups(Protocol):
    @property
    def groups(self) -> GroupCoordinator: ...


class HasAllGroups(HasGroups, Protocol):
    @property
    def zookeeper_groups(self) -> ZookeeperGroups | None:
        """The groups that share partitions through the registry; None where consumers cannot reach it."""
        ...


class HasCoordinators(HasGroups, Protocol):
    @property
    def transactions(self) -> TransactionCoordinator: ...

    @property
    def shares(self) -> ShareCoordinator: ...


class HasTransactions(HasCoordinators, HasVerifier, Protocol):
    pass


class HasShares(Protocol):
    @property
    def shares(self) -> ShareCoordinator:
        """Keeps states of share-partitions."""
        ...

    @property
    def share_offsets(self) -> ShareOffsets:
        """Knows where share groups stand."""
        ...


class HasShareLeader(Protocol):
    @property
    def share_leader(self) -> ShareLeader:
        """Gives the records of this broker's partitions to share groups."""
        ...


class AllCoordinators(HasAllGroups, HasTransactions, HasShares, HasShareLeader, Protocol):
    """The coordinators of one broker, as its process has them."""

    @property
    def producer_ids(self) -> ProducerIds: ...


# --- families of a broker -------------------------------------------------------------------------------------------


class ProduceParts(_Family):
    def __init__(
        self, shared: RequestParts, *, partitions: HostedPartitions, coordinators: HasVerifier
    ) -> None:
        super().__init__(shared)
        self.partitions: Final = partitions
        self._coordinators: Final = coordinators

    @property
    def verifier(self) -> TransactionVerifier:
        return self._coordinators.verifier


class FetchThrottling(Protocol):
    """Answers the questions of a fetch about quotas; see `broker.requests.throttling`."""

    def exempt(self) -> None: ...

    def fetch_bytes_max(self, context: AnyContext) -> int | None: ...

    def fetch_throttle(self, context: AnyContext, size: int) -> tuple[int, bool]: ...

    def count_fetched(self, context: AnyContext, size: int) -> int: ...


class FetchParts(_Family):
    def __init__(
        self,
        shared: RequestParts,
        *,
        partitions: HostedPartitions,
        settings: Settings,
        clock: Clock,
        purgatory: Purgatory,
        fetch_sessions: FetchSessionCache,
    ) -> None:
        super().__init__(shared)
        self.partitions: Final = partitions
        self.settings: Final = settings
        self.clock: Final = clock
        self.purgatory: Final = purgatory
        self.fetch_sessions: Final = fetch_sessions
        self.throttling: FetchThrottling | None = None
        """Holds consumers to their quotas; None while no client has one."""


class SharesParts(_Family):
    def __init__(
        self, shared: RequestParts, *, fetch: FetchParts, settings: Settings, coordinators: HasShareLeader
    ) -> None:
        """`fetch` has what fetches of all kinds share: the purgatory, and the quotas of consumers."""
        super().__init__(shared)
        self._fetch: Final = fetch
        self._coordinators: Final = coordinators
        self.settings: Final = settings
        self.purgatory: Final = fetch.purgatory

    @property
    def leader(self) -> ShareLeader:
        return self._coordinators.share_leader

    @property
    def throttling(self) -> FetchThrottling | None:
        """Holds consumers to their quotas; None while no client has one."""
        return self._fetch.throttling


class PartitionParts(_Family):
    def __init__(
        self,
        shared: RequestParts,
        *,
        partitions: HostedPartitions,
        log_manager: LogManager,
        log_moves: LogMoves,
        blocking: BlockingWork,
    ) -> None:
        super().__init__(shared)
        self.partitions: Final = partitions
        self.log_manager: Final = log_manager
        self.log_moves: Final = log_moves
        self.blocking: Final = blocking


class MetadataParts(_Family):
    def __init__(self, shared: RequestParts, *, settings: Settings, controller: ControllerApi) -> None:
        """`controller` asks the active controller, wherever it runs."""
        super().__init__(shared)
        self.settings: Final = settings
        self.controller: Final = controller


class ConsumerGroupParts(_Family):
    def __init__(self, shared: RequestParts, *, clock: Clock, coordinators: HasAllGroups) -> None:
        super().__init__(shared)
        self.clock: Final = clock
        self._coordinators: Final = coordinators

    @property
    def groups(self) -> GroupCoordinator:
        return self._coordinators.groups

    @property
    def zookeeper_groups(self) -> ZookeeperGroups | None:
        return self._coordinators.zookeeper_groups


class ShareGroupParts(_Family):
    def __init__(self, shared: RequestParts, *, coordinators: HasShares) -> None:
        super().__init__(shared)
        self._coordinators: Final = coordinators

    @property
    def offsets(self) -> ShareOffsets:
        return self._coordinators.share_offsets


class ShareStateParts(_Family):
    def __init__(self, shared: RequestParts, *, coordinators: HasShares) -> None:
        super().__init__(shared)
        self._coordinators: Final = coordinators

    @property
    def shares(self) -> ShareCoordinator:
        return self._coordinators.shares


class CoordinatorParts(_Family):
    def __init__(self, shared: RequestParts, *, coordinators: HasCoordinators) -> None:
        super().__init__(shared)
        self._coordinators: Final = coordinators

    @property
    def groups(self) -> GroupCoordinator:
        return self._coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self._coordinators.transactions

    @property
    def shares(self) -> ShareCoordinator:
        return self._coordinators.shares


class TransactionParts(_Family):
    def __init__(
        self,
        shared: RequestParts,
        *,
        clock: Clock,
        producer_ids: ProducerIds,
        coordinators: HasTransactions,
    ) -> None:
        super().__init__(shared)
        self.clock: Final = clock
        self.producer_ids: Final = producer_ids
        self._coordinators: Final = coordinators

    @property
    def groups(self) -> GroupCoordinator:
        return self._coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self._coordinators.transactions

    @property
    def verifier(self) -> TransactionVerifier:
        return self._coordinators.verifier


class MarkerParts(_Family):
    def __init__(
        self,
        shared: RequestParts,
        *,
        partitions: HostedPartitions,
        settings: Settings,
        clock: Clock,
        coordinators: HasGroups,
    ) -> None:
        super().__init__(shared)
        self.partitions: Final = partitions
        self.settings: Final = settings
        self.clock: Final = clock
        self._coordinators: Final = coordinators

    @property
    def groups(self) -> GroupCoordinator:
        return self._coordinators.groups


class TelemetryParts(_Family):
    def __init__(self, shared: RequestParts, *, telemetry: ClientTelemetry) -> None:
        super().__init__(shared)
        self.telemetry: Final = telemetry


# --- families of a broker and of a controller -----------------------------------------------------------------------


class HasThread(Protocol):
    """What long answers need."""

    @property
    def optional_long_work(self) -> BlockingWork | None: ...


class HasSettings(HasThread, Protocol):
    """What families that read settings have in common."""

    @property
    def images(self) -> ImageHolder: ...

    @property
    def is_broker(self) -> bool: ...

    @property
    def settings(self) -> Settings: ...


class ConfigParts(_Family):
    def __init__(
        self, shared: RequestParts, *, broker_id: int, settings: Settings, controller: ControllerApi
    ) -> None:
        super().__init__(shared)
        self.broker_id: Final = broker_id
        self.settings: Final = settings
        self.controller: Final = controller


class AdminParts(_Family):
    def __init__(
        self,
        shared: RequestParts,
        *,
        settings: Settings,
        active_controller: Controller,
        mutations: MutationQuotas | None,
    ) -> None:
        """`mutations` are the quotas of partitions created and deleted."""
        super().__init__(shared)
        self.settings: Final = settings
        self.active_controller: Final = active_controller
        self.mutations: Final = mutations


class ReplicaParts(_Family):
    def __init__(self, shared: RequestParts, *, new_leadership: Callable[[], Leadership]) -> None:
        super().__init__(shared)
        self._new_leadership: Final = new_leadership

    @property
    def leadership(self) -> Leadership:
        """Decides on leaders and in-sync sets."""
        return self._new_leadership()


class TokenParts(_Family):
    def __init__(
        self,
        shared: RequestParts,
        *,
        settings: Settings,
        clock: Clock,
        optional_controller: Controller | None,
    ) -> None:
        """A cluster's broker has no controller: it describes tokens, and forwards what changes them."""
        super().__init__(shared)
        self.settings: Final = settings
        self.clock: Final = clock
        self._controller: Final = optional_controller

    @property
    def active_controller(self) -> Controller:
        assert self._controller is not None, "a cluster's broker forwards such requests"
        return self._controller


# --- all families ---------------------------------------------------------------------------------------------------


class BrokerParts(NamedTuple):
    """The families of a broker; None where a broker does not serve it, or forwards its requests."""

    shared: RequestParts
    produce: ProduceParts
    fetch: FetchParts
    partitions: PartitionParts
    metadata: MetadataParts
    groups: ConsumerGroupParts
    coordinators: CoordinatorParts
    transactions: TransactionParts
    markers: MarkerParts
    shares: SharesParts
    share_groups: ShareGroupParts
    share_states: ShareStateParts
    configs: ConfigParts
    tokens: TokenParts
    telemetry: TelemetryParts | None
    admin: AdminParts | None
    replicas: ReplicaParts | None


class ControllerParts(NamedTuple):
    """The families of the active controller."""

    shared: RequestParts
    configs: ConfigParts
    tokens: TokenParts
    admin: AdminParts
    replicas: ReplicaParts
