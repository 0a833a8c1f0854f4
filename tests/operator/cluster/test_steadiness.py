"""What a roll's next step waits for besides ready pods: ZooKeeper, sessions, an active controller."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from odradek_operator.desired.names import ROLL_ANNOTATION
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways import cluster_admin
from odradek_operator.gateways.cluster_admin import Health, HttpClusterAdmin
from odradek_operator.reconcilers.cluster.facts import ServerPod
from odradek_operator.reconcilers.cluster.steadiness import Observed, waits_for
from odradek_operator.reconcilers.cluster.zookeeper.ensemble_rolling import next_server
from tests.operator.support.cluster_world import ClusterWorld
from tests.support.stories import in_real_time

KEY = Key("Cluster", "default", "events")
STEADY = Observed(
    servers={"zk-0": "follower", "zk-1": "leader", "zk-2": "follower"},
    servers_wanted=3,
    controllers={"c-a": Health(is_active_controller=True, followers=2), "c-b": Health()},
    brokers={"b-0": Health(), "b-1": Health()},
)
NO_SESSION = Health(has_session=False)


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        (replace(STEADY, servers={**STEADY.servers, "zk-2": None}), "2 of 3 ZooKeeper servers serve: zk-2"),
        (replace(STEADY, servers={"zk-1": "leader", "zk-2": "follower"}), "2 of 3 ZooKeeper servers serve"),
        (replace(STEADY, servers=dict.fromkeys(STEADY.servers, "follower")), "have no leader"),
        (replace(STEADY, brokers={"b-0": Health(), "b-1": None}), "b-1 does not answer"),
        (replace(STEADY, brokers={"b-0": NO_SESSION, "b-1": Health()}), "b-0 has no connection to ZooKeeper"),
        (replace(STEADY, controllers={**STEADY.controllers, "c-b": NO_SESSION}), "c-b has no connection"),
        (replace(STEADY, controllers={"c-a": Health(), "c-b": Health()}), "no controller is active"),
        (
            replace(STEADY, controllers={"c-a": Health(is_active_controller=True, followers=1)}),
            "1 of 2 brokers follow",
        ),
    ],
)
def test_a_step_waits_for(observed: Observed, reason: str) -> None:
    found = waits_for(observed, takes_server=True)
    assert found is not None and reason in found


def test_a_step_waits_neither_when_steady_nor_for_an_unneeded_server() -> None:
    assert waits_for(STEADY, takes_server=True) is None
    two_of_three = replace(STEADY, servers={"zk-1": "leader", "zk-2": "follower"})
    assert waits_for(two_of_three, takes_server=False) is None
    assert waits_for(replace(STEADY, servers={"zk-1": "leader"}), takes_server=False) is not None
    elsewhere = replace(STEADY, servers={}, servers_wanted=0)
    assert waits_for(elsewhere, takes_server=False) is None


def server(number: int, *, ready: bool = True, current: bool = False, deleting: bool = False) -> ServerPod:
    name = f"zk-{number}"
    return ServerPod(
        name=name, uid=name, ready=ready, deleting=deleting, current=current, roll=False, address="10.0.0.1"
    )


def chosen(pods: tuple[ServerPod, ...], leader: str | None, waits: str | None = None) -> str | None:
    reasons = {pod.name: "its pod template has changed" for pod in pods if not pod.current}
    found = next_server(pods, reasons, wanted=3, leader=leader, waits_for=waits)
    return None if found.replace is None else found.replace.name


def test_servers_go_one_at_a_time_and_the_leader_last() -> None:
    all_old = (server(0), server(1), server(2))
    assert chosen(all_old, "zk-2") == "zk-1"
    assert chosen((server(0), server(1, current=True), server(2)), "zk-2") == "zk-0"
    assert chosen((server(0, current=True), server(1, current=True), server(2)), "zk-2") == "zk-2"
    assert chosen(all_old, "zk-2", "no controller is active") is None
    assert chosen((server(0), server(1, ready=False, current=True), server(2)), "zk-2") is None
    assert chosen((server(0), server(1, deleting=True), server(2)), "zk-2") is None
    assert chosen((server(0), server(2)), "zk-2") is None, "one is being made"


def test_a_server_that_does_not_serve_is_replaced_first_at_once() -> None:
    pods = (server(0), server(1, ready=False), server(2))
    assert chosen(pods, None, "ZooKeeper's servers have no leader") == "zk-1"


def ensemble() -> ClusterWorld:
    world = ClusterWorld({"zookeeper": {"servers": {"replicas": 3}}})
    world.settle()
    return world


def test_a_restart_takes_one_pod_at_a_time_servers_first_leader_last() -> None:
    world = ensemble()
    world.brokers.leader = 3
    before = {part: world.pods(part) for part in ("zookeeper", "broker", "controller")}
    world.change(metadata__annotations={"odradek.io/restart": "monday"})
    order: list[str] = []
    for _ in range(80):
        after = world.look()
        for component, pods in before.items():
            now = world.pods(component)
            gone = [name for name, uid in pods.items() if now.get(name) != uid and name not in order]
            assert component == "controller" or len(gone) <= 1
            order += gone
        if after is None:
            break
    assert order[:3] == ["events-zookeeper-1", "events-zookeeper-0", "events-zookeeper-2"]
    assert order[3:6] == ["events-broker-0", "events-broker-1", "events-broker-2"]
    assert set(order[6:]) == set(before["controller"])


@pytest.mark.thorough
@pytest.mark.parametrize("component", ["zookeeper", "broker", "controller"])
def test_no_pod_is_replaced_without_all_sessions_and_a_controller(component: str) -> None:
    world = ensemble()
    name = min(world.pods(component))
    before = world.pods(component)
    world.brokers.without_session = {"events-broker-2"}
    world.annotate_pod(name, ROLL_ANNOTATION, "true")
    for _ in range(3):
        world.look()
        assert world.pods(component) == before
    world.brokers.without_session = set()
    world.brokers.has_controller = False
    for _ in range(3):
        world.look()
        assert world.pods(component) == before
    if component != "controller":
        assert "no controller is active" in world.condition("Rolling")["message"]
    world.brokers.has_controller = True
    world.look()
    world.settle()
    assert world.pods(component).get(name) != before[name]


def test_a_server_whose_new_pod_looks_for_a_leader_is_waited_for() -> None:
    world = ensemble()
    before = world.pods("zookeeper")
    world.brokers.looking = {"events-zookeeper-2"}
    world.change(spec__zookeeper__servers__heapMegabytes=512)
    world.look(5)
    assert world.pods("zookeeper") == before
    rolling = world.condition("Rolling")
    assert (
        rolling["reason"] == "Waiting"
        and "events-zookeeper-2 is ready and does not serve" in rolling["message"]
    )
    world.brokers.looking = set()
    world.settle()
    assert set(world.pods("zookeeper").values()).isdisjoint(before.values())


def test_an_older_process_without_the_metric_counts_as_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = HttpClusterAdmin(None)  # type: ignore[arg-type]
    answers = {
        "active": "odradek_is_controller 1\nodradek_controller_followers 3\nodradek_registry_connected 0\n",
        "older": "odradek_is_controller 0\nodradek_brokers 3\n",
    }

    async def get(host: str, *_: object) -> str | None:
        return answers.get(host)

    monkeypatch.setattr(admin, "_get", get)

    async def ask_all() -> list[Health | None]:
        return [await admin.read_health(host, 9644, KEY) for host in ("active", "older", "nobody")]

    assert asyncio.run(ask_all()) == [
        Health(is_active_controller=True, followers=3, has_session=False),
        Health(),
        None,
    ]


@in_real_time
async def test_a_server_that_does_not_serve_has_no_mode() -> None:
    answers = [
        b"Zookeeper version: 3.8.0\nMode: leader\nNode count: 5\n",
        b"This ZooKeeper instance is not serving\n",
    ]
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readexactly(4))
        writer.write(answers[len(asked) - 1])
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    admin = HttpClusterAdmin(None)  # type: ignore[arg-type]
    assert [await admin.read_zookeeper_mode("127.0.0.1", port) for _ in answers] == ["leader", None]
    assert asked == [b"srvr", b"srvr"]
    server.close()
    await server.wait_closed()
    assert await cluster_admin.ask_zookeeper("127.0.0.1", port, "srvr") is None
