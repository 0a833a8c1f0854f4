"""Users of a real broker: logins by their Secrets, rights, quotas, rotations, and what is left when they go."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from odradek.client.client import Client
from odradek.client.errors import ConnectionFailed
from odradek.client.secured import secured_network
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.security_errors import TopicAuthorizationFailed
from odradek.foundation.settings.file import parse_properties
from odradek_operator.desired.user_secret import ROTATION_ANNOTATION
from odradek_operator.foundation.authority_keys import AuthorityKeys
from odradek_operator.foundation.certificates import KeyPair, facts_of, is_issued_by, issue, make_authority
from odradek_operator.gateways.kubernetes import CLUSTERS, SECRETS, USERS
from odradek_operator.reconcilers.reconciler import CLEANUP_FINALIZER
from tests.operator.support.broker_world import BrokerWorld, in_world
from tests.support.broker_process import SecuredBroker
from tests.support.certificates import Authority

pytestmark = pytest.mark.integration

AUTHORITIES = ("main-cluster-ca", "main-clients-ca")
READS = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Read", "Describe"]}
WRITES = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Write"]}


class _Signing(Authority):
    """An authority whose key is known to the operator too."""

    @property
    def pair(self) -> KeyPair:
        from cryptography.hazmat.primitives import serialization

        key = self.private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return KeyPair(self.pem, key.decode())


class _Brokers(SecuredBroker):
    """A broker with an authorizer, a listener of the operator, and listeners for both kinds of users."""

    admin_port = 0

    def __init__(self, folder: Path) -> None:
        self.signing = _Signing()
        super().__init__(
            folder,
            kinds={"OWN": "PLAINTEXT", "INTERNAL": "SASL_SSL", "MUTUAL": "SSL"},
            settings={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "listener.name.internal.sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
                "listener.name.mutual.ssl.client.auth": "required",
                "connection.failed.authentication.delay.ms": "0",
            },
            authority=self.signing,
        )

    @property
    def bootstrap(self) -> str:
        return self.bootstraps["OWN"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Brokers]:
    made = _Brokers(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.close()


class _World(BrokerWorld):
    """A Cluster with both listeners, whose authorities are the broker's."""

    broker: Any

    async def prepare(self) -> None:
        bootstraps = self.broker.bootstraps
        mutual = {"name": "mutual", "type": "Internal"}
        spec = {
            "zookeeper": {"connect": "elsewhere:2181"},
            "internalListener": {"authentication": {"type": "scram-sha-512"}},
            "authorization": {},
            "listeners": [{**mutual, "port": 9094, "tls": True, "authentication": {"type": "tls"}}],
        }
        listeners = [{**mutual, "bootstrap": bootstraps["MUTUAL"]}]
        status = {"bootstrap": bootstraps["INTERNAL"], "listeners": listeners}
        owner = self.create(CLUSTERS, "main", spec, status=status)["metadata"]["uid"]
        for name in AUTHORITIES:
            self.create(SECRETS, name, ownerReferences=[{"uid": owner}])
        self.give_keys(AuthorityKeys(self.broker.signing.pair))
        await self.clients.secure(self.bootstrap, {"security.protocol": "PLAINTEXT"})

    def make_cluster_again(self) -> None:
        super().make_cluster_again()
        owner = self.body(CLUSTERS, "main")["metadata"]["uid"]
        for name in AUTHORITIES:
            self.create(SECRETS, name, ownerReferences=[{"uid": owner}])
        self.give_keys(AuthorityKeys(self.broker.signing.pair))

    def give_keys(self, keys: AuthorityKeys) -> None:
        """Have the operator find these keys of both authorities."""
        data = {key: base64.b64encode(text.encode()).decode() for key, text in keys.files().items()}
        for name in AUTHORITIES:
            gone = {key: None for key in self.body(SECRETS, name).get("data", {}) if key not in data}
            self.merge(SECRETS, name, {"data": {**gone, **data}})
        # The resync, minutes later, finds it.
        self.restart_operator()

    def secret(self, name: str) -> dict[str, str]:
        found = self.body(SECRETS, name)["data"]
        return {key: base64.b64decode(text).decode("utf-8", "replace") for key, text in found.items()}

    def rotate(self, name: str, value: str) -> None:
        self.merge(USERS, name, {"metadata": {"annotations": {ROTATION_ANNOTATION: value}}})


