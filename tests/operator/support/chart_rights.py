"""A real API server on which the operator has the rights that the chart gives, and a reconciler of Clusters for it."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.api_server import ApiServerGateway
from odradek_operator.reconcilers.cluster.reconciler import ClusterReconciler
from odradek_operator.reconcilers.reconciler import Environment
from tests.operator.support.cluster_admin import Brokers
from tests.operator.support.objects import Objects
from tests.support.kubernetes_api import ApiServer
from tests.support.polling import wait_until

NAMESPACE: Final = "odradek"
OPERATOR_ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:odradek-operator"
RIGHTS: Final = Path(__file__).parents[3] / "manifests" / "operator" / "one-namespace.yaml"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def grant_rights(server: ApiServer, *rights: str) -> None:
    """Give the operator's account its rights. `rights` are some of them, as "patch secrets": they hold on return."""
    server.kubectl("apply", "--filename", str(RIGHTS))
    for right in rights:
        asked = ("auth", "can-i", *right.split(), "--namespace", NAMESPACE, "--as", OPERATOR_ACCOUNT)
        wait_until(f"it may {right}", partial(server.kubectl, *asked), not_yet=subprocess.CalledProcessError)


def cluster_reconciler(kubernetes: ApiServerGateway) -> ClusterReconciler:
    """One of Clusters whose brokers are not asked. It is NOW all the time."""
    environment = Environment(
        kubernetes=kubernetes, conditions=ConditionBook(), wake=lambda *_, **__: None, now=lambda: NOW
    )
    return ClusterReconciler(environment, admin=Brokers(Objects()), settings=OperatorSettings())
