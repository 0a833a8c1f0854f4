"""Kafka's verifiable clients while leaders and controllers are stopped and killed; `bounces` has the long version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.three_brokers.bounces import KINDS, bounced
from tests.support.cluster_processes import Cluster

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_is_acknowledged_is_received_once(cluster: Cluster, tmp_path: Path, protocol: str) -> None:
    kinds = KINDS if protocol == "classic" else tuple(reversed(KINDS))
    verdict = bounced(cluster, tmp_path, bounces=kinds, protocol=protocol)
    print(verdict)
    assert verdict.is_clean
