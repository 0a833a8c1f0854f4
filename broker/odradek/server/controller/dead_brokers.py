"""Removes the registration of a broker whose process has ended, long before its session ends.

A broker waits at the active controller for changes nearly always. One that does not is asked at its address. Where the
connection is refused twice, its machine lives and no process listens there. The controller then deletes the broker's
registration, as an administrator could, and all else follows from that.

A broker that lives all the same finds its registration gone and registers again, with a new epoch. That epoch is
removed only after the broker has followed this controller with it. So a broker that the controller cannot reach is
removed once, and no more.

A machine without power or network refuses nothing, and a stopped process is still connected to. Such a broker is a
member until its session ends (`zookeeper.session.timeout.ms`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.registry_errors import NoNode, StoreError, VersionConflict
from odradek.metadata.controller.metadata_subscribers import MetadataSubscribers
from odradek.metadata.controller.terms import ControllerTerm
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.image import BrokerImage, ImageHolder
from odradek.metadata.registry.store import Delete, Store, get_or_none
from odradek.network.network import Network

logger = logging.getLogger(__name__)

# A live broker asks again within milliseconds of an answer.
CHECK_SECONDS: Final = 0.25
# Between the two connections that are refused: a process that starts again may be about to listen.
_REFUSED_AGAIN_SECONDS: Final = 0.1
_CONNECT_SECONDS_MAX: Final = 1.0
# An address that refuses nothing is asked again after this time.
_ASK_AGAIN_SECONDS: Final = 1.0


class _Absence(NamedTuple):
    """A broker that did not wait for changes at the last check: its epoch, and how often it had asked by then."""

    epoch: int
    polls: int


class DeadBrokers:
    """Looks after the brokers of one term. `run` lasts until its task is cancelled."""

    def __init__(
        self,
        term: ControllerTerm,
        *,
        store: Store,
        images: ImageHolder,
        subscribers: MetadataSubscribers,
        network: Network,
        listener_name: Callable[[], str],
    ) -> None:
        """`listener_name` is that of the listener at which brokers reach each other, by this process's settings."""
        self._term = term
        self._store = store
        self._images = images
        self._subscribers = subscribers
        self._network = network
        self._listener_name = listener_name
        # Those that an earlier controller knew. Brokers that register later have to follow this one first.
        self._known = {broker.id: broker.epoch for broker in images.current.brokers.values()}
        self._absent: dict[int, _Absence] = {}
        self._asked_at: dict[int, float] = {}
        self.removed = 0
        """The registrations that were deleted."""

    async def run(self) -> None:
        """Check again and again."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            suspects = self._find_suspects()
            if suspects:
                await asyncio.gather(*(self._remove_if_dead(broker) for broker in suspects))

    def _find_suspects(self) -> list[BrokerImage]:
        """The brokers that did not wait for changes at this check and the one before, and have not asked since."""
        waiting, now = self._subscribers.list_waiting(), asyncio.get_running_loop().time()
        before, self._absent = self._absent, {}
        suspects = []
        for broker in self._images.current.brokers.values():
            if broker.id in waiting:
                self._asked_at.pop(broker.id, None)
                continue
            absence = self._absent[broker.id] = self._absence_of(broker)
            if (
                before.get(broker.id) == absence
                and self._may_remove(broker)
                and now >= self._asked_at.get(broker.id, 0.0) + _ASK_AGAIN_SECONDS
            ):
                self._asked_at[broker.id] = now
                suspects.append(broker)
        return suspects

    def _absence_of(self, broker: BrokerImage) -> _Absence:
        return _Absence(broker.epoch, self._subscribers.count_polls(broker.id))

    def _may_remove(self, broker: BrokerImage) -> bool:
        followed = self._subscribers.find_epoch(broker.id)
        return followed == broker.epoch or self._known.get(broker.id) == broker.epoch

    async def _remove_if_dead(self, broker: BrokerImage) -> None:
        absence, between_brokers = self._absence_of(broker), broker.endpoints.get(self._listener_name())
        addresses = list(broker.endpoints.values()) if between_brokers is None else [between_brokers]
        if not await self._are_refused(addresses):
            return
        await asyncio.sleep(_REFUSED_AGAIN_SECONDS)
        if not await self._are_refused(addresses):
            return
        if absence != self._absence_of(broker) or broker.id in self._subscribers.list_waiting():
            return
        await self._remove(broker, addresses[0])

    async def _are_refused(self, addresses: list[tuple[str, int]]) -> bool:
        return all(await asyncio.gather(*(self._is_refused(*address) for address in addresses)))

    async def _is_refused(self, host: str, port: int) -> bool:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS_MAX):
                transport, _ = await self._network.connect(asyncio.Protocol, host=host, port=port)
        except ConnectionRefusedError:
            return True
        except OSError:
            # Also TimeoutError: nothing says that the process has ended.
            return False
        transport.abort()
        return False

    async def _remove(self, broker: BrokerImage, address: tuple[str, int]) -> None:
        path = paths.broker(broker.id)
        try:
            node = await get_or_none(self._store, path)
            if node is None or nodes.read_broker(path, node.data).epoch != broker.epoch:
                return
            await self._store.multi([self._term.fence, Delete(path, node.version)])
        except (NoNode, VersionConflict):
            # It registered again, or another term has begun.
            return
        except StoreError as error:
            logger.info("broker %d seems to have ended, and its registration stays: %s", broker.id, error)
            return
        self.removed += 1
        self._known.pop(broker.id, None)
        logger.warning(
            "broker %d has ended: %s:%d refuses connections, and it no longer asks for changes. Its registration is "
            "deleted, so that others lead its partitions; it registers again when it starts",
            broker.id,
            *address,
        )
