"""Authorities of a Cluster that are lost with their Secret, and those that its owner brings."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization

from odradek_operator.desired.security import encode_files
from odradek_operator.foundation.certificates import (
    KeyPair,
    is_issued_by,
    issue,
    make_authority,
    renew_authority,
)
from odradek_operator.gateways.kubernetes import CONFIG_MAPS, SECRETS, Json
from tests.operator.cluster.test_certificates import OWN, SECURED
from tests.operator.support.cluster_world import ClusterWorld
from tests.operator.support.world import manifest
from tests.support.certificates import Authority


def _settled(**more: Json) -> ClusterWorld:
    world = ClusterWorld({**SECURED, **more})
    world.create(SECRETS, "of-cert-manager")
    world.settle()
    return world


def _files(world: ClusterWorld, name: str) -> dict[str, str]:
    return {key: base64.b64decode(text).decode() for key, text in world.body(SECRETS, name)["data"].items()}


# --- authorities that are lost ---------------------------------------------------------------------------------------

_BOTH = ("events-cluster-ca", "events-clients-ca")
_IN_BROKERS = dict(zip(_BOTH, ("cluster-ca.crt", "clients-ca.crt"), strict=True))


def _own_certificate(world: ClusterWorld) -> str:
    return str(world.brokers.secured[OWN]["ssl.keystore.certificate.chain"])


def test_a_lost_authority_stays_trusted_and_what_it_signed_in_use() -> None:
    world = _settled(certificates={"authorityOverlapDays": 3})
    pods = world.pods()
    old = {name: _files(world, name)["tls.crt"] for name in _BOTH}
    leaf, own = _files(world, "events-broker-tls")["tls.crt"], _own_certificate(world)
    for name in _BOTH:
        world.delete(SECRETS, name)
    world.settle()
    new = {name: _files(world, name)["tls.crt"] for name in _BOTH}
    brokers = _files(world, "events-broker-tls")
    assert brokers["tls.crt"] == leaf, "clients that know only the former authority go on"
    assert _own_certificate(world) == own, "brokers know no other before they have read their Secret again"
    for name, file in _IN_BROKERS.items():
        assert not is_issued_by(new[name], old[name]) and brokers[file] == new[name] + old[name]
    assert world.body(CONFIG_MAPS, "events-binding")["data"]["ca.crt"] == new[_BOTH[0]] + old[_BOTH[0]]
    warned = [one for one in world.kubernetes.events if one.reason == "AuthorityLost"]
    assert [one.type for one in warned] == ["Warning", "Warning"]
    # A new operator has no certificate of before: its own is of the new authority.
    world.now += timedelta(days=2.9)
    world.restart_operator()
    world.settle()
    assert _files(world, "events-broker-tls")["tls.crt"] == leaf
    assert is_issued_by(_own_certificate(world), new[_BOTH[0]])
    world.now += timedelta(days=0.2)
    world.settle()
    brokers = _files(world, "events-broker-tls")
    assert is_issued_by(brokers["tls.crt"], new[_BOTH[0]])
    assert brokers["clients-ca.crt"] == new[_BOTH[1]] + old[_BOTH[1]]
    world.now += timedelta(days=3.1)
    world.settle()
    brokers = _files(world, "events-broker-tls")
    assert {name: brokers[file] for name, file in _IN_BROKERS.items()} == new
    assert world.pods() == pods


def test_an_authority_whose_key_is_gone_is_lost_too() -> None:
    world = _settled()
    leaf, old = _files(world, "events-broker-tls")["tls.crt"], _files(world, _BOTH[0])["tls.crt"]
    world.merge(SECRETS, _BOTH[0], {"data": {"tls.key": None}})
    world.settle()
    brokers = _files(world, "events-broker-tls")
    assert brokers["tls.crt"] == leaf and brokers["cluster-ca.crt"].endswith(old)
    assert [one.reason for one in world.kubernetes.events].count("AuthorityLost") == 1


def test_without_the_brokers_own_secret_nothing_of_before_is_trusted() -> None:
    """The way to end the trust in a key that others know."""
    world = _settled()
    old = _files(world, _BOTH[0])["tls.crt"]
    for name in (*_BOTH, "events-broker-tls"):
        world.delete(SECRETS, name)
    world.settle()
    assert old not in _files(world, "events-broker-tls")["cluster-ca.crt"]
    assert "AuthorityLost" not in [one.reason for one in world.kubernetes.events]


# --- authorities that are brought ------------------------------------------------------------------------------------


def _bring(world: ClusterWorld, pair: KeyPair, *, above: str = "") -> None:
    """Put an authority into the Secret `own`, as cert-manager does."""
    files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": above or pair.certificate}
    data = encode_files(files)
    if world.get(SECRETS, "own") is None:
        made = manifest(SECRETS, "own", labels={"odradek.io/authority": "true"})
        world.objects.create({**made, "data": data})
    else:
        world.merge(SECRETS, "own", {"data": data})


def _with_brought(days: int = 2, **more: object) -> tuple[ClusterWorld, KeyPair]:
    own = {"secretName": "own"}
    certificates = {"clusterAuthority": own, "authorityOverlapDays": days, **more}
    world = ClusterWorld({**SECURED, "certificates": certificates})
    world.create(SECRETS, "of-cert-manager")
    pair = make_authority("ours", days=400, now=world.now)
    return world, pair


def test_an_authority_is_brought_and_its_renewal_is_followed() -> None:
    world, first = _with_brought()
    _bring(world, first)
    world.settle()
    pods, brokers = world.pods(), _files(world, "events-broker-tls")
    assert (
        is_issued_by(brokers["tls.crt"], first.certificate) and brokers["cluster-ca.crt"] == first.certificate
    )
    assert is_issued_by(_own_certificate(world), first.certificate)
    # The same key: nothing else changes.
    renewed = renew_authority(first, days=800, now=world.now)
    _bring(world, renewed)
    world.settle()
    after = _files(world, "events-broker-tls")
    assert after["tls.crt"] == brokers["tls.crt"] and after["cluster-ca.crt"] == renewed.certificate
    # Another key: announced, used, retired.
    second = make_authority("ours", days=400, now=world.now)
    _bring(world, second)
    world.settle()
    announced = _files(world, "events-broker-tls")
    assert announced["tls.crt"] == brokers["tls.crt"]
    assert announced["cluster-ca.crt"] == renewed.certificate + second.certificate
    world.now += timedelta(days=2.1)
    world.settle()
    used = _files(world, "events-broker-tls")
    assert is_issued_by(used["tls.crt"], second.certificate)
    assert used["cluster-ca.crt"] == second.certificate + renewed.certificate
    world.now += timedelta(days=2.1)
    world.settle()
    assert _files(world, "events-broker-tls")["cluster-ca.crt"] == second.certificate
    assert world.pods() == pods, "brokers take files while they run"
    assert world.body(SECRETS, "own")["data"]["tls.key"] == encode_files({"k": second.key})["k"]


def test_a_cluster_moves_to_an_authority_of_its_owner_and_back() -> None:
    world = _settled(certificates={"authorityOverlapDays": 1})
    made = _files(world, _BOTH[0])["tls.crt"]
    pair = make_authority("ours", days=400, now=world.now)
    _bring(world, pair)
    world.change(spec__certificates__clusterAuthority={"secretName": "own"})
    world.settle()
    assert _files(world, "events-broker-tls")["cluster-ca.crt"] == made + pair.certificate
    for _ in range(2):
        world.now += timedelta(days=1.1)
        world.settle()
    assert _files(world, "events-broker-tls")["cluster-ca.crt"] == pair.certificate
    world.change(spec__certificates__clusterAuthority=None)
    world.settle()
    back = _files(world, _BOTH[0])
    assert back["tls.crt"] == pair.certificate and not is_issued_by(back["following.crt"], pair.certificate)


def test_what_is_above_a_brought_authority_is_for_clients_alone() -> None:
    root = Authority("root")
    between = Authority("ours", issuer=root)
    world, _ = _with_brought()
    world.now = datetime.now(UTC)
    key = between.private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _bring(world, KeyPair(between.pem, key.decode()), above=root.pem)
    world.settle()
    brokers = _files(world, "events-broker-tls")
    assert brokers["cluster-ca.crt"] == between.pem, "the root has signed others, who are no brokers"
    assert brokers["tls.crt"].endswith(between.pem), "clients may know the root alone"
    assert world.body(CONFIG_MAPS, "events-binding")["data"]["ca.crt"] == between.pem + root.pem


@pytest.mark.parametrize(
    ("data", "labels", "says"),
    [
        (None, {}, "there is no Secret own"),
        ({"tls.crt": "x", "tls.key": "x"}, {}, 'label it odradek.io/authority="true"'),
        ({"tls.crt": "x", "tls.key": "x"}, {"odradek.io/authority": "true"}, "no certificate in PEM"),
        ("leaf", {"odradek.io/authority": "true"}, "not of an authority"),
        ("other", {"odradek.io/authority": "true"}, "not the key of tls.crt"),
    ],
)
def test_an_authority_that_cannot_be_used_says_why(
    data: dict[str, str] | str | None, labels: dict[str, str], says: str
) -> None:
    world, pair = _with_brought()
    if data == "leaf":
        leaf = issue(pair, "someone", days=10, now=world.now)
        data = {"tls.crt": leaf.certificate, "tls.key": leaf.key}
    elif data == "other":
        data = {"tls.crt": pair.certificate, "tls.key": issue(pair, "x", days=1, now=world.now).key}
    if isinstance(data, dict):
        world.objects.create({**manifest(SECRETS, "own", labels=labels), "data": encode_files(data)})
    assert world.look(2) is not None
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NoAuthority") and says in ready["message"]
    assert world.pods() == world.pods("zookeeper") == {}
    world.delete(SECRETS, "own") if data else None
    _bring(world, pair)
    world.settle()
    assert world.condition("Ready")["status"] == "True"
    # One that is lost later stops nothing.
    world.delete(SECRETS, "own")
    world.settle()
    assert world.condition("Ready")["status"] == "True"
    assert "there is no Secret own" in world.condition("Certificates")["message"]


def test_an_authority_that_ends_soon_is_shown() -> None:
    world, _ = _with_brought()
    _bring(world, make_authority("ours", days=40, now=world.now))
    world.settle()
    assert not world.condition("Certificates")
    world.now += timedelta(days=34)
    world.settle()
    assert "renew it" in world.condition("Certificates")["message"]
    written = len(world.kubernetes.written)
    world.settle()
    again = [one for one in world.kubernetes.written[written:] if one[1] == "Secret"]
    assert again == [], "what cannot be good for longer is not made again and again"
