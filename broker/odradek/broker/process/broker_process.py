"""One broker process: its parts, built and connected, started in this order and stopped in the reverse.

    log directories (locks, identity) -> control: registry, controller (image) -> logs (recovery) -> partitions
    -> control: replication -> coordinator -> listeners (bound) -> control: registration -> connections accepted
    -> ready

The control makes the cluster's decisions or forwards them: `local_control` on a single node, `cluster_control` in a
cluster. A start that fails half-way closes the opened parts and reports the reason. A controlled stop moves leaderships
to other brokers, accepts no more connections, and answers the requests in progress. Then it flushes every log and
writes the clean-shutdown marker.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from odradek.broker.listeners.secured_listeners import SecuredListeners
from odradek.broker.process import late
from odradek.broker.process.connection_watch import ConnectionWatch
from odradek.broker.process.coordinators import Coordinators
from odradek.broker.process.environment import BrokerEnvironment
from odradek.broker.process.quota_watch import QuotaWatch
from odradek.broker.process.trace_watch import SpanExport
from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.cleaner import CleaningWork, LogCleaner
from odradek.broker.replication.flusher import Flusher
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.housekeeping import Housekeeping
from odradek.broker.replication.inter_broker_client import InterBrokerClient
from odradek.broker.replication.log_moves import LogMoves
from odradek.broker.replication.purgatory import Purgatory
from odradek.broker.replication.removal_bounds import RemovalBounds
from odradek.broker.replication.retention_policy import RetentionPolicy, load_policy
from odradek.broker.requests.context import RequestParts
from odradek.broker.requests.counters import RequestCounters
from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.requests.fetch.sessions import FetchSessionCache
from odradek.broker.requests.mutations import MutationQuotas
from odradek.broker.requests.parts import (
    AdminParts,
    BrokerParts,
    ConfigParts,
    ConsumerGroupParts,
    CoordinatorParts,
    FetchParts,
    MarkerParts,
    MetadataParts,
    PartitionParts,
    ProduceParts,
    ReplicaParts,
    ShareGroupParts,
    SharesParts,
    ShareStateParts,
    TokenParts,
    TransactionParts,
)
from odradek.broker.requests.table import HANDLERS, TELEMETRY_HANDLERS
from odradek.foundation.clock import Clock, SystemClock
from odradek.foundation.compaction import compaction_warning
from odradek.foundation.endpoints import Endpoint, complete
from odradek.foundation.errors import SettingError
from odradek.foundation.limits import (
    BLOCKING_THREADS_MAX,
    FETCHES_WAITING_MAX,
    FLUSH_THREADS_MAX,
    LISTEN_BACKLOG_DEFAULT,
)
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.turn_limits import LONG_WORK_THREADS_MAX
from odradek.metadata.image.changes import config_changes, topic_changes
from odradek.metadata.image.configs import topic_value
from odradek.metadata.image.dynamic_settings import DynamicSettings
from odradek.metadata.image.image import ClusterImage, ImageHolder, ResourceKind, TopicImage
from odradek.network.flow_control import Admission
from odradek.network.listener import Listener
from odradek.network.network import Network, SystemNetwork
from odradek.network.request_memory import RequestMemory, request_memory
from odradek.storage.directories.background_jobs import LoadProgress
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files import Disk, SystemDisk

if TYPE_CHECKING:
    from odradek.broker.process.environment import BrokerControl
    from odradek.metadata.controller.api import ControllerApi
    from odradek.security.authorization.authorizer import Authorizer

logger = logging.getLogger(__name__)

_NAMES_PER_LINE_MAX: Final = 20

CLEAN_OPENINGS_TOGETHER: Final = 64

ControlT = TypeVar("ControlT", bound="BrokerControl", covariant=True)


class BrokerProcess(Generic[ControlT]):
    """One broker: log directories, partitions, coordinators and listeners in one process.

    `start` raises SettingError, StoreError, DirectoryLocked, KafkaStorageError, OSError or
    DuplicateBrokerRegistration, with nothing left open.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        control: ControlT,
        clock: Clock | None = None,
        network: Network | None = None,
        disk: Disk | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self._network = network or SystemNetwork(
            send_buffer_bytes=settings.socket_send_buffer_bytes,
            receive_buffer_bytes=settings.socket_receive_buffer_bytes,
        )
        self._disk = disk or SystemDisk()
        self._rng = rng or random.SystemRandom()
        self._control = control
        self._closing = AsyncExitStack()
        self.broker_id = settings.effective_broker_id
        self.images = ImageHolder()
        self.dynamic_settings = DynamicSettings(settings, self.images)
        CompactionWarnings(self.images, self.dynamic_settings, broker_id=self.broker_id)
        self.blocking = BlockingWork(threads_max=BLOCKING_THREADS_MAX)
        self.long_work = BlockingWork(threads_max=LONG_WORK_THREADS_MAX, name="long")
        self._flush_threads = BlockingWork(threads_max=FLUSH_THREADS_MAX, name="flush")
        self.flusher = Flusher(threads=self._flush_threads, clock=self.clock)
        self.purgatory = Purgatory(waiting_max=FETCHES_WAITING_MAX)
        self.counters = RequestCounters()
        self.listeners: list[Listener] = []
        self.admission: Admission
        self.endpoints: tuple[Endpoint, ...] = ()
        """The advertised addresses, by listener; complete once started."""
        self.secured: SecuredListeners
        """TLS and logins of its listeners."""
        self._inter_broker_network: Network
        self._controller_network: Network
        self.is_serving = False
        self._has_loaded = False
        self.load_progress = LoadProgress()
        """The progress of opening the logs; it exists before the directories are open."""
        self.log_manager: LogManager
        self.partitions: HostedPartitions
        self.housekeeping: Housekeeping
        self.log_moves: LogMoves
        self.cleaner: LogCleaner
        self.coordinators: Coordinators
        self.parts: BrokerParts
        self.mutations: MutationQuotas
        """The quotas of partitions created and deleted, for a broker that decides on them itself."""
        self.quota_watch: QuotaWatch
        self.span_export = SpanExport(f"broker-{self.broker_id}")
        self.connection_watch: ConnectionWatch

    @property
    def control(self) -> ControlT:
        """Makes the cluster's decisions, or forwards them."""
        return self._control

    @property
    def controller(self) -> ControllerApi:
        """The active controller, once started."""
        return self._control.controller

    @property
    def is_controller(self) -> bool:
        """Whether this process decides for the cluster."""
        return self._control.active_controller is not None

    @property
    def is_at_long_work(self) -> bool:
        """Whether a large request is held, or the thread works for one."""
        return self.counters.large > 0 or self.long_work.waiting > 0

    def not_ready(self) -> str | None:
        """Why clients should not connect now; None when they may."""
        if not self.is_serving:
            return "the broker is starting or stopping"
        loading = self.coordinators.loading()
        if loading is not None:
            return f"the {loading} coordinator is loading"
        return self._control.not_ready()

    def describe_refused_writes(self) -> str | None:
        """The log directories that refuse writes because the disk is full, with a remedy; None while all accept them.
        Reads continue, so `not_ready` does not include this.
        """
        return self.log_manager.directories.shortages if self.is_serving else None

    # --- start and stop ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the parts in their order. When this returns, clients are served."""
        try:
            self.secured = SecuredListeners(
                self.settings,
                lambda: self.images.current.client_configs,
                lambda: self.images.current.tokens,
                login_secret=lambda: self.images.current.login_secret,
            )
            self._inter_broker_network = self.secured.inter_broker_network(self.settings, self._network)
            self._controller_network = self.secured.controller_network(self.settings, self._network)
            self._open_directories()
            await self._control.start(self._environment(), self.log_manager)
            await self._load_logs()
            self._start_coordinators()
            await self._listen()
            self._watch_connections()
            self._follow_settings()
            await self.secured.read_keys()
            self.secured.follow_certificates(lambda: self.listeners, self._closing)
            self._closing.callback(self.secured.follow_users(self.images, lambda: self.listeners))
            self._complete_endpoints()
            await self._control.register(self.endpoints)
            self._closing.callback(await self.secured.follow_settings(self.dynamic_settings))
            # Last: a client that connects earlier would see a cluster without brokers.
            for listener in self.listeners:
                listener.accept()
        except BaseException:
            await self._closing.aclose()
            raise
        self.housekeeping.start()
        self.log_moves.start()
        self.cleaner.start()
        self.is_serving = True

    async def stop(self) -> None:
        """A controlled stop: requests in progress are answered, every log is flushed and marked clean."""
        await self._control.hand_over()
        self.is_serving = False
        self.purgatory.release_all()
        self.coordinators.resign()
        await self._closing.aclose()

    def _open_directories(self) -> None:
        if self.settings.cordoned_log_dirs:
            # The controller does not read the file.
            raise SettingError(
                "cordoned.log.dirs cannot be set in the file, only for a broker that has joined: remove it from the "
                "file and use `odradek brokers drain`, or `odradek configs set`"
            )
        self._closing.callback(self.blocking.close)
        self._closing.callback(self.long_work.close)
        self._closing.callback(self._flush_threads.close)
        self.log_manager = LogManager(
            self.settings.log_directories,
            disk=self._disk,
            clock=self.clock,
            broker_id=self.broker_id,
            on_offline=self._directory_failed,
            progress=self.load_progress,
        )
        self._apply_producer_rules(self.settings)
        self.log_manager.directories.open()
        self._closing.push_async_callback(self._close_directories)

    async def _close_directories(self) -> None:
        # A start that failed before it loaded the logs has nothing to mark as clean.
        if self._has_loaded:
            await self._flush_threads.run_all(self.log_manager.begin_close(), self.log_manager.end_close)
        self.log_manager.close(clean=self._has_loaded)

    def _directory_failed(self, path: str, reason: str) -> None:
        if self._has_loaded:
            self.partitions.take_offline(path, reason)
            self._control.directory_failed(path, reason)

    def _environment(self) -> BrokerEnvironment:
        return BrokerEnvironment(
            settings=self.settings,
            broker_id=self.broker_id,
            clock=self.clock,
            network=self._network,
            inter_broker_network=self._inter_broker_network,
            controller_network=self._controller_network,
            disk=self._disk,
            rng=self._rng,
            images=self.images,
            dynamic_settings=self.dynamic_settings,
            closing=self._closing,
            long_work=self.long_work,
        )

    async def _load_logs(self) -> None:
        policy = load_policy(self.settings.log_retention_policy)
        self.partitions = HostedPartitions(
            broker_id=self.broker_id,
            images=self.images,
            log_manager=self.log_manager,
            flusher=self.flusher,
            current_settings=lambda: self.dynamic_settings.current,
            clock=self.clock,
        )
        await self._open_logs()
        self._has_loaded = True
        await self._control.reconcile_logs()
        self.partitions.start()
        self._closing.callback(self.partitions.stop)
        self.housekeeping = Housekeeping(
            partitions=self.partitions,
            log_manager=self.log_manager,
            blocking=self.blocking,
            flusher=self.flusher,
            clock=self.clock,
            current_settings=lambda: self.dynamic_settings.current,
            retention_policy=None if policy is None else RetentionPolicy(policy),
        )
        self._closing.push_async_callback(self.housekeeping.stop)
        self.log_moves = LogMoves(
            log_manager=self.log_manager,
            blocking=self.blocking,
            flusher=self.flusher,
            clock=self.clock,
            current_settings=lambda: self.dynamic_settings.current,
        )
        self._closing.push_async_callback(self.log_moves.stop)
        asking = InterBrokerClient(
            images=self.images,
            network=self._inter_broker_network,
            client_id=f"broker-{self.broker_id}-cleaner",
            current_settings=lambda: self.dynamic_settings.current,
        )
        self._closing.push_async_callback(asking.close)
        self.cleaner = LogCleaner(
            partitions=self.partitions,
            log_manager=self.log_manager,
            blocking=self.blocking,
            clock=self.clock,
            current_settings=lambda: self.dynamic_settings.current,
            new_work=self._new_cleaning_work,
            bounds=RemovalBounds(asking, broker_id=self.broker_id),
        )
        self._closing.push_async_callback(self.cleaner.stop)
        self._control.start_replication(
            self.partitions, refresh_coordinators=lambda: self.coordinators.refresh()
        )

    def _new_cleaning_work(self) -> CleaningWork:
        # Most brokers of a test suite or a laptop never compact: the start does without these modules.
        # A simulated disk cannot be seen from another process.
        return late.ProcessWork() if isinstance(self._disk, SystemDisk) else late.InlineWork(self._disk)

    async def _open_logs(self) -> None:
        """Open all logs in threads, so that a long recovery can be stopped and /healthz answers during it."""
        log_manager = self.log_manager
        openings = log_manager.begin_load(self.partitions.configs_on_disk())
        online = len(log_manager.directories.paths) - len(log_manager.directories.offline)
        threads = BlockingWork(
            threads_max=max(1, online * self.settings.num_recovery_threads_per_data_dir), name="recovery"
        )
        try:
            # A log that was closed cleanly opens in a fraction of a millisecond, any other may take minutes.
            await threads.run_all(
                [one for one in openings if one.clean], log_manager.end_open, together=CLEAN_OPENINGS_TOGETHER
            )
            await threads.run_all([one for one in openings if not one.clean], log_manager.end_open)
        finally:
            threads.close()
        log_manager.end_load()

    def _start_coordinators(self) -> None:
        """Start the coordinators that have something to load; the others start at their first use."""
        self.coordinators = Coordinators(
            settings=self.settings,
            current_settings=lambda: self.dynamic_settings.current,
            broker_id=self.broker_id,
            clock=self.clock,
            network=self._inter_broker_network,
            images=self.images,
            partitions=self.partitions,
            controller=self.controller,
            shared_registry=self._control.shared_registry,
            in_thread=self.long_work.submit,
            blocking=self.blocking,
        )
        self._closing.push_async_callback(self.coordinators.stop)
        self.coordinators.start()

    async def _listen(self) -> None:
        settings = self.settings
        self.parts = self._request_parts()
        dispatcher = self._control.make_dispatcher(self.parts)
        # What this broker asks itself is not a client's: it needs no right.
        self.coordinators.dispatch = (
            dispatcher if self.parts.shared.authorizer is None else Dispatcher(self.parts)
        )
        self.quota_watch = QuotaWatch(self.images, self.parts.fetch, dispatcher)
        self._closing.callback(self.quota_watch.stop)
        self.span_export.follow(self.dynamic_settings, dispatcher, self.partitions, self._closing)
        self.admission = Admission(
            connections_max=settings.max_connections,
            connections_per_ip_max=settings.max_connections_per_ip,
            per_ip_overrides=settings.connections_per_ip_overrides,
        )
        memory = request_memory(settings)
        for endpoint in settings.listener_endpoints:
            await self._listen_at(endpoint, dispatcher, memory)

    def _request_parts(self) -> BrokerParts:
        """What the handlers of each family of requests may use."""
        settings, clock, partitions = self.settings, self.clock, self.partitions
        controller, active_controller = self.controller, self._control.active_controller
        coordinators, takes_metrics = self.coordinators, settings.client_telemetry_enable
        shared = RequestParts(
            images=self.images,
            counters=self.counters,
            authorizer=self._authorizer(),
            optional_long_work=self.long_work,
            node_id=self.broker_id,
            handlers={**HANDLERS, **TELEMETRY_HANDLERS} if takes_metrics else HANDLERS,
        )
        fetch_sessions = FetchSessionCache(
            slots=settings.max_incremental_fetch_session_cache_slots,
            now=clock.monotonic_seconds,
            random_id=lambda: self._rng.randint(1, 2**31 - 1),
        )
        self.mutations = MutationQuotas(self.images, settings, clock)
        admin = replicas = None
        if active_controller is not None:
            admin = AdminParts(
                shared, settings=settings, active_controller=active_controller, mutations=self.mutations
            )
            replicas = ReplicaParts(shared, new_leadership=self._control.leadership)
        fetch = FetchParts(
            shared,
            partitions=partitions,
            settings=settings,
            clock=clock,
            purgatory=self.purgatory,
            fetch_sessions=fetch_sessions,
        )
        return BrokerParts(
            shared=shared,
            produce=ProduceParts(shared, partitions=partitions, coordinators=coordinators),
            fetch=fetch,
            partitions=PartitionParts(
                shared,
                partitions=partitions,
                log_manager=self.log_manager,
                log_moves=self.log_moves,
                blocking=self.blocking,
            ),
            metadata=MetadataParts(shared, settings=settings, controller=controller),
            groups=ConsumerGroupParts(shared, clock=clock, coordinators=coordinators),
            coordinators=CoordinatorParts(shared, coordinators=coordinators),
            transactions=TransactionParts(
                shared, clock=clock, producer_ids=coordinators.producer_ids, coordinators=coordinators
            ),
            markers=MarkerParts(
                shared, partitions=partitions, settings=settings, clock=clock, coordinators=coordinators
            ),
            shares=SharesParts(shared, fetch=fetch, settings=settings, coordinators=coordinators),
            share_groups=ShareGroupParts(shared, coordinators=coordinators),
            share_states=ShareStateParts(shared, coordinators=coordinators),
            configs=ConfigParts(shared, broker_id=self.broker_id, settings=settings, controller=controller),
            tokens=TokenParts(shared, settings=settings, clock=clock, optional_controller=active_controller),
            telemetry=late.telemetry_parts(shared, self._environment()) if takes_metrics else None,
            admin=admin,
            replicas=replicas,
        )

    async def _listen_at(self, endpoint: Endpoint, dispatcher: Dispatcher, memory: RequestMemory) -> None:
        settings = self.settings
        name = endpoint.listener_name
        listener = Listener(
            name=name,
            host=endpoint.host,
            port=endpoint.port,
            network=self._network,
            dispatch=self.secured.dispatch(name, dispatcher, now=self.clock.monotonic_seconds),
            admission=self.admission,
            frame_bytes_max=settings.socket_request_max_bytes,
            idle_ms_max=settings.connections_max_idle_ms,
            backlog=max(settings.socket_listen_backlog_size, LISTEN_BACKLOG_DEFAULT),
            executor=self.blocking.executor,
            tls=self.secured.tls(name),
            login=self.secured.login_bounds(name),
            memory=memory,
            sends=dispatcher,
            now=self.clock.monotonic_seconds,
        )
        try:
            await listener.start(accepts=False)
        except OSError as error:
            raise OSError(
                error.errno, f"listener {endpoint} cannot listen: {error.strerror or error}"
            ) from error
        self._closing.push_async_callback(listener.close)
        self.listeners.append(listener)

    def _watch_connections(self) -> None:
        self.connection_watch = ConnectionWatch(
            self.images, lambda: self.dynamic_settings.current, self.listeners, self.clock
        )
        self._closing.callback(self.connection_watch.stop)

    def _authorizer(self) -> Authorizer | None:
        if not self.settings.authorizer_class_name:
            return None
        return late.authorizer_of(self.settings, self.images)

    def _apply_producer_rules(self, settings: Settings) -> None:
        rules = self.log_manager.producer_rules
        rules.expiration_ms = settings.producer_id_expiration_ms
        rules.must_verify = settings.transaction_partition_verification_enable

    def _follow_settings(self) -> None:
        """Apply changed settings, now and from now on, to the parts that do not read them at each use."""

        def apply(_: Settings, current: Settings) -> None:
            self.admission.change_bounds(
                connections_max=current.max_connections,
                connections_per_ip_max=current.max_connections_per_ip,
                per_ip_overrides=current.connections_per_ip_overrides,
            )
            self._apply_producer_rules(current)
            self.log_manager.directories.cordoned = frozenset(current.cordoned_log_dirs)
            self.connection_watch.apply()
            self.counters.log_slow_requests(current.slow_request_log_ms)

        apply(self.settings, self.dynamic_settings.current)
        self._closing.callback(self.dynamic_settings.subscribe(apply))

    def _complete_endpoints(self) -> None:
        self.endpoints = complete(
            self.settings.advertised_endpoints,
            bound_ports={listener.name: listener.port for listener in self.listeners},
            host_name=os.uname().nodename,
        )


