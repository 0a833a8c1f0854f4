"""Changes while a lost authority is replaced: clients with the former ca.crt continue wherever nothing changed.

Brokers' listeners are made from what the operator writes, and clients connect to them in memory.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.settings.file import parse_properties
from odradek.security.tls.contexts import server_context
from odradek.security.tls.listener import listener_tls
from odradek_operator.foundation.certificates import is_issued_by
from odradek_operator.gateways.kubernetes import CONFIG_MAPS, PODS, SECRETS, SERVICES, Json
from tests.operator.support.cluster_world import ClusterWorld

NODES: Json = {
    "name": "nodes",
    "type": "NodePort",
    "port": 9094,
    "advertisedPort": 30000,
    "tls": True,
    "authentication": {"type": "scram-sha-512"},
}
WORLD: Json = {
    "name": "world",
    "type": "LoadBalancer",
    "port": 9095,
    "advertisedHost": "broker-{broker}.example.org",
    "tls": True,
    "authentication": {"type": "scram-sha-512"},
}
ADDED: Json = {**WORLD, "name": "added", "port": 9096, "advertisedHost": "added-{broker}.example.org"}
SPEC: Json = {
    "brokers": {"replicas": 2},
    "internalListener": {"authentication": {"type": "scram-sha-512"}},
    "authorization": {},
    "certificates": {"authorityOverlapDays": 3},
    "listeners": [NODES, WORLD],
}
BROKERS = "events-broker-tls"


def _files(world: ClusterWorld, name: str) -> dict[str, str]:
    return {key: base64.b64decode(text).decode() for key, text in world.body(SECRETS, name)["data"].items()}


def _lose(world: ClusterWorld) -> str:
    """Delete the Secret of the authority for servers; the answer is its certificate."""
    former = _files(world, "events-cluster-ca")["tls.crt"]
    world.delete(SECRETS, "events-cluster-ca")
    world.look()
    return former


@pytest.fixture
def lost() -> tuple[ClusterWorld, str]:
    """A Cluster that has just lost an authority, and the certificate of that."""
    world = ClusterWorld(SPEC)
    world.now = datetime.now(UTC)
    world.settle()
    return world, _lose(world)


def _connects(server: ssl.SSLContext, host: str, trusted: str) -> bool:
    """Whether a client that trusts these authorities connects to a host, which it checks."""
    client = ssl.create_default_context(cadata=trusted)
    pipes = [ssl.MemoryBIO() for _ in range(2)]
    end = client.wrap_bio(pipes[0], pipes[1], server_hostname=host)
    other = server.wrap_bio(pipes[1], pipes[0], server_side=True)
    for _ in range(4):
        for one in (end, other):
            try:
                one.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return end.version() is not None


def _node_address(world: ClusterWorld, number: str) -> str:
    labels = {"app.kubernetes.io/component": "broker"}
    (pod,) = [
        pod
        for pod in world.objects.list(PODS, "default", labels)
        if pod["metadata"]["name"].endswith(f"-{number}")
    ]
    return str(pod["status"]["hostIP"])


class _Listener(NamedTuple):
    name: str
    broker: int
    host: str
    context: ssl.SSLContext


def _listeners(world: ClusterWorld, folder: Path) -> list[_Listener]:
    """The listeners of all brokers, with what they show, and the host that each broker advertises."""
    for name, text in _files(world, BROKERS).items():
        (folder / name).write_text(text)
    data = world.body(CONFIG_MAPS, "events-broker")["data"]
    file = dict(parse_properties(data["broker.properties"].replace("/etc/odradek-tls/broker", str(folder))))
    found: list[_Listener] = []
    for number, advertised in re.findall(r'(\d+)\) ADVERTISED="(.*)" ;;', data["addresses"]):
        advertised = advertised.replace("${NODE_IP}", _node_address(world, number))
        settings = Settings(file | {"node.id": number, "advertised.listeners": advertised})
        for endpoint in settings.advertised_endpoints:
            is_sasl = endpoint.security_protocol == "SASL_SSL"
            context = server_context(listener_tls(settings, endpoint.listener_name, is_sasl=is_sasl))
            # What the server shows is judged here, so clients need no certificate.
            context.verify_mode = ssl.CERT_NONE
            found.append(_Listener(endpoint.listener_name, int(number), endpoint.host, context))
    return found


def _cut_off(listeners: list[_Listener], trusted: str) -> dict[str, set[int]]:
    """The brokers that clients with these authorities do not reach, by listener."""
    found: dict[str, set[int]] = {}
    for one in listeners:
        if not _connects(one.context, one.host, trusted):
            found.setdefault(one.name, set()).add(one.broker)
    return found


def _add_listener(world: ClusterWorld) -> None:
    world.change(spec__listeners=[NODES, WORLD, ADDED])


def _change_host(world: ClusterWorld) -> None:
    world.change(spec__listeners=[NODES, {**WORLD, "advertisedHost": "kafka-{broker}.example.org"}])


def _scale(world: ClusterWorld) -> None:
    world.change(spec__brokers={"replicas": 3})


def _add_pool(world: ClusterWorld) -> None:
    pool = {"name": "fast", "firstId": 1000, "replicas": 1, "storage": {"size": "10Gi"}}
    world.change(spec__brokers={"pools": [pool]})


def _move_to_another_node(world: ClusterWorld) -> None:
    world.nodes.node_addresses["events-broker-1"] = "192.168.0.2"
    world.delete(PODS, "events-broker-1")


def _give_another_bootstrap_address(world: ClusterWorld) -> None:
    given = {"loadBalancer": {"ingress": [{"hostname": "all.example.org"}]}}
    world.set_status(SERVICES, "events-world-bootstrap", given)


@pytest.mark.parametrize(
    ("change", "cut_off"),
    [
        (_add_listener, {"ADDED": {0, 1}}),
        (_scale, {"WORLD": {2}}),
        pytest.param(_change_host, {"WORLD": {0, 1}}, marks=pytest.mark.thorough),
        pytest.param(_add_pool, {"WORLD": {1000}}, marks=pytest.mark.thorough),
        pytest.param(_move_to_another_node, {"NODES": {1}}, marks=pytest.mark.thorough),
        pytest.param(_give_another_bootstrap_address, {}, marks=pytest.mark.thorough),
    ],
)
def test_the_former_trust_is_enough_where_no_host_is_new(
    lost: tuple[ClusterWorld, str],
    tmp_path: Path,
    change: Callable[[ClusterWorld], None],
    cut_off: dict[str, set[int]],
) -> None:
    world, former = lost
    change(world)
    world.look(3)
    listeners = _listeners(world, tmp_path)
    assert {one.name for one in listeners} >= {"INTERNAL", "NODES", "WORLD", "REPLICATION"}
    assert _cut_off(listeners, _files(world, BROKERS)["cluster-ca.crt"]) == {}, "both are enough everywhere"
    assert _cut_off(listeners, former) == cut_off
    (warned,) = [one for one in world.kubernetes.events if one.reason == "CertificateAdded"]
    assert warned.type == "Warning" and len(warned.message) < 1_024


def test_afterwards_there_is_one_certificate_again(lost: tuple[ClusterWorld, str]) -> None:
    world, former = lost
    leaf = _files(world, BROKERS)["tls.crt"]
    _add_listener(world)
    world.look(2)
    first = _files(world, BROKERS)
    assert first["tls.crt"] == leaf and is_issued_by(leaf, former)
    # It is left alone, also by another operator.
    written = len(world.kubernetes.written)
    world.restart_operator()
    world.look(2)
    assert [one for one in world.kubernetes.written[written:] if one[1] == "Secret"] == []
    # Another name: the second certificate is made again, and the first one stays.
    _move_to_another_node(world)
    world.look(3)
    pods, second = world.pods(), _files(world, BROKERS)
    assert second["tls.crt"] == leaf and second["added.crt"] != first["added.crt"]
    world.now += timedelta(days=3.1)
    world.look()
    last = _files(world, BROKERS)
    assert (last["tls.crt"], last["tls.key"]) == (second["added.crt"], second["added.key"])
    assert set(last) == {"tls.crt", "tls.key", "cluster-ca.crt", "clients-ca.crt", "http-ca.crt"}
    assert world.pods() == pods, "brokers take files while they run"


def test_a_name_that_is_not_wanted_any_more_takes_its_certificate_along(
    lost: tuple[ClusterWorld, str],
) -> None:
    world, _ = lost
    before = _files(world, BROKERS)
    _add_listener(world)
    world.look(2)
    assert "added.crt" in _files(world, BROKERS)
    world.change(spec__listeners=[NODES, WORLD])
    world.look(2)
    assert _files(world, BROKERS) == before


def test_a_second_loss_leaves_the_first_certificate_in_use(
    lost: tuple[ClusterWorld, str],
) -> None:
    world, former = lost
    _add_listener(world)
    world.look(2)
    first, second = _files(world, BROKERS), _lose(world)
    after = _files(world, BROKERS)
    assert is_issued_by(after["tls.crt"], former) and is_issued_by(after["added.crt"], second)
    assert (after["tls.crt"], after["added.crt"]) == (first["tls.crt"], first["added.crt"])
    assert after["cluster-ca.crt"].endswith(second + former)


def test_the_former_certificate_is_not_kept_to_its_last_day() -> None:
    """All clients must have the new trust then: a certificate that has ended serves none of them."""
    days = {"validityDays": 30, "renewalDays": 10, "authorityOverlapDays": 60}
    world = ClusterWorld({**SPEC, "certificates": days})
    world.settle()
    _lose(world)
    _add_listener(world)
    world.look()
    world.now += timedelta(days=28.9)
    world.look()
    before = _files(world, BROKERS)
    world.now += timedelta(days=0.2)
    world.look()
    after = _files(world, BROKERS)
    assert is_issued_by(after["tls.crt"], _files(world, "events-cluster-ca")["tls.crt"])
    assert "added.crt" in before and "added.crt" not in after
