"""HTTP beside a broker of a cluster: what every broker has, and GET /can-restart.

200 {"can_restart": true,  "too_few": 0, "only_here": 1, "never_safe": 0, "partitions": [], "never": []}
503 {"can_restart": false, "too_few": 1, "only_here": 0, "never_safe": 1, "partitions": ["a-0"], "never": ["a-0"]}
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from odradek.cluster.configs import topic_value
from odradek.cluster.image import ResourceKind
from odradek.server.admin import AdminServer
from odradek.server.can_restart import restart_risk
from odradek.server.cluster_broker import ClusterBroker
from odradek.server.cluster_measures import register_broker

_NAMED_MAX: Final = 100


class ClusterAdminServer(AdminServer):
    """A cluster's broker's."""

    def __init__(self, broker: ClusterBroker, *, host: str, port: int) -> None:
        super().__init__(broker, host=host, port=port)
        self._member = broker
        register_broker(broker, self.registry)

    def add_routes(self, router: web.UrlDispatcher) -> None:
        super().add_routes(router)
        router.add_get("/can-restart", self._can_restart)

    async def _can_restart(self, _: web.Request) -> web.Response:
        broker = self._member
        reason = broker.not_ready()
        if reason is not None:
            # It does not know enough to tell; whoever asks waits until it does.
            return web.json_response({"can_restart": False, "reason": reason}, status=503)
        image, settings = broker.images.current, broker.dynamic_settings.current

        def min_insync_replicas(topic: str) -> int:
            texts = image.config(ResourceKind.TOPIC, topic)
            return int(topic_value("min.insync.replicas", texts, settings=settings))

        risk = restart_risk(image, broker.broker_id, min_insync_replicas=min_insync_replicas)
        answer = {
            "can_restart": risk.can_restart,
            "too_few": len(risk.too_few),
            "only_here": len(risk.only_here),
            "never_safe": len(risk.never_safe),
            "partitions": [str(where) for where in risk.too_few[:_NAMED_MAX]],
            "never": [str(where) for where in risk.never_safe[:_NAMED_MAX]],
        }
        return web.json_response(answer, status=200 if risk.can_restart else 503)
