"""The active controller's address from `/controller`: watched, and kept while the registry is silent.

A controller that answered this broker, and whose machine then refuses connections twice, has ended. Its node is
deleted, as an administrator could, so that another controller is elected before the dead one's session ends. A
controller that lives all the same becomes a candidate again. Its new node is deleted only by a broker that it has
answered since: a broker that cannot reach it deletes one node at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.foundation.registry_errors import NoNode, StoreError, VersionConflict
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.nodes import ControllerAddress
from odradek.metadata.registry.store import Check, Delete, SessionState, Store, get_or_none

logger = logging.getLogger(__name__)

# The pause between two reads of a registry that did not answer.
_RETRY_SECONDS: Final = 0.2
# From the first refused connection to the one that counts: a process that starts again may be about to listen.
_REFUSED_SECONDS: Final = 0.1
_NO_NODE: Final = -1


class ControllerLocation:
    """Follows `/controller` from `start` to `stop`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks = TaskOwner("controller-location")
        self._wake = asyncio.Event()
        self._unsubscribes: list[Callable[[], None]] = []
        self._callbacks: list[Callable[[], None]] = []
        # None without an active controller, or when it has no listener.
        self.address: ControllerAddress | None = None
        # `created` of the node with that address, and of the node whose controller has answered.
        self._created = _NO_NODE
        self._answered = _NO_NODE
        self._refused_at: float | None = None

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback()` after each change of `address`; the result unsubscribes."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def start(self) -> None:
        self._unsubscribes = [
            self._store.watch(paths.CONTROLLER, lambda path: self._wake.set()),
            self._store.on_session_change(lambda state: self._wake.set()),
        ]
        self._wake.set()
        self._tasks.start(self._run(), name="watch")

    async def stop(self) -> None:
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        self._unsubscribes = []
        await self._tasks.close()

    def note_answer(self) -> None:
        """The controller at `address` has answered a request of this broker."""
        self._answered = self._created
        self._refused_at = None

    def note_refused(self, address: ControllerAddress) -> None:
        """The machine at this address has refused a connection: no process listens there."""
        if address != self.address or self._created == _NO_NODE or self._answered != self._created:
            return
        if self._tasks.is_closed:
            return
        now = asyncio.get_running_loop().time()
        if self._refused_at is None:
            self._refused_at = now
        elif now - self._refused_at >= _REFUSED_SECONDS:
            self._answered, self._refused_at = _NO_NODE, None
            self._tasks.start(self._remove_dead(address, self._created), name="remove-dead")

    async def _remove_dead(self, address: ControllerAddress, created: int) -> None:
        try:
            epoch = await self._store.get(paths.CONTROLLER_EPOCH)
            node = await get_or_none(self._store, paths.CONTROLLER)
            if node is None or node.created != created:
                return
            await self._store.multi(
                [Check(paths.CONTROLLER_EPOCH, epoch.version), Delete(paths.CONTROLLER, node.version)]
            )
        except (NoNode, VersionConflict):
            # Another broker was faster, or another controller.
            return
        except StoreError as error:
            logger.info("controller %d seems to have ended, and its node stays: %s", address.id, error)
            return
        logger.warning(
            "controller %d has ended: %s:%d refuses connections. Its node is deleted, so that another one is elected",
            address.id,
            address.host,
            address.port,
        )

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                if self._store.session_state is SessionState.EXPIRED:
                    # During a broker's start no other part reopens the session.
                    await self._store.reopen()
                node = await get_or_none(self._store, paths.CONTROLLER)
                found = None if node is None else nodes.read_controller_address(paths.CONTROLLER, node.data)
            except StoreError as error:
                # The known address stays: the controller may run while the registry does not.
                logger.debug("the controller's address cannot be read from the registry: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._wake.set()
                continue
            created = _NO_NODE if node is None else node.created
            self._set_address(found if found is not None and found.host else None, created)

    def _set_address(self, address: ControllerAddress | None, created: int) -> None:
        if created != self._created:
            self._created, self._refused_at = created, None
        if address == self.address:
            return
        self.address = address
        if address is None:
            logger.info("there is no active controller at the moment")
        else:
            logger.info("the active controller is %d at %s:%d", address.id, address.host, address.port)
        for callback in tuple(self._callbacks):
            callback()
