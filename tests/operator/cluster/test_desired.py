"""What a Cluster is made of, as pure functions; and the start scripts, run by a real /bin/sh."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.settings.file import parse_properties
from odradek_operator.desired import (
    binding,
    brokers,
    controllers,
    policies,
    scripts,
    services,
    settings,
    zookeeper,
)
from odradek_operator.desired.names import Context
from odradek_operator.desired.zookeeper_files import EnsembleMembership
from odradek_operator.gateways.cluster_admin import InForce
from odradek_operator.gateways.kubernetes import Json
from odradek_operator.reconcilers.cluster.scaling.broker_count import Reason, scale
from odradek_operator.reconcilers.cluster.settings.addresses import external_addresses
from odradek_operator.reconcilers.cluster.settings.images import image_of, version_of
from odradek_operator.reconcilers.cluster.settings.settings_plan import plan_settings
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.cluster_status import Movement
from odradek_operator.resources.pods import Resources
from odradek_operator.resources.structure import parse
from odradek_operator.resources.zookeeper import ZookeeperServers

NODE_PORT = {"name": "out", "type": "NodePort", "port": 9094}
TEMPLATE = "b{broker}.{cluster}.example.com"


def context(**spec: Any) -> Context:
    """A Cluster called `events` in `default`."""
    wanted = parse(ClusterSpec, {"zookeeper": {"servers": {"replicas": 3}}, **spec})
    return Context(
        name="events",
        namespace="default",
        spec=wanted,
        owner={"uid": "u"},
        image="odradek:1",
        zookeeper_image="zookeeper:3.9",
        domain="cluster.local",
        operator_namespace="odradek-system",
        brokers=wanted.brokers.replicas,
        addresses={},
        zones={},
    )


def workloads(of: Context) -> list[Json]:
    servers = of.spec.zookeeper.servers or ZookeeperServers()
    return [
        brokers.broker_stateful_set(of),
        controllers.controller_deployment(of),
        zookeeper.zookeeper_stateful_set(of, servers),
    ]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(
    ("run_as", "expected"),
    [
        ({}, {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}),
        ({"assigned": True}, {}),
        ({"user": 7, "group": 0, "fsGroup": 8}, {"runAsUser": 7, "runAsGroup": 0, "fsGroup": 8}),
    ],
)
def test_users_and_groups_are_those_that_are_given(number: int, run_as: Json, expected: Json) -> None:
    security = workloads(context(runAs=run_as))[number]["spec"]["template"]["spec"]["securityContext"]
    assert {key: security[key] for key in security if key.startswith("run") or key == "fsGroup"} == {
        "runAsNonRoot": True,
        **expected,
    }


@pytest.mark.parametrize("number", range(3))
def test_more_containers_stand_before_and_beside_ours(number: int) -> None:
    user = {
        "initContainers": [{"name": "first", "image": "a"}],
        "sidecars": [{"name": "beside", "image": "b"}],
    }
    of = context(brokers={"pod": user}, controllers={"pod": user}, zookeeper={"servers": {"pod": user}})
    pod = workloads(of)[number]["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["initContainers"]] == ["first"]
    assert [one["name"] for one in pod["containers"]][1:] == ["beside"]
    assert "initContainers" not in workloads(context())[number]["spec"]["template"]["spec"]


@pytest.mark.parametrize("number", range(3))
def test_pods_are_restricted_whatever_users_add(number: int) -> None:
    user = {
        "labels": {"app.kubernetes.io/instance": "mine", "team": "a"},
        "env": [{"name": "A", "value": "b"}],
    }
    of = context(brokers={"pod": user}, controllers={"pod": user}, zookeeper={"servers": {"pod": user}})
    workload = workloads(of)[number]
    template = workload["spec"]["template"]
    assert template["spec"]["automountServiceAccountToken"] is False
    assert template["spec"]["securityContext"]["runAsUser"] == 10001
    assert template["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = template["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"name": "A", "value": "b"} in container["env"]
    # What selects pods wins over what users say, and says nothing that changes.
    selector = workload["spec"]["selector"]["matchLabels"]
    assert selector.items() <= template["metadata"]["labels"].items()
    assert not {"app.kubernetes.io/version", "helm.sh/chart", "team"} & set(selector)
    assert template["metadata"]["labels"]["team"] == "a"
    # Every path that is written to is a volume.
    mounts = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert "/tmp" in mounts


def test_only_a_broker_stays_reachable_with_a_full_disk() -> None:
    broker, controller, _ = (
        workload["spec"]["template"]["spec"]["containers"][0] for workload in workloads(context())
    )
    assert broker["readinessProbe"]["httpGet"]["path"] == "/readyz?exclude=disk"
    assert broker["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert controller["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_brokers_read_their_file_without_a_word_of_doubt() -> None:
    of = context(brokers={"config": {"num.partitions": 5}}, listeners=[NODE_PORT])
    file = brokers.broker_config_map(of)["data"]["broker.properties"]
    settings = Settings(
        {**parse_properties(file, source="file"), "advertised.listeners": scripts.advertised_listeners(of, 0)}
    )
    assert settings.warnings == ()
    assert settings.num_partitions == 5 and settings.default_replication_factor == 3
    assert settings.min_insync_replicas == 2
    patience_ms = int(parse_properties(file, source="file")["zookeeper.connection.timeout.ms"])
    assert patience_ms > 60_000, "it waits rather than to fail and back off"
    assert [one.port for one in settings.listener_endpoints] == [9092, 9094]
    connect = "events-zookeeper.default.svc.cluster.local:2181/default/events"
    assert parse_properties(file, source="file")["zookeeper.connect"] == connect
    one = context(brokers={"replicas": 1})
    alone = Settings(
        parse_properties(brokers.broker_config_map(one)["data"]["broker.properties"], source="file")
    )
    assert (alone.default_replication_factor, alone.min_insync_replicas) == (1, 1)


def run_start(folder: Path, files: dict[str, str], **environment: str) -> list[str]:
    """What `odradek` is called with by a start script."""
    for name, text in files.items():
        (folder / name).write_text(text.replace(scripts.SETTINGS_FOLDER, str(folder)))
    fake = folder / "odradek"
    fake.write_text('#!/bin/sh\nfor one in "$@"; do echo "$one"; done\n')
    fake.chmod(0o755)
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", str(folder / "start")],
        env=path | environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_broker_starts_with_its_own_number_addresses_and_rack(tmp_path: Path) -> None:
    of = context(brokers={"rackLabel": "topology.kubernetes.io/zone"}, listeners=[NODE_PORT])
    of = replace(
        of,
        addresses={"out": {0: None, 1: "${NODE_IP}:31001", 2: None}},
        zones={"node-1": "zone a", "node-2": "b"},
    )
    files = brokers.broker_config_map(of)["data"]
    arguments = run_start(tmp_path, files, POD_INDEX="1", NODE_NAME="node-1", NODE_IP="fd00::1")
    assert arguments[0] == "broker" and arguments[arguments.index("--id") + 1] == "1"
    advertised = next(one for one in arguments if one.startswith("advertised.listeners="))
    assert advertised == (
        "advertised.listeners=INTERNAL://events-broker-1.events-brokers.default.svc.cluster.local:9092,"
        "OUT://[fd00::1]:31001"
    )
    assert "broker.rack=zone a" in arguments
    # An address that is not known yet is left out.
    other = run_start(tmp_path, files, POD_INDEX="0", NODE_NAME="node-2", NODE_IP="10.0.0.1")
    assert not any("OUT://" in one for one in other) and "broker.rack=b" in other


def test_a_controllers_number_follows_from_its_pods_name(tmp_path: Path) -> None:
    files = controllers.controller_config_map(context())["data"]
    numbers = set()
    for name in ("events-controller-a", "events-controller-b", "events-controller-a"):
        arguments = run_start(tmp_path, files, POD_NAME=name, POD_IP="10.0.0.7")
        assert arguments[0] == "controller" and "CONTROLLER://10.0.0.7:9093" in arguments
        numbers.add(int(arguments[arguments.index("--id") + 1]))
    assert len(numbers) == 2 and all(2**20 <= number < 2**31 for number in numbers)


@pytest.mark.parametrize("image", ["official", "debian"])
def test_zookeeper_starts_and_logs_as_its_image_has_it(tmp_path: Path, image: str) -> None:
    of = context()
    conf = tmp_path / "conf"
    conf.mkdir()
    (tmp_path / "data").mkdir()
    all_of_them = EnsembleMembership(voters=(1, 2, 3), founders=(1, 2, 3))
    servers = of.spec.zookeeper.servers or ZookeeperServers()
    files = zookeeper.zookeeper_config_map(of, servers, all_of_them)["data"]
    for name, text in files.items():
        (conf / name).write_text(text)
    bin_folder = tmp_path / ("bin" if image == "official" else "share/zookeeper/bin")
    bin_folder.mkdir(parents=True)
    server = bin_folder / "zkServer.sh"
    server.write_text('#!/bin/sh\necho "$*"\necho "$SERVER_JVMFLAGS"\n')
    server.chmod(0o755)
    start = files["start"]
    for path in ("/usr/share", "/data", "/conf"):
        start = start.replace(path, str(tmp_path / path.rpartition("/")[2]))
    done = subprocess.run(
        ["/bin/sh", "-c", start],
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "POD_INDEX": "2", "SERVER_JVMFLAGS": "-Xmx1m"},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    votes, called, flags = done.stdout.splitlines()
    data = tmp_path / "data"
    assert votes == "server 3 votes" and (data / "myid").read_text() == "3\n"
    assert called == f"start-foreground {data}/dynamic/zoo.cfg"
    names_file = f"dynamicConfigFile={data}/dynamic/zoo.cfg.dynamic.0"
    assert names_file in (data / "dynamic/zoo.cfg").read_text().splitlines()
    assert (data / "dynamic/zoo.cfg.dynamic.0").read_text() == files["members"]
    # Each image's way to log finds a file of its own beside zoo.cfg, at a level for people.
    if image == "official":
        assert flags == "-Xmx1m"
        tree = ElementTree.fromstring(files["logback.xml"])
        assert [one.get("level") for one in tree.findall("root")] == ["INFO"]
        assert [one.get("ref") for one in tree.findall("root/appender-ref")] == ["CONSOLE"]
    else:
        assert flags.startswith("-Xmx1m ") and f" -cp {conf}:" in flags and "slf4j-log4j12.jar" in flags
        assert (
            parse_properties(files["log4j.properties"], source="file")["log4j.rootLogger"] == "INFO, CONSOLE"
        )


def test_a_single_zookeeper_is_reachable_early_and_several_when_ready() -> None:
    for replicas, at_once in ((1, True), (3, False)):
        made = services.own_services(context(zookeeper={"servers": {"replicas": replicas}}))
        client = next(one for one in made if one["metadata"]["name"] == "events-zookeeper")
        assert client["spec"].get("publishNotReadyAddresses", False) is at_once


def test_only_the_clusters_pods_may_talk_to_controllers_and_zookeeper() -> None:
    found = {one["metadata"]["name"]: one["spec"]["ingress"] for one in policies.network_policies(context())}
    assert set(found) == {"events-broker", "events-controller", "events-zookeeper"}
    assert "from" not in found["events-broker"][0], (
        "clients come from anywhere unless somebody says otherwise"
    )
    of_zookeeper = {rule["ports"][0]["port"]: rule["from"] for rule in found["events-zookeeper"]}
    components = {
        one["podSelector"]["matchLabels"].get("app.kubernetes.io/component") for one in of_zookeeper[2181]
    }
    assert components == {"broker", "controller", None}
    operators = [one for one in of_zookeeper[2181] if "namespaceSelector" in one]
    assert [one["podSelector"]["matchLabels"] for one in operators] == [
        {"app.kubernetes.io/name": "odradek-operator"}
    ]
    named = policies.network_policies(context(network={"clients": [{"podSelector": {}}]}))
    assert {"podSelector": {}} in named[0]["spec"]["ingress"][0]["from"]


def test_no_selector_matches_other_software_with_recommended_labels() -> None:
    of = context(listeners=[NODE_PORT])
    selectors = [
        *(one["spec"]["selector"]["matchLabels"] for one in workloads(of)),
        *(one["spec"]["selector"] for one in services.own_services(of)),
        *(one["spec"]["selector"] for one in services.external_services(of, range(3))),
        *(one["spec"]["selector"]["matchLabels"] for one in policies.disruption_budgets(of)),
        *(one["spec"]["selector"]["matchLabels"] for one in policies.broker_budgets(of, is_held=False)),
        *(one["spec"]["podSelector"]["matchLabels"] for one in policies.network_policies(of)),
    ]
    assert len(selectors) == 3 + 5 + 4 + 4 + 3
    for selector in selectors:
        # A Helm release of the same name with a component of the same name, of which there are many.
        assert selector["odradek.io/cluster"] == "events" and selector["app.kubernetes.io/name"] == "odradek"


def test_the_operator_is_let_in_from_its_own_namespace_alone() -> None:
    policy = policies.network_policies(context(network={"clients": []}))[0]
    (operator,) = policy["spec"]["ingress"][-1]["from"]
    assert operator["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "odradek-system"}
    assert operator["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "odradek-operator"}


def test_bindings_hold_what_clients_and_spark_need() -> None:
    bound = binding.binding_config_map(context())["data"]
    assert bound["bootstrap.servers"] == "events-bootstrap.default.svc.cluster.local:9092"
    assert (bound["type"], bound["port"]) == ("kafka", "9092")
    spark = binding.spark_config_map(context())["data"]
    assert spark["spark.odradek.bootstrap.servers"] == bound["bootstrap.servers"]


LISTENER = {**NODE_PORT, "type": "LoadBalancer"}


@pytest.mark.parametrize(
    ("listener", "service", "address"),
    [
        (LISTENER, {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}}, "lb.example.com:9094"),
        (LISTENER, {"status": {}}, None),
        ({**LISTENER, "advertisedHost": TEMPLATE, "advertisedPort": 443}, {}, "b0.events.example.com:443"),
        (NODE_PORT, {"spec": {"ports": [{"nodePort": 31000}]}}, "${NODE_IP}:31000"),
        (NODE_PORT, {"spec": {"ports": [{}]}}, None),
        ({**LISTENER, "type": "Internal"}, {}, "events-out-0.default.svc.cluster.local:9094"),
        ({**LISTENER, "type": "Ingress", "advertisedHost": TEMPLATE}, {}, "b0.events.example.com:443"),
        ({**LISTENER, "type": "TLSRoute"}, {}, None),
        ({**LISTENER, "brokers": [{"broker": 0, "host": "fd00::2", "port": 7}]}, {}, "[fd00::2]:7"),
    ],
)  # fmt: skip
def test_external_addresses(listener: Json, service: Json, address: str | None) -> None:
    of = context(listeners=[listener])
    found, pending = external_addresses(of, {("Service", "events-out-0"): service}, range(1))
    assert found == {"out": {0: address}}
    assert [one.broker for one in pending] == ([] if address else [0])


def test_each_listener_has_a_service_for_each_broker_and_one_to_begin_at() -> None:
    made = services.external_services(context(listeners=[{**LISTENER, "localTraffic": True}]), range(2))
    assert [one["metadata"]["name"] for one in made] == [
        "events-out-bootstrap",
        "events-out-0",
        "events-out-1",
    ]
    assert made[1]["spec"]["selector"]["statefulset.kubernetes.io/pod-name"] == "events-broker-0"
    assert all(one["spec"]["externalTrafficPolicy"] == "Local" for one in made)


def test_settings_are_judged_by_what_brokers_have() -> None:
    def broker(**values: str) -> dict[str, InForce]:
        return {key.replace("_", "."): InForce(value=value, given=True) for key, value in values.items()}

    file = {"log.retention.ms": "5", "num.partitions": "3"}
    same = plan_settings({0: file}, {0: broker(log_retention_ms="5", num_partitions="3")}, live=())
    assert same.alter == {} and same.restart == {}
    differs = plan_settings({0: file}, {0: broker(log_retention_ms="6", num_partitions="4")}, live=())
    assert differs.alter == {"log.retention.ms": "5"} and differs.live == ("log.retention.ms",)
    assert differs.restart == {0: ("num.partitions is 4, wanted 3",)}
    # Taken out of the Cluster: back to the default, live where that is possible.
    gone = plan_settings({0: {}}, {0: broker(log_cleaner_threads="4")}, live=("log.cleaner.threads",))
    assert gone.alter == {"log.cleaner.threads": "1"}
    own = {"log.retention.ms": InForce(value="6", given=True, own_override=True)}
    covered = plan_settings({0: file}, {0: own}, live=())
    assert covered.alter == {} and covered.covered == {0: ("log.retention.ms",)}


def test_how_many_pods_there_shall_be() -> None:
    assert scale(wanted=range(3), there=None, before=None).brokers == tuple(range(3))
    assert scale(wanted=range(3), there=range(3), before=None).movement is None
    up = scale(wanted=range(5), there=range(3), before=None)
    assert up.brokers == tuple(range(5)) and up.movement == Movement(reason=Reason.UP, brokers=(3, 4))
    # What was begun continues, and adds to what comes.
    begun = Movement(reason=Reason.UP, brokers=(3,), total=4, left=2)
    assert scale(wanted=range(4), there=range(4), before=begun).movement == begun
    assert scale(wanted=range(5), there=range(4), before=begun).movement == Movement(
        reason=Reason.UP, brokers=(3, 4)
    )
    down = scale(wanted=range(2), there=range(4), before=None)
    assert down.brokers == tuple(range(4)) and down.movement == Movement(reason=Reason.DOWN, brokers=(2, 3))
    # Thought better of: those that were being emptied are filled again.
    back = scale(wanted=range(3), there=range(4), before=down.movement)
    assert back.brokers == tuple(range(4)) and back.movement == Movement(reason=Reason.DOWN, brokers=(3,))
    assert back.stop_drain == (2,)
    whole = scale(wanted=range(4), there=range(4), before=down.movement)
    assert whole.stop_drain == (2, 3) and whole.movement == Movement(reason=Reason.UP, brokers=(2, 3))


@pytest.mark.parametrize(
    ("spec", "default", "image", "version"),
    [
        ({}, "r/odradek:1", "r/odradek:1", "1"),
        ({"version": "2"}, "r:5000/odradek:1", "r:5000/odradek:2", "2"),
        ({"image": "mine"}, "r/odradek:1", "mine", None),
        ({"image": "mine", "version": "2"}, "r/odradek:1", "mine:2", "2"),
        ({"image": "mine:3", "version": "2"}, "", "mine:3", "3"),
        ({"image": "mine@sha256:ab"}, "", "mine@sha256:ab", "sha256:ab"),
        ({"image": "mine@sha256:ab", "version": "2"}, "", "mine@sha256:ab", "sha256:ab"),
        ({"version": "2"}, "r/odradek@sha256:ab", "r/odradek:2", "2"),
    ],
)
def test_images(spec: Json, default: str, image: str, version: str | None) -> None:
    found = image_of(context(**spec).spec, default)
    assert found == image and (version_of(found) or None) == version


def test_a_controller_that_is_gone_is_waited_for_less_long_than_a_broker() -> None:
    of = context()
    controllers, brokers = settings.controller_settings(of), settings.broker_settings(of)
    assert controllers["zookeeper.session.timeout.ms"] == "6000"
    assert "zookeeper.session.timeout.ms" not in brokers


def test_extra_labels_and_annotations_never_replace_the_operators_own() -> None:
    given = {
        "labels": {"team": "payments", "app.kubernetes.io/name": "theirs", "odradek.io/cluster": "theirs"},
        "annotations": {"cost-centre": "42"},
    }
    of = context(objectMetadata=given, listeners=[NODE_PORT])
    servers = of.spec.zookeeper.servers or ZookeeperServers()
    sets = workloads(of)
    made = [
        *sets,
        *(one["spec"]["template"] for one in sets),
        *(claim for one in sets for claim in one["spec"].get("volumeClaimTemplates", ())),
        brokers.broker_config_map(of),
        controllers.controller_config_map(of),
        zookeeper.zookeeper_config_map(of, servers, EnsembleMembership(voters=(1, 2, 3))),
        *services.own_services(of),
        *services.external_services(of, range(3)),
        *policies.disruption_budgets(of),
        *policies.network_policies(of),
        *policies.service_accounts(of),
        binding.binding_config_map(of),
        binding.spark_config_map(of),
    ]
    for one in made:
        about = one["metadata"]
        assert about["labels"]["team"] == "payments", about
        assert about["labels"]["app.kubernetes.io/name"] == "odradek"
        assert about["labels"]["odradek.io/cluster"] == "events"
        assert about["annotations"]["cost-centre"] == "42", about
    assert "team" not in brokers.broker_stateful_set(of)["spec"]["selector"]["matchLabels"]


def test_memory_has_limits_by_default() -> None:
    of = context()
    servers = of.spec.zookeeper.servers or ZookeeperServers()

    def limit(one: Any) -> Any:
        return one["spec"]["template"]["spec"]["containers"][0]["resources"].get("limits", {}).get("memory")

    assert [limit(one) for one in workloads(of)] == ["2Gi", "512Mi", "768Mi"]
    wide = replace(servers, heap_megabytes=2048)
    assert limit(zookeeper.zookeeper_stateful_set(of, wide)) == "4352Mi"
    asked = replace(servers, resources=Resources(requests={"memory": "1Gi"}))
    assert limit(zookeeper.zookeeper_stateful_set(of, asked)) == "1Gi"
    none = replace(servers, resources=Resources(requests={"memory": "1Gi"}, limits={}))
    assert limit(zookeeper.zookeeper_stateful_set(of, none)) is None


def test_clients_make_no_topics_unless_the_cluster_says_so() -> None:
    assert settings.broker_settings(context())["auto.create.topics.enable"] == "false"
    asked = context(brokers={"config": {"auto.create.topics.enable": True}})
    assert settings.broker_settings(asked)["auto.create.topics.enable"] == "true"
