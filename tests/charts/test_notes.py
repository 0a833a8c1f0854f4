"""What Helm prints after an install: addresses and commands that are right, and warnings where they are due."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.broker_process import Broker
from tests.support.helm import CHARTS, KUBERNETES, helm, objects, template
from tests.support.kubernetes_api import ApiServer, running_api_server
from tests.support.local_process import running


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path)


class Notes:
    """Renders a chart's notes, which `helm template` leaves out: as a value of an object in a copy of the chart."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, chart: str, *settings: str) -> str:
        copy = self._folder / chart
        if not copy.exists():
            shutil.copytree(CHARTS / chart, copy)
            text = (copy / "templates" / "NOTES.txt").read_text()
            (copy / "templates" / "_notes.tpl").write_text(f'{{{{ define "notes" }}}}{text}{{{{ end }}}}')
            (copy / "templates" / "notes.yaml").write_text(
                'kind: Notes\ntext: {{ include "notes" . | quote }}\n'
            )
        (found,) = objects(template(copy, settings=settings, show_only=["templates/notes.yaml"]))
        return str(found["text"])


@pytest.mark.thorough
def test_the_address_is_that_of_the_bootstrap_service(notes: Notes) -> None:
    text = notes("odradek")
    assert "ledger" not in text
    assert text.count("log-bootstrap.data.svc:9092") >= 4
    assert "ledger-bootstrap.data.svc:9092" in notes("odradek", "cluster.name=ledger")


@pytest.mark.thorough
def test_the_snippet_for_spark_is_python(notes: Notes) -> None:
    text = notes("odradek", "topics.lines.partitions=1")
    snippet = text[text.index("  records = ") :].split("\n\n")[0].rstrip()
    tree = ast.parse(textwrap.dedent(snippet))
    assert len(tree.body) == 2
    assert '"subscribe", "lines"' in snippet


@pytest.mark.thorough
def test_a_console_is_shown_where_there_is_one(notes: Notes) -> None:
    assert "console" not in notes("odradek")
    text = notes("odradek", "cluster.spec.console.allowChanges=true")
    assert "port-forward service/log-console 8088:80" in text
    assert "service/ledger-console" in notes("odradek", "cluster.name=ledger", "cluster.spec.console.user=a")


@pytest.mark.thorough
def test_listeners_to_the_outside_are_shown_with_a_warning(notes: Notes) -> None:
    listener = "cluster.spec.listeners[0]"
    text = notes("odradek", f"{listener}.name=world", f"{listener}.type=NodePort", f"{listener}.port=9094")
    assert "world (NodePort)" in text
    assert "neither encryption nor authentication" in text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("cluster.spec.brokers.replicas=1",), "WARNING: 1 broker: while one is away"),
        (("cluster.spec.brokers.replicas=2",), "WARNING: 2 brokers: while one is away"),
        (("cluster.spec.brokers.replicas=1",), "NOTE: one ZooKeeper server. While it is away no topic"),
        (("cluster.spec.zookeeper.servers.replicas=1",), "Brokers that run keep taking and giving records"),
        (("cluster.spec.deletionPolicy=Delete",), "WARNING: deletionPolicy is Delete"),
        (("cluster.spec.network.enabled=false",), "WARNING: network.enabled is off"),
        (
            ("cluster.spec.brokers.config.default\\.replication\\.factor=1",),
            "WARNING: default.replication.factor is 1",
        ),
    ],
    ids=lambda given: " ".join(given)[:40] if isinstance(given, tuple) else "",
)
def test_what_may_cost_records_is_warned_of(notes: Notes, settings: tuple[str, ...], words: str) -> None:
    assert words in notes("odradek", *settings)


@pytest.mark.thorough
def test_a_cluster_for_production_is_not_warned_of(notes: Notes) -> None:
    assert not re.search("WARNING|NOTE", notes("odradek"))


