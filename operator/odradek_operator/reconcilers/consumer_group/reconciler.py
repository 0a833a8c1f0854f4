"""The reconciler of ConsumerGroups, in batches by cluster."""

from __future__ import annotations

from collections.abc import Sequence

from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import CONSUMER_GROUPS, Json
from odradek_operator.gateways.record_times import RecordTimes
from odradek_operator.reconcilers.addresses import Bootstrap
from odradek_operator.reconcilers.batch_reconciler import BatchReconciler, Outcomes
from odradek_operator.reconcilers.consumer_group.run import GroupRun
from odradek_operator.reconcilers.reconciler import Environment


class ConsumerGroupReconciler(BatchReconciler):
    """The reconciler of all ConsumerGroups. `bootstrap` gives the address of a Cluster's brokers."""

    def __init__(
        self,
        environment: Environment,
        *,
        brokers: BrokerClients,
        record_times: RecordTimes,
        bootstrap: Bootstrap,
    ) -> None:
        super().__init__(environment, CONSUMER_GROUPS)
        self._brokers = brokers
        self._record_times = record_times
        self._bootstrap = bootstrap

    async def reconcile_batch(self, namespace: str, bodies: Sequence[Json], due: Sequence[Json]) -> Outcomes:
        run = GroupRun(
            self._environment,
            namespace,
            bodies,
            brokers=self._brokers,
            record_times=self._record_times,
            bootstrap=self._bootstrap,
        )
        return await run.reconcile(due)
