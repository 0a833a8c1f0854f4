"""A fourth broker of a simulated cluster that comes, goes away, and is removed, again and again.

What has to hold, under all faults of the others (I16):

- A topic of four replicas is made while the fourth broker is away, with a replica there. That one is not in sync.
- Such a broker is not removed while the topic has it.
- Once the topic is gone the broker is removed, and then a topic of four replicas is refused.

A lost answer leaves open what happened. Then the round asserts nothing of it. Other topics may come to be
placed on the broker, so it stays at the end.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Final

from odradek.client.admin.brokers import BrokerAdmin
from odradek.client.admin.logs import LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.foundation.errors import (
    BrokerIdNotRegistered,
    InvalidReplicationFactor,
    InvalidRequest,
    OdradekError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tests.simulation.cluster import BROKERS, SimulatedCluster
from tests.simulation.tasks import end_all, raise_failure_of
from tests.simulation.workload import Workload

NEWCOMER: Final = 4
ALL: Final = (*BROKERS, NEWCOMER)
# So often something is asked again that failed, before the round ends without it.
TRIES_MAX: Final = 40
TRIES_TO_COME_BACK_MAX: Final = 240


class Newcomers:
    """An `Actor`: the fourth broker, and the administrator who removes it."""

    def __init__(self, workload: Workload, rng: random.Random) -> None:
        self._cluster: SimulatedCluster = workload.cluster
        self._history = workload.history
        self._rng = rng
        self._client = workload.client("newcomers", random.Random(rng.getrandbits(64)))
        self._brokers, self._topics = BrokerAdmin(self._client), TopicAdmin(self._client)
        self._logs = LogAdmin(self._client)
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: asyncio.Task[None] | None = None
        self._number = 0
        self.rounds = 0
        """Rounds that came to their end with all that they assert."""

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work())]

    def raise_failure(self) -> None:
        raise_failure_of(self._tasks)

    async def stop(self) -> None:
        await end_all(self._tasks)
        await self._client.close()

    # --- rounds --------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        for self._number in itertools.count(1):
            await asyncio.sleep(self._rng.uniform(0.0, 1.0))
            if await self._come() and await self._go_away():
                name = f"n{self._number}"
                if await self._create_away(name) and await self._delete(name) and await self._remove():
                    self.rounds += 1
            await self._delete(f"n{self._number}")

    async def _come(self) -> bool:
        self._cluster.begin_start(NEWCOMER)
        for _ in range(TRIES_MAX):
            if await self._is_shown(fenced=False):
                return True
            await asyncio.sleep(0.5)
        return False

    async def _go_away(self) -> bool:
        """It is stopped or killed, and stays away until the next round."""
        if NEWCOMER not in self._cluster.brokers:
            return False
        if self._rng.random() < 0.5:
            self._note("stopped")
            # It ends as it began, also where the round ends before.
            self._ending = asyncio.create_task(self._cluster.stop_broker(NEWCOMER))
            await asyncio.shield(self._ending)
        else:
            self._note("killed")
            self._cluster.crash(NEWCOMER, power_loss=False, expire=self._rng.random() < 0.5)
        for _ in range(TRIES_MAX):
            if await self._is_shown(fenced=True):
                return True
            await asyncio.sleep(0.5)
        return False

    async def _is_shown(self, *, fenced: bool) -> bool:
        try:
            shown = await self._logs.describe_cluster(include_fenced=True)
        except OdradekError:
            return False
        return NEWCOMER in (shown.fenced if fenced else shown.brokers)

    async def _create_away(self, name: str) -> bool:
        """Whether a topic of four replicas was made; what was made is as promised."""
        try:
            await self._topics.create(name, partitions=self._rng.randint(1, 3), replication_factor=len(ALL))
        except InvalidReplicationFactor as refusal:
            # Also the others may all be away.
            self._require("All brokers are currently fenced" in str(refusal), f"{name} is refused: {refusal}")
            return False
        except TopicAlreadyExists:
            self._note(f"{name} was made, and the answer lost")
        except OdradekError as failure:
            self._note(f"{name}: {type(failure).__name__}")
            return False
        for broker in self._cluster.brokers.values():
            topic = broker.images.current.topics.get(name)
            for one in topic.partitions if topic is not None else ():
                self._require(set(one.replicas) == set(ALL), f"{name} has the replicas {one.replicas}")
                self._require(NEWCOMER not in one.isr, f"{name} has the in-sync set {one.isr}")
        try:
            await self._brokers.remove(NEWCOMER)
        except (InvalidRequest, BrokerIdNotRegistered) as refusal:
            self._require(
                isinstance(refusal, InvalidRequest), f"it has a replica of {name}, and is not known"
            )
        except OdradekError as failure:
            self._note(f"not removed: {type(failure).__name__}")
        else:
            self._require(False, f"it is removed with a replica of {name}")
        return True

    async def _delete(self, name: str) -> bool:
        for _ in range(TRIES_MAX):
            try:
                await self._topics.delete(name)
                return True
            except UnknownTopicOrPartition:
                return True
            except OdradekError as failure:
                self._note(f"{name} is not deleted: {type(failure).__name__}")
            await asyncio.sleep(0.5)
        return False

    async def _remove(self) -> bool:
        for _ in range(TRIES_MAX):
            try:
                await self._brokers.remove(NEWCOMER)
            except BrokerIdNotRegistered:
                self._note("was removed, and the answer lost")
            except InvalidRequest as refusal:
                # A group's topic may have come to be on it.
                self._require("still has" in str(refusal), f"it is not removed: {refusal}")
                return False
            except OdradekError as failure:
                self._note(f"not removed: {type(failure).__name__}")
                await asyncio.sleep(0.5)
                continue
            self._note("removed")
            return await self._check_removed()
        return False

    async def _check_removed(self) -> bool:
        name = f"n{self._number}"
        try:
            await self._topics.create(name, partitions=1, replication_factor=len(ALL))
        except InvalidReplicationFactor:
            return True
        except OdradekError as failure:
            self._note(f"{name}: {type(failure).__name__}")
            return False
        self._require(False, f"{name} has four replicas after its removal")
        return False

    def _note(self, what: str) -> None:
        self._history.add(f"broker {NEWCOMER}", what)

    def _require(self, holds: bool, what: str) -> None:
        self._history.require(holds, "I16", f"broker {NEWCOMER}: {what}")

    # --- when nothing fails any more -----------------------------------------------------------------------------

    async def settle(self) -> None:
        """It is there to stay."""
        await end_all(self._tasks)
        if self._ending is not None:
            await self._ending
        for number in range(1, self._number + 1):
            await self._delete(f"n{number}")
        for _ in range(TRIES_TO_COME_BACK_MAX):
            # The session of one that was killed may not have ended yet.
            if NEWCOMER in self._cluster.brokers and await self._is_shown(fenced=False):
                return
            self._cluster.begin_start(NEWCOMER)
            await asyncio.sleep(0.5)
        self._require(False, "it does not come back")

    def is_settled(self) -> bool:
        """Whether all brokers know all four."""
        return all(
            set(broker.images.current.registrations) == set(broker.images.current.brokers) == set(ALL)
            for broker in self._cluster.brokers.values()
        )

    async def check(self) -> None:
        """All that it promises was looked at on the way. A topic whose creation was not answered may still come."""
