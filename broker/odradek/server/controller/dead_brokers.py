"""Removes the registration of a broker whose process has ended or is silent, before its session ends.

A broker waits at the active controller for changes nearly always. One that does not is asked at its address. Where the
connection is refused twice, its machine lives and no process listens there. A machine without power or network refuses
nothing, and a stopped process is still connected to. Such a broker is removed once it has not asked for changes for
`broker.session.timeout.ms`. A controller that hears fewer than half of the members may be cut off itself, and removes
none of these. The controller deletes the registration, as an administrator could, and all else follows from that.

Brokers of one machine end together. Where one of them is missing, the others are asked too. All that have ended are
removed by one write, and one election follows.

A broker that lives all the same finds its registration gone and registers again, with a new epoch. That epoch is
removed only after the broker has followed this controller with it. So a broker that the controller cannot reach is
removed once, and no more. It is then a member as long as its session with the registry lasts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from odradek.foundation.registry_errors import NoNode, StoreError, VersionConflict
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.controller.metadata_subscribers import MetadataSubscribers, Polls
from odradek.metadata.controller.terms import ControllerTerm
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.image import BrokerImage, ImageHolder
from odradek.metadata.registry.store import Delete, Operation, Store, get_or_none
from odradek.network.network import Network

logger = logging.getLogger(__name__)

# A live broker asks again within milliseconds of an answer.
CHECK_SECONDS: Final = 0.25
# Between the two connections that are refused: a process that starts again may be about to listen.
_REFUSED_AGAIN_SECONDS: Final = 0.1
_CONNECT_SECONDS_MAX: Final = 1.0
# An address that refuses nothing is asked again after this time.
_ASK_AGAIN_SECONDS: Final = 1.0
_SILENT_MS_MIN: Final = 1_000


@dataclass(slots=True)
class _Heard:
    """What this controller knows of one registration from the last checks."""

    epoch: int
    polls: Polls
    silent_seconds: float = 0.0
    """The time since its last request."""
    missing_checks: int = 0
    """How many checks in a row it did not wait for changes."""
    ask_again_at: float = 0.0


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
        session_timeout_ms: Callable[[], int],
    ) -> None:
        """`listener_name` is that of the listener at which brokers reach each other, by this process's settings."""
        self._term = term
        self._store = store
        self._images = images
        self._subscribers = subscribers
        self._network = network
        self._listener_name = listener_name
        self._session_timeout_ms = session_timeout_ms
        # Those that an earlier controller knew. Brokers that register later have to follow this one first.
        self._known = {broker.id: broker.epoch for broker in images.current.brokers.values()}
        self._heard: dict[int, _Heard] = {}
        self._asking: set[int] = set()
        self._checked_at = asyncio.get_running_loop().time()
        self.removed = 0
        """The registrations that were deleted."""

    async def run(self) -> None:
        """Check again and again. A machine that does not answer delays no check."""
        tasks = TaskOwner("dead-brokers")
        try:
            while True:
                await asyncio.sleep(CHECK_SECONDS)
                for suspect in self._find_suspects():
                    if suspect.id not in self._asking:
                        machine = self._find_machine(suspect)
                        self._asking.update(machine)
                        heard = [self._heard[broker_id] for broker_id in machine]
                        tasks.start(
                            self._remove_dead(list(machine.values()), heard), name=f"broker-{suspect.id}"
                        )
        finally:
            await tasks.close()

    def _find_suspects(self) -> list[BrokerImage]:
        """The brokers that may have ended. One that has asked since the last check, or waits, is none."""
        now = asyncio.get_running_loop().time()
        # A pause of this process is no silence of the brokers.
        elapsed = min(now - self._checked_at, 2 * CHECK_SECONDS)
        self._checked_at = now
        waiting, before, self._heard = self._subscribers.list_waiting(), self._heard, {}
        brokers = self._images.current.brokers.values()
        for broker in brokers:
            heard = _Heard(broker.epoch, self._subscribers.find_polls(broker.id))
            known = before.get(broker.id)
            if known is not None and (known.epoch, known.polls) == (heard.epoch, heard.polls):
                heard = known
                heard.silent_seconds += elapsed
                heard.missing_checks = 0 if broker.id in waiting else heard.missing_checks + 1
            self._heard[broker.id] = heard
        may_judge, suspects = self._hears_enough(), []
        for broker in brokers:
            heard = self._heard[broker.id]
            is_missing = heard.missing_checks > 1 and now >= heard.ask_again_at
            if (is_missing or (may_judge and self._is_silent(heard))) and self._may_remove(broker):
                heard.ask_again_at = now + _ASK_AGAIN_SECONDS
                suspects.append(broker)
        return suspects

    def _find_machine(self, suspect: BrokerImage) -> dict[int, BrokerImage]:
        """The broker, and the others of its machine that may be removed and are not being asked, by id."""
        return {suspect.id: suspect} | {
            broker.id: broker
            for broker in self._images.current.brokers.values()
            if broker.machine is not None
            and broker.machine == suspect.machine
            and broker.id not in (suspect.id, *self._asking)
            and self._may_remove(broker)
        }

    def _hears_enough(self) -> bool:
        return 2 * sum(map(self._is_silent, self._heard.values())) <= len(self._heard)

    def _is_silent(self, heard: _Heard, *, less_ms: int = 0) -> bool:
        # A setting below what a broker may wait would remove those that do as they should.
        limit_ms = max(self._session_timeout_ms(), 2 * heard.polls.wait_ms, _SILENT_MS_MIN)
        return heard.silent_seconds * 1000 >= limit_ms - less_ms

    def _is_silent_with_machine(self, heard: _Heard) -> bool:
        """Whether it fell silent when its machine did: its last request may be younger by the wait of one."""
        wait_ms = heard.polls.wait_ms
        waits_long = heard.silent_seconds > wait_ms / 1000 + 2 * CHECK_SECONDS
        return waits_long and self._is_silent(heard, less_ms=wait_ms)

    def _may_remove(self, broker: BrokerImage) -> bool:
        followed = self._subscribers.find_polls(broker.id).broker_epoch
        return followed == broker.epoch or self._known.get(broker.id) == broker.epoch

    async def _remove_dead(self, brokers: list[BrokerImage], heard: list[_Heard]) -> None:
        """Remove those that have ended among brokers of one machine."""
        try:
            is_silent = any(map(self._is_silent, heard))
            reasons = await asyncio.gather(
                *(
                    self._find_reason(broker, one, machine_is_silent=is_silent)
                    for broker, one in zip(brokers, heard, strict=True)
                )
            )
            dead = [
                (broker, reason)
                for broker, reason in zip(brokers, reasons, strict=True)
                if reason is not None
            ]
            if dead and not await self._remove(dead):
                for one in dead if len(dead) > 1 else ():
                    await self._remove([one])
        finally:
            self._asking.difference_update(broker.id for broker in brokers)

    async def _find_reason(
        self, broker: BrokerImage, heard: _Heard, *, machine_is_silent: bool
    ) -> str | None:
        """Why it is taken for dead; None where it is not."""
        is_silent = self._is_silent(heard) or (machine_is_silent and self._is_silent_with_machine(heard))
        if is_silent and self._hears_enough():
            return f"it has not asked for changes for {heard.silent_seconds:.1f} s"
        between_brokers = broker.endpoints.get(self._listener_name())
        addresses = list(broker.endpoints.values()) if between_brokers is None else [between_brokers]
        if not await self._are_refused(addresses):
            return None
        await asyncio.sleep(_REFUSED_AGAIN_SECONDS)
        if not await self._are_refused(addresses) or heard.polls != self._subscribers.find_polls(broker.id):
            return None
        host, port = addresses[0]
        return f"{host}:{port} refuses connections"

    async def _are_refused(self, addresses: list[tuple[str, int]]) -> bool:
        return all(await asyncio.gather(*(self._is_refused(*address) for address in addresses)))

    async def _is_refused(self, host: str, port: int) -> bool:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS_MAX):
                transport, _ = await self._network.connect(asyncio.Protocol, host=host, port=port)
        except ConnectionRefusedError:
            return True
        except (OSError, ValueError):
            # No answer in time, or a name that cannot be resolved: neither says that the process has ended.
            return False
        transport.abort()
        return False

    async def _remove(self, dead: list[tuple[BrokerImage, str]]) -> bool:
        """Delete the registrations in one write. False where one of them was changed, and none is deleted."""
        operations: list[Operation] = [self._term.fence]
        names = ", ".join(str(broker.id) for broker, _ in dead)
        try:
            for broker, _ in dead:
                path = paths.broker(broker.id)
                node = await get_or_none(self._store, path)
                if node is None or nodes.read_broker(path, node.data).epoch != broker.epoch:
                    return False
                operations.append(Delete(path, node.version))
            await self._store.multi(operations)
        except (NoNode, VersionConflict):
            # It registered again, or another term has begun.
            return False
        except StoreError as error:
            logger.info("brokers seem to have ended, and their registrations stay: %s: %s", names, error)
            return True
        for broker, reason in dead:
            self.removed += 1
            self._known.pop(broker.id, None)
            logger.warning(
                "broker %d has ended or stands still: %s. Its registration is deleted, so that others lead its "
                "partitions; it registers again when it starts or continues",
                broker.id,
                reason,
            )
        return True
