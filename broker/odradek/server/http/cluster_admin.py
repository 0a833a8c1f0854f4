"""The HTTP server of a broker of a cluster: that of every broker, and GET /can-restart.

200 {"can_restart": true,  "too_few": 0, "only_here": 1, "never_safe": 0, "last_copies": 1,
     "partitions": [], "never": [], "last": ["a-0"]}
503 {"can_restart": false, "too_few": 1, "only_here": 0, "never_safe": 1, "last_copies": 0,
     "partitions": ["a-0"], "never": ["a-0"], "last": []}
503 {"can_restart": false, "too_few": 0, "only_here": 0, "never_safe": 0, "last_copies": 0,
     "partitions": [], "never": [], "last": [], "refused_writes": "the log directory /data is full …"}
503 {"can_restart": false, "reason": "no controller confirms what the broker knows"}

The answer says whether a broker may be stopped now, for a rolling restart: which partitions would have fewer replicas
in sync than they need. It compares live in-sync replicas, as the controller reports them, with min.insync.replicas
(never more than there are replicas). Partitions with their only replica on this broker are listed separately, and do
not count: to wait would not keep them available. Partitions that need as many replicas as they have, and have all of
them in sync, do count. They are listed separately too, so that a caller can choose not to wait for ever.

The last copies are the partitions of which no other live broker has a replica in sync. They are lost when this broker's
disk goes with it.

Brokers of one machine stop together, so the answer is about all of them: other brokers are those of other machines.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.cluster_control import ClusterControl
from odradek.foundation.ids import TopicPartition
from odradek.metadata.image.configs import topic_value
from odradek.metadata.image.image import ClusterImage, ResourceKind
from odradek.security.authorization.acls import AclResourceType
from odradek.server.http.admin import AdminServer
from odradek.server.http.cluster_metrics import register_broker
from odradek.server.http.visible_names import Names

_NAMED_MAX: Final = 100
_ANSWER_MS_MAX: Final = 2_000


class ClusterAdminServer(AdminServer):
    """The HTTP server of a broker of a cluster."""

    def __init__(
        self,
        broker: BrokerProcess[ClusterControl],
        *,
        host: str,
        port: int,
        listening: Sequence[socket.socket] = (),
    ) -> None:
        super().__init__(broker, host=host, port=port, listening=listening)
        self._member = broker
        self._risk = LatestRisk()
        register_broker(broker, self.registry)

    def add_routes(self, router: web.UrlDispatcher) -> None:
        super().add_routes(router)
        router.add_get("/can-restart", self._can_restart)

    async def _can_restart(self, request: web.Request) -> web.Response:
        answer = await restart_answer(self._member, self._risk, self.names(request))
        return web.json_response(answer, status=200 if answer["can_restart"] else 503)


async def restart_answer(
    broker: BrokerProcess[ClusterControl], known: LatestRisk | None = None, names: Names | None = None
) -> dict[str, object]:
    """The body of /can-restart. With only a `reason` the broker does not know enough, and the caller asks again.

    It has all counts, and of the partitions those of topics among `names`.
    """
    reason = broker.not_ready()
    # This broker's image may be stale, and in-sync sets of other leaders' partitions come with the image. Without a
    # controller no broker takes over this one's leaderships.
    if reason is None and not await broker.control.controller.catch_up(_ANSWER_MS_MAX):
        reason = "no controller confirms what the broker knows"
    if reason is not None:
        return {"can_restart": False, "reason": reason}
    image, settings = broker.images.current, broker.dynamic_settings.current

    def min_insync_replicas(topic: str) -> int:
        texts = image.config(ResourceKind.TOPIC, topic)
        return int(topic_value("min.insync.replicas", texts, settings=settings))

    risks = known or LatestRisk()
    risk = risks.of(image, settings, broker.broker_id, min_insync_replicas=min_insync_replicas)
    refused = broker.describe_refused_writes()
    return {
        # A stop and a start write, so a broker with a full disk may fail to start.
        "can_restart": risk.can_restart and refused is None,
        "too_few": len(risk.too_few),
        "only_here": len(risk.only_here),
        "never_safe": len(risk.never_safe),
        "last_copies": len(risk.last_copies),
        "partitions": _list_visible(risk.too_few, names),
        "never": _list_visible(risk.never_safe, names),
        "last": _list_visible(risk.last_copies, names),
        **({} if refused is None else {"refused_writes": refused}),
    }


def _list_visible(partitions: Sequence[TopicPartition], names: Names | None) -> list[str]:
    return [
        str(where)
        for where in partitions[:_NAMED_MAX]
        if names is None or names.may_see(AclResourceType.TOPIC, where.topic)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRisk:
    """The effect of a broker's stop on partitions."""

    too_few: tuple[TopicPartition, ...]
    """Partitions with fewer replicas in sync than min.insync.replicas, now or after the stop."""
    only_here: tuple[TopicPartition, ...]
    """Partitions without another replica."""
    never_safe: tuple[TopicPartition, ...] = ()
    """The partitions of `too_few` with all other replicas in sync: waiting cannot make them safer."""
    last_copies: tuple[TopicPartition, ...] = ()
    """Partitions with a replica here and none in sync on another live broker: they go with this broker's disk."""

    @property
    def can_restart(self) -> bool:
        return not self.too_few


