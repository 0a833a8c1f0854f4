"""The HTTP server of a broker of a cluster: that of every broker, and GET /can-restart.

200 {"can_restart": true,  "too_few": 0, "only_here": 1, "never_safe": 0, "partitions": [], "never": []}
503 {"can_restart": false, "too_few": 1, "only_here": 0, "never_safe": 1, "partitions": ["a-0"], "never": ["a-0"]}
503 {"can_restart": false, "too_few": 0, "only_here": 0, "never_safe": 0, "partitions": [], "never": [],
     "refused_writes": "the log directory /data is full …"}
503 {"can_restart": false, "reason": "no controller confirms what the broker knows"}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.cluster_control import ClusterControl
from odradek.foundation.ids import TopicPartition
from odradek.metadata.image.configs import topic_value
from odradek.metadata.image.image import ResourceKind
from odradek.security.authorization.acls import AclResourceType
from odradek.server.http.admin import AdminServer
from odradek.server.http.cluster_metrics import register_broker
from odradek.server.http.restart_risk import LatestRisk
from odradek.server.http.visible_names import Names

_NAMED_MAX: Final = 100
_ANSWER_MS_MAX: Final = 2_000


class ClusterAdminServer(AdminServer):
    """The HTTP server of a broker of a cluster."""

    def __init__(self, broker: BrokerProcess[ClusterControl], *, host: str, port: int) -> None:
        super().__init__(broker, host=host, port=port)
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
    refused = broker.refused_writes()
    return {
        # A stop and a start write, so a broker with a full disk may fail to start.
        "can_restart": risk.can_restart and refused is None,
        "too_few": len(risk.too_few),
        "only_here": len(risk.only_here),
        "never_safe": len(risk.never_safe),
        "partitions": _named(risk.too_few, names),
        "never": _named(risk.never_safe, names),
        **({} if refused is None else {"refused_writes": refused}),
    }


def _named(partitions: Sequence[TopicPartition], names: Names | None) -> list[str]:
    return [
        str(where)
        for where in partitions[:_NAMED_MAX]
        if names is None or names.may_see(AclResourceType.TOPIC, where.topic)
    ]