@pytest.mark.thorough
def test_brokers_of_pools_count(notes: Notes) -> None:
    pool = "cluster.spec.brokers.pools[0]"
    large = (f"{pool}.name=large", f"{pool}.firstId=1000", f"{pool}.replicas=3")
    text = notes("odradek", "cluster.spec.brokers.replicas=0", *large)
    assert "exec --stdin log-broker-large-1000 -- odradek" in text
    assert not re.search("WARNING|NOTE", text)
    assert not re.search("WARNING|NOTE", notes("odradek", "cluster.spec.brokers.replicas=1", *large))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ((), "looks after Clusters, Topics, ConsumerGroups, Users and Mirrors in: data"),
        (("watch.namespaces={a,b}",), "in: a, b"),
        (("watch.allNamespaces=true",), "in all namespaces"),
        (("crds.keep=false",), "WARNING: crds.keep is off"),
        (("crds.install=false",), "NOTE: crds.install is off"),
        (("replicas=0",), "WARNING: replicas is 0"),
        (("rbac.create=false",), "NOTE: rbac.create is off"),
    ],
    ids=lambda given: " ".join(given)[:40] if isinstance(given, tuple) else "",
)
def test_the_operators_notes_say_where_it_works(notes: Notes, settings: tuple[str, ...], words: str) -> None:
    assert words in notes("odradek-operator", *settings)


def commands(text: str) -> list[str]:
    """The lines that are for a shell, without what a line begins with to say what it is for."""
    found = (re.search(r"^  (?:.*\S {2,})?((?:echo|kubectl|helm) .+)$", line) for line in text.splitlines())
    return [one[1] for one in found if one is not None]


@pytest.mark.thorough
@pytest.mark.integration
def test_the_commands_that_are_printed_do_what_they_say(notes: Notes, tmp_path: Path) -> None:
    """Those for a broker's pod against a broker; the others against an API server, where the operator's work is done.

    The broker makes no topics for clients, as those of a Cluster.
    """
    listener = "cluster.spec.listeners[0]"
    outside = (f"{listener}.name=world", f"{listener}.type=NodePort", f"{listener}.port=9094")
    printed = commands(notes("odradek", *outside))
    inside = [line for line in printed if " exec " in line]
    assert len(inside) == 3 and len(printed) == 7
    with running(Broker(tmp_path / "broker", settings={"auto.create.topics.enable": "false"})) as broker:
        answers = [run_in_pod(line, bootstrap=broker.bootstrap) for line in inside]
    assert answers[-1].splitlines() == ["world"]
    folder = tmp_path / "api-server"
    folder.mkdir()
    with running_api_server(folder) as server:
        server.install_definitions()
        server.kubectl("create", "namespace", "data")
        server.kubectl("create", "serviceaccount", "default", "--namespace", "data")
        make_served_cluster(server)
        for line in printed:
            if line.startswith("kubectl") and line not in inside:
                answer = server.kubectl(*shlex.split(line)[1:])
                assert ("get cluster" in line) is (answer == "1.2.3.4:30000")
        for line in commands(notes("odradek-operator")):
            if line.startswith("kubectl get"):
                assert "log" in server.kubectl(*shlex.split(line)[1:])
    (install,) = [line for line in commands(notes("odradek-operator")) if line.startswith("helm install")]
    given = shlex.split(install.replace("helm/odradek", str(CHARTS / "odradek")))[2:]
    assert "kind: Topic" in helm("template", *given, "--kube-version", KUBERNETES)


@pytest.mark.thorough
def test_no_command_without_a_login_is_offered_where_one_is_needed(notes: Notes) -> None:
    printed = commands(notes("odradek", "cluster.spec.internalListener.tls=true"))
    assert printed and not any(" exec " in line or line.startswith("helm test") for line in printed)


def run_in_pod(line: str, *, bootstrap: str) -> str:
    """What a line prints whose program would run in a broker's pod."""
    here, pod, command = re.split(r"kubectl --namespace data exec --stdin (log-broker-0) -- ", line)
    assert pod and command.startswith("odradek ")
    command = command.replace("log-bootstrap.data.svc:9092", bootstrap)
    script = f"{here}{sys.executable} -m {command}"
    done = subprocess.run(
        ["sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode == 0, f"{script}: {done.stderr}"
    return done.stdout


def make_served_cluster(server: ApiServer) -> None:
    """A Cluster `log` as the operator leaves it when it serves."""
    cluster = {
        "apiVersion": "odradek.io/v1",
        "kind": "Cluster",
        "metadata": {"name": "log", "namespace": "data"},
        "spec": {"zookeeper": {"servers": {}}},
    }
    server.kubectl("create", "--filename", "-", given=json.dumps(cluster))
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Serving",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    listeners = [{"name": "world", "type": "NodePort", "bootstrap": "1.2.3.4:30000"}]
    patch = {"status": {"conditions": [ready], "listeners": listeners}}
    server.kubectl(
        *("--namespace", "data", "patch", "cluster.odradek.io/log", "--subresource=status"),
        *("--type=merge", "--patch", json.dumps(patch)),
    )
