"""One broker of a cluster: the parts of a single node, with the controller elsewhere.

    log directories (locks, identity) -> registry -> the controller's account of the cluster (image) -> logs (recovery)
    -> partitions -> coordinator -> listeners -> registration -> seen by the controller -> ready

It begins without a controller too, and waits for one, as it does for a registry that went away. A broker whose session
with the registry is over is fenced: it serves neither partitions nor groups until it is registered again and the
controller has told it what it leads. While the registry is silent it goes on with what nobody else can lead
(`silence`). A stop in order asks the controller first to move what it leads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable
from typing import Any, Final, cast

from odradek.cluster.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage
from odradek.cluster.registration import BrokerRegistration, Registrant, RegistrationCallbacks
from odradek.cluster.registries import open_registry
from odradek.cluster.store import SessionState, Store
from odradek.foundation.clock import Clock
from odradek.foundation.errors import (
    DuplicateBrokerRegistration,
    KafkaStorageError,
    RequestError,
    SettingError,
    StoreConnectionLost,
    StoreSessionExpired,
)
from odradek.foundation.settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.handlers.context import BrokerParts
from odradek.log.files import Disk
from odradek.replication.fetchers import Fetchers
from odradek.replication.in_sync import InSyncSets
from odradek.replication.peers import Channel, Peers
from odradek.server.broker import REGISTRY_FILE, Broker
from odradek.server.certainty import Certainty
from odradek.server.controller_channel import ControllerChannel
from odradek.server.controller_location import ControllerLocation
from odradek.server.following import ClusterFollower
from odradek.server.forwarding import ForwardingDispatcher
from odradek.server.remote_controller import RemoteController
from odradek.server.silence import RegistrySilence
from odradek.transport.network import Network

logger = logging.getLogger(__name__)

_NO_EPOCH: Final = -1
_WAITING_TOLD_SECONDS: Final = 5.0
_REGISTRY_RETRY_SECONDS: Final = 0.5


class ClusterBroker(Broker):
    """One broker of a cluster. `registry` names where the cluster is kept, unless a `store` is handed in.

    `start` raises as `Broker.start`, and DuplicateBrokerRegistration when a live broker has the id.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        registry: str = "",
        clock: Clock | None = None,
        network: Network | None = None,
        disk: Disk | None = None,
        store: Store | None = None,
        rng: random.Random | None = None,
        on_refused: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`on_refused` is told why this broker must end: another has taken the id, or it cannot follow any more."""
        super().__init__(
            settings,
            clock=clock,
            network=network,
            disk=disk,
            store=store,
            rng=rng,
            make_dispatcher=self._forwarding_dispatcher,
        )
        self._registry = registry
        self._on_refused = on_refused
        self._tasks = TaskOwner(f"broker-{self.broker_id}")
        self.location: ControllerLocation
        self.follower: ClusterFollower
        self.remote: RemoteController
        self.fetchers: Fetchers
        self.in_sync: InSyncSets
        self._peers: Peers
        self.registration: BrokerRegistration
        self.silence: RegistrySilence
        self._registered: BrokerImage | None = None
        self.fenced_times = 0
        """How often the session with the registry was lost."""

    @property
    def is_fenced(self) -> bool:
        """Whether it is no member at the moment."""
        return self._registered is None

    @property
    def is_controller(self) -> bool:
        return False

    def not_ready(self) -> str | None:
        reason = super().not_ready()
        if reason is None and self.is_fenced:
            return "the broker lost its session with the registry"
        if reason is None and self.silence.refuses_all():
            return (
                "the registry does not answer, and other brokers may lead what this one led; it goes on by itself "
                "when the registry or those brokers answer"
            )
        return reason

    @property
    def broker_epoch(self) -> int:
        """The epoch of the registration in force; -1 while there is none."""
        return _NO_EPOCH if self._registered is None else self._registered.epoch

    # --- start ---------------------------------------------------------------------------------------------------

    async def _start_controller(self) -> None:
        store = self._store
        if store is None:
            store = self._store = await open_registry(self._registry, entries=self.settings.given)
        self._open.push_async_callback(store.close)
        self.location = ControllerLocation(store)
        self.location.start()
        self._open.push_async_callback(self.location.stop)
        self.follower = ClusterFollower(
            self._channel("follow"),
            self.images,
            broker_id=self.broker_id,
            epoch=lambda: self.broker_epoch,
            on_failure=self._on_refused,
        )
        self.remote = RemoteController(
            forwards=self._channel("forward"),
            own=self._channel("own"),
            follower=self.follower,
            images=self.images,
            broker_id=self.broker_id,
            broker_epoch=lambda: self.broker_epoch,
            current_settings=lambda: self.dynamic_settings.current,
            rng=self._rng,
        )
        # What brokers call of a controller, it has under the same names.
        self.controller = cast(Any, self.remote)
        self.follower.start()
        self._open.push_async_callback(self.follower.stop)
        await self._first_picture()
        self.directories.set_cluster_id(self.images.current.cluster_id)
        self._refuse_what_was_served_alone()

    async def _first_picture(self) -> None:
        """Wait until a controller has told of the cluster, for as long as it takes, and say what is waited for."""
        while True:
            try:
                async with asyncio.timeout(_WAITING_TOLD_SECONDS):
                    return await self.follower.wait_until(lambda image: bool(image.cluster_id))
            except TimeoutError:
                if self.location.address is None:
                    logger.info(
                        "broker %d waits for a controller: none is elected at %s; does one run, with the same "
                        "zookeeper.connect to the last letter?",
                        self.broker_id,
                        self._registry or "the registry",
                    )
                else:
                    number, host, port = self.location.address
                    logger.info(
                        "broker %d waits for controller %d at %s:%d, which does not answer; can it be reached from "
                        "here?",
                        self.broker_id,
                        number,
                        host,
                        port,
                    )

    def _refuse_what_was_served_alone(self) -> None:
        """What `odradek start` took in stands in no other replica, and where the cluster has something else."""
        path = os.path.join(self.settings.log_directories[0], REGISTRY_FILE)
        if self._disk.exists(path):
            raise SettingError(
                f"`odradek start` has served the log directory since it was this cluster's ({path} is there): it may "
                "have records that no other replica has, and none that others have instead. Move the directory away "
                "where other replicas have all of it, and this one fetches them anew; or remove that file if nothing "
                "was written meanwhile"
            )

    def _channel(self, purpose: str) -> ControllerChannel:
        channel = ControllerChannel(
            self.location,
            self._network,
            client_id=f"broker-{self.broker_id}-{purpose}",
            rng=random.Random(self._rng.getrandbits(64)),
        )
        self._open.push_async_callback(channel.close)
        return channel

    async def _load_logs(self) -> None:
        await super()._load_logs()
        if self.directories.offline:
            # As when one fails later (`_directory_failed`): partitions would be offline on a broker that is a member.
            raise KafkaStorageError(
                f"a broker of a cluster needs all of its log directories: {self.directories.failures}; then start it "
                "again"
            )
        self._peers = Peers(self._peer_channel)
        self._open.push_async_callback(self._peers.close)
        self.fetchers = Fetchers(
            self.partitions,
            channel=self._peers.channel,
            current_settings=lambda: self.dynamic_settings.current,
        )
        self.fetchers.start()
        self._open.push_async_callback(self.fetchers.stop)
        self.in_sync = InSyncSets(self.partitions, alter_partition=self.remote.alter_partition)
        self.in_sync.start()
        self._open.push_async_callback(self.in_sync.stop)
        certainty = Certainty(self.remote.catch_up, self.clock)
        self._open.push_async_callback(certainty.stop)
        self.partitions.context.is_sure = certainty.is_sure
        self.silence = RegistrySilence(
            self.broker_id, self.partitions, self.clock, refresh_groups=self._refresh_groups
        )
        self._open.push_async_callback(self.silence.stop)

    def _refresh_groups(self) -> None:
        groups = self.started_groups
        if groups is not None and groups.is_running:
            groups.refresh()

    def _peer_channel(self) -> Channel:
        return Channel(
            images=self.images,
            network=self._network,
            client_id=f"broker-{self.broker_id}-fetcher",
            current_settings=lambda: self.dynamic_settings.current,
        )

    async def _reconcile_logs(self) -> None:
        """Put aside the logs that the cluster no longer keeps here.

        The directories are marked as this cluster's, and the image is all that it has: a topic that is not in it was
        deleted while this broker was away, a replica that is not in it was moved.
        """
        for log in list(self.directories.logs()):
            where = log.topic_partition
            topic = self.images.current.topics.get(where.topic)
            if topic is None:
                why = "its topic was deleted"
            elif where.partition >= len(topic.partitions):
                why = "its topic was made anew with fewer partitions"
            elif self.broker_id not in topic.partitions[where.partition].replicas:
                why = "it was moved to other brokers"
            else:
                continue
            logger.warning("the log of %s is put aside: %s while this broker was away", where, why)
            self.directories.delete(where)

    def _directory_failed(self, path: str, reason: str) -> None:
        """The controller does not hear of single directories, so the broker goes as a whole, as Kafka's does when it
        cannot tell: other replicas lead what was here, where there are any.
        """
        super()._directory_failed(path, reason)
        if self._has_loaded:
            self._on_refused(
                f"the log directory {path} failed ({reason}); repair the disk and start the broker again"
            )

    def _forwarding_dispatcher(self, parts: BrokerParts) -> ForwardingDispatcher:
        return ForwardingDispatcher(parts, self.remote)

    async def _listen(self) -> None:
        await super()._listen()
        self.partitions.context.followed_as_of = self.parts.fetch_sessions.followed_as_of

    async def _register(self) -> None:
        self._complete_endpoints()
        assert self._store is not None, "the registry is opened first"
        registrant = Registrant(
            broker_id=self.broker_id,
            endpoints={endpoint.listener_name: (endpoint.host, endpoint.port) for endpoint in self.endpoints},
            protocols={endpoint.listener_name: endpoint.security_protocol for endpoint in self.endpoints},
            identity=self.directories.directory_id(self.directories.paths[0]),
            rack=self.settings.broker_rack,
            min_in_sync=self.settings.min_insync_replicas,
        )
        callbacks = RegistrationCallbacks(
            on_fenced=self._fenced,
            on_registered=self._unfenced,
            on_refused=self._refused,
            on_silent=self.silence.begin,
            on_answering=lambda: self.silence.end("the registry answers again, and the session lives"),
        )
        self.registration = BrokerRegistration(self._store, self.clock, registrant, callbacks)
        self._open.push_async_callback(self.registration.stop)
        self._open.push_async_callback(self._tasks.close)
        self._registered = await self._patiently(self._store)
        await self.follower.wait_until(self._is_seen)
        self._was_seen()
        self.follower.unfence()
        logger.info("broker %d is a member with epoch %d", self.broker_id, self.broker_epoch)
        # Before a producer needs one: without a registry there is no controller to ask for it.
        self.parts.producer_ids.prepare()

    async def _patiently(self, store: Store) -> BrokerImage:
        """Register, however long the registry is away: it answered when this start began, and to end now would help
        nobody. A signal ends this waiting as it ends that for a controller.
        """
        while True:
            try:
                await store.reopen()  # recovery may have taken longer than a session lasts
                return await self.registration.start(has_all=self.directories.has_all)
            except (StoreConnectionLost, StoreSessionExpired) as error:
                if store.session_state is SessionState.CLOSED:
                    raise
                logger.warning("broker %d waits for the registry: %s", self.broker_id, error)
                await asyncio.sleep(_REGISTRY_RETRY_SECONDS)

    def _was_seen(self) -> None:
        """The controller took this broker out of where it may lack records: what it has now is what counts."""
        self.registration.was_seen()
        self.directories.vouch()

    def _is_seen(self, image: ClusterImage) -> bool:
        """Whether the controller has seen this registration, and done what follows from it."""
        broker = image.brokers.get(self.broker_id)
        return broker is not None and broker.epoch == self.broker_epoch

    # --- membership ----------------------------------------------------------------------------------------------

    def _fenced(self, reason: str) -> None:
        self.fenced_times += 1
        self._registered = None
        self._step_down()
        self.follower.fence()
        self.silence.end(reason)

    def _step_down(self) -> None:
        """Lead nothing, also where the controller's answer to a proposal has come before the change in the image:
        what the image shows from now on would be passed over there as older.
        """
        for partition in self.partitions:
            if partition.is_leader:
                partition.take_role(
                    PartitionImage(
                        partition.topic_partition.partition,
                        NO_LEADER,
                        partition.leader_epoch,
                        partition.replicas,
                        partition.in_sync_replicas,
                        partition.partition_epoch,
                    )
                )

    def _unfenced(self, broker: BrokerImage) -> None:
        self._registered = broker
        self._tasks.start(self._serve_again(broker), name=f"serve-again-{broker.epoch}")

    async def _serve_again(self, broker: BrokerImage) -> None:
        await self.follower.wait_until(self._is_seen)
        if self._registered is broker:
            self._was_seen()
            self.follower.unfence()
            logger.info("broker %d serves again, with epoch %d", self.broker_id, broker.epoch)

    def _refused(self, error: DuplicateBrokerRegistration) -> None:
        self._on_refused(str(error))

    # --- stop ----------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """A controlled stop: what is led here moves to others first, then as `Broker.stop`."""
        if self.settings.controlled_shutdown_enable and not self.is_fenced:
            await self._leave()
        await super().stop()

    async def _leave(self) -> None:
        assert self._store is not None, "the registry is opened first"
        if self._store.session_state is not SessionState.CONNECTED:
            # Where the registry is silent no controller can move anything.
            logger.warning(
                "broker %d stops without handing over: the registry does not answer", self.broker_id
            )
            return
        try:
            left = await self.remote.leave()
        except RequestError as error:
            logger.warning("broker %d stops without the controller's leave: %s", self.broker_id, error)
            return
        if left:
            logger.warning(
                "broker %d stops as the leader of %d partitions that nobody else can lead",
                self.broker_id,
                left,
            )
