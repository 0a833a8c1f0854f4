"""PodMonitors and PrometheusRules as the real Prometheus operator reads them, and a real Prometheus with its result.

Both run beside the Kubernetes, on the machine of the one-node cluster: no image of theirs can be had there. The
operator writes its configuration into a Secret as always. Debian builds Prometheus without Kubernetes' discovery. So
pods and their ports are given to it as files, with the labels that its discovery gives them. The rest stays as it is.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import boot
from e2e.conftest import settled
from e2e.extra.programs import PROMETHEUS_OPERATOR, running_program
from e2e.install import NAMESPACE, OPERATOR_NAMESPACE, upgrade_cluster, upgrade_operator
from e2e.kube import Kube, Resource, until
from tests.support.broker_process import free_port

SECONDS_MAX = 120.0
INTERVAL = "2s"
NAME = "e2e"
SPEC: Resource = {
    "version": "v2.42.0",
    "replicas": 0,
    "serviceAccountName": "default",
    "scrapeInterval": INTERVAL,
    "evaluationInterval": INTERVAL,
    "podMonitorSelector": {},
    "podMonitorNamespaceSelector": {},
    "ruleSelector": {},
    "ruleNamespaceSelector": {},
}


class Prometheus:
    """A running Prometheus, asked over HTTP."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str) -> Any:
        """The data of an answer; None while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self._url}/{path}", timeout=10) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def targets(self) -> list[Resource]:
        """The targets that are scraped."""
        found = self.ask("targets?state=active")
        return list(found["activeTargets"]) if found else []

    def rules(self) -> dict[str, Resource]:
        """Alerting and recording rules by name."""
        found = self.ask("rules")
        return {
            rule["name"]: rule for group in (found or {"groups": ()})["groups"] for rule in group["rules"]
        }


@pytest.fixture(scope="module")
def prometheus(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scrapes what our monitors name, as its operator has understood them."""
    if not boot.is_one_node():
        pytest.skip(
            "Prometheus runs beside the pods: only on the one-node cluster are they reached from here"
        )
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        pytest.skip("no Prometheus here: apt-get install prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    PROMETHEUS_OPERATOR.install_definitions(kube)
    monitors = ("podMonitor.enabled=true", "prometheusRule.enabled=true")
    upgrade_cluster("--set", ",".join(f"monitoring.{one}" for one in monitors))
    upgrade_operator("--set", ",".join(f"metrics.{one}" for one in monitors))
    settled(kube)
    about = {"name": NAME, "namespace": NAMESPACE}
    kube.apply(
        {"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus", "metadata": about, "spec": SPEC}
    )
    with ExitStack() as running:
        listens = f"--web.listen-address=127.0.0.1:{free_port()}"
        running.enter_context(running_program(folder / "operator.log", PROMETHEUS_OPERATOR.path(), listens))
        config = written_config(kube, folder)
        said = subprocess.run(
            ["promtool", "check", "config", config], capture_output=True, text=True, check=False
        )
        assert said.returncode == 0, said.stdout + said.stderr
        port = free_port()
        command = ("prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}")
        listens = f"--web.listen-address=127.0.0.1:{port}"
        running.enter_context(running_program(folder / "prometheus.log", *command, listens))
        yield Prometheus(port)
    kube.delete("prometheus", NAME)


def written_config(kube: Kube, folder: Path) -> Path:
    """The configuration that the Prometheus operator has made, and its rules, as files here."""

    def made() -> Any:
        found = kube.get("secret", f"prometheus-{NAME}")
        packed = ((found or {}).get("data") or {}).get("prometheus.yaml.gz")
        return yaml.safe_load(gzip.decompress(base64.b64decode(packed))) if packed else None

    config = until(
        made,
        lambda one: len(one.get("scrape_configs", [])) == 2,
        seconds_max=SECONDS_MAX,
        what="the Prometheus operator has read both PodMonitors",
    )
    for number, job in enumerate(config["scrape_configs"]):
        found = [
            target
            for discovery in job.pop("kubernetes_sd_configs")
            for namespace in discovery["namespaces"]["names"]
            for target in discovered(Kube(namespace))
        ]
        (folder / f"targets-{number}.json").write_text(json.dumps(found))
        job["file_sd_configs"] = [{"files": [str(folder / f"targets-{number}.json")]}]
    rules = until(
        lambda: kube.get("configmap", f"prometheus-{NAME}-rulefiles-0"),
        lambda one: len(one.get("data") or {}) == 2,
        seconds_max=SECONDS_MAX,
        what="and both PrometheusRules",
    )
    (folder / "rules").mkdir()
    for name, text in rules["data"].items():
        (folder / "rules" / name).write_text(text)
    config["rule_files"] = [str(folder / "rules" / "*.yaml")]
    config.pop("alerting", None)
    path = folder / "prometheus.yaml"
    # What its config reloader fills in, in each pod.
    text = yaml.safe_dump(config).replace("$(SHARD)", "0").replace("$(POD_NAME)", f"prometheus-{NAME}-0")
    path.write_text(text)
    return path


def discovered(kube: Kube) -> list[Resource]:
    """Every port of every container of a namespace, as Prometheus' discovery has them for the role `pod`."""
    found = []
    for pod in kube.items("pods"):
        about, address = pod["metadata"], pod["status"].get("podIP")
        labels = {"namespace": about["namespace"], "pod_name": about["name"], "pod_ip": address}
        labels |= {"pod_phase": pod["status"]["phase"], "pod_node_name": pod["spec"].get("nodeName")}
        for name, value in about.get("labels", {}).items():
            plain = re.sub(r"[^a-zA-Z0-9_]", "_", name)
            labels |= {f"pod_label_{plain}": value, f"pod_labelpresent_{plain}": "true"}
        for container in pod["spec"]["containers"]:
            for port in container.get("ports", ()) if address else ():
                of_port = {
                    "pod_container_name": container["name"],
                    "pod_container_port_name": port.get("name", ""),
                    "pod_container_port_number": str(port["containerPort"]),
                }
                meta = {f"__meta_kubernetes_{name}": value for name, value in (labels | of_port).items()}
                found.append({"targets": [f"{address}:{port['containerPort']}"], "labels": meta})
    return found


def test_every_broker_controller_and_the_operator_is_scraped(prometheus: Prometheus, kube: Kube) -> None:
    wanted = {
        one["metadata"]["name"]
        for one in [
            *kube.pods("app.kubernetes.io/component=broker"),
            *kube.pods("app.kubernetes.io/component=controller"),
            *Kube(OPERATOR_NAMESPACE).pods("app.kubernetes.io/name=odradek-operator"),
        ]
        if "deletionTimestamp" not in one["metadata"]
    }
    targets = until(
        prometheus.targets,
        lambda found: {one["labels"]["pod"] for one in found if one["health"] == "up"} == wanted,
        seconds_max=SECONDS_MAX,
        what=f"up: {sorted(wanted)}",
    )
    of_brokers = [one["labels"] for one in targets if one["labels"].get("component") == "broker"]
    assert {one["odradek_cluster"] for one in of_brokers} == {"demo"} and len(of_brokers) == 3


def test_all_rules_are_evaluated_and_none_fires_on_a_cluster_that_is_well(prometheus: Prometheus) -> None:
    rules = until(
        prometheus.rules,
        lambda found: bool(found) and all(one["health"] == "ok" for one in found.values()),
        seconds_max=SECONDS_MAX,
        what="all rules have been evaluated",
    )
    assert len(rules) > 10
    assert [name for name, one in rules.items() if one.get("state") == "firing"] == []
    print(f"{len(rules)} rules evaluated")
