"""One term of the active controller, from its election to its end: what it knows, decides, and tells the brokers.

It begins by reading the registry, looks at the members, and ends deletions that a former controller began. Then it
looks at the members whenever their list changes, or who may be elected (looks that fall together are one), and gives
leaderships back to preferred leaders from time to time. When a write or a read fails the image may differ from the
registry: the term is over then (`fail`), and its owner stands for election anew, which reads everything again.

What it leaves out: elections (`controller.election`), bytes (`controller_dispatch`), sockets (`controller_process`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from odradek.cluster import paths
from odradek.cluster.changes import config_changes
from odradek.cluster.dynamic_settings import DynamicSettings
from odradek.cluster.image import ClusterImage, ImageHolder
from odradek.cluster.store import Store
from odradek.controller.controller import Controller
from odradek.controller.election import ControllerTerm
from odradek.controller.followers import Followers
from odradek.controller.leadership import Leadership
from odradek.foundation.clock import Clock
from odradek.foundation.errors import InconsistentClusterId, NotController, StoreError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import LEAVING_WAIT_MS_MAX
from odradek.foundation.settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.handlers.context import ControllerParts
from odradek.handlers.counters import RequestCounters

logger = logging.getLogger(__name__)

_UNCLEAN: Final = "unclean.leader.election.enable"


class Reign:
    """One term. `begin`, then `end` and `close`; `on_failure` is told, once, of a term that cannot go on."""

    def __init__(
        self,
        term: ControllerTerm,
        *,
        store: Store,
        settings: Settings,
        clock: Clock,
        rng: random.Random,
        counters: RequestCounters,
        on_failure: Callable[[Reign, str], None],
    ) -> None:
        self.term = term
        self._store = store
        self._on_failure = on_failure
        self._tasks = TaskOwner(f"term-{term.epoch}", on_failure=lambda name, error: self.fail(error))
        self._members_changed = asyncio.Event()
        self._unwatch: Callable[[], None] | None = None
        self._is_over = False
        self._is_begun = False
        self.images = ImageHolder()
        self.settings = DynamicSettings(settings, self.images, is_broker=False)
        self.controller = Controller(store, self.images, self.settings, clock, rng=rng)
        self.controller.commits.on_failure = self.fail
        self.leadership = Leadership(
            store, self.controller.commits, self.images, self.settings, self.controller
        )
        self.followers: Followers
        self.parts = ControllerParts(
            broker_id=term.controller_id,
            settings=settings,
            clock=clock,
            images=self.images,
            controller=self.controller,
            leadership=self.leadership,
            counters=counters,
        )

    @property
    def is_over(self) -> bool:
        """Whether it was ended, or cannot go on."""
        return self._is_over

    @property
    def is_active(self) -> bool:
        """Whether it decides: it has read the registry, and its term goes on."""
        return self._is_begun and not self._is_over

    @property
    def next_number(self) -> int:
        """How far the change log has come."""
        return self.controller.commits.change_log.next_number

    # --- beginning and end ---------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Read the cluster and take it up; what fails ends the term."""
        if self.is_over:
            return
        try:
            # Watched before it is read, so that nobody who comes meanwhile is missed.
            self._unwatch = self._store.watch(paths.BROKER_IDS, lambda path: self._members_changed.set())
            await self.controller.take_over(
                controller_epoch=self.term.epoch, epoch_version=self.term.epoch_version
            )
            self.followers = Followers(self.controller.commits.change_log)
            self.images.subscribe(self._image_changed)
            await self.leadership.look_at_members()
            await self.controller.complete_deletions()
        except (StoreError, NotController, InconsistentClusterId) as error:
            self.fail(error)
            return
        except Exception as error:
            # A fault of ours: to hold the office without filling it would be worse than to give it up.
            logger.exception("controller %d cannot take up its term", self.term.controller_id)
            self.fail(error)
            return
        if self._is_over:
            return
        self._is_begun = True
        self._tasks.start(self._follow_members(), name="members")
        self._tasks.start(self._balance(), name="balance")
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
        """It cannot go on: what it believes may differ from what the registry holds."""
        if self._is_over:
            return
        reason = str(error) or type(error).__name__
        self.end(reason)
        self._on_failure(self, reason)

    def end(self, reason: str) -> None:
        """Decide and write nothing more; brokers that wait for changes look for the next controller."""
        if self._is_over:
            return
        self._is_over = True
        self.controller.commits.end(reason)
        if self._unwatch is not None:
            self._unwatch()
        if hasattr(self, "followers"):
            self.followers.end()

    async def close(self) -> None:
        """After `end`: end the tasks."""
        await self._tasks.close()

    # --- while it lasts ------------------------------------------------------------------------------------------

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        """Who allows unclean elections does it for partitions that have no leader now, and nobody may come or go."""
        if any(
            old.config(*resource).get(_UNCLEAN) != new.config(*resource).get(_UNCLEAN)
            for resource in config_changes(old, new)
        ):
            self._members_changed.set()

    async def _follow_members(self) -> None:
        try:
            while True:
                await self._members_changed.wait()
                self._members_changed.clear()
                await self.leadership.look_at_members()
                for broker_id in self.followers.known() - self.images.current.brokers.keys():
                    self.followers.forget(broker_id)
        except (StoreError, NotController) as error:
            self.fail(error)

    async def _balance(self) -> None:
        try:
            while True:
                await asyncio.sleep(self.settings.current.leader_imbalance_check_interval_seconds)
                if self.settings.current.auto_leader_rebalance_enable:
                    # As Kafka since 4.0: leader.imbalance.per.broker.percentage went with its ZooKeeper controller.
                    moved = await self.leadership.balance(imbalance_percent_max=0)
                    if moved:
                        logger.info("%d partitions are led by their preferred leaders again", moved)
        except (StoreError, NotController) as error:
            self.fail(error)

    async def leave(self, broker_id: int, *, broker_epoch: int) -> list[TopicPartition]:
        """Move away what a broker leads, and wait until the others know; what it still leads, for want of another.

        Raises StaleBrokerEpoch, StoreError, NotController.
        """
        left = await self.leadership.shut_down(broker_id, broker_epoch=broker_epoch)
        told = await self.followers.wait_until_applied(
            self.next_number,
            lambda: self.images.current.brokers.keys() - {broker_id},
            wait_ms_max=LEAVING_WAIT_MS_MAX,
        )
        if not told:
            logger.warning("broker %d leaves before every other has heard who leads now", broker_id)
        return left
