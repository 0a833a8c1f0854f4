"""The reconciler of Topics: passes over all Topics of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import TOPICS, Json
from odradek_operator.reconcilers.addresses import Bootstrap
from odradek_operator.reconcilers.passes import Outcomes, Passes
from odradek_operator.reconcilers.reconciler import Outside
from odradek_operator.reconcilers.topic.run import TopicsRun


class TopicReconciler(Passes):
    """Of all Topics. `bootstrap` tells where a Cluster's brokers are reached."""

    def __init__(self, outside: Outside, *, brokers: BrokerClients, bootstrap: Bootstrap) -> None:
        super().__init__(outside, TOPICS)
        self._brokers = brokers
        self._bootstrap = bootstrap

    async def see_to(self, namespace: str, bodies: Sequence[Json], due: Sequence[Json]) -> Outcomes:
        run = TopicsRun(self._outside, namespace, bodies, brokers=self._brokers, bootstrap=self._bootstrap)
        return await run.see_to(due)
