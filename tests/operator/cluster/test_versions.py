"""An image that may not run changes no broker, and the Cluster says why."""

from __future__ import annotations

import pytest

from odradek_operator.foundation import versions
from odradek_operator.foundation.versions import Series
from odradek_operator.gateways.kubernetes import STATEFUL_SETS
from tests.operator.support.cluster_world import BROKER_PODS, ClusterWorld

TABLE = (
    Series(major=0, minor=1, data_format=1, registry_format=1),
    Series(major=0, minor=2, data_format=2, registry_format=1),
)


@pytest.fixture
def changed_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose second series writes directories that the first cannot read."""
    monkeypatch.setattr(versions.check, "__kwdefaults__", {"known": TABLE})


def image_of(world: ClusterWorld) -> str:
    body = world.body(STATEFUL_SETS, "events-broker")
    return str(body["spec"]["template"]["spec"]["containers"][0]["image"])


def settle(world: ClusterWorld) -> None:
    world.look(40)


@pytest.mark.thorough
@pytest.mark.parametrize("image", ["odradek:9.0.0", "odradek:latest", "odradek@sha256:0123"])
def test_an_unknown_version_is_not_rolled_out(world: ClusterWorld, image: str) -> None:
    before = world.pods()
    world.change(spec__image=image)
    settle(world)
    assert world.pods() == before and image_of(world) == "odradek:0.1.0"
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "UnknownVersion")
    assert "continue with odradek:0.1.0" in ready["message"]
    events = [one for one in world.kubernetes.events if one.reason == "UnknownVersion"]
    assert len(events) == 1, "once"
    # What else changes is done.
    world.delete(STATEFUL_SETS, "events-broker")
    world.change(spec__image="odradek:0.1.0")
    world.settle()
    assert world.condition("Ready")["status"] == "True"


def test_a_version_may_be_named_where_the_tag_is_none(world: ClusterWorld) -> None:
    world.change(spec__image="odradek@sha256:0123", spec__version="0.2.0")
    world.settle()
    assert image_of(world) == "odradek@sha256:0123"
    assert world.status["newestVersion"] == "0.2.0"


def test_a_cluster_that_has_no_brokers_makes_none_of_an_unknown_version() -> None:
    world = ClusterWorld({"image": "odradek:9.0.0", "zookeeper": {"servers": {"replicas": 1}}})
    settle(world)
    assert world.condition("Ready")["reason"] == "UnknownVersion" and world.pods() == {}


@pytest.mark.thorough
def test_a_downgrade_across_formats_is_refused(world: ClusterWorld, changed_formats: None) -> None:
    world.change(spec__image="odradek:0.2.0")
    world.settle()
    assert world.status["newestVersion"] == "0.2.0" and world.condition("Ready")["status"] == "True"
    before = world.pods()
    world.change(spec__image="odradek:0.1.0")
    settle(world)
    assert world.pods() == before and image_of(world) == "odradek:0.2.0"
    ready = world.condition("Ready")
    assert ready["reason"] == "DowngradeRefused" and "broker directories" in ready["message"]


def test_an_upgrade_that_has_only_begun_counts(world: ClusterWorld, changed_formats: None) -> None:
    world.change(spec__image="odradek:0.2.0")
    while image_of(world) != "odradek:0.2.0":
        world.reconcile()
    assert world.status["version"] == "0.1.0", "not all brokers run it yet"
    world.restart_operator()
    world.change(spec__image="odradek:0.1.0")
    world.settle() if world.condition("Ready")["status"] == "True" else settle(world)
    assert world.condition("Ready")["reason"] == "DowngradeRefused"
    assert set(world.pods()) == BROKER_PODS and image_of(world) == "odradek:0.2.0"


@pytest.mark.thorough
def test_versions_of_the_same_formats_go_forth_and_back(world: ClusterWorld) -> None:
    for image in ("odradek:0.2.0", "odradek:0.1.0"):
        world.change(spec__image=image)
        world.settle()
        assert image_of(world) == image and world.condition("Ready")["status"] == "True"
    assert world.status["newestVersion"] == "0.2.0"
