"""The reconciler of Users, in batches by cluster."""

from __future__ import annotations

from collections.abc import Sequence

from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import USERS, Json
from odradek_operator.reconcilers.addresses import Bootstrap
from odradek_operator.reconcilers.batch_reconciler import BatchReconciler, Outcomes
from odradek_operator.reconcilers.reconciler import Environment
from odradek_operator.reconcilers.user.run import UserRun


class UserReconciler(BatchReconciler):
    """The reconciler of all Users. `bootstrap` gives the address of a Cluster's brokers."""

    def __init__(self, environment: Environment, *, brokers: BrokerClients, bootstrap: Bootstrap) -> None:
        super().__init__(environment, USERS)
        self._brokers = brokers
        self._bootstrap = bootstrap

    async def reconcile_batch(self, namespace: str, bodies: Sequence[Json], due: Sequence[Json]) -> Outcomes:
        run = UserRun(self._environment, namespace, bodies, brokers=self._brokers, bootstrap=self._bootstrap)
        return await run.reconcile(due)
