"""Deletes records of `__share_group_state` that later ones replace.

Kafka's log of states is not compacted, since an update does not replace the one before it. When a partition has grown
to several times its states, each state is written again as a snapshot, and everything before these is deleted. The next
coordinator has less to read then.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from odradek.broker.coordination.runtime import CoordinatorRuntime
from odradek.broker.coordination.shard import Shard, ShardState
from odradek.broker.share_states.state_machine import ShareStateMachine
from odradek.broker.share_states.states import ShareKey
from odradek.foundation.errors import OdradekError
from odradek.foundation.settings.broker_settings import Settings

logger = logging.getLogger(__name__)

# Of a partition, what is worth a pruning: so many records, and so many times the states that it keeps.
RECORDS_MIN: Final = 1_000
RECORDS_PER_STATE_MIN: Final = 4


class Pruning:
    """Runs as long as the coordinator does."""

    def __init__(self, runtime: CoordinatorRuntime[ShareStateMachine], settings: Settings) -> None:
        self._runtime = runtime
        self._interval_seconds = settings.share_coordinator_state_topic_prune_interval_ms / 1000

    async def run(self) -> None:
        """Prune every `share.coordinator.state.topic.prune.interval.ms`."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            for shard in list(self._runtime.list_loaded_shards()):
                try:
                    await self.prune(shard)
                except OdradekError as error:
                    logger.warning("%s, keeps its old records until the next round: %s", shard.name, error)

    async def prune(self, shard: Shard[ShareStateMachine]) -> None:
        """Write snapshots and delete what is before them, where that is worth it. Raises what the log raises."""
        log = self._runtime.log
        start, end = log.bounds(shard.partition)
        if end - start < max(RECORDS_MIN, RECORDS_PER_STATE_MIN * len(shard.machine.states)):
            return
        for key in list(shard.machine.states):
            await self._write_snapshot(shard, key)
        if shard.state is ShardState.ACTIVE:
            log.delete_records(shard.partition, end)

    async def _write_snapshot(self, shard: Shard[ShareStateMachine], key: ShareKey) -> None:
        name = key.coordinator_key
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle(error: OdradekError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        def act() -> None:
            records = shard.machine.plan_snapshot(key)
            if records:
                shard.write(name, records, settle)
            else:
                settle(None)

        shard.when_serving(name, act, settle)
        await done
