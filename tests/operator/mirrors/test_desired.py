"""What a Mirror is made of: the file, the pods, and the start that puts the file and clusters' properties together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from odradek.foundation.settings.file import parse_properties
from odradek_operator.desired.client_properties import Password, client_properties, properties_file
from odradek_operator.desired.cluster_logins import ClusterLogin
from odradek_operator.desired.mirror import START, mirror_manifests
from odradek_operator.desired.mirror_names import ConnectionFiles, MirrorContext
from odradek_operator.desired.mirror_settings import mirror_properties
from odradek_operator.gateways.kubernetes import Json
from odradek_operator.resources.mirror import MirrorSpec
from odradek_operator.resources.structure import InvalidResource, parse
from tests.operator.support.mirror_world import SPEC

ALL: Json = {
    "target": {"alias": "here", "cluster": "main"},
    "sources": [
        {"alias": "a", "bootstrap": "a:1", "topics": ["orders", "audit-.*"], "topicsExclude": ["audit-old"]},
        {"alias": "b", "cluster": "other", "groups": ["billing"], "groupsExclude": ["billing-test"]},
    ],
    "naming": {"policy": "Identity", "separator": "_"},
    "exactlyOnce": False,
    "syncGroupOffsets": True,
    "syncTopicConfigs": False,
    "replicationFactor": 3,
    "intervalSeconds": {"topics": 5, "heartbeats": 2},
    "bytesPerSecondMax": 10_000_001,
    "replicas": 3,
    "config": {"transaction.ms.max": "50", "a->here.offset.lag.max": "7"},
}


def context(spec: Json, **given: Any) -> MirrorContext:
    about = {"name": "copy", "namespace": "shop", "owner": {"uid": "u"}, "image": "odradek:1", **given}
    return MirrorContext(spec=parse(MirrorSpec, spec), **about)


def file_of(spec: Json, **given: Any) -> dict[str, str]:
    return parse_properties(mirror_properties(context(spec, **given)))


def test_the_file_says_what_the_mirror_says() -> None:
    found = file_of(ALL, bootstraps={"a": "a:1"})
    assert found["clusters"] == "here, a, b"
    assert found["a.bootstrap.servers"] == "a:1"
    assert found["a->here.enabled"] == found["b->here.enabled"] == "true"
    assert found["a->here.topics"] == "orders, audit-.*"
    assert found["a->here.topics.exclude"].endswith(", audit-old")
    assert found["b->here.groups"] == "billing"
    assert found["b->here.groups.exclude"].endswith(", billing-test")
    assert found["replication.policy.class"] == "IdentityReplicationPolicy"
    assert found["exactly.once.source.support"] == "disabled"
    assert (found["sync.group.offsets.enabled"], found["sync.topic.configs.enabled"]) == ("true", "false")
    assert (found["refresh.topics.interval.seconds"], found["emit.heartbeats.interval.seconds"]) == ("5", "2")
    assert found["checkpoints.topic.replication.factor"] == found["replication.factor"] == "3"
    assert found["bytes.per.second.max"] == "3333333", "each of three workers has its share"
    assert (found["transaction.ms.max"], found["a->here.offset.lag.max"]) == ("50", "7")


def test_what_is_left_out_takes_mirrormakers_defaults_and_the_clusters() -> None:
    found = file_of(SPEC)
    assert found["shop->main.topics.exclude"] == r".*[\-\.]internal, .*\.replica, __.*"
    assert found["shop->main.groups"] == ".*"
    assert found["replication.factor"] == "-1"
    assert found["exactly.once.source.support"] == "enabled"
    assert found["sync.topic.acls.enabled"] == "false", "Users have the rights"
    kept = file_of({**SPEC, "config": {"sync.topic.acls.enabled": "true"}})
    assert kept["sync.topic.acls.enabled"] == "true"
    assert "bytes.per.second.max" not in found


def test_mirrors_of_two_namespaces_have_names_of_their_own() -> None:
    assert file_of(SPEC)["name"] == "shop.copy"
    assert file_of({**SPEC, "name": "mm2"})["name"] == "mm2"
    long = [file_of(SPEC, namespace=f"{'n' * 62}{end}", name="c" * 40)["name"] for end in "ab"]
    assert [len(one) for one in long] == [100, 100] and long[0] != long[1]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("clusters", "set target and sources"),
        ("b->here.groups", "set sources[].groups"),
        ("worker.id", "named by its pod"),
        ("a.sasl.jaas.config", "Put it into client.properties"),
        ("ssl.keystore.password", "Put it into client.properties"),
        ("a.security.protocol", "Put it into client.properties"),
        ("b.bootstrap.servers", "Put it into client.properties"),
        ("a\nsasl.jaas.config", "is no key"),
        ("a=b", "is no key"),
        ("k" * 300, "is no key"),
    ],
)
def test_what_the_mirror_has_fields_for_and_what_is_secret_is_no_setting(key: str, words: str) -> None:
    with pytest.raises(InvalidResource, match=r"^spec\.config: ") as refused:
        parse(MirrorSpec, {**SPEC, "config": {key: "x"}})
    assert words in str(refused.value)


def test_pods_are_as_closed_as_the_brokers() -> None:
    deployment = {one["kind"]: one for one in mirror_manifests(context(ALL))}["Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] and security["capabilities"] == {"drop": ["ALL"]}
    assert not security["allowPrivilegeEscalation"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    assert container["ports"] == [{"name": "http", "containerPort": 9644}]
    assert deployment["spec"]["replicas"] == 3
    assert pod["terminationGracePeriodSeconds"] > 30, "a transaction has 30 s"


def test_the_selector_finds_workers_of_this_mirror_alone() -> None:
    manifests = {one["kind"]: one for one in mirror_manifests(context(SPEC))}
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selector = manifests["Deployment"]["spec"]["selector"]["matchLabels"]
    assert selector.items() <= labels.items()
    assert "odradek.io/cluster" not in labels, "no Cluster may take it for its own"
    other = {one["kind"]: one for one in mirror_manifests(context(SPEC, name="other"))}["Deployment"]
    assert other["spec"]["selector"]["matchLabels"] != selector
    for kind in ("NetworkPolicy", "PodDisruptionBudget", "Service"):
        spec = manifests[kind]["spec"]
        found = spec.get("podSelector") or spec["selector"]
        assert found.get("matchLabels", found) == selector


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="a pod's start is a program for Linux")
def test_a_start_puts_all_files_together_and_writes_none(tmp_path: Path) -> None:
    """With a password and a certificate of several lines, as a User's Secret has them; and with a file of others."""
    password = Password(user="u", mechanism="SCRAM-SHA-512", password="p w\\d=:#")
    authority = "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"
    own = client_properties("own:9092", "SASL_SSL", authority=authority, credential=password)
    files = {"own": properties_file(own), "a": "! theirs\nsecurity.protocol : \\\n   SSL\nssl.x = \\ y\n"}
    clusters = tmp_path / "clusters"
    for alias, text in files.items():
        (clusters / alias).mkdir(parents=True)
        (clusters / alias / "client.properties").write_text(text)
    (tmp_path / "mirror.properties").write_text(mirror_properties(context(ALL, bootstraps={"a": "a:1"})))
    (tmp_path / "tmp").mkdir()
    done = started(tmp_path)
    assert done.returncode == 0, done.stderr
    arguments, text = json.loads(done.stdout)
    assert arguments[0] == "mirror" and arguments[3:] == ["--admin", ":9644"]
    found = parse_properties(text)
    assert found["own.sasl.jaas.config"] == password.jaas
    assert found["own.ssl.truststore.certificates"] == authority.strip()
    assert (found["a.security.protocol"], found["a.ssl.x"]) == ("SSL", " y")
    assert (found["a.bootstrap.servers"], found["own.bootstrap.servers"]) == ("a:1", "own:9092")
    assert found["clusters"] == "here, a, b"
    assert not list((tmp_path / "tmp").iterdir())


