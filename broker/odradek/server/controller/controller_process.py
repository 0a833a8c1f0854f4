"""One controller process: registry, listener, election, and its terms, one after the other.

    registry -> listener -> election -> ready (active or not)

A controller that is not elected is on standby: it answers NOT_CONTROLLER, and may be elected when the active one ends.
A term ends when the registry does not answer during a write. The controller then becomes a candidate again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from odradek.broker.listeners.secured_listeners import ClientConfigs, SecuredListeners
from odradek.broker.process.trace_watch import SpanExport
from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.requests.counters import RequestCounters
from odradek.foundation.clock import Clock, SystemClock
from odradek.foundation.endpoints import Endpoint, complete
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.turn_limits import LONG_WORK_THREADS_MAX
from odradek.metadata.controller.controller_election import ControllerElection, ElectionCallbacks
from odradek.metadata.controller.terms import ControllerTerm
from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.store import Store
from odradek.network.flow_control import Admission
from odradek.network.listener import Listener
from odradek.network.network import Network, SystemNetwork
from odradek.network.request_memory import request_memory
from odradek.server.controller.active_controller import ActiveController
from odradek.server.controller.dispatcher import ControllerDispatcher

logger = logging.getLogger(__name__)

# Before the next candidacy after a failed term: the registry may need a moment.
_CANDIDACY_RETRY_SECONDS: Final = 0.1


class ControllerProcess:
    """One controller. `registry` is the registry's address, unless a `store` is given.

    `start` raises SettingError, DependencyError, StoreError or OSError, with nothing left open.
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
        self._long_work = BlockingWork(threads_max=LONG_WORK_THREADS_MAX, name="long")
        self._open.callback(self._long_work.close)
        self._tasks = TaskOwner(f"controller-{self.id}")
        self._election: ControllerElection
        self.counters = RequestCounters()
        self.counters.log_slow_requests(settings.slow_request_log_ms)
        self.span_export = SpanExport(f"controller-{settings.effective_broker_id}")
        self.dispatcher = ControllerDispatcher(self.counters, self.span_export)
        self.secured: SecuredListeners
        """TLS and logins of its listener."""
        self.listener: Listener
        self.endpoint: Endpoint
        """The address for brokers; complete once started."""
        self.is_serving = False
        self._unfollow_users: Callable[[], None] = lambda: None
        self.terms = 0
        """The number of times that it was elected."""

    @property
    def active_controller(self) -> ActiveController | None:
        """The present term, which may still be reading the registry."""
        return self.dispatcher.active_controller

    @property
    def is_active(self) -> bool:
        """Whether it decides for the cluster."""
        return self.active_controller is not None and self.active_controller.is_active

    @property
    def is_registry_connected(self) -> bool:
        """Whether the registry answers its session at this moment."""
        return self.is_serving and self._election.is_connected

    @property
    def is_at_long_work(self) -> bool:
        """Whether a large request is held, or the thread works for one."""
        return self.counters.large > 0 or self._long_work.waiting > 0

    def not_ready(self) -> str | None:
        """Why it can neither decide nor be on standby; None when it can do either."""
        if not self.is_serving:
            return "the controller is starting or stopping"
        if self.active_id is None:
            return "no controller is elected"
        return None

    @property
    def active_id(self) -> int | None:
        """The id of the active controller; None while this process does not know it."""
        return self._election.active_id

    async def start(self) -> None:
        """Listen and become a candidate. An election comes later, if ever."""
        try:
            self.secured = SecuredListeners(
                self.settings, self.client_configs, login_secret=self.login_secret
            )
            store = self._store or await open_registry(self._registry, entries=self.settings.given)
            self._open.push_async_callback(store.close)
            self._open.push_async_callback(self.span_export.close)
            await self._listen()
            await self.secured.read_keys()
            self.secured.follow_certificates(lambda: [self.listener], self._open)
            self._open.push_async_callback(self._end)
            self._become_candidate(store)
        except BaseException:
            await self._open.aclose()
            raise
        self.is_serving = True

    async def stop(self) -> None:
        """End the term, so that another is elected at once, and close."""
        self.is_serving = False
        await self._open.aclose()

    async def _listen(self) -> None:
        settings = self.settings
        given = settings.listener_endpoints[0]
        name = given.listener_name
        self.listener = Listener(
            name=name,
            host=given.host,
            port=given.port,
            network=self._network,
            dispatch=self.secured.dispatch(name, self.dispatcher, now=self._clock.monotonic_seconds),
            admission=Admission(
                connections_max=settings.max_connections,
                connections_per_ip_max=settings.max_connections_per_ip,
            ),
            frame_bytes_max=settings.socket_request_max_bytes,
            # A broker may send nothing for long, until its next poll.
            idle_ms_max=-1,
            tls=self.secured.tls(name),
            login=self.secured.login_bounds(name),
            memory=request_memory(settings),
        )
        await self.listener.start()
        self._open.push_async_callback(self.listener.close)
        (self.endpoint,) = complete(
            settings.advertised_endpoints[:1],
            bound_ports={name: self.listener.port},
            host_name=os.uname().nodename,
        )

    def client_configs(self) -> ClientConfigs:
        """The users of SCRAM. A controller that does not decide knows none: a broker has no reason to log in there."""
        active = self.active_controller
        return {} if active is None else active.images.current.client_configs

    def login_secret(self) -> bytes:
        """The cluster's, or nothing. To a controller that does not decide, real users are unknown too. What it shows of
        them must not differ from what it shows of others.
        """
        active = self.active_controller
        return b"" if active is None else active.images.current.login_secret

    def _become_candidate(self, store: Store) -> None:
        self._election = ControllerElection(
            store,
            self._clock,
            controller_id=self.id,
            # It listens there, so no other process does: a container that is killed starts again with the same.
            identity=f"{self.id}@{self.endpoint.host}:{self.endpoint.port}",
            callbacks=ElectionCallbacks(
                on_elected=lambda term: self._begin_term(store, term),
                on_lost=self._end_term,
                on_controller=self._active_changed,
            ),
            address=(self.endpoint.host, self.endpoint.port),
        )
        self._election.start()

    async def _end(self) -> None:
        active = self.active_controller
        self._unfollow_users()
        await self._election.stop()
        if active is not None:
            await active.close()
        await self._tasks.close()

    # --- terms ---------------------------------------------------------------------------------------------------

    def _begin_term(self, store: Store, term: ControllerTerm) -> None:
        self.terms += 1
        active = ActiveController(
            term,
            store=store,
            settings=self.settings,
            clock=self._clock,
            rng=self._rng,
            counters=self.counters,
            network=self._network,
            long_work=self._long_work,
            on_failure=self._leave_term,
        )
        self._unfollow_users()
        self._unfollow_users = self.secured.follow_users(active.images, lambda: [self.listener])
        self.dispatcher.active_controller = active
        self._tasks.start(active.begin(), name=f"term-{term.epoch}")

    def _end_term(self, reason: str) -> None:
        active, self.dispatcher.active_controller = self.active_controller, None
        if active is not None:
            active.end(reason)
            self._tasks.start(active.close(), name=f"end-{active.term.epoch}")

    def _leave_term(self, active: ActiveController, reason: str) -> None:
        logger.error("term %d of controller %d cannot continue: %s", active.term.epoch, self.id, reason)
        if active is self.active_controller:
            self._tasks.start(self._become_candidate_again(active), name="stand-again")

    async def _become_candidate_again(self, active: ActiveController) -> None:
        await asyncio.sleep(_CANDIDACY_RETRY_SECONDS)
        if active is self.active_controller:
            await self._election.resign()
            # After a stop no owner would end the task.
            if self.is_serving:
                self._election.start()

    def _active_changed(self, controller_id: int | None) -> None:
        if controller_id is None:
            logger.info("there is no active controller")
        elif controller_id != self.id:
            logger.info("controller %d stands by; %d is the active one", self.id, controller_id)
        elif self._election.term is None:
            logger.warning(
                "controller %d stands by; the active one has the same id. It is either this one before its restart, "
                "whose session ends soon, or another process that needs an id of its own (node.id)",
                self.id,
            )
