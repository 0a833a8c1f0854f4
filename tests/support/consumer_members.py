"""Members of consumer groups (KIP-848) as a client library plays them, one heartbeat at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from odradek.broker.groups.consumer.requests import ConsumerGroupHeartbeat, HeartbeatResult
from odradek.foundation.errors import OdradekError
from tests.support.coordinator_world import GroupWorld, result_of

Parts = dict[UUID, frozenset[int]]


class ConsumerMember:
    """Releases revoked partitions at once, and reports it with the next heartbeat. While `is_slow` it still works on
    revoked partitions, and owns them.
    """

    def __init__(self, world: GroupWorld, member_id: str, *, group_id: str = "g", **fields: Any) -> None:
        self.world = world
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0
        self.fields: dict[str, Any] = {"topic_names": ("t",), "rebalance_timeout_ms": 60_000, **fields}
        self.owned: Parts = {}
        self._reported_owned: Parts | None = None
        self._assigned: Parts = {}
        self.is_slow = False

    async def raw(self, **fields: Any) -> HeartbeatResult | OdradekError:
        """One heartbeat with just these fields."""
        values: dict[str, Any] = {
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.fields.get("instance_id"),
            "client_id": "client",
            "client_host": "/127.0.0.1",
            **fields,
        }
        return await result_of(
            self.world.groups.consumer_heartbeat(self.group_id, ConsumerGroupHeartbeat(**values))
        )

    async def heartbeat(self) -> HeartbeatResult | OdradekError:
        """The next heartbeat: all there is to say when joining, else only what is owned when that changed."""
        if not self.is_slow:
            self.owned = dict(self._assigned)
        if self.epoch == 0:
            self.owned = {}
            self._assigned = {}
            said: dict[str, Any] = {**self.fields, "owned": {}}
        elif self._reported_owned != self.owned:
            said = {"owned": self.owned}
        else:
            said = {}
        reported = self.owned
        answer = await self.raw(**said)
        if isinstance(answer, HeartbeatResult):
            self._reported_owned = reported
            self.epoch = answer.member_epoch
            if answer.assigned is not None:
                self._take(answer.assigned)
        elif type(answer).__name__ in ("FencedMemberEpoch", "UnknownMemberId"):
            self.epoch = 0
            self.owned = {}
            self._assigned = {}
        return answer

    def _take(self, assigned: Mapping[UUID, frozenset[int]]) -> None:
        self._assigned = dict(assigned)
        kept = self.owned if self.is_slow else {}
        self.owned = {
            topic_id: kept.get(topic_id, frozenset()) | assigned.get(topic_id, frozenset())
            for topic_id in kept.keys() | assigned.keys()
        }

    async def must_beat(self) -> HeartbeatResult:
        answer = await self.heartbeat()
        assert isinstance(answer, HeartbeatResult), answer
        return answer

    async def leave(self, *, epoch: int = -1) -> HeartbeatResult | OdradekError:
        answer = await self.raw(member_epoch=epoch)
        if isinstance(answer, HeartbeatResult):
            self.epoch = 0
            self.owned = {}
            self._assigned = {}
        return answer

    async def subscribe(self, *names: str) -> None:
        self.fields["topic_names"] = names
        if self.epoch > 0:
            answer = await self.raw(topic_names=names, owned=self.owned, rebalance_timeout_ms=60_000)
            if isinstance(answer, HeartbeatResult):
                self.epoch = answer.member_epoch
                if answer.assigned is not None:
                    self._take(answer.assigned)
                self._reported_owned = None

    def count(self) -> int:
        return sum(map(len, self.owned.values()))


async def converge(members: list[ConsumerMember], *, rounds: int = 12) -> None:
    """Let all members send heartbeats until nothing changes any more."""
    for _ in range(rounds):
        before = [(member.epoch, member.owned) for member in members]
        for member in members:
            await member.heartbeat()
            check_exclusive(members)
        if before == [(member.epoch, member.owned) for member in members]:
            return
    raise AssertionError(f"the group is not stable after {rounds} rounds of heartbeats")


def check_exclusive(members: list[ConsumerMember]) -> Mapping[tuple[UUID, int], str]:
    """No partition is owned by two members."""
    owners: dict[tuple[UUID, int], str] = {}
    for member in members:
        for topic_id, partitions in member.owned.items():
            for partition in partitions:
                other = owners.setdefault((topic_id, partition), member.member_id)
                assert other == member.member_id, f"{topic_id}-{partition} belongs to both"
    return owners
