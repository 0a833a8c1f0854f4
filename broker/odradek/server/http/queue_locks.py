"""Answers which records of a share group are in flight here, and which member has them.

    GET /queue-locks?group=resize
    200 {"cluster_id": "…", "broker_id": 1, "truncated": false,
         "partitions": [{"topic": "images", "partition": 0, "in_flight": 9, "acquired": 6, "available": 2}],
         "locks": [{"topic": "images", "partition": 0, "first": 4, "last": 9, "member_id": "…",
                    "delivery_count": 1, "time_left_ms": 28950}]}

Kafka's protocol has no request for it. A broker knows of the share-partitions that it leads, so callers ask all
brokers. Neighbouring records of one member are one lock while they were delivered equally often. `available` counts
records that were with a member and wait for the next one. The rest of `in_flight` is done, behind records that are not,
or on its way to a dead-letter topic. Partitions with nothing in flight are absent, as are topics that the caller may
not see (`visible_names`). With `truncated` there are more locks or partitions than the answer has.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.broker.shares.in_flight import InFlight
from odradek.broker.shares.runs import RecordState
from odradek.broker.shares.share_partition import SharePartition
from odradek.foundation.ids import TopicPartition
from odradek.foundation.loop_turns import next_turn
from odradek.foundation.turn_limits import (
    QUEUE_LOCKS_PER_ANSWER_MAX,
    QUEUE_PARTITIONS_PER_ANSWER_MAX,
    SHARE_RUNS_PER_TURN_MAX,
)
from odradek.foundation.turns import Turn
from odradek.security.authorization.acls import AclResourceType
from odradek.server.http.visible_names import Names

if TYPE_CHECKING:
    from odradek.broker.process.broker_process import AnyBroker

_PARAMETER = "group"


def parse_group(query: Iterable[tuple[str, str]]) -> str:
    """The group that the query of a request names. Raises ValueError that names the mistake."""
    given = list(query)
    if unknown := sorted({name for name, _ in given} - {_PARAMETER}):
        raise ValueError(f"{unknown[0]!a} is no parameter; ask for /queue-locks?group=NAME")
    if len(given) != 1:
        raise ValueError(f"the request names {len(given)} groups; ask for one: /queue-locks?group=NAME")
    group_id = given[0][1]
    if not group_id:
        raise ValueError("the name of the group is empty; ask for /queue-locks?group=NAME")
    return group_id


async def list_locks(broker: AnyBroker, group_id: str, names: Names) -> dict[str, object]:
    """The body of an answer. The caller may see the group; of topics it gets those among `names`."""
    found = _Found(asyncio.get_running_loop().time())
    leader = broker.coordinators.started_share_leader
    if leader is not None:
        # Many requests at once are many first turns otherwise.
        await next_turn()
        turn = Turn(SHARE_RUNS_PER_TURN_MAX)
        visible: dict[str, bool] = {}
        for share_partition in sorted(leader.list_of_group(group_id), key=_place_of):
            topic = _place_of(share_partition).topic
            if topic not in visible:
                visible[topic] = names.may_see(AclResourceType.TOPIC, topic)
            if not visible[topic]:
                continue
            before = share_partition.loaded
            if turn.is_over(1 if before is None else 1 + before.run_count):
                await turn.next()
            # One that is being loaded has given nothing to members, and one that has moved is another broker's.
            if (in_flight := share_partition.loaded) is not None:
                found.add(_place_of(share_partition), in_flight)
    return {
        "cluster_id": broker.images.current.cluster_id,
        "broker_id": broker.broker_id,
        "truncated": found.is_truncated,
        "partitions": found.partitions,
        "locks": found.locks,
    }


def _place_of(share_partition: SharePartition) -> TopicPartition:
    return share_partition.partition.topic_partition


class _Found:
    """What an answer has, at the time `now` of the loop."""

    def __init__(self, now: float) -> None:
        self._now = now
        self.partitions: list[dict[str, object]] = []
        self.locks: list[dict[str, object]] = []
        self.is_truncated = False

    def add(self, place: TopicPartition, in_flight: InFlight) -> None:
        """Add the records of one partition that are in flight."""
        if not in_flight.count:
            return
        if len(self.partitions) >= QUEUE_PARTITIONS_PER_ANSWER_MAX:
            self.is_truncated = True
            return
        acquired = available = 0
        for batch in in_flight.batches:
            for run in batch.runs:
                if run.state == RecordState.ACQUIRED:
                    acquired += len(run)
                    if len(self.locks) >= QUEUE_LOCKS_PER_ANSWER_MAX:
                        self.is_truncated = True
                        continue
                    self.locks.append(
                        {
                            "topic": place.topic,
                            "partition": place.partition,
                            "first": run.first,
                            "last": run.last,
                            "member_id": run.member,
                            "delivery_count": run.delivery_count,
                            "time_left_ms": max(math.ceil((run.locked_until - self._now) * 1000), 0),
                        }
                    )
                elif run.is_available and not batch.is_gap:
                    available += len(run)
        self.partitions.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "in_flight": in_flight.count,
                "acquired": acquired,
                "available": available,
            }
        )
