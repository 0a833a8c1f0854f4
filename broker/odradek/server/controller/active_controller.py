"""One term of the active controller, from its election to its end: its image, its decisions, its change log.

It begins by reading the registry and the registrations, and completes deletions that a former controller began. Then
it reads the registrations again whenever their list changes, or when a setting changes which brokers can be elected.
From time to time it returns leaderships to preferred leaders. When a write or a read fails, the image may differ from
the registry. The term then ends (`fail`), its owner becomes a candidate again, and the next term reads everything.

What it leaves out: elections (`metadata.controller.controller_election`), bytes (`dispatcher`), sockets
(`controller_process`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.requests.context import RequestParts
from odradek.broker.requests.counters import RequestCounters
from odradek.broker.requests.mutations import MutationQuotas
from odradek.broker.requests.parts import AdminParts, ConfigParts, ControllerParts, ReplicaParts, TokenParts
from odradek.broker.requests.table import CONTROLLER_HANDLERS
from odradek.foundation.clock import Clock
from odradek.foundation.errors import NotController
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import LEAVING_WAIT_MS_MAX
from odradek.foundation.registry_errors import StoreError
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.controller.controller import Controller
from odradek.metadata.controller.leadership import Leadership
from odradek.metadata.controller.metadata_subscribers import MetadataSubscribers
from odradek.metadata.controller.terms import ControllerTerm
from odradek.metadata.image import paths
from odradek.metadata.image.authorization import authorizer_of
from odradek.metadata.image.changes import config_changes
from odradek.metadata.image.dynamic_settings import DynamicSettings
from odradek.metadata.image.image import ClusterImage, ImageHolder
from odradek.metadata.registry.store import Store
from odradek.network.network import Network
from odradek.server.controller.dead_brokers import DeadBrokers

logger = logging.getLogger(__name__)

_UNCLEAN: Final = "unclean.leader.election.enable"


class ActiveController:
    """One term. `begin`, then `end` and `close`; `on_failure` is called once when the term cannot continue."""

    def __init__(
        self,
        term: ControllerTerm,
        *,
        store: Store,
        settings: Settings,
        clock: Clock,
        rng: random.Random,
        counters: RequestCounters,
        network: Network,
        long_work: BlockingWork | None = None,
        on_failure: Callable[[ActiveController, str], None],
    ) -> None:
        self.term = term
        self._store = store
        self._network = network
        self._on_failure = on_failure
        self._tasks = TaskOwner(f"term-{term.epoch}", on_failure=lambda name, error: self.fail(error))
        self._members_changed = asyncio.Event()
        self._unwatch: Callable[[], None] | None = None
        self._is_over = False
        self._is_begun = False
        self.images = ImageHolder()
        self.settings = DynamicSettings(settings, self.images, is_broker=False)
        self.controller = Controller(store, self.images, self.settings, clock, rng=rng)
        self.controller.writer.on_failure = self.fail
        self.leadership = Leadership(
            store, self.controller.writer, self.images, self.settings, self.controller
        )
        self.controller.find_eligible = self.leadership.eligible
        self.subscribers: MetadataSubscribers
        self.dead_brokers: DeadBrokers
        shared = RequestParts(
            images=self.images,
            counters=counters,
            handlers=CONTROLLER_HANDLERS,
            authorizer=authorizer_of(settings, self.images) if settings.authorizer_class_name else None,
            optional_long_work=long_work,
            is_broker=False,
        )
        self.parts = ControllerParts(
            shared=shared,
            configs=ConfigParts(
                shared, broker_id=term.controller_id, settings=settings, controller=self.controller
            ),
            tokens=TokenParts(shared, settings=settings, clock=clock, optional_controller=self.controller),
            admin=AdminParts(
                shared,
                settings=settings,
                active_controller=self.controller,
                mutations=MutationQuotas(self.images, settings, clock),
            ),
            replicas=ReplicaParts(shared, new_leadership=lambda: self.leadership),
        )

    @property
    def is_over(self) -> bool:
        """Whether it was ended, or cannot continue."""
        return self._is_over

    @property
    def is_active(self) -> bool:
        """Whether it decides: it has read the registry, and its term has not ended."""
        return self._is_begun and not self._is_over

    @property
    def next_number(self) -> int:
        """The number of the next change in the change log."""
        return self.controller.writer.change_log.next_number

    # --- beginning and end ---------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Read the cluster and start to decide; a failure ends the term."""
        if self.is_over:
            return
        try:
            # Watched before it is read, so that no registration in between is missed.
            self._unwatch = self._store.watch(paths.BROKER_IDS, lambda path: self._members_changed.set())
            await self.controller.take_over(self.term)
            self.subscribers = MetadataSubscribers(self.controller.writer.change_log)
            self.images.subscribe(self._image_changed)
            await self.leadership.refresh_brokers()
            await self.controller.complete_deletions()
        except (StoreError, NotController) as error:
            self.fail(error)
            return
        except Exception as error:
            # A bug: to stay elected without deciding would be worse than to end the term.
            logger.exception("controller %d cannot begin its term", self.term.controller_id)
            self.fail(error)
            return
        if self._is_over:
            return
        self.dead_brokers = DeadBrokers(
            self.term,
            store=self._store,
            images=self.images,
            subscribers=self.subscribers,
            network=self._network,
            listener_name=lambda: self.settings.current.listener_between_brokers,
            session_timeout_ms=lambda: self.settings.current.broker_session_timeout_ms,
        )
        self._is_begun = True
        self._tasks.start(self._protect_nodes(), name="protection")
        self._tasks.start(self._follow_members(), name="members")
        self._tasks.start(self._balance(), name="balance")
        self._tasks.start(self.dead_brokers.run(), name="dead-brokers")
        image = self.images.current
        logger.info(
            "controller %d decides for the cluster %s: %d brokers, %d topics, epoch %d",
            self.term.controller_id,
            image.cluster_id,
            len(image.brokers),
            len(image.topics),
            self.term.epoch,
        )

    def fail(self, error: BaseException) -> None:
        """End the term: its image may differ from the registry."""
        if self._is_over:
            return
        reason = str(error) or type(error).__name__
        self.end(reason)
        self._on_failure(self, reason)

    def end(self, reason: str) -> None:
        """Stop deciding and writing; brokers that wait for changes look for the next controller."""
        if self._is_over:
            return
        self._is_over = True
        self.controller.writer.end(reason)
        if self._unwatch is not None:
            self._unwatch()
        if hasattr(self, "subscribers"):
            self.subscribers.end()

    async def close(self) -> None:
        """After `end`: end the tasks."""
        await self._tasks.close()

    # --- during the term -----------------------------------------------------------------------------------------

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        """A change of unclean.leader.election.enable applies at once to partitions without a leader."""
        if any(
            old.config(*resource).get(_UNCLEAN) != new.config(*resource).get(_UNCLEAN)
            for resource in config_changes(old, new)
        ):
            self._members_changed.set()

    async def _protect_nodes(self) -> None:
        """Put nodes right that older releases, other tools or other settings have left open."""
        try:
            await self._store.protect(paths.BRANCHES, with_children=True)
        except StoreError as error:
            logger.info("the nodes of the registry are checked again by the next term: %s", error)

    async def _follow_members(self) -> None:
        try:
            while True:
                await self._members_changed.wait()
                self._members_changed.clear()
                await self.leadership.refresh_brokers()
                for broker_id in self.subscribers.list_known() - self.images.current.brokers.keys():
                    self.subscribers.forget(broker_id)
        except (StoreError, NotController) as error:
            self.fail(error)

    async def _balance(self) -> None:
        try:
            while True:
                await asyncio.sleep(self.settings.current.leader_imbalance_check_interval_seconds)
                if self.settings.current.auto_leader_rebalance_enable:
                    # As Kafka since 4.0: leader.imbalance.per.broker.percentage went with its ZooKeeper controller.
                    moved = await self.leadership.balance()
                    if moved:
                        logger.info("%d partitions are led by their preferred leaders again", moved)
        except (StoreError, NotController) as error:
            self.fail(error)

    async def leave(self, broker_id: int, *, broker_epoch: int) -> list[TopicPartition]:
        """Move a broker's leaderships, and wait until the others know. Returns those that no other broker can take.

        Raises StaleBrokerEpoch, StoreError, NotController.
        """
        left = await self.leadership.shut_down_broker(broker_id, broker_epoch=broker_epoch)
        told = await self.subscribers.wait_until_applied(
            self.next_number,
            lambda: self.images.current.brokers.keys() - {broker_id},
            wait_ms_max=LEAVING_WAIT_MS_MAX,
        )
        if not told:
            logger.warning("broker %d leaves before every other broker knows the new leaders", broker_id)
        return left
