"""Pods of several brokers: their ports, the way to each broker, and the settings that they are compared with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from odradek_operator.desired import brokers, policies, scripts, services, settings
from odradek_operator.desired.names import PoolPods
from odradek_operator.gateways.kubernetes import Json
from odradek_operator.reconcilers.cluster.scaling.broker_count import find_pools
from odradek_operator.reconcilers.cluster.settings import live_settings
from odradek_operator.resources.brokers import BrokerPool
from tests.operator.cluster.test_desired import context, run_start

LISTENER: Json = {"name": "out", "type": "LoadBalancer", "port": 9094}
OWN = {"POD_INDEX": "1", "NODE_NAME": "n", "NODE_IP": "10.0.0.1"}


def environment_of(stateful_set: Json) -> dict[str, Any]:
    (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value") for one in container["env"]}


def test_a_cluster_of_single_brokers_is_what_it_was(tmp_path: Path) -> None:
    of = context(listeners=[LISTENER])
    assert "BROKER_PROCESSES" not in environment_of(brokers.broker_stateful_set(of))
    assert "BROKER_PROCESSES" not in scripts.start_broker(of)
    assert "--processes" not in run_start(tmp_path, brokers.broker_config_map(of)["data"], **OWN)
    assert all(len(one["spec"]["ports"]) == 1 for one in services.external_services(of, [0]))


def test_a_pod_starts_as_many_brokers_as_are_wanted(tmp_path: Path) -> None:
    of = context(brokers={"processes": 3})
    assert environment_of(brokers.broker_stateful_set(of))["BROKER_PROCESSES"] == "3"
    arguments = run_start(tmp_path, brokers.broker_config_map(of)["data"], **OWN, BROKER_PROCESSES="3")
    assert arguments[arguments.index("--processes") + 1] == "3"
    # Of a pool beside it that has one each, no variable comes.
    assert "--processes" not in run_start(tmp_path, brokers.broker_config_map(of)["data"], **OWN)


def test_clients_reach_each_broker_of_a_pod() -> None:
    of = context(brokers={"processes": 2}, listeners=[LISTENER])
    first, own = services.external_services(of, [0])
    assert [one["port"] for one in first["spec"]["ports"]] == [9094]
    assert {one["name"]: one["port"] for one in own["spec"]["ports"]} == {
        "out": 9094,
        "out-1": 9194,
        "out-2": 9294,
    }
    policy = policies.network_policies(of)[0]["spec"]["ingress"]
    assert [one["port"] for one in policy[0]["ports"]] == [9092, 9192, 9292, 9094, 9194, 9294]


def test_a_pool_has_as_many_brokers_in_a_pod_as_it_wants() -> None:
    wanted = BrokerPool(name="fast", first_id=1000, replicas=2, processes=4)
    of = replace(
        context(listeners=[LISTENER]),
        pools=(PoolPods(name="fast", first_id=1000, pods=2, wanted=wanted, processes=4),),
    )
    assert (of.processes_of(0), of.processes_of(1001), of.processes_max) == (1, 4, 4)
    first, pool = brokers.broker_sets(of)
    assert "BROKER_PROCESSES" not in environment_of(first)
    assert environment_of(pool)["BROKER_PROCESSES"] == "4"
    _, single, machine = services.external_services(of, [0, 1000])
    assert (len(single["spec"]["ports"]), len(machine["spec"]["ports"])) == (1, 5)
    # One that is taken away keeps its own until it is empty.
    objects = {("StatefulSet", "events-broker-fast"): pool}
    (left,) = find_pools(context().spec.brokers, objects, "events")
    assert (left.name, left.first_id, left.processes) == ("fast", 1000, 4)


def test_a_pod_is_compared_with_what_its_first_broker_has() -> None:
    of = context(brokers={"processes": 2}, listeners=[LISTENER])
    of = replace(of, addresses={"out": {1: "lb.example.com:9094"}})
    pod = SimpleNamespace(broker=1, node_address="10.0.0.1")
    wanted = live_settings._file_of(SimpleNamespace(context=of), pod)  # type: ignore[arg-type]
    assert wanted["listeners"] == "INTERNAL://:9192,OUT://:9194"
    host = "events-broker-1.events-brokers.default.svc.cluster.local"
    assert wanted["advertised.listeners"] == f"INTERNAL://{host}:9192,OUT://lb.example.com:9194"
    assert wanted["log.dirs"] == settings.broker_settings(of)["log.dirs"]