async def _connected(properties: dict[str, str], topic: str | None = None) -> None:
    """Connect as a client does that has read the Secret; with a topic, ask to write to it."""
    async with Client(
        properties["bootstrap.servers"], network=secured_network(properties), request_timeout_ms=10_000
    ) as client:
        if topic is not None:
            cluster = await client.refresh([topic])
            failure = cluster.topics[topic].error()
            if failure is not None:
                raise failure


def _properties(files: dict[str, str]) -> dict[str, str]:
    return dict(parse_properties(files["client.properties"]))


async def _topic(world: _World) -> None:
    async with world.admin() as admin:
        if "orders" not in (await admin.topics._client.refresh(None)).topics:
            await admin.topics.create("orders", partitions=1, replication_factor=1)


@in_world(_World)
async def test_a_user_logs_in_by_its_secret_and_may_do_what_is_said(world: _World) -> None:
    await _topic(world)
    world.make(USERS, "alice", acls=[READS], quotas={"producerByteRate": 1000000})
    await world.user("alice")
    assert world.ready(USERS, "alice") == ("True", "Ready")
    files = world.secret("alice")
    assert files["username"] == "alice" and files["sasl.mechanism"] == "SCRAM-SHA-512"
    assert files["security.protocol"] == "SASL_SSL" and files["ca.crt"] == world.broker.signing.pem
    assert files["spark.odradek.sasl.jaas.config"] == files["sasl.jaas.config"]
    await _connected(_properties(files), "orders")
    world.make(USERS, "bob")
    await world.user("bob")
    with pytest.raises(TopicAuthorizationFailed):
        await _connected(_properties(world.secret("bob")), "orders")
    async with world.admin() as admin:
        (entry,) = await admin.quotas.describe(ClientEntity(user="alice"))
        assert dict(entry.values) == {"producer_byte_rate": 1000000.0}
    # A settled User is left alone.
    written = len(world.kubernetes.written)
    world.restart_operator()
    await world.user("alice")
    assert len(world.kubernetes.written) == written
    # What is taken away, or added by other means, follows what is said.
    world.edit(USERS, "alice", acls=[WRITES], quotas=None)
    await world.user("alice")
    async with world.admin() as admin:
        acls = [one for one in await admin.acls.list() if one.entry.principal == "User:alice"]
        assert [one.entry.operation.name for one in acls] == ["WRITE"]
        assert await admin.quotas.describe(ClientEntity(user="alice")) == []
    world.delete(USERS, "alice")
    await world.user("alice")
    assert not world.is_there(USERS, "alice") and not world.is_there(SECRETS, "alice")
    async with world.admin() as admin:
        assert await admin.scram.describe(["alice"]) == {}
        assert [one for one in await admin.acls.list() if one.entry.principal == "User:alice"] == []
    with pytest.raises(ConnectionFailed):
        await _connected(_properties(files))


@in_world(_World)
async def test_a_rotated_password_leaves_the_former_good_for_a_while(world: _World) -> None:
    world.make(USERS, "carol", authentication={"type": "scram-sha-512", "overlap": "10m"})
    await world.user("carol")
    first = _properties(world.secret("carol"))
    world.rotate("carol", "once")
    again = await world.user("carol")
    assert again is not None and 500 < again <= 600
    second = _properties(world.secret("carol"))
    assert first["sasl.mechanism"] == "SCRAM-SHA-512" and second["sasl.mechanism"] == "SCRAM-SHA-256"
    await _connected(first)
    await _connected(second)
    # The same value asks for nothing more, for a new operator either.
    world.restart_operator()
    await world.user("carol")
    assert _properties(world.secret("carol")) == second
    world.now += timedelta(minutes=11)
    world.restart_operator()
    await world.user("carol")
    with pytest.raises(ConnectionFailed):
        await _connected(first)
    await _connected(second)
    assert "formerUntil" not in world.body(USERS, "carol")["status"]


