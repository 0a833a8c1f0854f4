"""The examples for the Spark operator, run by the real one: a scheduled load, and a stream.

Its controller and its webhook (which puts volumes and security contexts into Spark's pods) run beside the Kubernetes.
No image of theirs can be had there. They are its own programs, reached by the API server through a Service as always.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from e2e import boot
from e2e.conftest import declare_topic
from e2e.extra.programs import SPARK_OPERATOR, running_program
from e2e.install import BOOTSTRAP, NAMESPACE
from e2e.kube import Kube, Resource, until
from e2e.workload import everything, produce
from tests.support.broker_process import free_port
from tests.support.java import java_home, pyspark_jars

EXAMPLES = boot.CHECKOUT / "manifests" / "examples" / "spark"
JOB_SECONDS_MAX = 400.0
WEBHOOK, WEBHOOK_PORT = "spark-operator-webhook", 9443


@pytest.fixture(scope="module")
def spark_operator(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    """The namespace with the Spark operator at work, and with what the examples ask for."""
    if not boot.is_one_node():
        pytest.skip(
            "the Spark operator runs beside the API server: only on the one-node cluster is that possible"
        )
    folder = tmp_path_factory.mktemp("spark-operator")
    program = SPARK_OPERATOR.path()
    SPARK_OPERATOR.install_definitions(kube)
    for name in ("rbac.yaml", "claim.yaml"):
        kube.run("apply", "--filename", str(EXAMPLES / name))
    server = urlsplit(kube.run("config", "view", "--output=jsonpath={.clusters[0].cluster.server}"))
    kube.apply(*_webhook(str(server.hostname)))
    environment = {
        "SPARK_HOME": str(pyspark_jars().parent),
        "JAVA_HOME": java_home(),
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    here = f"--namespaces={NAMESPACE}"
    names = [f"--{kind}-webhook-name={WEBHOOK}" for kind in ("mutating", "validating")]
    at = [f"--webhook-secret-namespace={NAMESPACE}", f"--webhook-svc-namespace={NAMESPACE}"]
    of = [f"--webhook-svc-name={WEBHOOK}", f"--webhook-port={WEBHOOK_PORT}", f"--webhook-cert-dir={folder}"]
    with ExitStack() as running:
        for part, more in (("controller", ["--enable-ui-service=false"]), ("webhook", [*names, *at, *of])):
            probe = f"--health-probe-bind-address=127.0.0.1:{free_port()}"
            command = [str(program), part, "start", here, probe, *more]
            running.enter_context(running_program(folder / f"{part}.log", *command, **environment))
        until(
            lambda: kube.get("mutatingwebhookconfiguration", WEBHOOK),
            lambda one: all(hook["clientConfig"].get("caBundle") for hook in one["webhooks"]),
            seconds_max=60,
            what="the webhook has put its certificate into its configuration",
        )
        yield kube
        kube.delete("scheduledsparkapplications,sparkapplications", "--all")
    kube.delete("mutatingwebhookconfiguration", WEBHOOK)


def _webhook(address: str) -> list[Resource]:
    """What leads the API server to the webhook: a Service whose only endpoint is this machine."""
    about = {"name": WEBHOOK, "namespace": NAMESPACE}
    port = {"name": "webhook", "port": WEBHOOK_PORT, "protocol": "TCP"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": {"ports": [port]}}
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**about, "labels": {"kubernetes.io/service-name": WEBHOOK}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [port],
    }
    hook = {
        "name": "mutate--v1-pod.sparkoperator.k8s.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "failurePolicy": "Fail",
        "objectSelector": {"matchLabels": {"sparkoperator.k8s.io/launched-by-spark-operator": "true"}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
        ],
        "clientConfig": {
            "service": {
                "name": WEBHOOK,
                "namespace": NAMESPACE,
                "port": WEBHOOK_PORT,
                "path": "/mutate--v1-pod",
            }
        },
    }
    webhook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": WEBHOOK},
        "webhooks": [hook],
    }
    return [service, endpoints, webhook]


def example(name: str) -> Resource:
    """An example as it is, but for processors: the one node has few."""
    resource: Resource = yaml.safe_load((EXAMPLES / name).read_text())
    spec = resource["spec"].get("template", resource["spec"])
    for part in ("driver", "executor"):
        spec[part] = {**spec[part], "coreRequest": "100m"}
    spec["executor"]["instances"] = 1
    return resource


def application(kube: Kube, wanted: Callable[[Resource], bool], what: str) -> Resource:
    """The first SparkApplication for which this holds."""

    def found() -> Any:
        return next((one for one in kube.items("sparkapplications") if wanted(one)), None)

    return until(found, lambda _: True, seconds_max=JOB_SECONDS_MAX, what=what)


def _state(one: Resource) -> str:
    return str(one.get("status", {}).get("applicationState", {}).get("state"))


def test_the_scheduled_load_runs_and_reads_every_record(spark_operator: Kube) -> None:
    kube = spark_operator
    values = [f"value-{number}" for number in range(200)]
    produce(kube, BOOTSTRAP, "orders", values)
    held = len(everything(kube, BOOTSTRAP, "orders"))
    load = example("load.yaml")
    # The example's is each tenth minute.
    load["spec"]["schedule"] = "@every 10s"
    kube.apply(load)
    done = application(kube, lambda one: _state(one) in ("COMPLETED", "FAILED"), "the load has ended")
    pod = done["status"]["driverInfo"]["podName"]
    log = kube.run("logs", pod)
    kube.delete("scheduledsparkapplications", load["metadata"]["name"])
    assert _state(done) == "COMPLETED", log[-3000:]
    reported = json.loads(next(line for line in reversed(log.splitlines()) if line.startswith("{")))
    assert reported["records"] == held, reported


def test_the_stream_counts_words(spark_operator: Kube) -> None:
    kube = spark_operator
    for topic in ("lines", "words"):
        declare_topic(kube, topic, partitions=2, replicas=3)
    produce(kube, BOOTSTRAP, "lines", ["to be or not to be"] * 10)
    kube.apply(example("word-count.yaml"))

    def counted() -> dict[str | None, str | None]:
        return {key: value for _, _, key, value in everything(kube, BOOTSTRAP, "words")}

    counts = until(
        counted, lambda now: len(now) == 4, seconds_max=JOB_SECONDS_MAX, what="all words are counted"
    )
    assert set(counts) == {"to", "be", "or", "not"}
    kube.delete("sparkapplications", "word-count")