def test_a_start_without_the_file_of_a_cluster_names_it(tmp_path: Path) -> None:
    (tmp_path / "clusters" / "a").mkdir(parents=True)
    (tmp_path / "mirror.properties").write_text("")
    done = started(tmp_path)
    assert done.returncode == 1 and "clusters/a/client.properties is missing" in done.stderr


def started(folder: Path) -> subprocess.CompletedProcess[str]:
    """A start with these folders, and a mirror that shows what it is given."""
    show = "import json, sys\nprint(json.dumps([sys.argv[1:], open(sys.argv[3], encoding='utf-8').read()]))\n"
    program = folder / "odradek"
    program.write_text(f"#!{sys.executable}\n{show}")
    program.chmod(0o755)
    text = START.replace("/etc/odradek-clusters", str(folder / "clusters"))
    text = text.replace("/etc/odradek/mirror.properties", str(folder / "mirror.properties"))
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(folder / "tmp")}
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_a_login_of_another_version_makes_another_pod() -> None:
    def version(number: str) -> str:
        files = (ConnectionFiles(alias="a", login=ClusterLogin(secret="s", version=number)),)
        deployment = {one["kind"]: one for one in mirror_manifests(context(SPEC, files=files))}["Deployment"]
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["odradek.io/settings"])

    assert version("1") == version("1") != version("2")
