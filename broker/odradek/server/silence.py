"""While the registry is silent: which partitions are led on, who is turned away, and what is told of it.

The registry is silent from the session's timeout on, until it answers again or the session is known to be over. It may
be silent for everybody: then nobody can be elected, and leaders go on. It may be silent for this broker alone: then
another leads soon. Which of the two it is, each partition is asked for each request of a client
(`replication.confirmation`). Clients that wait already are looked at now and then, and told when they wait in vain.

What it leaves out: what the session has become (`cluster.registration`), and the end of leadership when it is over
(`cluster_broker`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.foundation.clock import Clock
from odradek.foundation.tasks import TaskOwner
from odradek.replication.partitions import Partitions

logger = logging.getLogger(__name__)

# Between two looks at clients that wait: a part of the time for which a confirmation counts.
LOOK_SECONDS: Final = 0.5


class RegistrySilence:
    """`begin` and `end` may be called at any time; `stop` at the end. `refresh_groups` has the group coordinator
    compare what it serves with what this broker leads and is confirmed in.
    """

    def __init__(
        self, broker_id: int, partitions: Partitions, clock: Clock, *, refresh_groups: Callable[[], None]
    ) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._clock = clock
        self._refresh_groups = refresh_groups
        self._tasks = TaskOwner(f"registry-silence-{broker_id}")
        self._looking: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self.times = 0
        """How often the registry was silent for a session's timeout."""

    @property
    def is_now(self) -> bool:
        return self._partitions.context.is_registry_silent

    def begin(self, reason: str) -> None:
        """Go on only where nobody else can lead."""
        if self.is_now:
            return
        self.times += 1
        self._began_at = self._clock.monotonic_seconds()
        self._partitions.context.is_registry_silent = True
        led, confirmed = self.counts()
        logger.warning(
            "%s. Broker %d leads %d partitions; in %d of them it goes on, because each replica that may lead instead "
            "follows it. Nobody can change topics, settings or leaders until the registry answers",
            reason[:1].upper() + reason[1:],
            self._broker_id,
            led,
            confirmed,
        )
        self._looking = self._tasks.start(self._look_on(), name="look")

    def end(self, what: str) -> None:
        """The registry answers, or the session is over; `what` says which."""
        if not self.is_now:
            return
        self._partitions.context.is_registry_silent = False
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        seconds = self._clock.monotonic_seconds() - self._began_at
        logger.warning("broker %d: %s, after %.1f s of silence", self._broker_id, what, seconds)
        self._refresh_groups()

    async def stop(self) -> None:
        await self._tasks.close()

    def counts(self) -> tuple[int, int]:
        """(partitions led, those of them that are confirmed)."""
        led = [partition for partition in self._partitions if partition.is_leader]
        return len(led), sum(partition.is_confirmed for partition in led)

    def refuses_all(self) -> bool:
        """Whether this broker leads partitions and may answer clients for none of them."""
        if not self.is_now:
            return False
        leads = False
        for partition in self._partitions:
            if partition.is_leader:
                if partition.is_confirmed:
                    return False
                leads = True
        return leads

    async def _look_on(self) -> None:
        while True:
            for partition in self._partitions:
                if partition.has_waiting_clients and partition.is_leader and not partition.is_confirmed:
                    partition.turn_clients_away()
            self._refresh_groups()
            await asyncio.sleep(LOOK_SECONDS)
