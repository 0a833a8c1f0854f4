"""One broker process: its parts, built and joined, started in order and stopped in the reverse.

    log directories (locks, identity) -> registry -> controller (image) -> logs (recovery) -> partitions
    -> coordinator -> listeners (bound) -> registration -> connections accepted -> ready

A start that fails half-way closes what it had opened and says why. A controlled stop accepts no more, lets
requests under way be answered, then flushes every log and leaves the clean-shutdown marker.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from odradek.cluster.dynamic_settings import DynamicSettings
from odradek.cluster.image import ClusterImage, ImageHolder
from odradek.cluster.store import Store
from odradek.controller.controller import Controller
from odradek.foundation.clock import Clock, SystemClock
from odradek.foundation.endpoints import Endpoint, complete
from odradek.foundation.errors import SettingError
from odradek.foundation.limits import (
    BLOCKING_THREADS_MAX,
    FETCHES_WAITING_MAX,
    FLUSH_THREADS_MAX,
    LISTEN_BACKLOG_DEFAULT,
)
from odradek.foundation.settings import Settings
from odradek.handlers.context import BrokerParts
from odradek.handlers.counters import RequestCounters
from odradek.handlers.dispatch import Dispatcher
from odradek.handlers.fetch_sessions import FetchSessions
from odradek.log.directory import LogDirectories
from odradek.log.files import Disk, SystemDisk
from odradek.log.pieces import LoadProgress
from odradek.protocol.group_partitions import OFFSETS_TOPIC
from odradek.replication.blocking import BlockingWork
from odradek.replication.flushing import Flusher
from odradek.replication.housekeeping import Housekeeping
from odradek.replication.partitions import Partitions
from odradek.replication.producer_ids import ProducerIds
from odradek.replication.purgatory import Purgatory
from odradek.server import adoption
from odradek.server.compaction_warnings import CompactionWarnings
from odradek.transport.flow_control import Admission
from odradek.transport.listener import Listener
from odradek.transport.network import Network, SystemNetwork

if TYPE_CHECKING:
    from odradek.controller.leadership import Leadership
    from odradek.groups.coordinator import GroupCoordinator

logger = logging.getLogger(__name__)

REGISTRY_FILE: Final = "registry.sqlite"
CLEAN_OPENINGS_TOGETHER: Final = 64


class Broker:
    """One single-node broker: log server, controller and coordinators in one process.

    `start` raises SettingError, StoreError, DirectoryLocked, KafkaStorageError or OSError, with nothing
    left open.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        network: Network | None = None,
        disk: Disk | None = None,
        store: Store | None = None,
        rng: random.Random | None = None,
        make_dispatcher: Callable[[BrokerParts], Dispatcher] = Dispatcher,
    ) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self._network = network or SystemNetwork(
            send_buffer_bytes=settings.socket_send_buffer_bytes,
            receive_buffer_bytes=settings.socket_receive_buffer_bytes,
        )
        self._disk = disk or SystemDisk()
        self._store = store
        self._rng = rng or random.SystemRandom()
        self._make_dispatcher = make_dispatcher
        self._open = AsyncExitStack()
        self.broker_id = settings.effective_broker_id
        self.images = ImageHolder()
        self.dynamic_settings = DynamicSettings(settings, self.images)
        CompactionWarnings(self.images, self.dynamic_settings, broker_id=self.broker_id)
        self.blocking = BlockingWork(threads_max=BLOCKING_THREADS_MAX)
        self._flush_threads = BlockingWork(threads_max=FLUSH_THREADS_MAX, name="flush")
        self.flusher = Flusher(threads=self._flush_threads, clock=self.clock)
        self.purgatory = Purgatory(waiting_max=FETCHES_WAITING_MAX)
        self.counters = RequestCounters()
        self.listeners: list[Listener] = []
        self.admission: Admission
        self.endpoints: tuple[Endpoint, ...] = ()
        """What clients are told, by listener; complete once started."""
        self.faults: Any = None
        """`server.faults.Faults` of a broker that was started with them."""
        self.is_serving = False
        self._has_loaded = False
        self.load_progress = LoadProgress()
        """How far the opening of the logs has come; there before the directories are."""
        self.directories: LogDirectories
        self.controller: Controller
        self.partitions: Partitions
        self.housekeeping: Housekeeping
        self._groups: GroupCoordinator | None = None
        self.parts: BrokerParts

    @property
    def is_controller(self) -> bool:
        """Whether this process decides for the cluster."""
        return self.images.current.controller_id == self.broker_id

    def not_ready(self) -> str | None:
        """Why clients had better not come now; None when they may."""
        if not self.is_serving:
            return "the broker is starting or stopping"
        if self._groups is not None and self._groups.is_loading:
            return "the group coordinator is loading"
        return None

    def refused_writes(self) -> str | None:
        """Which log directories refuse writes for want of room, and what to do; None while all take them. Reads go
        on, so this is apart from `not_ready`.
        """
        return self.directories.shortages if self.is_serving else None

    # --- life ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bring everything up, in order; when this returns clients are served."""
        try:
            self._open_directories()
            await self._start_controller()
            await self._load_logs()
            self._start_coordinators()
            await self._listen()
            self._follow_settings()
            await self._register()
            # Not before: who comes earlier would be told of a cluster without brokers.
            for listener in self.listeners:
                listener.accept()
        except BaseException:
            await self._open.aclose()
            raise
        self.housekeeping.start()
        self.is_serving = True

    async def stop(self) -> None:
        """A controlled stop: no request under way is cut off, every log is flushed and marked clean."""
        self.is_serving = False
        self.purgatory.release_all()
        if self._groups is not None:
            self._groups.resign()
        await self._open.aclose()

    def _open_directories(self) -> None:
        if self.settings.cordoned_log_dirs:
            # The controller would not hear of it.
            raise SettingError(
                "cordoned.log.dirs counts only where it is set for a broker that has joined: take it out of the file "
                "and use `odradek brokers drain`, or `odradek configs set`"
            )
        self._open.callback(self.blocking.close)
        self._open.callback(self._flush_threads.close)
        self.directories = LogDirectories(
            self.settings.log_directories,
            disk=self._disk,
            clock=self.clock,
            broker_id=self.broker_id,
            producer_expiration_ms=self.settings.producer_id_expiration_ms,
            on_offline=self._directory_failed,
            progress=self.load_progress,
        )
        self.directories.open()
        self._open.push_async_callback(self._close_directories)

    async def _close_directories(self) -> None:
        # A start that failed before the logs were loaded has nothing to vouch for.
        if self._has_loaded:
            await self._flush_threads.run_all(self.directories.begin_close(), self.directories.end_close)
        self.directories.close(clean=self._has_loaded)

    def _directory_failed(self, path: str, reason: str) -> None:
        if self._has_loaded:
            self.partitions.take_offline(path, reason)

    async def _start_controller(self) -> None:
        store = self._store
        if store is None:
            # sqlite3 is not imported where another registry is used.
            from odradek.cluster.sqlite_store import SqliteStore

            store = self._store = SqliteStore.open(
                os.path.join(self.settings.log_directories[0], REGISTRY_FILE)
            )
        self._open.push_async_callback(store.close)
        self.controller = Controller(store, self.images, self.dynamic_settings, self.clock, rng=self._rng)
        await self.controller.start(cluster_id=self.directories.cluster_id)
        self._open.push_async_callback(self.controller.stop)
        self.directories.set_cluster_id(self.images.current.cluster_id)

    def _leadership(self) -> Leadership:
        """Nobody else ever leads on a single node, so only requests that ask for elections and moves need it."""
        from odradek.controller.leadership import Leadership

        assert self._store is not None, "the registry is opened first"
        return Leadership(
            self._store, self.controller.commits, self.images, self.dynamic_settings, self.controller
        )

    async def _load_logs(self) -> None:
        self.partitions = Partitions(
            broker_id=self.broker_id,
            images=self.images,
            directories=self.directories,
            flusher=self.flusher,
            current_settings=lambda: self.dynamic_settings.current,
            clock=self.clock,
        )
        await self._open_logs()
        self._has_loaded = True
        await self._reconcile_logs()
        self.partitions.start()
        self._open.callback(self.partitions.stop)
        self.housekeeping = Housekeeping(
            partitions=self.partitions,
            directories=self.directories,
            blocking=self.blocking,
            flusher=self.flusher,
            clock=self.clock,
            current_settings=lambda: self.dynamic_settings.current,
        )
        self._open.push_async_callback(self.housekeeping.stop)

    async def _reconcile_logs(self) -> None:
        await adoption.adopt_logs(self.directories, self.controller, self.images, disk=self._disk)

    async def _open_logs(self) -> None:
        """Open all logs in threads, so that a long recovery can be told to stop, and /healthz answers meanwhile."""
        directories = self.directories
        openings = directories.begin_load(self.partitions.configs_on_disk())
        online = len(directories.paths) - len(directories.offline)
        threads = BlockingWork(
            threads_max=max(1, online * self.settings.num_recovery_threads_per_data_dir), name="recovery"
        )
        try:
            # What was closed cleanly opens in a fraction of a millisecond, what was not may take minutes.
            await threads.run_all(
                [one for one in openings if one.clean], directories.take_in, together=CLEAN_OPENINGS_TOGETHER
            )
            await threads.run_all([one for one in openings if not one.clean], directories.take_in)
        finally:
            threads.close()
        directories.end_load()

    def _start_coordinators(self) -> None:
        """Start the group coordinator now if there is something for it to load, else when it is first needed:
        its modules take a seventh of the time to start.
        """
        self._open.push_async_callback(self._stop_groups)
        if OFFSETS_TOPIC in self.images.current.topics:
            self._make_groups()
            return

        def follow(_: ClusterImage, new: ClusterImage) -> None:
            if OFFSETS_TOPIC in new.topics:
                unsubscribe()
                self._make_groups()

        unsubscribe = self.images.subscribe(follow)

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator; started by the first who asks."""
        return self._groups or self._make_groups()

    @property
    def started_groups(self) -> GroupCoordinator | None:
        """The group coordinator if anybody has needed it."""
        return self._groups

    def _make_groups(self) -> GroupCoordinator:
        if self._groups is not None:
            return self._groups
        from odradek.groups.coordinator import GroupCoordinator
        from odradek.groups.offsets_topic import PartitionsOffsetsLog

        offsets_log = PartitionsOffsetsLog(
            partitions=self.partitions,
            images=self.images,
            controller=self.controller,
            flusher=self.flusher,
            settings=self.settings,
        )
        self._groups = GroupCoordinator(
            offsets_log, clock=self.clock, settings=self.settings, images=self.images
        )
        self._groups.start()
        return self._groups

    async def _stop_groups(self) -> None:
        if self._groups is not None:
            await self._groups.stop()

    async def _listen(self) -> None:
        settings = self.settings
        self.parts = BrokerParts(
            broker_id=self.broker_id,
            settings=settings,
            clock=self.clock,
            images=self.images,
            controller=self.controller,
            partitions=self.partitions,
            directories=self.directories,
            producer_ids=ProducerIds(self.controller.allocate_producer_ids),
            groups=lambda: self.groups,
            leadership=self._leadership,
            purgatory=self.purgatory,
            fetch_sessions=FetchSessions(
                slots=settings.max_incremental_fetch_session_cache_slots,
                now=self.clock.monotonic_seconds,
                random_id=lambda: self._rng.randint(1, 2**31 - 1),
            ),
            counters=self.counters,
            blocking=self.blocking,
        )
        self._open.push_async_callback(self.parts.producer_ids.stop)
        dispatcher = self._make_dispatcher(self.parts)
        self.admission = Admission(
            connections_max=settings.max_connections,
            connections_per_ip_max=settings.max_connections_per_ip,
            per_ip_overrides=settings.connections_per_ip_overrides,
        )
        for endpoint in settings.listener_endpoints:
            if endpoint.security_protocol != "PLAINTEXT":
                raise SettingError(
                    f"listener {endpoint.listener_name} asks for {endpoint.security_protocol}, which "
                    "this broker does not speak yet; use PLAINTEXT"
                )
            listener = Listener(
                name=endpoint.listener_name,
                host=endpoint.host,
                port=endpoint.port,
                network=self._network,
                dispatch=dispatcher,
                admission=self.admission,
                frame_bytes_max=settings.socket_request_max_bytes,
                idle_ms_max=settings.connections_max_idle_ms,
                backlog=max(settings.socket_listen_backlog_size, LISTEN_BACKLOG_DEFAULT),
                executor=self.blocking.executor,
            )
            try:
                await listener.start(accepts=False)
            except OSError as error:
                raise OSError(
                    error.errno, f"listener {endpoint} cannot listen: {error.strerror or error}"
                ) from error
            self._open.push_async_callback(listener.close)
            self.listeners.append(listener)

    def _follow_settings(self) -> None:
        """Hand settings changed while the broker runs, or before its last stop, to those who do not read them anew
        each time.
        """

        def apply(_: Settings, current: Settings) -> None:
            self.admission.change_bounds(
                connections_max=current.max_connections,
                connections_per_ip_max=current.max_connections_per_ip,
                per_ip_overrides=current.connections_per_ip_overrides,
            )
            self.directories.set_producer_expiration(current.producer_id_expiration_ms)

        apply(self.settings, self.dynamic_settings.current)
        self._open.callback(self.dynamic_settings.subscribe(apply))

    async def _register(self) -> None:
        self._complete_endpoints()
        await self.controller.register_broker(
            endpoints={endpoint.listener_name: (endpoint.host, endpoint.port) for endpoint in self.endpoints},
            rack=self.settings.broker_rack,
            protocols={endpoint.listener_name: endpoint.security_protocol for endpoint in self.endpoints},
        )

    def _complete_endpoints(self) -> None:
        self.endpoints = complete(
            self.settings.advertised_endpoints,
            bound_ports={listener.name: listener.port for listener in self.listeners},
            host_name=os.uname().nodename,
        )
