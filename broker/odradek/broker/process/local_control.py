"""The control of a single node: registry and controller run in the broker's process, which leads everything."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.process import late, log_adoption
from odradek.broker.process.environment import REGISTRY_FILE, BrokerEnvironment
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.requests.dispatch import AnyStep, Dispatcher
from odradek.broker.requests.parts import BrokerParts
from odradek.foundation.endpoints import Endpoint
from odradek.metadata.controller.controller import Controller
from odradek.metadata.registry.sqlite_store import SqliteStore
from odradek.metadata.registry.store import Store
from odradek.storage.directories.log_manager import LogManager

if TYPE_CHECKING:
    from odradek.broker.process.testing_faults import Faults
    from odradek.metadata.controller.leadership import Leadership


class LocalControl:
    """The registry is a SQLite file in the first log directory, unless a `store` is given.

    `faults` are those of a broker that is started for tests of applications.
    """

    # No other process reaches the registry of a single node.
    shared_registry: Final = None

    def __init__(self, *, store: Store | None = None, faults: Faults | None = None) -> None:
        self._store = store
        self.faults = faults
        self._environment: BrokerEnvironment
        self._log_manager: LogManager
        self.controller: Controller

    @property
    def active_controller(self) -> Controller:
        return self.controller

    async def start(self, environment: BrokerEnvironment, log_manager: LogManager) -> None:
        """Become the controller. Raises StoreError, InconsistentClusterId, DuplicateBrokerRegistration."""
        self._environment, self._log_manager = environment, log_manager
        store = self._store
        if store is None:
            # sqlite3 is not imported where another registry is used.
            directory = environment.settings.log_directories[0]
            store = self._store = SqliteStore.open(os.path.join(directory, REGISTRY_FILE))
        environment.closing.push_async_callback(store.close)
        images = environment.images
        self.controller = Controller(
            store, images, environment.dynamic_settings, environment.clock, rng=environment.rng
        )
        await self.controller.start(cluster_id=log_manager.directories.cluster_id)
        environment.closing.push_async_callback(self.controller.stop)
        log_manager.directories.set_cluster_id(images.current.cluster_id)

    async def reconcile_logs(self) -> None:
        """Adopt logs that the registry does not know (`log_adoption`)."""
        environment = self._environment
        await log_adoption.adopt_logs(
            self._log_manager,
            self.controller,
            environment.images,
            disk=environment.disk,
            has_authorizer=bool(environment.settings.authorizer_class_name),
        )

    def start_replication(
        self, partitions: HostedPartitions, *, refresh_coordinators: Callable[[], None]
    ) -> None:
        """A single node has no other replicas."""

    def leadership(self) -> Leadership:
        """A new one for each request for elections or reassignments, its only uses on a single node."""
        assert self._store is not None, "the registry is opened first"
        environment = self._environment
        return late.Leadership(
            self._store,
            self.controller.writer,
            environment.images,
            environment.dynamic_settings,
            self.controller,
        )

    def make_dispatcher(self, parts: BrokerParts) -> Dispatcher:
        steps: list[AnyStep] = []
        if self.faults is not None:
            steps.append(late.FaultStep(self.faults))
        if parts.shared.authorizer is not None:
            steps.append(late.AuthorizationStep(parts.shared.authorizer))
        return Dispatcher(parts, steps=steps)

    async def register(self, endpoints: Sequence[Endpoint]) -> None:
        await self.controller.register_broker(
            endpoints={endpoint.listener_name: (endpoint.host, endpoint.port) for endpoint in endpoints},
            rack=self._environment.settings.broker_rack,
            protocols={endpoint.listener_name: endpoint.security_protocol for endpoint in endpoints},
        )

    def not_ready(self) -> str | None:
        return None

    def directory_failed(self, path: str, reason: str) -> None:
        """The broker continues with the other directories."""

    async def hand_over(self) -> None:
        """No other broker can take over."""