@in_world(_World)
async def test_a_lost_password_or_an_edited_secret_is_repaired(world: _World) -> None:
    from odradek.client.admin.scram import ScramRemoval

    world.make(USERS, "dave")
    await world.user("dave")
    async with world.admin() as admin:
        await admin.scram.alter(removals=[ScramRemoval("dave", "SCRAM-SHA-512")])
    world.restart_operator()
    await world.user("dave")
    await _connected(_properties(world.secret("dave")))
    data = {"password": base64.b64encode(b"of-my-own").decode()}
    world.merge(SECRETS, "dave", {"data": data})
    world.restart_operator()
    await world.user("dave")
    properties = _properties(world.secret("dave"))
    assert 'password="of-my-own"' in properties["sasl.jaas.config"]
    await _connected(properties)
    before = world.secret("dave")
    world.delete(SECRETS, "dave")
    world.restart_operator()
    await world.user("dave")
    assert world.secret("dave")["password"] != before["password"]
    await _connected(_properties(world.secret("dave")))


@in_world(_World)
async def test_a_user_with_a_certificate_is_named_by_it(world: _World) -> None:
    world.now = datetime.now(UTC)
    await _topic(world)
    world.make(USERS, "erin", authentication={"type": "tls"}, acls=[READS])
    await world.user("erin")
    assert world.ready(USERS, "erin") == ("True", "Ready")
    files = world.secret("erin")
    assert world.body(USERS, "erin")["status"]["principal"] == "User:CN=erin"
    assert files["user.crt"] == files["tls.crt"] and "password" not in files
    await _connected(_properties(files), "orders")
    # It is renewed before it ends, and the former one stays good until its own end.
    world.now = facts_of(files["user.crt"]).not_after - timedelta(days=20)
    world.restart_operator()
    await world.user("erin")
    renewed = world.secret("erin")
    assert renewed["user.crt"] != files["user.crt"]
    await _connected(_properties(files), "orders")
    # With a password it is another principal, and what the former had is taken away.
    world.edit(USERS, "erin", authentication={"type": "scram-sha-512"})
    await world.user("erin")
    assert "user.key" not in world.secret("erin")
    await _connected(_properties(world.secret("erin")), "orders")
    with pytest.raises(TopicAuthorizationFailed):
        await _connected(_properties(files), "orders")


@in_world(_World)
async def test_a_user_follows_new_keys_of_the_authorities(world: _World) -> None:
    world.now = datetime.now(UTC)
    world.make(USERS, "gina", authentication={"type": "tls"}, acls=[])
    await world.user("gina")
    files = world.secret("gina")
    old = world.broker.signing.pair
    new = make_authority("new", days=100, now=world.now)
    # Announced: clients trust both, and keep their certificates.
    world.give_keys(AuthorityKeys(old, following=new))
    await world.user("gina")
    announced = world.secret("gina")
    assert announced["ca.crt"] == old.certificate + new.certificate
    assert announced["tls.crt"] == files["tls.crt"]
    await _connected(_properties(announced))
    # Used: there is a new certificate at once, and the former one is good for as long as it is trusted.
    world.give_keys(AuthorityKeys(new, former=old.certificate))
    await world.user("gina")
    used = world.secret("gina")
    assert used["ca.crt"] == new.certificate + old.certificate
    assert is_issued_by(used["tls.crt"], new.certificate)
    await _connected(_properties(announced))
    world.give_keys(AuthorityKeys(new))
    await world.user("gina")
    assert world.secret("gina")["ca.crt"] == new.certificate
    assert world.secret("gina")["tls.crt"] == used["tls.crt"]


@in_world(_World)
async def test_a_certificate_of_a_lost_authority_stays_as_long_as_it_is_trusted(world: _World) -> None:
    world.now = datetime.now(UTC)
    world.make(USERS, "nora", authentication={"type": "tls"})
    await world.user("nora")
    files = world.secret("nora")
    old = world.broker.signing.pair
    new = make_authority("new", days=100, now=world.now)
    world.give_keys(AuthorityKeys(new, former=old.certificate, former_signs=True))
    await world.user("nora")
    lost = world.secret("nora")
    assert lost["tls.crt"] == files["tls.crt"] and lost["ca.crt"] == new.certificate + old.certificate
    await _connected(_properties(lost))
    world.give_keys(AuthorityKeys(new, former=old.certificate))
    await world.user("nora")
    assert is_issued_by(world.secret("nora")["tls.crt"], new.certificate)


