"""A cluster's broker as a member: its registration, and the loss of its session with the registry.

A broker is fenced when its session is over. It then serves neither partitions nor groups until it has registered again
and the controller has sent its leaderships.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from odradek.broker.process.environment import BrokerEnvironment
from odradek.broker.process.metadata_subscription import MetadataSubscription
from odradek.broker.process.registry_outage import RegistryOutage
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.foundation.endpoints import Endpoint
from odradek.foundation.errors import DuplicateBrokerRegistration
from odradek.foundation.registry_errors import StoreConnectionLost, StoreSessionExpired
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.image.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage
from odradek.metadata.image.registration import BrokerRegistration, Registrant, RegistrationCallbacks
from odradek.metadata.registry.store import SessionState, Store
from odradek.storage.directories.log_manager import LogManager

logger = logging.getLogger(__name__)

_NO_EPOCH: Final = -1
_REGISTRY_RETRY_SECONDS: Final = 0.5


class ClusterMembership:
    """Fenced until `join` returns, and whenever the session is lost."""

    def __init__(
        self,
        store: Store,
        environment: BrokerEnvironment,
        *,
        log_manager: LogManager,
        on_fatal: Callable[[str], None],
    ) -> None:
        self._store = store
        self._environment = environment
        self._broker_id = environment.broker_id
        self._log_manager = log_manager
        self._on_fatal = on_fatal
        self._tasks = TaskOwner(f"broker-{self._broker_id}")
        self._registration: BrokerRegistration
        self._subscription: MetadataSubscription
        self._partitions: HostedPartitions
        self._outage: RegistryOutage
        self._registered: BrokerImage | None = None
        self.fenced_times = 0
        """The number of times that the session with the registry was lost."""

    @property
    def is_fenced(self) -> bool:
        """Whether the broker is not a member at the moment."""
        return self._registered is None

    @property
    def epoch(self) -> int:
        """The epoch of the registration in force; -1 while there is none."""
        return _NO_EPOCH if self._registered is None else self._registered.epoch

    @property
    def is_connected(self) -> bool:
        """Whether the session with the registry is undisturbed."""
        return self._registration.is_connected

    async def join(
        self,
        endpoints: Sequence[Endpoint],
        *,
        subscription: MetadataSubscription,
        partitions: HostedPartitions,
        outage: RegistryOutage,
    ) -> None:
        """Register, and wait until the controller has seen it. Raises DuplicateBrokerRegistration, StoreError."""
        self._subscription, self._partitions, self._outage = subscription, partitions, outage
        settings, closing = self._environment.settings, self._environment.closing
        registrant = Registrant(
            broker_id=self._broker_id,
            endpoints={endpoint.listener_name: (endpoint.host, endpoint.port) for endpoint in endpoints},
            protocols={endpoint.listener_name: endpoint.security_protocol for endpoint in endpoints},
            identity=self._log_manager.directories.directory_id(self._log_manager.directories.paths[0]),
            rack=settings.broker_rack,
            machine=settings.broker_machine,
            min_in_sync=settings.min_insync_replicas,
        )
        callbacks = RegistrationCallbacks(
            on_fenced=self._leave_cluster,
            on_registered=self._rejoin_cluster,
            on_refused=self._fail_registration,
            on_silent=outage.begin,
            on_answering=lambda: outage.end("the registry answers again, and the session lives"),
        )
        self._registration = BrokerRegistration(self._store, self._environment.clock, registrant, callbacks)
        closing.push_async_callback(self._registration.stop)
        closing.push_async_callback(self._tasks.close)
        self._registered = await self._register_with_retries()
        await subscription.wait_until(self._is_seen)
        self._mark_seen()
        subscription.unfence()
        logger.info("broker %d is a member with epoch %d", self._broker_id, self.epoch)

    async def _register_with_retries(self) -> BrokerImage:
        """Register, without a time limit: the registry has answered during this start.

        A signal ends this wait, as it ends the wait for a controller.
        """
        while True:
            try:
                await self._store.reopen()  # recovery may have taken longer than a session lasts
                return await self._registration.start(has_all=self._log_manager.is_complete)
            except (StoreConnectionLost, StoreSessionExpired) as error:
                if self._store.session_state is SessionState.CLOSED:
                    raise
                logger.warning("broker %d waits for the registry: %s", self._broker_id, error)
                await asyncio.sleep(_REGISTRY_RETRY_SECONDS)

    def _mark_seen(self) -> None:
        """The controller has removed this broker from the in-sync sets for which it may lack records."""
        self._registration.mark_seen()
        self._log_manager.directories.mark_complete()

    def _is_seen(self, image: ClusterImage) -> bool:
        """Whether the controller has read this registration, and written its consequences."""
        broker = image.brokers.get(self._broker_id)
        return broker is not None and broker.epoch == self.epoch

    def _leave_cluster(self, reason: str) -> None:
        self.fenced_times += 1
        self._registered = None
        self._step_down()
        self._subscription.fence()
        self._outage.end(reason)

    def _step_down(self) -> None:
        """Stop leading in the partitions themselves, which the fenced image may not reach.

        A partition can have a newer epoch than the image, from the controller's answer to its proposal. It ignores the
        image's state as older.
        """
        for partition in self._partitions:
            if partition.is_leader:
                replica = partition.replica
                partition.take_role(
                    PartitionImage(
                        partition.topic_partition.partition,
                        NO_LEADER,
                        replica.leader_epoch,
                        replica.replicas,
                        replica.in_sync_replicas,
                        replica.partition_epoch,
                    )
                )

    def _rejoin_cluster(self, broker: BrokerImage) -> None:
        self._registered = broker
        self._tasks.start(self._serve_again(broker), name=f"serve-again-{broker.epoch}")

    async def _serve_again(self, broker: BrokerImage) -> None:
        await self._subscription.wait_until(self._is_seen)
        if self._registered is broker:
            self._mark_seen()
            self._subscription.unfence()
            logger.info("broker %d serves again, with epoch %d", self._broker_id, broker.epoch)

    def _fail_registration(self, error: DuplicateBrokerRegistration) -> None:
        self._on_fatal(str(error))
