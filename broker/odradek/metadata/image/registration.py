"""A broker's membership: its ephemeral node under `/brokers/ids`, kept for as long as the broker runs.

Each registration has a new epoch, taken from the version of `/brokers/seqid` in the same write. So of two
registrations the later has the higher epoch, and no two writers can take the same id or epoch.

An id that another live broker has is refused. The node of a dead process is replaced at once when its `identity` is
this broker's. An identity is a text that only one process at a time can have, such as the id in a locked log directory.
Otherwise the broker waits until the dead process's session expires.

A broker is *fenced* when its session expired, or when its process was stopped for the session's timeout. A fenced
broker must not serve as if it were a member. It registers again, with a new epoch, and reports each step to its owner.
If another broker has taken the id, it stays fenced and reports that: the owner must exit.

A registry that does not answer for the session's timeout does not fence, since it may be away for all brokers. The
owner is notified. It continues where it knows that no other broker was elected, and is notified again once the
registration was found unchanged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from odradek.foundation.clock import Clock
from odradek.foundation.errors import DuplicateBrokerRegistration
from odradek.foundation.registry_errors import NodeExists, NoNode, StoreError, VersionConflict
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.features import highest_levels
from odradek.metadata.image.image import BrokerImage
from odradek.metadata.registry.session_task import SessionTask
from odradek.metadata.registry.store import Create, Delete, Node, Operation, Put, Store, get_or_none

logger = logging.getLogger(__name__)

# A dead process's node is gone shortly after its session's timeout. ZooKeeper counts in ticks, and the timeout of that
# process may be longer than ours.
_WAIT_FACTOR: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Registrant:
    """The broker to register. `endpoints` are host and port, `protocols` security protocols, both by listener name."""

    broker_id: int
    endpoints: Mapping[str, tuple[str, int]]
    protocols: Mapping[str, str]
    identity: str
    rack: str | None = None
    machine: str | None = None
    min_in_sync: int = 1
    """min.insync.replicas as this broker was started with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationCallbacks:
    """The owner's callbacks, on the event loop. After `on_silent` comes either `on_answering` or `on_fenced`."""

    on_fenced: Callable[[str], None]
    """The broker is no longer a member, and why."""
    on_registered: Callable[[BrokerImage], None]
    """The broker is a member again."""
    on_refused: Callable[[DuplicateBrokerRegistration], None]
    """Another broker has the id."""
    on_silent: Callable[[str], None]
    """The registry has not answered since this time: the registration may be gone."""
    on_answering: Callable[[], None]
    """The registry answers again, and the registration is unchanged."""


