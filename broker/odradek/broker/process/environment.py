"""The objects that the parts of one broker process share from the beginning of its start, and what controls it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Protocol

from odradek.broker.replication.blocking import BlockingWork
from odradek.foundation.named_tuple import NamedTuple

if TYPE_CHECKING:
    from odradek.broker.replication.hosted_partitions import HostedPartitions
    from odradek.broker.requests.dispatch import Dispatcher
    from odradek.broker.requests.parts import BrokerParts
    from odradek.foundation.clock import Clock
    from odradek.foundation.endpoints import Endpoint
    from odradek.foundation.settings.broker_settings import Settings
    from odradek.metadata.controller.api import ControllerApi
    from odradek.metadata.controller.controller import Controller
    from odradek.metadata.controller.leadership import Leadership
    from odradek.metadata.image.dynamic_settings import DynamicSettings
    from odradek.metadata.image.image import ImageHolder
    from odradek.metadata.registry.store import Store
    from odradek.network.network import Network
    from odradek.storage.directories.log_manager import LogManager
    from odradek.storage.files import Disk

# Where a single node keeps its registry, in its first log directory.
REGISTRY_FILE: Final = "registry.sqlite"


class BrokerEnvironment(NamedTuple):
    """`closing` is closed at the stop, or after a start that fails, last entry first."""

    # Not a dataclass: to generate one takes longer than the rest of this module.
    settings: Settings
    broker_id: int
    clock: Clock
    network: Network
    inter_broker_network: Network
    """The network to other brokers, secured as their listeners are."""
    controller_network: Network
    """The network to controllers, secured as theirs are."""
    disk: Disk
    rng: random.Random
    images: ImageHolder
    dynamic_settings: DynamicSettings
    closing: AsyncExitStack
    long_work: BlockingWork


class BrokerControl(Protocol):
    """The part of a broker process that differs between a single node and a cluster: decisions and leadership.

    `local_control` decides in this process, for a single node. `cluster_control` follows the active controller of a
    cluster. `BrokerProcess` calls its control at fixed points of its start and its stop, and documents the order: it
    is that of the methods here.
    """

    async def start(self, environment: BrokerEnvironment, log_manager: LogManager) -> None:
        """Open the registry and load the first image; the log directories are locked. Raises StoreError."""

    @property
    def controller(self) -> ControllerApi:
        """The active controller, once started."""

    @property
    def shared_registry(self) -> Store | None:
        """The registry where consumers may share partitions too, once started; None where only this process has it."""

    async def reconcile_logs(self) -> None:
        """Compare the opened logs with the image."""

    def start_replication(
        self, partitions: HostedPartitions, *, refresh_coordinators: Callable[[], None]
    ) -> None:
        """Replicate from and to other brokers. Raises KafkaStorageError when too few log directories are left.

        `refresh_coordinators` has the coordinators compare their shards with the partitions that this broker leads.
        """

    @property
    def active_controller(self) -> Controller | None:
        """The controller, if this process decides for the cluster."""

    def leadership(self) -> Leadership:
        """Decides on leaders and in-sync sets, if this process decides."""

    def make_dispatcher(self, parts: BrokerParts) -> Dispatcher:
        """The dispatcher that answers the requests of clients."""

    async def register(self, endpoints: Sequence[Endpoint]) -> None:
        """Make this broker a member: clients find it at `endpoints`."""

    def not_ready(self) -> str | None:
        """Why clients should not connect now; None when they may. Called only while the broker serves."""

    def directory_failed(self, path: str, reason: str) -> None:
        """A log directory failed after the logs were loaded; its partitions are offline."""

    async def hand_over(self) -> None:
        """Before a controlled stop: move this broker's leaderships to other brokers."""
