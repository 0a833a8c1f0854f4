"""A console of several clusters: what its pod is given, and its start, run by a real Python and a real console."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from odradek.cli.shared.connection_settings import GivenOptions, resolve_alone
from odradek.console.masks import parse_masks
from odradek.foundation.settings.file import parse_properties
from odradek_operator.desired.client_properties import Password, client_properties, properties_file
from odradek_operator.desired.policies import network_policies
from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.structure import InvalidResource, parse
from tests.operator.cluster.test_desired import context
from tests.operator.support.console_pod import (
    PASSWORDS,
    command_of,
    desired,
    file_of,
    lay_out,
    pod_of,
    running_console,
)
from tests.support.polling import SECONDS_MAX

OTHERS: list[Json] = [
    {"name": "staging", "cluster": "staging", "user": "viewer"},
    {"name": "Old.Kafka", "bootstrap": "kafka-1:9093,kafka-2:9093", "clientSecret": "old-kafka"},
    {"name": "open", "bootstrap": "open:9092"},
]
REGISTRY = {"url": "https://registry.example", "secretName": "registry-login"}
PROVIDER = {
    "issuer": "https://id.example/realms/staff",
    "clientId": "console",
    "clientSecret": {"valueFrom": {"secretKeyRef": {"name": "provider", "key": "secret"}}},
    "scope": "openid kafka",
}


def version_of(manifests: dict[str, Json]) -> str:
    template = manifests["Deployment"]["spec"]["template"]
    return str(metadata(template)["annotations"]["odradek.io/settings"])


# --- what it is made of -----------------------------------------------------------------------------------------------


def test_a_console_of_its_own_cluster_alone_needs_no_files() -> None:
    assert "ConfigMap" not in desired({})
    assert command_of(desired({}))[:2] == ["odradek", "console"]


def test_each_cluster_has_a_file_and_its_own_is_the_first() -> None:
    manifests = desired({"clusters": OTHERS, "allowChanges": True})
    assert command_of(manifests) == [
        *("python3", "/etc/odradek/start.py", "odradek", "console", "--host", "", "--port", "8088"),
        *("--cluster", "events=/run/odradek-clusters/events.properties"),
        *("--cluster", "staging=/run/odradek-clusters/staging.properties"),
        *("--cluster", "Old.Kafka=/run/odradek-clusters/Old.Kafka.properties"),
        *("--cluster", "open=/run/odradek-clusters/open.properties"),
        "--allow-changes",
    ]
    assert file_of(manifests, "events.properties") == file_of(manifests, "staging.properties") == {}
    assert file_of(manifests, "open.properties") == {"bootstrap.servers": "open:9092"}
    assert file_of(manifests, "Old.Kafka.properties")["bootstrap.servers"] == OTHERS[1]["bootstrap"]


def test_logins_are_mounted_and_what_is_put_together_lies_in_memory() -> None:
    spec = pod_of(desired({"clusters": OTHERS, "schemaRegistry": REGISTRY}))
    volumes = {one["name"]: one for one in spec["volumes"]}
    (shown,) = spec["containers"]
    mounted = {one["mountPath"]: one for one in shown["volumeMounts"]}
    clusters = "/etc/odradek-clusters"
    secrets = {
        path: volumes[one["name"]]["secret"]["secretName"]
        for path, one in mounted.items()
        if "secret" in volumes[one["name"]]
    }
    assert secrets == {
        f"{clusters}/staging": "viewer-secret",
        f"{clusters}/Old.Kafka": "old-kafka",
        "/etc/odradek-registries/events": "registry-login",
    }
    assert volumes[mounted[f"{clusters}/events"]["name"]]["configMap"] == {"name": "events-binding"}
    assert volumes[mounted["/etc/odradek"]["name"]]["configMap"] == {"name": "events-console"}
    together = mounted["/run/odradek-clusters"]
    assert volumes[together["name"]]["emptyDir"]["medium"] == "Memory"
    written = {path for path, one in mounted.items() if not one.get("readOnly")}
    assert written == {"/tmp", "/run/odradek-clusters"}
    assert all(len(name) <= 63 and name == name.lower() and "." not in name for name in volumes)


def test_a_registry_is_named_without_its_login() -> None:
    manifests = desired({"schemaRegistry": REGISTRY, "clusters": [{**OTHERS[0], "schemaRegistry": REGISTRY}]})
    for name in ("events", "staging"):
        assert file_of(manifests, f"{name}.properties") == {"schema.registry.url": REGISTRY["url"]}
    assert "registry-login" not in json.dumps([manifests["ConfigMap"], command_of(manifests)])


def test_masks_are_a_file_that_the_command_reads() -> None:
    odd = 'a"\\\u00e9\U0001f600 [x]'
    masks = [
        {"topics": ["payments-*"], "value": ["$.card.number", "iban", odd], "headers": ["*"]},
        {"topics": ["customers"], "clusters": ["events"], "key": ["$"]},
    ]
    manifests = desired({"masks": masks})
    text = manifests["ConfigMap"]["data"]["masks.toml"]
    command = command_of(manifests)
    assert command[command.index("--masks") + 1] == "/etc/odradek/masks.toml"
    rules = parse_masks(text, source="masks.toml")
    hidden = rules.for_cluster("events").find("payments-eu")
    value = json.dumps({"card": {"number": 1}, "IBAN": 2, odd: 3, "user": 4}).encode()
    shown = json.loads(hidden.value.hide(value))
    assert [one for one in shown.values() if one == "[masked]"] == ["[masked]"] * 2
    assert shown["card"] == {"number": "[masked]"} and shown["user"] == 4
    assert rules.for_cluster("events").find("customers").key.is_whole
    assert not rules.for_cluster("other").find("customers")


def test_viewers_log_in_where_the_cluster_says_so() -> None:
    own = desired({"logins": {}}, internalListener=PASSWORDS)
    assert file_of(own, "events.properties") == {"sasl.mechanism": "SCRAM-SHA-512"}
    assert "--logins" in command_of(own) and "--url" not in command_of(own)
    clusters = [{"name": "staging", "cluster": "staging"}, OTHERS[1]]
    console = {
        "clusters": clusters,
        "logins": {"url": "https://c.example", "openIdConnect": PROVIDER},
    }
    manifests = desired(console, internalListener=PASSWORDS)
    assert file_of(manifests, "staging.properties") == {"sasl.mechanism": "SCRAM-SHA-512"}
    # The mechanism of a cluster of others is what its own file says.
    assert "sasl.mechanism" not in file_of(manifests, "Old.Kafka.properties")
    command = command_of(manifests)
    assert command[command.index("--logins") :] == [
        *("--logins", "--url", "https://c.example"),
        *("--oidc-issuer", PROVIDER["issuer"], "--oidc-client-id", "console", "--oidc-scope", "openid kafka"),
        *("--oidc-client-secret-file", "/etc/odradek-provider/client-secret"),
    ]
    (volume,) = [one for one in pod_of(manifests)["volumes"] if one["name"] == "provider"]
    assert volume["secret"]["secretName"] == "provider"
    assert volume["secret"]["items"] == [{"key": "secret", "path": "client-secret"}]
    # While the cluster that takes tokens is left out, the command would refuse a provider.
    alone = desired({**console, "clusters": clusters[:1]}, internalListener=PASSWORDS)
    assert command_of(alone)[-2:] == ["--url", "https://c.example"]


def test_what_a_pod_is_given_replaces_it_when_it_changes() -> None:
    console = {"clusters": OTHERS, "schemaRegistry": REGISTRY}
    first = version_of(desired(console, versions={"old-kafka": "1"}))
    assert first == version_of(desired(console, versions={"old-kafka": "1"}))
    others = [
        version_of(desired(console, versions={"old-kafka": "2"})),
        version_of(desired(console, versions={"old-kafka": "1"}, user_version="8")),
        version_of(desired({**console, "masks": [{"topics": ["a"], "key": ["$"]}]})),
        version_of(desired({**console, "schemaRegistry": {"url": "https://other.example"}})),
    ]
    assert len({first, *others}) == 5


def test_brokers_of_another_cluster_of_the_namespace_admit_it() -> None:
    template = desired({"clusters": OTHERS})["Deployment"]["spec"]["template"]
    labels = metadata(template)["labels"]
    assert labels["shows.odradek.io/staging"] == "true"
    assert not [one for one in labels if one.startswith("shows.") and "staging" not in one]
    selector = desired({"clusters": OTHERS})["Deployment"]["spec"]["selector"]["matchLabels"]
    assert selector == desired({})["Deployment"]["spec"]["selector"]["matchLabels"], "it cannot change"
    peers = network_policies(context(network={"clients": []}))[0]["spec"]["ingress"][0]["from"]
    wanted = [one["podSelector"]["matchLabels"] for one in peers]
    of_events = {**labels, "shows.odradek.io/events": "true"}
    assert any(one.items() <= of_events.items() for one in wanted)
    assert not any(one.items() <= labels.items() for one in wanted if "odradek.io/cluster" not in one)


@pytest.mark.parametrize(
    "console",
    [
        {"clusters": [{"name": "a b", "cluster": "c"}]},
        {"clusters": [{"cluster": "c"}]},
        {"masks": [{"value": ["$"]}]},
        {"masks": [{"topics": [], "value": ["$"]}]},
        {"masks": [{"topics": ["a"], "value": ["$.a..b"]}]},
        {"masks": [{"topics": ["a\nb"], "value": ["$"]}]},
        {"masks": [{"topics": ["a"], "headers": ["auth*"]}]},
        {"schemaRegistry": {"url": "registry:8081"}},
        {"schemaRegistry": {"url": "http://a\nssl.x=y"}},
        {"logins": {"openIdConnect": {"issuer": "https://a"}}},
        {"logins": {"url": "c.example"}},
    ],
)
def test_what_the_command_would_refuse_is_refused(console: Json) -> None:
    with pytest.raises(InvalidResource):
        parse(ClusterSpec, {"zookeeper": {}, "console": console})


# --- its start --------------------------------------------------------------------------------------------------------


def start(
    folder: Path, manifests: dict[str, Json], mounted: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """The start of a program that only ends."""
    return subprocess.run(
        [sys.executable, "-c", lay_out(folder, manifests, mounted), "true"],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def test_a_start_puts_together_what_each_cluster_has(tmp_path: Path) -> None:
    password = Password(user="u", mechanism="SCRAM-SHA-512", password="p w\\d=:#")
    authority = "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"
    own = client_properties("events:9092", "SASL_SSL", authority=authority, credential=password)
    theirs = "! theirs\nsecurity.protocol : \\\n   SSL\nschema.registry.url=http://theirs\nbootstrap.servers=no:1\n"
    done = start(
        tmp_path,
        desired({"clusters": OTHERS[1:], "schemaRegistry": REGISTRY}),
        {
            "clusters/events/client.properties": properties_file(own),
            "clusters/Old.Kafka/client.properties": theirs,
            "registries/events/username": "reader\n",
            "registries/events/password": "a:b \\c\n",
            "registries/events/ca.crt": authority,
        },
    )
    assert done.returncode == 0, done.stderr

    def values(name: str) -> dict[str, str]:
        given = GivenOptions(command_config=str(tmp_path / "together" / f"{name}.properties"))
        return {key: one.value for key, one in resolve_alone(given).values.items()}

    found = values("events")
    assert found["sasl.jaas.config"] == password.jaas
    assert found["ssl.truststore.certificates"] == authority.strip()
    assert found["schema.registry.url"] == REGISTRY["url"]
    assert found["basic.auth.user.info"] == "reader:a:b \\c"
    assert found["schema.registry.ssl.truststore.location"] == str(tmp_path / "registries/events/ca.crt")
    old = values("Old.Kafka")
    assert old["bootstrap.servers"] == OTHERS[1]["bootstrap"] and old["security.protocol"] == "SSL"
    assert old["schema.registry.url"] == "http://theirs"
    assert values("open")["bootstrap.servers"] == "open:9092"
    modes = {one.stat().st_mode & 0o777 for one in (tmp_path / "together").iterdir()}
    assert modes == {0o600}, "passwords are in them"


@pytest.mark.parametrize(
    ("mounted", "words"),
    [
        ({"clusters/open/other": "x"}, "clusters/open/client.properties is missing"),
        ({"registries/open/username": "u"}, "registries/open: the Secret of a schema registry has username"),
        (
            {f"registries/open/{name}": "u" for name in ("username", "password", "token")},
            "registries/open: the Secret of a schema registry has username",
        ),
    ],
)
def test_a_start_names_what_a_secret_lacks(tmp_path: Path, mounted: dict[str, str], words: str) -> None:
    done = start(tmp_path, desired({"clusters": OTHERS[2:]}), mounted)
    assert done.returncode == 1 and words in done.stderr
    assert len(done.stderr.splitlines()) == 1, "the last line is what the Cluster's condition shows"


def test_a_token_is_a_login_of_a_registry(tmp_path: Path) -> None:
    registry = {**OTHERS[2], "schemaRegistry": REGISTRY}
    done = start(tmp_path, desired({"clusters": [registry]}), {"registries/open/token": "abc\n"})
    assert done.returncode == 0, done.stderr
    found = parse_properties((tmp_path / "together/open.properties").read_text())
    assert found["bearer.auth.token"] == "abc"


@pytest.mark.integration
def test_a_real_console_takes_all_that_it_is_given(tmp_path: Path) -> None:
    """Its clusters need not answer, and neither need the registry nor the identity provider."""
    binding = properties_file(client_properties("127.0.0.1:1", "SASL_PLAINTEXT"))
    token = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
    console = {
        "clusters": [{"name": "staging", "cluster": "staging"}, OTHERS[1]],
        "schemaRegistry": REGISTRY,
        "masks": [{"topics": ["*"], "clusters": ["Old.*"], "value": ["$.a"], "headers": ["*"]}],
        "logins": {"url": "https://console.example.org", "openIdConnect": PROVIDER},
    }
    mounted = {
        "clusters/events/client.properties": binding,
        "clusters/staging/client.properties": binding,
        "clusters/Old.Kafka/client.properties": token,
        "registries/events/token": "abc",
        "provider": "secret",
    }
    manifests = desired(console, internalListener=PASSWORDS)
    with (
        running_console(tmp_path, manifests, mounted) as url,
        urllib.request.urlopen(f"{url}/api/about", timeout=SECONDS_MAX) as answer,
    ):
        about = json.load(answer)
    shown = [one["name"] for one in about["clusters"]]
    assert shown == ["events", "staging", "Old.Kafka"], about