class BrokerRegistration(SessionTask):
    """One broker's membership. `start`, then `stop` before the store is closed.

    `wait_seconds` is the time for another process's node to expire, by default one and a half session timeouts.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        registrant: Registrant,
        callbacks: RegistrationCallbacks,
        *,
        wait_seconds: float | None = None,
    ) -> None:
        super().__init__(
            store, path=paths.broker(registrant.broker_id), name=f"broker-{registrant.broker_id}"
        )
        self._clock = clock
        self._registrant = registrant
        self._callbacks = callbacks
        if wait_seconds is None:
            wait_seconds = (store.session_timeout_seconds or 0) * _WAIT_FACTOR
        self._wait_seconds = wait_seconds
        # Our node in the registry, and the session that owns it.
        self._broker: BrokerImage | None = None
        self._session_id: int | None = None
        self._is_fenced = True
        self._is_silent = False
        # Reported at each registration until the controller has read one.
        self._has_all = True

    @property
    def broker(self) -> BrokerImage | None:
        """The registration in force; None while fenced."""
        return None if self._is_fenced else self._broker

    async def start(self, *, has_all: bool) -> BrokerImage:
        """Register; `has_all` says whether this broker still has all that it ever acknowledged.

        Raises DuplicateBrokerRegistration when a live broker has the id, StoreConnectionLost when the registry stopped
        answering (call again: a registration whose answer was lost is recognised). The callbacks report only later
        changes.
        """
        await self._make_branch()
        self._has_all = has_all
        broker = await self._register()
        self._is_fenced = False
        self._start_reconciling()
        return broker

    def mark_seen(self) -> None:
        """The controller knows what this broker may have lost: later registrations need not report it again."""
        self._has_all = True

    async def stop(self) -> None:
        """Leave the cluster. Others notice at once if the registry answers. No callback is called any more."""
        await self._stop_reconciling()
        self._broker, self._is_fenced, self._is_silent = None, True, False
        try:
            node = await get_or_none(self._store, self._path)
            if node is not None and node.owner == self._store.session_id:
                await self._store.delete(self._path, version=node.version)
        except StoreError as error:
            logger.info("%s leaves, and the registry will notice by itself: %s", self._name, error)

    async def _make_branch(self) -> None:
        for path in ("/brokers", paths.BROKER_IDS, paths.BROKER_EPOCHS):
            if not await self._store.exists(path):
                try:
                    await self._store.create(path)
                except NodeExists:
                    continue  # another broker's start made it

    # --- keeping it ----------------------------------------------------------------------------------------------

    def _on_silence(self, reason: str) -> None:
        if not self._is_fenced and not self._is_silent:
            self._is_silent = True
            self._notify(partial(self._callbacks.on_silent, reason))

    def _on_lost(self, reason: str) -> None:
        self._is_silent = False
        if not self._is_fenced:
            self._is_fenced = True
            logger.warning("%s is fenced: %s", self._name, reason)
            self._notify(partial(self._callbacks.on_fenced, reason))

    async def _reconcile(self) -> None:
        node = await get_or_none(self._store, self._path)
        if node is None or not self._is_ours(node):
            self._on_lost("its registration is gone")
            try:
                await self._register()
            except DuplicateBrokerRegistration as error:
                self._end_reconciling()
                logger.error("%s stays fenced: %s", self._name, error)
                self._notify(partial(self._callbacks.on_refused, error))
                return
        if self._is_fenced:
            self._is_fenced = False
            assert self._broker is not None
            logger.info("%s is registered with epoch %d", self._name, self._broker.epoch)
            self._notify(partial(self._callbacks.on_registered, self._broker))
        elif self._is_silent:
            self._is_silent = False
            self._notify(self._callbacks.on_answering)

    def _is_ours(self, node: Node) -> bool:
        return (
            self._broker is not None
            and node.owner == self._store.session_id == self._session_id
            and nodes.read_broker(self._path, node.data).epoch == self._broker.epoch
        )

    # --- taking the id -------------------------------------------------------------------------------------------

    async def _register(self) -> BrokerImage:
        while True:
            # Read before the node there: another registration in between makes the write fail.
            epochs = await self._store.get(paths.BROKER_EPOCHS)
            there = await get_or_none(self._store, self._path)
            session_id = self._store.session_id
            if there is not None and not self._may_replace(there):
                await self._wait_out(there)
                continue
            broker = BrokerImage(
                id=self._registrant.broker_id,
                endpoints=dict(self._registrant.endpoints),
                rack=self._registrant.rack,
                epoch=epochs.version + 1,
                stopped_cleanly=self._has_all,
                min_in_sync=self._registrant.min_in_sync,
                features=highest_levels(),
                machine=self._registrant.machine,
            )
            operations: list[Operation] = [Put(paths.BROKER_EPOCHS, b"", epochs.version)]
            if there is not None:
                operations.append(Delete(self._path, there.version))
            operations.append(Create(self._path, self._data(broker), ephemeral=True))
            try:
                await self._store.multi(operations)
            except (NodeExists, NoNode, VersionConflict):
                # Another process was faster, or the read was old.
                await self._store.sync()
                continue
            self._check_session(session_id)
            self._broker, self._session_id = broker, session_id
            return broker

    def _may_replace(self, there: Node) -> bool:
        """Whether the node with our id is ours: by a write with a lost answer, an earlier session or run."""
        if there.owner in (self._store.session_id, self._session_id):
            return True
        has_run = self._session_id is not None
        identity = nodes.read_identity(self._path, there.data)
        return not has_run and bool(identity) and identity == self._registrant.identity

    async def _wait_out(self, there: Node) -> None:
        """Wait until the node is gone or has another owner. Raises DuplicateBrokerRegistration when it outlives any
        dead session.
        """
        logger.info(
            "%s waits up to %g s for another's registration to expire", self._name, self._wait_seconds
        )
        changed = asyncio.Event()
        unwatch = self._store.watch(self._path, lambda path: changed.set())
        try:
            async with asyncio.timeout(self._wait_seconds):
                while (node := await get_or_none(self._store, self._path)) is not None:
                    if node.created != there.created:
                        return
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            other = nodes.read_broker(self._path, there.data)
            raise DuplicateBrokerRegistration(
                f"a live broker at {_addresses(other)} has the id {other.id} already; "
                "stop it, or give this one another node.id"
            ) from None
        finally:
            unwatch()

    def _data(self, broker: BrokerImage) -> bytes:
        return nodes.write_broker(
            broker,
            protocols=self._registrant.protocols,
            wall_ms=self._clock.wall_ms(),
            identity=self._registrant.identity,
        )


def _addresses(broker: BrokerImage) -> str:
    return ", ".join(f"{host}:{port}" for host, port in broker.endpoints.values())
