"""The active controller's address from `/controller`: watched, and kept while the registry is silent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.foundation.registry_errors import StoreError
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.nodes import ControllerAddress
from odradek.metadata.registry.store import SessionState, Store, get_or_none

logger = logging.getLogger(__name__)

# The pause between two reads of a registry that did not answer.
_RETRY_SECONDS: Final = 0.2


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
            self._set_address(found if found is not None and found.host else None)

    def _set_address(self, address: ControllerAddress | None) -> None:
        if address == self.address:
            return
        self.address = address
        if address is None:
            logger.info("there is no active controller at the moment")
        else:
            logger.info("the active controller is %d at %s:%d", address.id, address.host, address.port)
        for callback in tuple(self._callbacks):
            callback()
