"""The reconciler of ConsumerGroups: passes over all of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import CONSUMER_GROUPS, Json
from odradek_operator.gateways.record_times import RecordTimes
from odradek_operator.reconcilers.addresses import Bootstrap
from odradek_operator.reconcilers.consumer_group.run import GroupsRun
from odradek_operator.reconcilers.passes import Outcomes, Passes
from odradek_operator.reconcilers.reconciler import Outside


class ConsumerGroupReconciler(Passes):
    """Of all ConsumerGroups. `bootstrap` tells where a Cluster's brokers are reached."""

    def __init__(
        self, outside: Outside, *, brokers: BrokerClients, record_times: RecordTimes, bootstrap: Bootstrap
    ) -> None:
        super().__init__(outside, CONSUMER_GROUPS)
        self._brokers = brokers
        self._record_times = record_times
        self._bootstrap = bootstrap

    async def see_to(self, namespace: str, bodies: Sequence[Json], due: Sequence[Json]) -> Outcomes:
        run = GroupsRun(
            self._outside,
            namespace,
            bodies,
            brokers=self._brokers,
            record_times=self._record_times,
            bootstrap=self._bootstrap,
        )
        return await run.see_to(due)
