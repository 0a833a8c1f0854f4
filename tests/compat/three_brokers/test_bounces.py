"""Kafka's verifiable clients while leaders and controllers are stopped and killed; `bounces` has the long version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.three_brokers.bounces import KINDS, bounced
from tests.support.cluster_processes import Cluster
from tests.support.verifiable import compared

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_is_acknowledged_is_received_once(cluster: Cluster, tmp_path: Path, protocol: str) -> None:
    kinds = KINDS if protocol == "classic" else tuple(reversed(KINDS))
    verdict = bounced(cluster, tmp_path, bounces=kinds, protocol=protocol)
    print(verdict)
    assert verdict.is_clean


def test_the_verdict_finds_what_went_wrong() -> None:
    acknowledged = {"0": (0, 0), "1": (1, 0), "2": (0, 1)}
    received = {"0": {(0, 0)}, "1": {(1, 0)}, "2": {(0, 1)}, "unanswered": {(0, 2)}}
    assert compared(acknowledged, received).is_clean
    lost = compared(acknowledged, {**received, "1": set()} | {"3": {(0, 3)}})
    assert (lost.moved, lost.is_clean) == (["1"], False)
    del received["1"]
    assert compared(acknowledged, received).lost == ["1"]
    received["1"] = {(1, 0), (1, 5)}
    assert compared(acknowledged, received).twice == ["1"]
    assert not compared({}, {}).is_clean, "nothing was tried"
    assert not compared({"0": (0, 0)}, received, failed=["7: timed out"]).is_clean
