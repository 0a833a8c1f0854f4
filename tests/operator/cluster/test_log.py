"""What the operator does to a Cluster stands in its log at INFO: what it made, altered, deleted and rolled, and why."""

from __future__ import annotations

import logging

import pytest

from odradek_operator.gateways.kubernetes import SERVICES
from tests.operator.support.cluster_world import ClusterWorld

KEY = "Cluster default/events"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="odradek_operator")
    return caplog


def test_the_log_says_what_was_made_and_then_nothing(log: pytest.LogCaptureFixture) -> None:
    world = ClusterWorld()
    world.settle()
    for made in ("Service events-bootstrap", "StatefulSet events-broker", "ConfigMap events-binding"):
        assert log.messages.count(f"{KEY}: made {made}") == 1
    log.clear()
    world.restart_operator()
    world.settle()
    assert log.messages == [], "a settled Cluster, and a new operator"


@pytest.mark.thorough
def test_the_log_says_what_is_altered_rolled_and_deleted_and_why(
    world: ClusterWorld, log: pytest.LogCaptureFixture
) -> None:
    world.change(spec__image="odradek:0.2.0", spec__brokers={"config": {"log.retention.ms": 5000}})
    world.settle()
    assert f"{KEY}: altered StatefulSet events-broker: spec.template" in log.messages
    assert f"{KEY}: altered ConfigMap events-broker: data.broker.properties" in log.messages
    assert f"{KEY}: BrokerRestarts: broker 0: its pod template has changed" in log.messages
    assert any("SettingsAltered: without a restart: log.retention.ms=5000" in one for one in log.messages)
    world.change(spec__listeners=[{"name": "out", "type": "Internal", "port": 9094}])
    world.settle()
    world.change(spec__listeners=[])
    world.settle()
    assert f"{KEY}: deleted Service events-out-1, which is no longer wanted" in log.messages
    log.clear()
    world.delete(SERVICES, "events-bootstrap")
    world.settle()
    assert log.messages == [f"{KEY}: made Service events-bootstrap"]
