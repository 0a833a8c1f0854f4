"""The mirror of one process: its flows into one target, over one client of the target."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from odradek.client.client import Client
from odradek.foundation.clock import SystemClock
from odradek.foundation.tasks import TaskOwner
from odradek.mirror.bandwidth import Bandwidth
from odradek.mirror.clients import client_of
from odradek.mirror.counters import FlowCounters
from odradek.mirror.flow import Flow, policy_of
from odradek.mirror.heartbeats import Heartbeats
from odradek.mirror.settings import MirrorSettings, default_worker_id
from odradek.mirror.topic_sync import MirroredTopic

logger = logging.getLogger(__name__)

_STARTING: Final = "starting"


class Mirror:
    """`run` mirrors until `stop`. Flows that fail by themselves are tried again for ever."""

    def __init__(self, settings: MirrorSettings) -> None:
        self.settings = settings
        self.worker_id = settings.worker_id or default_worker_id()
        self.started = asyncio.Event()
        """Set once each flow runs, or has said why it does not."""
        self._target: Client = client_of(settings.target)
        bandwidth = Bandwidth(settings.bytes_per_second_max, now=asyncio.get_running_loop().time)
        backwards = {one.target.alias: one for one in settings.reverse_heartbeat_flows}
        self.flows = [
            Flow(
                one,
                group_id=settings.group_id(one),
                target=self._target,
                bandwidth=bandwidth,
                reverse=backwards.get(one.source.alias),
                on_state=self._note_state,
            )
            for one in settings.flows
        ]
        self._heartbeats = [
            Heartbeats(
                self._target,
                settings=one,
                policy=policy_of(one),
                counters=FlowCounters(one.source.alias, wall_ms=SystemClock().wall_ms),
                is_leader=lambda: any(flow.is_leader for flow in self.flows),
            )
            for one in settings.heartbeat_flows
        ]
        self._tasks = TaskOwner("mirror")

    def stop(self) -> None:
        """End after the open transactions, and leave the groups."""
        for flow in self.flows:
            flow.stop()

    async def plan(self) -> dict[str, list[MirroredTopic]]:
        """The topics of each flow. Raises MirrorRefused for a loop, and what the clusters answer."""
        try:
            return {flow.label: await flow.plan() for flow in self.flows}
        finally:
            await self._target.close()

    async def run(self) -> None:
        """Mirror until `stop`. Raises MirrorRefused when a flow must not run; the others are then ended too."""
        tasks = [self._tasks.start(flow.run(), name=flow.label) for flow in self.flows]
        for heartbeats in self._heartbeats:
            heartbeats.start()
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            self.stop()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._tasks.close()
            for heartbeats in self._heartbeats:
                await heartbeats.close()
            await self._target.close()

    def _note_state(self) -> None:
        if all(flow.state != _STARTING for flow in self.flows):
            self.started.set()