@in_world(_World)
async def test_a_user_deleted_with_its_cluster_does_not_come_back(world: _World) -> None:
    """Also one whose deletion no operator has seen: what has no User has no rights."""
    await _topic(world)
    for name in ("henry", "iris", "jack"):
        world.make(USERS, name, acls=[READS])
        await world.user(name)
    files = {name: _properties(world.secret(name)) for name in ("henry", "iris", "jack")}
    world.make(USERS, "karl", deletionPolicy="Retain")
    await world.user("karl")
    karl = _properties(world.secret("karl"))
    world.delete_cluster()
    world.delete(USERS, "henry")
    await world.user("henry")
    for name in ("iris", "jack", "karl"):
        world.delete(USERS, name)
    await _connected(files["henry"], "orders")
    world.make_cluster_again()
    world.make(USERS, "jack", acls=[READS])
    await world.user("jack")
    for name in ("henry", "iris"):
        with pytest.raises(ConnectionFailed):
            await _connected(files[name])
    await _connected(_properties(world.secret("jack")), "orders")
    await _connected(karl)
    assert world.entries(USERS) == {"jack"}
    async with world.admin() as admin:
        principals = {one.entry.principal for one in await admin.acls.list()}
        assert principals.isdisjoint({"User:henry", "User:iris"})


@in_world(_World)
async def test_no_user_is_held_and_brokers_that_are_away_forget_it_later(world: _World) -> None:
    world.make(USERS, "lena")
    await world.user("lena")
    properties = _properties(world.secret("lena"))
    there, world.bootstrap = world.bootstrap, "127.0.0.1:1"
    world.delete(USERS, "lena")
    assert not world.is_there(USERS, "lena"), "a namespace that is deleted waits for nothing of ours"
    await world.user("lena")
    assert world.key(USERS, "lena") in world.woken and world.entries(USERS) >= {"lena"}
    world.bootstrap = there
    world.restart_operator()
    await world.user("lena")
    with pytest.raises(ConnectionFailed):
        await _connected(properties)
    assert "lena" not in world.entries(USERS)


@in_world(_World)
async def test_a_user_of_an_earlier_version_is_let_go_and_forgotten(world: _World) -> None:
    world.make(USERS, "mona")
    world.merge(USERS, "mona", {"metadata": {"finalizers": [CLEANUP_FINALIZER]}})
    await world.user("mona")
    properties = _properties(world.secret("mona"))
    assert not world.body(USERS, "mona")["metadata"].get("finalizers")
    world.merge(USERS, "mona", {"metadata": {"finalizers": [CLEANUP_FINALIZER]}})
    world.delete(USERS, "mona")
    assert world.is_there(USERS, "mona")
    await world.user("mona")
    assert not world.is_there(USERS, "mona")
    with pytest.raises(ConnectionFailed):
        await _connected(properties)


@in_world(_World)
async def test_a_secret_of_another_is_neither_used_nor_changed(world: _World) -> None:
    world.create(SECRETS, "frank")
    world.merge(SECRETS, "frank", {"data": {"password": "aGVpZGk="}})
    world.make(USERS, "frank")
    await world.user("frank")
    assert world.ready(USERS, "frank") == ("False", "SecretTaken")
    assert world.body(SECRETS, "frank")["data"] == {"password": "aGVpZGk="}
    async with world.admin() as admin:
        assert await admin.scram.describe(["frank"]) == {}


@in_world(_World)
async def test_whatever_happens_between_two_writes_the_next_operator_goes_on(world: _World) -> None:
    for cut in range(4):
        name = f"cut-{cut}"
        world.make(USERS, name, acls=[READS])
        with world.kubernetes.killed_after(cut) as life:
            await world.user(name)
        world.restart_operator()
        await world.user(name)
        assert world.ready(USERS, name) == ("True", "Ready"), (cut, life.was_cut)
        await _connected(_properties(world.secret(name)))


