"""The control of a cluster's broker: the registry and the active controller are elsewhere.

    registry -> the controller's view of the cluster (image) -> (logs) -> replication -> (listeners) -> registration

A broker also starts without a controller or a registry, and waits for both. While the registry does not answer, the
broker still serves the partitions that no other broker can lead (`registry_outage`). A controlled stop first asks the
controller to move the broker's leaderships.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.process.cluster_membership import ClusterMembership
from odradek.broker.process.controller_channel import ControllerChannel
from odradek.broker.process.controller_location import ControllerLocation
from odradek.broker.process.environment import REGISTRY_FILE, BrokerEnvironment
from odradek.broker.process.forwarding import forwarding_dispatcher
from odradek.broker.process.metadata_subscription import MetadataSubscription
from odradek.broker.process.registry_outage import RegistryOutage
from odradek.broker.process.remote_controller import RemoteController
from odradek.broker.replication.fetcher_manager import ReplicaFetcherManager
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.in_sync_proposals import InSyncSets
from odradek.broker.replication.inter_broker_client import InterBrokerClient, InterBrokerClientPool
from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.requests.parts import BrokerParts
from odradek.foundation.clock import Clock
from odradek.foundation.endpoints import Endpoint
from odradek.foundation.errors import KafkaStorageError, RequestError, SettingError
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.store import SessionState, Store
from odradek.storage.directories.log_manager import LogManager

if TYPE_CHECKING:
    from odradek.metadata.controller.leadership import Leadership

logger = logging.getLogger(__name__)

# Shorter than any session: within it no controller fences this broker and elects another.
FRESH_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.5
_WANTED_SECONDS: Final = 30.0
_ANSWER_MS_MAX: Final = 2_000

# Waits up to so many ms until all decisions of the controller are applied. Returns False when the time is up.
CatchUp = Callable[[int], Awaitable[bool]]

_WAITING_REPORTED_SECONDS: Final = 5.0


class ClusterControl:
    """`registry` is the registry's address, unless a `store` is given."""

    # A broker of a cluster forwards the requests that need one.
    active_controller: Final = None

    def __init__(
        self,
        *,
        registry: str = "",
        store: Store | None = None,
        on_fatal: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`on_fatal` receives the reason why this broker must exit: another has its id, or it can no longer follow."""
        self._registry = registry
        self._given_store = store
        self._on_fatal = on_fatal
        self._environment: BrokerEnvironment
        self.shared_registry: Store
        self._log_manager: LogManager
        self._partitions: HostedPartitions
        self._parts: BrokerParts
        self.location: ControllerLocation
        self.subscription: MetadataSubscription
        self.controller: RemoteController
        self.fetchers: ReplicaFetcherManager
        self.in_sync: InSyncSets
        self.membership: ClusterMembership
        self.outage: RegistryOutage

    def not_ready(self) -> str | None:
        if self.membership.is_fenced:
            return "the broker lost its session with the registry"
        if self.outage.refuses_all():
            return (
                "the registry does not answer, and other brokers may lead this one's partitions; the broker serves "
                "again when the registry or those brokers answer"
            )
        return None

    # --- start ---------------------------------------------------------------------------------------------------

    async def start(self, environment: BrokerEnvironment, log_manager: LogManager) -> None:
        """Open the registry, and wait until a controller has sent the image. Raises StoreError, SettingError."""
        self._environment, self._log_manager = environment, log_manager
        closing, images = environment.closing, environment.images
        self.shared_registry = self._given_store or await open_registry(
            self._registry, entries=environment.settings.given
        )
        closing.push_async_callback(self.shared_registry.close)
        self.location = ControllerLocation(self.shared_registry)
        self.location.start()
        closing.push_async_callback(self.location.stop)
        self.membership = ClusterMembership(
            self.shared_registry, environment, log_manager=log_manager, on_fatal=self._on_fatal
        )
        follow = self._channel("follow")
        self.subscription = MetadataSubscription(
            follow,
            images,
            broker_id=environment.broker_id,
            epoch=self._broker_epoch,
            heartbeat_ms=environment.settings.broker_heartbeat_interval_ms,
            long_work=environment.long_work,
            on_failure=self._on_fatal,
        )
        self.controller = RemoteController(
            forwards=self._channel("forward"),
            own=self._channel("own"),
            subscription=self.subscription,
            images=images,
            broker_id=environment.broker_id,
            broker_epoch=self._broker_epoch,
            current_settings=self._current_settings,
            rng=environment.rng,
        )
        self.subscription.start()
        closing.push_async_callback(self.subscription.stop)
        await self._wait_for_first_image(follow)
        log_manager.directories.set_cluster_id(images.current.cluster_id)
        self._refuse_standalone_directory()

    def _broker_epoch(self) -> int:
        return self.membership.epoch

    def _current_settings(self) -> Settings:
        return self._environment.dynamic_settings.current

    async def _wait_for_first_image(self, channel: ControllerChannel) -> None:
        """Wait, without a limit, until a controller has sent the cluster's image, and log what is missing."""
        while True:
            try:
                async with asyncio.timeout(_WAITING_REPORTED_SECONDS):
                    return await self.subscription.wait_until(lambda image: bool(image.cluster_id))
            except TimeoutError:
                if self.location.address is None:
                    logger.info(
                        "broker %d waits for a controller: none is elected at %s; does one run, with the same "
                        "zookeeper.connect to the last letter?",
                        self._environment.broker_id,
                        self._registry or "the registry",
                    )
                else:
                    address = self.location.address
                    logger.info(
                        "broker %d waits for controller %d at %s:%d, which does not answer (%s); can it be reached "
                        "from here?",
                        self._environment.broker_id,
                        address.id,
                        address.host,
                        address.port,
                        channel.last_failure or "no reason is known",
                    )

    def _refuse_standalone_directory(self) -> None:
        """Raises SettingError for a directory of `odradek start`.

        No other replica has its records, and the cluster has other records at the same offsets.
        """
        path = os.path.join(self._environment.settings.log_directories[0], REGISTRY_FILE)
        if self._environment.disk.exists(path):
            raise SettingError(
                f"`odradek start` has served this cluster's log directory ({path} exists): its records may differ from "
                "those of the other replicas. Move the directory away where other replicas have all its records, and "
                "this broker fetches them again. Or remove that file if nothing was written in between"
            )

    def _channel(self, purpose: str) -> ControllerChannel:
        environment = self._environment
        channel = ControllerChannel(
            self.location,
            environment.controller_network,
            client_id=f"broker-{environment.broker_id}-{purpose}",
            rng=random.Random(environment.rng.getrandbits(64)),
        )
        environment.closing.push_async_callback(channel.close)
        return channel

    async def reconcile_logs(self) -> None:
        """Set aside the logs of partitions that are not on this broker, as Kafka does: they are renamed, and kept.

        The directories are marked as this cluster's, and the image is complete. While this broker was away, a topic
        that is not in the image was deleted, and a replica that is not in it was moved. Or the registry was restored
        from a backup that is older than the logs: then these are the last copies of records.
        """
        image = self._environment.images.current
        for log in list(self._log_manager.logs()):
            where = log.topic_partition
            topic = image.topics.get(where.topic)
            if topic is None:
                why = "the cluster has no such topic"
            elif where.partition >= len(topic.partitions):
                why = "its topic has fewer partitions"
            elif self._environment.broker_id not in topic.partitions[where.partition].replicas:
                why = "its replicas are on other brokers"
            else:
                continue
            logger.warning(
                "the log of %s is set aside: %s. Its directory now ends in -stray and is kept; remove it if no one "
                "needs its records",
                where,
                why,
            )
            self._log_manager.delete(where, is_stray=True)

    def start_replication(
        self, partitions: HostedPartitions, *, refresh_coordinators: Callable[[], None]
    ) -> None:
        if self._log_manager.directories.offline:
            # As in `directory_failed`: the broker would be a member with partitions that are offline.
            raise KafkaStorageError(
                f"a broker of a cluster needs all of its log directories: {self._log_manager.directories.failures}; "
                "then start it again"
            )
        environment = self._environment
        closing = environment.closing
        self._partitions = partitions
        clients = InterBrokerClientPool(self._inter_broker_client)
        closing.push_async_callback(clients.close)
        self.fetchers = ReplicaFetcherManager(
            partitions, transport_of=clients.client, current_settings=self._current_settings
        )
        self.fetchers.start()
        closing.push_async_callback(self.fetchers.stop)
        self.in_sync = InSyncSets(partitions, alter_partition=self.controller.alter_partition)
        self.in_sync.start()
        closing.push_async_callback(self.in_sync.stop)
        leadership_check = LeadershipCheck(self.controller.catch_up, environment.clock)
        closing.push_async_callback(leadership_check.stop)
        partitions.context.is_leadership_certain = leadership_check.is_confirmed
        partitions.context.confirm_leadership = leadership_check.confirm
        self.outage = RegistryOutage(
            environment.broker_id, partitions, environment.clock, refresh_coordinators=refresh_coordinators
        )
        closing.push_async_callback(self.outage.stop)

    def _inter_broker_client(self) -> InterBrokerClient:
        environment = self._environment
        return InterBrokerClient(
            images=environment.images,
            network=environment.inter_broker_network,
            client_id=f"broker-{environment.broker_id}-fetcher",
            current_settings=self._current_settings,
        )

    def directory_failed(self, path: str, reason: str) -> None:
        """End this broker, so that other replicas lead its partitions.

        No request reports a single directory to the controller. Kafka's broker, too, ends when it cannot report one.
        """
        self._on_fatal(
            f"the log directory {path} failed ({reason}); repair the disk and start the broker again"
        )

    def leadership(self) -> Leadership:
        raise AssertionError("a cluster's broker forwards such requests")

    def make_dispatcher(self, parts: BrokerParts) -> Dispatcher:
        self._parts = parts
        self._partitions.context.followed_as_of = parts.fetch.fetch_sessions.get_followed_as_of
        return forwarding_dispatcher(parts, self.controller)

    async def register(self, endpoints: Sequence[Endpoint]) -> None:
        """Return once the controller has seen the registration. Raises DuplicateBrokerRegistration, StoreError."""
        await self.membership.join(
            endpoints, subscription=self.subscription, partitions=self._partitions, outage=self.outage
        )
        # Before a producer needs one: while the registry is away, no controller allocates any.
        self._parts.transactions.producer_ids.prepare()

    # --- stop ----------------------------------------------------------------------------------------------------

    async def hand_over(self) -> None:
        """Have the controller move this broker's leaderships, if settings say so and the registry answers."""
        environment = self._environment
        if not environment.settings.controlled_shutdown_enable or self.membership.is_fenced:
            return
        if self.shared_registry.session_state is not SessionState.CONNECTED:
            # While the registry does not answer, no controller can move anything.
            logger.warning(
                "broker %d stops without moving its leaderships: the registry does not answer",
                environment.broker_id,
            )
            return
        try:
            left = await self.controller.leave()
        except RequestError as error:
            logger.warning(
                "broker %d stops without the controller's permission: %s", environment.broker_id, error
            )
            return
        if left:
            logger.warning(
                "broker %d stops as the leader of %d partitions that no other broker can lead",
                environment.broker_id,
                left,
            )


class LeadershipCheck:
    """Whether a broker still leads the partitions that its image shows, as the controller confirmed a moment ago.

    A broker that was paused or partitioned assumes that it leads until it receives the next image. The records that it
    returns are right nevertheless. But OFFSET_OUT_OF_RANGE or an unknown epoch may be wrong by then, and makes clients
    restart at another offset. So the broker gives these answers only after the controller has answered, and after the
    broker has applied everything that the controller had decided. A fetch waits for that for a limited time. Without a
    confirmation, as when the controller is away, it asks its client to retry.

    The check polls only on demand. A client is likely to retry after its library's pause. So the broker polls the
    controller for some time after a request, and a confirmation exists at the retry.

    `is_confirmed` and `confirm` may be called at any time from `__init__` to `stop`.
    """

    def __init__(self, catch_up: CatchUp, clock: Clock) -> None:
        self._catch_up = catch_up
        self._clock = clock
        self._tasks = TaskOwner("leadership_check")
        self._confirmed_at = float("-inf")
        self._wanted_until = float("-inf")
        self._is_stopped = False
        self._has_answered = asyncio.Event()  # a new one after each answer

    async def stop(self) -> None:
        self._is_stopped = True
        self._has_answered.set()
        await self._tasks.close()

    def is_confirmed(self) -> bool:
        """Whether the image was true a moment ago. If not, polls of the controller start, and it may be true soon."""
        now = self._clock.monotonic_seconds()
        self._wanted_until = now + _WANTED_SECONDS
        if not self._tasks and not self._is_stopped:
            self._tasks.start(self._poll_controller(), name="ask")
        return now - self._confirmed_at <= FRESH_SECONDS

    async def confirm(self) -> bool:
        """Wait for the controller's next answers, until one of them confirms the image or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_MS_MAX / 1000):
                while not self.is_confirmed() and not self._is_stopped:
                    await self._has_answered.wait()
        return self.is_confirmed()

    async def _poll_controller(self) -> None:
        while (asked_at := self._clock.monotonic_seconds()) < self._wanted_until:
            # The time of the request counts: its answer may have waited while this process was stopped.
            if await self._catch_up(_ANSWER_MS_MAX):
                self._confirmed_at = asked_at
            self._has_answered.set()
            self._has_answered = asyncio.Event()
            await asyncio.sleep(_PAUSE_SECONDS)
