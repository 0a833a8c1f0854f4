"""While the registry does not answer: which partitions the broker still leads, and which clients it refuses.

An outage lasts from the session's timeout until the registry answers or the session is known to be over. The registry
may be away for all: then no election is possible, and leaders continue. It may be away for this broker alone: then
another broker leads soon. Each partition decides between the two, for each request of a client
(`broker.replication.confirmation`). Clients that wait already are checked periodically, and refused when they wait in
vain.

What it leaves out: the state of the session (`metadata.image.registration`), and the end of leadership
(`cluster_membership`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.foundation.clock import Clock
from odradek.foundation.tasks import TaskOwner

logger = logging.getLogger(__name__)

# The pause between two checks of waiting clients: a part of the time for which a confirmation counts.
REFUSE_INTERVAL_SECONDS: Final = 0.5


class RegistryOutage:
    """`begin` and `end` may be called at any time; `stop` at the end.

    `refresh_coordinators` has the coordinators compare their shards with the partitions that this broker leads and is
    confirmed in.
    """

    def __init__(
        self,
        broker_id: int,
        partitions: HostedPartitions,
        clock: Clock,
        *,
        refresh_coordinators: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._clock = clock
        self._refresh_coordinators = refresh_coordinators
        self._tasks = TaskOwner(f"registry-silence-{broker_id}")
        self._refusing: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self.times = 0
        """The number of times that the registry was silent for a session's timeout."""

    @property
    def is_ongoing(self) -> bool:
        return self._partitions.context.is_registry_silent

    def begin(self, reason: str) -> None:
        """Continue only in partitions that no other broker can lead."""
        if self.is_ongoing:
            return
        self.times += 1
        self._began_at = self._clock.monotonic_seconds()
        self._partitions.context.is_registry_silent = True
        led, confirmed = self.counts()
        logger.warning(
            "%s. Broker %d leads %d partitions; in %d of them it continues, because each replica that may lead instead "
            "follows it. No one can change topics, settings or leaders until the registry answers",
            reason[:1].upper() + reason[1:],
            self._broker_id,
            led,
            confirmed,
        )
        self._refusing = self._tasks.start(self._refuse_waiting_clients(), name="refuse-waiting")

    def end(self, what: str) -> None:
        """The registry answers, or the session is over; `what` says which."""
        if not self.is_ongoing:
            return
        self._partitions.context.is_registry_silent = False
        if self._refusing is not None:
            self._refusing.cancel()
            self._refusing = None
        seconds = self._clock.monotonic_seconds() - self._began_at
        logger.warning("broker %d: %s, after %.1f s of silence", self._broker_id, what, seconds)
        self._refresh_coordinators()

    async def stop(self) -> None:
        await self._tasks.close()

    def counts(self) -> tuple[int, int]:
        """(partitions led, those of them that are confirmed)."""
        leaders = [partition.leader for partition in self._partitions if partition.leader is not None]
        return len(leaders), sum(leader.is_confirmed for leader in leaders)

    def refuses_all(self) -> bool:
        """Whether this broker leads partitions and may answer clients for none of them."""
        if not self.is_ongoing:
            return False
        leads = False
        for partition in self._partitions:
            if partition.leader is not None:
                if partition.leader.is_confirmed:
                    return False
                leads = True
        return leads

    async def _refuse_waiting_clients(self) -> None:
        while True:
            for partition in self._partitions:
                leader = partition.leader
                if leader is not None and partition.replica.has_waiting_clients and not leader.is_confirmed:
                    leader.fail_waiting_clients()
            self._refresh_coordinators()
            await asyncio.sleep(REFUSE_INTERVAL_SECONDS)
