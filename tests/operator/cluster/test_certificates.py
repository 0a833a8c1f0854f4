"""Authorities and certificates of a Cluster: made, with the right names, renewed in time; and how brokers use them."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest

from odradek.client.properties import SECURITY_PROTOCOL
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.settings.file import parse_properties
from odradek_operator.foundation.certificates import (
    facts_of,
    is_issued_by,
)
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Json,
)
from tests.operator.support.cluster_world import ClusterWorld
from tests.operator.support.world import manifest

SECURED: Json = {
    "internalListener": {"authentication": {"type": "scram-sha-512"}},
    "authorization": {"superUsers": ["User:CN=root"]},
    "listeners": [
        {
            "name": "mutual",
            "type": "NodePort",
            "port": 9094,
            "advertisedPort": 30000,
            "tls": True,
            "authentication": {"type": "tls"},
        },
        {
            "name": "world",
            "type": "LoadBalancer",
            "port": 9095,
            "advertisedHost": "broker-{broker}.example.org",
            "tls": True,
            "authentication": {"type": "scram-sha-512"},
            "certificate": {"secretName": "of-cert-manager"},
        },
    ],
}
OWN = "events-bootstrap.default.svc.cluster.local:9091"


@pytest.fixture(scope="module")
def secured() -> ClusterWorld:
    """A settled Cluster with security, for tests that only look."""
    return _settled()


def _settled(**more: Json) -> ClusterWorld:
    world = ClusterWorld({**SECURED, **more})
    world.create(SECRETS, "of-cert-manager")
    world.settle()
    return world


def _files(world: ClusterWorld, name: str) -> dict[str, str]:
    found = world.get(SECRETS, name)
    assert found is not None, name
    return {key: base64.b64decode(text).decode() for key, text in found["data"].items()}


def _properties(world: ClusterWorld, component: str) -> dict[str, str]:
    found = world.body(CONFIG_MAPS, f"events-{component}")
    return dict(parse_properties(found["data"][f"{component}.properties"]))


def test_brokers_have_one_certificate_for_all_of_their_names(secured: ClusterWorld) -> None:
    cluster, brokers = _files(secured, "events-cluster-ca"), _files(secured, "events-broker-tls")
    clients = _files(secured, "events-clients-ca")
    assert is_issued_by(brokers["tls.crt"], cluster["tls.crt"])
    assert not is_issued_by(brokers["tls.crt"], clients["tls.crt"])
    assert brokers["cluster-ca.crt"] == cluster["tls.crt"] and brokers["clients-ca.crt"] == clients["tls.crt"]
    assert brokers["http-ca.crt"] == cluster["tls.crt"] + clients["tls.crt"]
    assert "PRIVATE KEY" in cluster["tls.key"] and cluster["tls.key"] not in "".join(brokers.values())
    names = facts_of(brokers["tls.crt"]).names
    assert {
        "events-bootstrap",
        "events-bootstrap.default.svc.cluster.local",
        "*.events-brokers.default.svc.cluster.local",
        "broker-2.example.org",
    } <= names


def test_a_node_that_brokers_come_to_is_a_name_too(secured: ClusterWorld) -> None:
    names = facts_of(_files(secured, "events-broker-tls")["tls.crt"]).names
    nodes = {
        str((pod.get("status") or {}).get("hostIP"))
        for pod in secured.objects.list(PODS, "default", {"app.kubernetes.io/component": "broker"})
    } - {"None"}
    assert nodes <= names


def test_brokers_settings_are_accepted_and_name_each_listener(secured: ClusterWorld) -> None:
    file = _properties(secured, "broker")
    assert file["listener.security.protocol.map"] == (
        "INTERNAL:SASL_SSL,MUTUAL:SSL,WORLD:SASL_SSL,REPLICATION:SSL,CONTROLLER:SSL,HTTP:SSL"
    )
    assert file["inter.broker.listener.name"] == "REPLICATION"
    assert file["listener.name.replication.ssl.client.auth"] == "required"
    assert (
        file["listener.name.replication.ssl.truststore.location"] == "/etc/odradek-tls/broker/cluster-ca.crt"
    )
    assert file["listener.name.mutual.ssl.truststore.location"] == "/etc/odradek-tls/broker/clients-ca.crt"
    assert file["listener.name.world.ssl.keystore.location"] == "/etc/odradek-tls/listener-world"
    assert file["listener.name.internal.sasl.enabled.mechanisms"] == "SCRAM-SHA-512,SCRAM-SHA-256"
    own = "User:CN=events-broker,O=odradek.io;User:CN=odradek-operator,O=odradek.io"
    assert file["super.users"] == f"{own};User:CN=root"
    controllers = _properties(secured, "controller")
    assert controllers["super.users"] == file["super.users"]
    assert controllers["listener.security.protocol.map"] == "CONTROLLER:SSL,HTTP:SSL"
    for one in (file, controllers):
        assert one["admin.listener.name"] == "HTTP"
        assert one["listener.name.http.ssl.client.auth"] == "requested", "the kubelet shows no certificate"
        assert one["listener.name.http.ssl.truststore.location"] == "/etc/odradek-tls/broker/http-ca.crt"
    assert controllers["listener.name.controller.ssl.client.auth"] == "required"
    settings = Settings(file | {"node.id": "0"})
    assert [one.security_protocol for one in settings.listener_endpoints] == [
        "SASL_SSL",
        "SSL",
        "SASL_SSL",
        "SSL",
    ]


def test_pods_mount_certificates_and_no_authority(secured: ClusterWorld) -> None:
    found = secured.get(STATEFUL_SETS, "events-broker")
    assert found is not None
    pod = found["spec"]["template"]["spec"]
    secrets = {one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    assert secrets == {"events-broker-tls", "of-cert-manager"}
    mounts = {one["name"]: one for one in pod["containers"][0]["volumeMounts"]}
    assert mounts["broker-tls"] == {
        "name": "broker-tls",
        "mountPath": "/etc/odradek-tls/broker",
        "readOnly": True,
    }
    assert mounts["world-tls"]["mountPath"] == "/etc/odradek-tls/listener-world"


def test_brokers_and_the_operator_have_a_listener_of_their_own(secured: ClusterWorld) -> None:
    properties = secured.brokers.secured[OWN]
    assert properties[SECURITY_PROTOCOL] == "SSL"
    cluster = _files(secured, "events-cluster-ca")["tls.crt"]
    assert properties["ssl.truststore.certificates"] == cluster
    assert is_issued_by(properties["ssl.keystore.certificate.chain"], cluster)
    service = secured.get(SERVICES, "events-bootstrap")
    assert service is not None
    assert [port["port"] for port in service["spec"]["ports"]] == [9092, 9091]
    policy = secured.get(NETWORK_POLICIES, "events-broker")
    assert policy is not None
    (own,) = [one for one in policy["spec"]["ingress"] if one["ports"] == [{"protocol": "TCP", "port": 9091}]]
    assert len(own["from"]) == 2, "brokers and the operator"


def test_what_clients_mount_says_how_to_connect(secured: ClusterWorld) -> None:
    binding, spark = secured.get(CONFIG_MAPS, "events-binding"), secured.get(CONFIG_MAPS, "events-spark")
    assert binding is not None and spark is not None
    cluster = _files(secured, "events-cluster-ca")["tls.crt"]
    assert binding["data"]["security.protocol"] == "SASL_SSL" and binding["data"]["ca.crt"] == cluster
    properties = dict(parse_properties(binding["data"]["client.properties"]))
    assert properties["ssl.truststore.certificates"].strip() == cluster.strip()
    assert spark["data"]["spark.odradek.security.protocol"] == "SASL_SSL"
    assert "sasl.jaas.config" not in str(binding) + str(spark)


def test_a_settled_cluster_is_left_alone_by_a_new_operator_too(secured: ClusterWorld) -> None:
    before = _files(secured, "events-broker-tls")
    written = len(secured.kubernetes.written)
    secured.restart_operator()
    secured.settle()
    assert _files(secured, "events-broker-tls") == before
    again = [one for one in secured.kubernetes.written[written:] if one[1] == "Secret"]
    assert again == []


def test_certificates_are_renewed_in_time_and_no_pod_restarts() -> None:
    world = _settled(certificates={"validityDays": 60, "renewalDays": 20, "authorityValidityDays": 100})
    pods, first = world.pods(), _files(world, "events-broker-tls")
    operators = world.brokers.secured[OWN]
    world.now += timedelta(days=39)
    world.settle()
    assert _files(world, "events-broker-tls") == first, "it is good for 21 days"
    assert world.brokers.secured[OWN] != operators, "the operator's own is of a week"
    world.now += timedelta(days=2)
    world.settle()
    second = _files(world, "events-broker-tls")
    assert second["tls.crt"] != first["tls.crt"] and second["cluster-ca.crt"] == first["cluster-ca.crt"]
    world.now += timedelta(days=40)
    world.settle()
    third = _files(world, "events-broker-tls")
    assert third["cluster-ca.crt"] != first["cluster-ca.crt"], "its authority had 19 days left"
    # The key is the same: those that know only the former authority trust it.
    assert is_issued_by(third["tls.crt"], first["cluster-ca.crt"])
    assert is_issued_by(first["tls.crt"], third["cluster-ca.crt"])
    assert world.pods() == pods, "brokers take files while they run"


def _rotate(world: ClusterWorld, value: str) -> None:
    change: Json = {"metadata": {"annotations": {"odradek.io/rotate-authority": value}}}
    world.merge(CLUSTERS, "events", change)
    world.settle()


def test_authorities_get_new_keys_step_by_step() -> None:
    world = _settled(certificates={"authorityOverlapDays": 3})
    pods = world.pods()
    names = ("events-cluster-ca", "events-clients-ca")
    old = {name: _files(world, name)["tls.crt"] for name in names}
    leaf = _files(world, "events-broker-tls")["tls.crt"]
    _rotate(world, "monday")
    # Announced: all trust both, and the old one signs.
    new = {name: _files(world, name)["following.crt"] for name in names}
    brokers = _files(world, "events-broker-tls")
    assert brokers["tls.crt"] == leaf
    for name, file in zip(names, ("cluster-ca.crt", "clients-ca.crt"), strict=True):
        assert not is_issued_by(new[name], old[name]), "it is another key"
        assert brokers[file] == old[name] + new[name]
    binding = world.body(CONFIG_MAPS, "events-binding")
    assert binding["data"]["ca.crt"] == old[names[0]] + new[names[0]]
    assert world.brokers.secured[OWN]["ssl.truststore.certificates"] == old[names[0]] + new[names[0]]
    world.now += timedelta(days=2.9)
    world.restart_operator()
    world.settle()
    assert _files(world, "events-broker-tls")["tls.crt"] == leaf
    # Used: the new one signs, and the old one is trusted too.
    world.now += timedelta(days=0.2)
    world.settle()
    brokers = _files(world, "events-broker-tls")
    assert is_issued_by(brokers["tls.crt"], new[names[0]]) and not is_issued_by(
        brokers["tls.crt"], old[names[0]]
    )
    assert brokers["clients-ca.crt"] == new[names[1]] + old[names[1]]
    own = world.brokers.secured[OWN]
    assert is_issued_by(own["ssl.keystore.certificate.chain"], new[names[0]])
    assert "PRIVATE KEY" not in _files(world, names[0])["former.crt"], "the former key is gone"
    # A second value waits for the end of the first change.
    _rotate(world, "tuesday")
    assert _files(world, names[0])["tls.crt"] == new[names[0]]
    world.now += timedelta(days=3)
    world.settle()
    assert _files(world, "events-broker-tls")["cluster-ca.crt"].startswith(new[names[0]])
    assert old[names[0]] not in _files(world, "events-broker-tls")["cluster-ca.crt"]
    world.settle()
    assert _files(world, names[0])["rotation"] == "tuesday", "and begins after it"
    assert world.pods() == pods, "brokers take files while they run"


def test_an_annotation_that_is_there_from_the_start_changes_nothing() -> None:
    world = ClusterWorld(SECURED)
    world.create(SECRETS, "of-cert-manager")
    change: Json = {"metadata": {"annotations": {"odradek.io/rotate-authority": "old"}}}
    world.merge(CLUSTERS, "events", change)
    world.settle()
    assert set(_files(world, "events-cluster-ca")) == {"tls.crt", "tls.key", "rotation"}


def test_an_authority_that_changes_its_key_is_renewed_meanwhile() -> None:
    days = {"validityDays": 20, "renewalDays": 10, "authorityValidityDays": 30, "authorityOverlapDays": 25}
    world = _settled(certificates=days)
    old = _files(world, "events-cluster-ca")["tls.crt"]
    _rotate(world, "now")
    world.now += timedelta(days=21)
    world.settle()
    found = _files(world, "events-cluster-ca")
    assert found["tls.crt"] != old and "following.crt" in found
    assert is_issued_by(_files(world, "events-broker-tls")["tls.crt"], old), "with the same key"


def test_a_new_name_of_a_listener_brings_a_new_certificate() -> None:
    world = _settled()
    listeners = [dict(one) for one in SECURED["listeners"]]
    listeners[1] |= {"certificate": None, "advertisedHost": "kafka-{broker}.example.org"}
    world.change(spec__listeners=listeners)
    world.settle()
    names = facts_of(_files(world, "events-broker-tls")["tls.crt"]).names
    assert "kafka-1.example.org" in names and "broker-1.example.org" not in names


def test_a_secret_of_another_is_not_taken_over() -> None:
    world = ClusterWorld(SECURED)
    world.create(SECRETS, "of-cert-manager")
    world.objects.create({**manifest(SECRETS, "events-cluster-ca"), "data": {"tls.key": "aGVpZGk="}})
    world.look(3)
    assert world.condition("Ready")["reason"] == "ObjectsOfOthers"
    assert "Secret events-cluster-ca" in world.condition("Ready")["message"]
    found = world.body(SECRETS, "events-cluster-ca")
    assert found["data"] == {"tls.key": "aGVpZGk="}
    assert world.pods() == {}


def test_a_cluster_without_security_has_no_secrets(world: ClusterWorld) -> None:
    assert world.objects.list(SECRETS, None) == []
    assert world.brokers.secured == {}
