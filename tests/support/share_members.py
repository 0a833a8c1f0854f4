"""Members of share groups (KIP-932) as Kafka's share consumer plays them, one heartbeat at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from odradek.broker.groups.share.heartbeats import (
    ShareGroupHeartbeat,
    ShareHeartbeatResult,
    check_share_heartbeat,
)
from odradek.foundation.errors import OdradekError
from tests.support.coordinator_world import GroupWorld, result_of


class ShareGroupMember:
    """Subscribes to `topics`, and takes what it is given."""

    def __init__(
        self, world: GroupWorld, member_id: str, topics: Sequence[str] = ("work",), *, group_id: str = "g"
    ) -> None:
        self.world = world
        self.group_id = group_id
        self.member_id = member_id
        self.topics = tuple(topics)
        self.epoch = 0
        self.partitions: set[tuple[str, int]] = set()

    async def raw(self, **fields: Any) -> ShareHeartbeatResult | OdradekError:
        """One heartbeat with just these fields."""
        values: dict[str, Any] = {
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            **fields,
        }
        request = ShareGroupHeartbeat(**values)
        try:
            check_share_heartbeat(self.world.groups.context, self.group_id, request)
        except OdradekError as error:
            return error
        return await result_of(self.world.groups.share_heartbeat(self.group_id, request))

    async def heartbeat(self) -> ShareHeartbeatResult | OdradekError:
        """The next heartbeat: with the topics when joining."""
        answer = await self.raw(**({"topic_names": self.topics} if self.epoch == 0 else {}))
        if isinstance(answer, ShareHeartbeatResult):
            self.epoch = answer.member_epoch
            if answer.assigned is not None:
                names = self.world.images.current.topics_by_id
                self.partitions = {
                    (names[topic_id].name, number)
                    for topic_id, numbers in answer.assigned.items()
                    for number in numbers
                }
        elif type(answer).__name__ in ("FencedMemberEpoch", "UnknownMemberId"):
            self.epoch = 0
            self.partitions = set()
        return answer

    async def must_beat(self) -> ShareHeartbeatResult:
        answer = await self.heartbeat()
        assert isinstance(answer, ShareHeartbeatResult), answer
        return answer

    async def leave(self) -> ShareHeartbeatResult | OdradekError:
        answer = await self.raw(member_epoch=-1)
        self.epoch = 0
        self.partitions = set()
        return answer


async def settle_shares(members: Sequence[ShareGroupMember]) -> None:
    """Heartbeats of all, until none is given anything new twice: the first may only ask for states."""
    quiet = 0
    for _ in range(20):
        before = [(member.epoch, set(member.partitions)) for member in members]
        for member in members:
            await member.heartbeat()
            await asyncio.sleep(0.01)
        quiet = quiet + 1 if before == [(member.epoch, member.partitions) for member in members] else 0
        if quiet == 2:
            return
    raise AssertionError("the assignment does not settle")
