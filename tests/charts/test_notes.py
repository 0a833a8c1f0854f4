"""What Helm prints after an install: addresses and commands that are right, and warnings where they are due."""

from __future__ import annotations

import ast
import re
import shutil
import textwrap
from pathlib import Path

import pytest

from tests.support.helm import CHARTS, objects, template


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