def test_an_authority_of_another_name_signs_nothing_for_it() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    one, other = (make_authority("a", days=10, now=now) for _ in range(2))
    leaf = issue(one, "x", days=100, now=now)
    assert is_issued_by(leaf.certificate, one.certificate)
    assert not is_issued_by(leaf.certificate, other.certificate)
    assert facts_of(leaf.certificate).not_after == facts_of(one.certificate).not_after


def password_from(secret: str, key: str = "word") -> dict[str, Any]:
    """The authentication of a User whose owner brings its password."""
    source = {"secretKeyRef": {"name": secret, "key": key}}
    return {"type": "scram-sha-512", "password": {"valueFrom": source}}


def encoded(text: str) -> dict[str, str]:
    return {"word": base64.b64encode(text.encode()).decode()}


@in_world(_World)
async def test_a_password_that_is_brought_is_followed(world: _World) -> None:
    world.create(SECRETS, "hers", labels={"odradek.io/password": "true"})
    world.merge(SECRETS, "hers", {"data": encoded('a "quoted" \\ word')})
    world.make(USERS, "fay", authentication=password_from("hers"))
    again = await world.user("fay")
    assert world.ready(USERS, "fay") == ("True", "Ready")
    assert again is not None and 59 < again <= 60, "no event shows a change"
    files = world.secret("fay")
    assert files["password"] == 'a "quoted" \\ word' and files["sasl.mechanism"] == "SCRAM-SHA-512"
    former = _properties(files)
    await _connected(former)
    written = len(world.kubernetes.written)
    world.restart_operator()
    await world.user("fay")
    assert len(world.kubernetes.written) == written, "as it is"
    world.merge(SECRETS, "hers", {"data": encoded("another")})
    world.restart_operator()  # a minute later
    await world.user("fay")
    present = _properties(world.secret("fay"))
    assert present["sasl.mechanism"] == "SCRAM-SHA-512", "clients of its owner know the mechanism"
    await _connected(present)
    with pytest.raises(ConnectionFailed):
        await _connected(former)
    # Without the field the operator keeps what is good, and a rotation makes another one.
    world.edit(USERS, "fay", authentication=None)
    await world.user("fay")
    assert world.secret("fay")["password"] == "another"
    world.rotate("fay", "once")
    await world.user("fay")
    rotated = world.secret("fay")
    assert rotated["password"] != "another" and rotated["sasl.mechanism"] == "SCRAM-SHA-256"


@in_world(_World)
async def test_a_password_that_cannot_be_used_leaves_the_present_one(world: _World) -> None:
    world.make(USERS, "gus")
    await world.user("gus")
    before = world.secret("gus")
    world.edit(USERS, "gus", authentication=password_from("his"))
    await world.user("gus")
    assert world.ready(USERS, "gus") == ("False", "NoPassword")
    world.create(SECRETS, "his")
    for labels, data, words in (
        ({}, encoded("good"), 'label it odradek.io/password="true"'),
        ({"odradek.io/password": "true"}, {"word": None, "other": "eA=="}, "no password at the key word"),
        ({"odradek.io/password": "true"}, encoded("a line\n"), "no blank or line break at either end"),
        ({"odradek.io/password": "true"}, encoded("größe"), "printable ASCII"),
        ({"odradek.io/password": "true"}, encoded("x" * 257), "1 to 256"),
    ):
        world.merge(SECRETS, "his", {"metadata": {"labels": labels}, "data": data})
        world.restart_operator()
        await world.user("gus")
        said = world.stated(USERS, "gus", "Ready")
        assert said["reason"] == "NoPassword" and words in said["message"]
        assert "größe" not in said["message"] and "xxx" not in said["message"]
    assert world.secret("gus") == before
    await _connected(_properties(before))
    world.merge(SECRETS, "his", {"data": encoded("good")})
    world.restart_operator()
    await world.user("gus")
    assert world.ready(USERS, "gus") == ("True", "Ready") and world.secret("gus")["password"] == "good"
