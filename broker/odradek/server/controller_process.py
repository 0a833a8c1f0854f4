"""One controller process: registry, listener, election, and its terms, one after the other.

    registry -> listener -> election -> ready (active or not)

A controller that is not elected stands by: it answers NOT_CONTROLLER and is elected when the active one is gone. A term
that fails (the registry did not answer in the middle of a write) is given up, and the controller stands again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from contextlib import AsyncExitStack
from typing import Final

from odradek.cluster.registries import open_registry
from odradek.cluster.store import Store
from odradek.controller.election import ControllerTerm, Election, ElectionCallbacks
from odradek.foundation.clock import Clock, SystemClock
from odradek.foundation.endpoints import Endpoint, complete
from odradek.foundation.errors import SettingError
from odradek.foundation.settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.handlers.counters import RequestCounters
from odradek.server.controller_dispatch import ControllerDispatcher
from odradek.server.reign import Reign
from odradek.transport.flow_control import Admission
from odradek.transport.listener import Listener
from odradek.transport.network import Network, SystemNetwork

logger = logging.getLogger(__name__)

# Before standing again after a term that failed: the registry may need a moment.
_STAND_AGAIN_SECONDS: Final = 0.1


class ControllerProcess:
    """One controller. `registry` names where the cluster is kept, unless a `store` is handed in.

    `start` raises SettingError, StoreError or OSError, with nothing left open.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        registry: str = "",
        store: Store | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self.id = settings.effective_broker_id
        self._registry = registry
        self._store = store
        self._clock = clock or SystemClock()
        self._network = network or SystemNetwork()
        self._rng = rng or random.SystemRandom()
        self._open = AsyncExitStack()
        self._tasks = TaskOwner(f"controller-{self.id}")
        self._election: Election
        self.counters = RequestCounters()
        self.dispatcher = ControllerDispatcher(self.counters)
        self.listener: Listener
        self.endpoint: Endpoint
        """What brokers are told; complete once started."""
        self.is_serving = False
        self.terms = 0
        """How often it was elected."""

    @property
    def reign(self) -> Reign | None:
        """The present term, which may still be reading the registry."""
        return self.dispatcher.reign

    @property
    def is_active(self) -> bool:
        """Whether it decides for the cluster."""
        return self.reign is not None and self.reign.is_active

    def not_ready(self) -> str | None:
        """Why it can neither decide nor stand by; None when it can."""
        if not self.is_serving:
            return "the controller is starting or stopping"
        if self.active_id is None:
            return "no controller is elected"
        return None

    @property
    def active_id(self) -> int | None:
        """Who the active controller is, as far as is known here."""
        return self._election.active_id

    async def start(self) -> None:
        """Listen and stand for election; whether it is elected shows later."""
        try:
            store = self._store or await open_registry(self._registry, entries=self.settings.given)
            self._open.push_async_callback(store.close)
            await self._listen()
            self._open.push_async_callback(self._end)
            self._stand(store)
        except BaseException:
            await self._open.aclose()
            raise
        self.is_serving = True

    async def stop(self) -> None:
        """Give the term up, so that another is elected at once, and close."""
        self.is_serving = False
        await self._open.aclose()

    async def _listen(self) -> None:
        settings = self.settings
        given = settings.listener_endpoints[0]
        if given.security_protocol != "PLAINTEXT":
            raise SettingError(
                f"listener {given.listener_name} asks for {given.security_protocol}, which controllers do not "
                "speak yet; use PLAINTEXT"
            )
        self.listener = Listener(
            name=given.listener_name,
            host=given.host,
            port=given.port,
            network=self._network,
            dispatch=self.dispatcher,
            admission=Admission(
                connections_max=settings.max_connections,
                connections_per_ip_max=settings.max_connections_per_ip,
            ),
            frame_bytes_max=settings.socket_request_max_bytes,
            # A broker that follows may have nothing to say for long, and is heard of in its next poll.
            idle_ms_max=-1,
        )
        await self.listener.start()
        self._open.push_async_callback(self.listener.close)
        (self.endpoint,) = complete(
            settings.advertised_endpoints[:1],
            bound_ports={given.listener_name: self.listener.port},
            host_name=os.uname().nodename,
        )

    def _stand(self, store: Store) -> None:
        self._election = Election(
            store,
            self._clock,
            controller_id=self.id,
            identity=f"{self.id}-{self._rng.getrandbits(64):016x}",
            callbacks=ElectionCallbacks(
                on_elected=lambda term: self._elected(store, term),
                on_lost=self._lost,
                on_controller=self._heard_of,
            ),
            address=(self.endpoint.host, self.endpoint.port),
        )
        self._election.start()

    async def _end(self) -> None:
        reign = self.reign
        await self._election.stop()
        if reign is not None:
            await reign.close()
        await self._tasks.close()

    # --- terms ---------------------------------------------------------------------------------------------------

    def _elected(self, store: Store, term: ControllerTerm) -> None:
        self.terms += 1
        reign = Reign(
            term,
            store=store,
            settings=self.settings,
            clock=self._clock,
            rng=self._rng,
            counters=self.counters,
            on_failure=self._failed,
        )
        self.dispatcher.reign = reign
        self._tasks.start(reign.begin(), name=f"term-{term.epoch}")

    def _lost(self, reason: str) -> None:
        reign, self.dispatcher.reign = self.reign, None
        if reign is not None:
            reign.end(reason)
            self._tasks.start(reign.close(), name=f"end-{reign.term.epoch}")

    def _failed(self, reign: Reign, reason: str) -> None:
        logger.error("term %d of controller %d cannot go on: %s", reign.term.epoch, self.id, reason)
        if reign is self.reign:
            self._tasks.start(self._stand_again(reign), name="stand-again")

    async def _stand_again(self, reign: Reign) -> None:
        await asyncio.sleep(_STAND_AGAIN_SECONDS)
        if reign is self.reign:
            await self._election.resign()
            # Unless it was told to stop meanwhile: nobody would end the task.
            if self.is_serving:
                self._election.start()

    def _heard_of(self, controller_id: int | None) -> None:
        if controller_id is None:
            logger.info("there is no active controller")
        elif controller_id != self.id:
            logger.info("controller %d stands by; %d is the active one", self.id, controller_id)
        elif self._election.term is None:
            logger.warning(
                "controller %d stands by; the active one has the same id: it is this one before its restart, whose "
                "session ends soon, or another process, which needs an id of its own (node.id)",
                self.id,
            )
