"""The coordinator's periodic work: it aborts transactions past their timeout and removes unused ids.

Kafka looks for timeouts every 10 seconds by default. Here it is every second, because readers of the partitions wait
for the abort (`transaction.abort.timed.out.transaction.cleanup.interval.ms`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.broker.coordination.runtime import CoordinatorRuntime
from odradek.broker.coordination.shard import Shard, ShardState
from odradek.broker.transactions.metadata import COMPLETE_STATES, TransactionState
from odradek.broker.transactions.state_machine import TransactionalId, TransactionStateMachine
from odradek.foundation.clock import Clock
from odradek.foundation.errors import OdradekError
from odradek.foundation.limits import (
    TRANSACTIONAL_IDS_EXPIRED_PER_BATCH_MAX,
    TRANSACTIONS_ABORTED_TOGETHER_MAX,
)
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.transaction_errors import ConcurrentTransactions

logger = logging.getLogger(__name__)

IDS_PER_TURN: Final = 2000

_Shard = Shard[TransactionStateMachine]


class Sweeps:
    """Runs as long as the coordinator does. `abort` ends one transaction."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[TransactionStateMachine],
        clock: Clock,
        current_settings: Callable[[], Settings],
        *,
        abort: Callable[[_Shard, TransactionalId], Awaitable[None]],
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._current_settings = current_settings
        self._abort = abort
        self.timed_out = 0
        self.expired = 0

    async def abort_timed_out(self) -> None:
        """Abort open transactions past their timeout, for ever."""
        while True:
            settings = self._current_settings()
            await asyncio.sleep(settings.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000)
            await self.abort_round()

    async def abort_round(self) -> None:
        """One look at every open transaction. Those with a change under way are left to the next look."""
        late = [(shard, found) for shard, found in await self._walk() if self._is_late(shard, found)]
        for begin in range(0, len(late), TRANSACTIONS_ABORTED_TOGETHER_MAX):
            chosen = late[begin : begin + TRANSACTIONS_ABORTED_TOGETHER_MAX]
            await asyncio.gather(*(self._abort_late(shard, found) for shard, found in chosen))

    def _is_late(self, shard: _Shard, found: TransactionalId) -> bool:
        metadata = found.metadata
        return (
            metadata.state is TransactionState.ONGOING
            and metadata.start_ms + metadata.timeout_ms < self._clock.wall_ms()
            and not found.is_pending
            and shard.state is ShardState.ACTIVE
        )

    async def _abort_late(self, shard: _Shard, found: TransactionalId) -> None:
        if not self._is_late(shard, found):
            return
        try:
            await self._abort(shard, found)
            self.timed_out += 1
        except ConcurrentTransactions:
            return
        except OdradekError as error:
            logger.warning(
                "the transaction of %r is past its timeout and will be aborted later: %s", found.name, error
            )
        except Exception:
            # A defect: it must not keep the transactions of all other ids open.
            logger.exception("the transaction of %r is past its timeout and cannot be aborted", found.name)

    async def remove_expired(self) -> None:
        """Remove unused ids, for ever."""
        while True:
            settings = self._current_settings()
            await asyncio.sleep(settings.transaction_remove_expired_transaction_cleanup_interval_ms / 1000)
            await self.expiry_round()

    async def expiry_round(self) -> None:
        """Remove the ids without an open transaction that have not changed for transactional.id.expiration.ms."""
        before_ms = self._clock.wall_ms() - self._current_settings().transactional_id_expiration_ms
        by_shard: dict[_Shard, list[TransactionalId]] = {}
        for shard, found in await self._walk():
            is_idle = (
                found.metadata.state is TransactionState.EMPTY or found.metadata.state in COMPLETE_STATES
            )
            if is_idle and found.metadata.updated_ms <= before_ms:
                by_shard.setdefault(shard, []).append(found)
        for shard, expired in by_shard.items():
            for begin in range(0, len(expired), TRANSACTIONAL_IDS_EXPIRED_PER_BATCH_MAX):
                chosen = expired[begin : begin + TRANSACTIONAL_IDS_EXPIRED_PER_BATCH_MAX]
                self._remove(shard, [found for found in chosen if _may_go(shard, found, before_ms)])

    def _remove(self, shard: _Shard, expired: list[TransactionalId]) -> None:
        if not expired:
            return

        def on_removed(error: OdradekError | None) -> None:
            if error is None:
                self.expired += len(expired)
            else:
                logger.warning("%d unused transactional ids are removed later: %s", len(expired), error)

        shard.machine.remove(expired, on_removed)

    async def _walk(self) -> list[tuple[_Shard, TransactionalId]]:
        """All ids of the shards that are served, without holding up the loop."""
        rows: list[tuple[_Shard, TransactionalId]] = []
        for shard in self._runtime.list_loaded_shards():
            rows += [(shard, found) for found in shard.machine.ids.values()]
            if len(rows) >= IDS_PER_TURN:
                await asyncio.sleep(0)
        return rows


def _may_go(shard: _Shard, found: TransactionalId, before_ms: int) -> bool:
    """Whether it is still unused, after other ids were looked at."""
    return (
        shard.state is ShardState.ACTIVE
        and not found.is_pending
        and shard.machine.ids.get(found.name) is found
        and found.metadata.updated_ms <= before_ms
    )