AnyBroker = BrokerProcess["BrokerControl"]
"""A broker process with any control."""


class CompactionWarnings:
    """Warns in the log of topics that ask for compaction, on a broker with log.cleaner.enable=false.

    It warns at the start, when a topic is created, and when its settings or the broker's default change. Each topic is
    named once for each policy.

    In a cluster the broker with the topic's first replica warns. Internal topics are left out: they are compacted by
    design, and their owner chose it.

    Follows `images` and `settings` for as long as they live; `broker_id` is this broker's.
    """

    def __init__(self, images: ImageHolder, settings: DynamicSettings, *, broker_id: int) -> None:
        self._images = images
        self._settings = settings
        self._broker_id = broker_id
        self._reported: dict[str, str] = {}
        """The warning that each topic was named in."""
        images.subscribe(self._follow)
        settings.subscribe(self._follow_default)

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        changes = topic_changes(old, new)
        for topic in changes.deleted:
            self._reported.pop(topic.name, None)
        names = {topic.name for topic in changes.created}
        names |= {name for _, name in config_changes(old, new, kind=ResourceKind.TOPIC)}
        self._warn(new, (new.topics[name] for name in sorted(names) if name in new.topics))

    def _follow_default(self, old: Settings, new: Settings) -> None:
        if old.log_cleanup_policy != new.log_cleanup_policy:
            image = self._images.current
            self._warn(image, image.topics.values())

    def _warn(self, image: ClusterImage, topics: Iterable[TopicImage]) -> None:
        named: dict[str, list[str]] = {}
        for topic in topics:
            if topic.is_internal or topic.partitions[0].replicas[0] != self._broker_id:
                continue
            texts = image.config(ResourceKind.TOPIC, topic.name)
            policy = topic_value("cleanup.policy", texts, settings=self._settings.current)
            warning = compaction_warning(policy, is_enabled=self._settings.current.log_cleaner_enable)
            if warning is None:
                self._reported.pop(topic.name, None)
            elif self._reported.get(topic.name) != warning:
                self._reported[topic.name] = warning
                named.setdefault(warning, []).append(topic.name)
        for warning, names in named.items():
            more = len(names) - _NAMES_PER_LINE_MAX
            and_more = f" and {more} more" if more > 0 else ""
            logger.warning(
                "topic%s %s%s: %s",
                "" if len(names) == 1 else "s",
                ", ".join(names[:_NAMES_PER_LINE_MAX]),
                and_more,
                warning,
            )