def restart_risk(
    image: ClusterImage, stopping: frozenset[int], *, min_insync_replicas: Callable[[str], int]
) -> RestartRisk:
    """The effect of a stop of the brokers `stopping` now; `min_insync_replicas` gives the setting of a topic."""
    too_few: list[TopicPartition] = []
    only_here: list[TopicPartition] = []
    never_safe: list[TopicPartition] = []
    last_copies: list[TopicPartition] = []
    live = frozenset(image.brokers)
    for topic in image.topics.values():
        needed: int | None = None
        for partition in topic.partitions:
            replicas, in_sync = partition.replicas, partition.isr
            if stopping.isdisjoint(replicas):
                continue
            if stopping.issuperset(replicas):
                where = TopicPartition(topic.name, partition.partition)
                only_here.append(where)
                last_copies.append(where)
                continue
            if needed is None:
                needed = min_insync_replicas(topic.name)
            # A cluster has tens of thousands of partitions, and nearly all of them have every replica in sync.
            alive = in_sync if live.issuperset(in_sync) else tuple(live.intersection(in_sync))
            others = len(alive) - len(stopping.intersection(alive))
            if not others:
                last_copies.append(TopicPartition(topic.name, partition.partition))
            settled = len(replicas) - len(partition.adding)
            if others < min(needed, settled):
                where = TopicPartition(topic.name, partition.partition)
                too_few.append(where)
                if others >= settled - len(stopping.intersection(replicas)):
                    never_safe.append(where)
    return RestartRisk(
        too_few=tuple(too_few),
        only_here=tuple(only_here),
        never_safe=tuple(never_safe),
        last_copies=tuple(last_copies),
    )


def find_machine(image: ClusterImage, broker_id: int) -> frozenset[int]:
    """The brokers of the machine of `broker_id`: all of them stop with it."""
    known = {**image.registrations, **image.brokers}
    machine = known[broker_id].machine if broker_id in known else None
    if machine is None:
        return frozenset((broker_id,))
    return frozenset(one.id for one in known.values() if one.machine == machine)


class LatestRisk:
    """Caches the risk for the latest image: callers ask every few seconds, and the image rarely changes."""

    def __init__(self) -> None:
        self._found: tuple[ClusterImage, object, RestartRisk] | None = None

    def of(
        self,
        image: ClusterImage,
        settings: object,
        broker_id: int,
        *,
        min_insync_replicas: Callable[[str], int],
    ) -> RestartRisk:
        """As `restart_risk`; `min_insync_replicas` depends on `settings` and the image alone."""
        found = self._found
        # Both are immutable values.
        if found is None or found[0] is not image or found[1] is not settings:
            stopping = find_machine(image, broker_id)
            risk = restart_risk(image, stopping, min_insync_replicas=min_insync_replicas)
            found = self._found = (image, settings, risk)
        return found[2]
