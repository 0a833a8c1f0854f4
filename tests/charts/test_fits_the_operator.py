"""What the charts take for granted of the pods, Services and bindings that the operator makes, is so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.generate.yaml_text import read_document
from odradek_operator.desired.binding import binding_config_map, spark_config_map
from odradek_operator.desired.brokers import broker_stateful_set
from odradek_operator.desired.controllers import controller_deployment
from odradek_operator.desired.names import Context
from odradek_operator.desired.services import own_services
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.structure import parse
from tests.support.helm import objects, template

CHECKOUT = Path(__file__).parents[2]
Thing = dict[str, Any]


def _rendered(chart: str, *settings: str) -> list[Thing]:
    return objects(template(chart, settings=settings))


def _only(kind: str, chart: str, *settings: str) -> Thing:
    """The only object of a kind."""
    (found,) = [thing for thing in _rendered(chart, *settings) if thing["kind"] == kind]
    return found


@pytest.fixture(scope="module")
def context() -> Context:
    """The Cluster of the chart's defaults, as the operator sees it."""
    cluster = _only("Cluster", "odradek")
    return Context(
        name=cluster["metadata"]["name"],
        namespace=cluster["metadata"]["namespace"],
        spec=parse(ClusterSpec, cluster["spec"]),
        owner={},
        image="broker:1",
        zookeeper_image="zookeeper:1",
        domain="cluster.local",
        operator_namespace="odradek-system",
        brokers=3,
        addresses={},
        zones={},
    )


def _matches(selector: Thing, labels: dict[str, str]) -> bool:
    """A label selector, as far as charts use it."""
    for wanted in selector.get("matchExpressions", ()):
        if wanted["operator"] == "Exists":
            if wanted["key"] not in labels:
                return False
            continue
        assert wanted["operator"] == "In"
        if labels.get(wanted["key"]) not in wanted["values"]:
            return False
    return all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())


def _pods(context: Context) -> list[Thing]:
    made = (broker_stateful_set(context), controller_deployment(context))
    return [dict(thing["spec"]["template"]) for thing in made]


@pytest.mark.thorough
def test_the_pod_monitor_finds_brokers_and_controllers_and_their_port(context: Context) -> None:
    monitor = _only("PodMonitor", "odradek", "monitoring.podMonitor.enabled=true")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    for pod in _pods(context):
        labels = pod["metadata"]["labels"]
        assert _matches(monitor["spec"]["selector"], labels)
        ports = [port["name"] for container in pod["spec"]["containers"] for port in container["ports"]]
        assert endpoint["port"] in ports
        for relabeling in endpoint["relabelings"]:
            (source,) = relabeling["sourceLabels"]
            named = source.removeprefix("__meta_kubernetes_pod_label_")
            assert named in {label.replace(".", "_").replace("/", "_") for label in labels}


@pytest.mark.thorough
def test_the_operator_may_reach_what_it_makes(context: Context) -> None:
    policy = _only("NetworkPolicy", "odradek-operator", "networkPolicy.restrictEgress=true")
    rules = [rule for rule in policy["spec"]["egress"] if "to" in rule]
    (peer,) = [peer for rule in rules for peer in rule["to"]]
    allowed = {port["port"] for rule in rules for port in rule["ports"]}
    for pod in _pods(context):
        assert _matches(peer["podSelector"], pod["metadata"]["labels"])
        listening = {
            port["containerPort"] for container in pod["spec"]["containers"] for port in container["ports"]
        }
        assert listening <= allowed


@pytest.mark.thorough
def test_no_pod_of_the_charts_is_taken_for_one_of_a_cluster(context: Context) -> None:
    selectors = [context.selector(component) for component in ("broker", "controller", "zookeeper")]
    for thing in [*_rendered("odradek"), *_rendered("odradek-operator", "crds.install=false")]:
        pod = thing if thing["kind"] == "Pod" else thing.get("spec", {}).get("template", {})
        labels = pod.get("metadata", {}).get("labels", {})
        for selector in selectors:
            assert not _matches({"matchLabels": selector}, labels), thing["kind"]


@pytest.mark.thorough
def test_clients_begin_where_the_operator_says(context: Context) -> None:
    pod = _only("Pod", "odradek")
    variables = {variable["name"]: variable.get("value") for variable in pod["spec"]["containers"][0]["env"]}
    (service,) = [
        one for one in own_services(context) if one["metadata"]["name"] == context.object_name("bootstrap")
    ]
    name = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert variables["BOOTSTRAP"] == f"{name}:{service['spec']['ports'][0]['port']}"
    assert context.bootstrap.startswith(name)


@pytest.mark.thorough
def test_spark_jobs_mount_the_binding_that_there_is(context: Context) -> None:
    settings = ("spark.enabled=true", "spark.applications.enabled=true", "spark.applications.claim=work")
    text = yaml.safe_dump([thing for thing in _rendered("odradek", *settings) if "Spark" in thing["kind"]])
    assert f"name: {spark_config_map(context)['metadata']['name']}\n" in text


@pytest.mark.thorough
def test_the_service_bindings_secret_has_what_the_operators_config_map_has(context: Context) -> None:
    bound = binding_config_map(context)
    example = read_document((CHECKOUT / "manifests" / "examples" / "service-binding.yaml").read_text())
    made = _only("Secret", "odradek", "serviceBinding.enabled=true")
    for secret, cluster, namespace in ((made, context.name, context.namespace), (example, "log", "odradek")):
        assert secret["type"] == "servicebinding.io/kafka"
        assert secret["metadata"]["name"] == f"{cluster}-binding"
        variables = {key: _short(value, context) for key, value in bound["data"].items()}
        here = f"{context.name}-bootstrap.{context.namespace}.svc"
        named = {
            key: value.replace(f"{cluster}-bootstrap.{namespace}.svc", here)
            for key, value in secret["stringData"].items()
        }
        assert named == variables
    assert bound["metadata"]["name"] == made["metadata"]["name"]


def _short(text: str, context: Context) -> str:
    """Addresses without the Kubernetes cluster's domain, which charts do not know."""
    return text.replace(f".svc.{context.domain}", ".svc")
