"""Users of a real broker: logins by their Secrets, rights, quotas, rotations, and what is left when they go."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from odradek.client.errors import ConnectionFailed
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.security_errors import TopicAuthorizationFailed
from odradek_operator.foundation.authority_keys import AuthorityKeys
from odradek_operator.foundation.certificates import facts_of, is_issued_by, issue, make_authority
from odradek_operator.gateways.kubernetes import CLUSTERS, SECRETS, USERS
from odradek_operator.reconcilers.reconciler import CLEANUP_FINALIZER
from tests.operator.support.broker_world import in_world
from tests.operator.support.user_world import SecuredClusterBroker, UserWorld, connect_as, read_properties

pytestmark = pytest.mark.integration

READS = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Read", "Describe"]}
WRITES = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Write"]}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredClusterBroker]:
    made = SecuredClusterBroker(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.close()


async def _topic(world: UserWorld) -> None:
    async with world.admin() as admin:
        if "orders" not in (await admin.topics._client.refresh(None)).topics:
            await admin.topics.create("orders", partitions=1, replication_factor=1)


@in_world(UserWorld)
async def test_a_user_logs_in_by_its_secret_and_may_do_what_is_said(world: UserWorld) -> None:
    await _topic(world)
    world.make(USERS, "alice", acls=[READS], quotas={"producerByteRate": 1000000})
    await world.user("alice")
    assert world.ready(USERS, "alice") == ("True", "Ready")
    files = world.secret("alice")
    assert files["username"] == "alice" and files["sasl.mechanism"] == "SCRAM-SHA-512"
    assert files["security.protocol"] == "SASL_SSL" and files["ca.crt"] == world.broker.signing.pem
    assert files["spark.odradek.sasl.jaas.config"] == files["sasl.jaas.config"]
    await connect_as(read_properties(files), "orders")
    world.make(USERS, "bob")
    await world.user("bob")
    with pytest.raises(TopicAuthorizationFailed):
        await connect_as(read_properties(world.secret("bob")), "orders")
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
        await connect_as(read_properties(files))


@in_world(UserWorld)
async def test_a_rotated_password_leaves_the_former_good_for_a_while(world: UserWorld) -> None:
    world.make(USERS, "carol", authentication={"type": "scram-sha-512", "overlap": "10m"})
    await world.user("carol")
    first = read_properties(world.secret("carol"))
    world.rotate("carol", "once")
    again = await world.user("carol")
    assert again is not None and 500 < again <= 600
    second = read_properties(world.secret("carol"))
    assert first["sasl.mechanism"] == "SCRAM-SHA-512" and second["sasl.mechanism"] == "SCRAM-SHA-256"
    await connect_as(first)
    await connect_as(second)
    # The same value asks for nothing more, for a new operator either.
    world.restart_operator()
    await world.user("carol")
    assert read_properties(world.secret("carol")) == second
    world.now += timedelta(minutes=11)
    world.restart_operator()
    await world.user("carol")
    with pytest.raises(ConnectionFailed):
        await connect_as(first)
    await connect_as(second)
    assert "formerUntil" not in world.body(USERS, "carol")["status"]


@in_world(UserWorld)
async def test_a_new_login_of_the_consoles_user_wakes_its_cluster(world: UserWorld) -> None:
    cluster = world.key(CLUSTERS, "main")
    world.merge(CLUSTERS, "main", {"spec": {"console": {"user": "watcher"}}})
    world.make(USERS, "another")
    await world.user("another")
    assert cluster not in world.woken
    world.make(USERS, "watcher")
    await world.user("watcher")
    assert world.woken.count(cluster) == 1, "its pod can be made now"
    world.restart_operator()
    await world.user("watcher")
    assert world.woken.count(cluster) == 1, "nothing is new"
    world.rotate("watcher", "once")
    await world.user("watcher")
    assert world.woken.count(cluster) == 2


@in_world(UserWorld)
async def test_a_lost_password_or_an_edited_secret_is_repaired(world: UserWorld) -> None:
    from odradek.client.admin.scram import ScramRemoval

    world.make(USERS, "dave")
    await world.user("dave")
    async with world.admin() as admin:
        await admin.scram.alter(removals=[ScramRemoval("dave", "SCRAM-SHA-512")])
    world.restart_operator()
    await world.user("dave")
    await connect_as(read_properties(world.secret("dave")))
    data = {"password": base64.b64encode(b"of-my-own").decode()}
    world.merge(SECRETS, "dave", {"data": data})
    world.restart_operator()
    await world.user("dave")
    properties = read_properties(world.secret("dave"))
    assert 'password="of-my-own"' in properties["sasl.jaas.config"]
    await connect_as(properties)
    before = world.secret("dave")
    world.delete(SECRETS, "dave")
    world.restart_operator()
    await world.user("dave")
    assert world.secret("dave")["password"] != before["password"]
    await connect_as(read_properties(world.secret("dave")))


@in_world(UserWorld)
async def test_a_user_with_a_certificate_is_named_by_it(world: UserWorld) -> None:
    world.now = datetime.now(UTC)
    await _topic(world)
    world.make(USERS, "erin", authentication={"type": "tls"}, acls=[READS])
    await world.user("erin")
    assert world.ready(USERS, "erin") == ("True", "Ready")
    files = world.secret("erin")
    assert world.body(USERS, "erin")["status"]["principal"] == "User:CN=erin"
    assert files["user.crt"] == files["tls.crt"] and "password" not in files
    await connect_as(read_properties(files), "orders")
    # It is renewed before it ends, and the former one stays good until its own end.
    world.now = facts_of(files["user.crt"]).not_after - timedelta(days=20)
    world.restart_operator()
    await world.user("erin")
    renewed = world.secret("erin")
    assert renewed["user.crt"] != files["user.crt"]
    await connect_as(read_properties(files), "orders")
    # With a password it is another principal, and what the former had is taken away.
    world.edit(USERS, "erin", authentication={"type": "scram-sha-512"})
    await world.user("erin")
    assert "user.key" not in world.secret("erin")
    await connect_as(read_properties(world.secret("erin")), "orders")
    with pytest.raises(TopicAuthorizationFailed):
        await connect_as(read_properties(files), "orders")


@in_world(UserWorld)
async def test_a_user_follows_new_keys_of_the_authorities(world: UserWorld) -> None:
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
    await connect_as(read_properties(announced))
    # Used: there is a new certificate at once, and the former one is good for as long as it is trusted.
    world.give_keys(AuthorityKeys(new, former=old.certificate))
    await world.user("gina")
    used = world.secret("gina")
    assert used["ca.crt"] == new.certificate + old.certificate
    assert is_issued_by(used["tls.crt"], new.certificate)
    await connect_as(read_properties(announced))
    world.give_keys(AuthorityKeys(new))
    await world.user("gina")
    assert world.secret("gina")["ca.crt"] == new.certificate
    assert world.secret("gina")["tls.crt"] == used["tls.crt"]


@in_world(UserWorld)
async def test_a_certificate_of_a_lost_authority_stays_as_long_as_it_is_trusted(world: UserWorld) -> None:
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
    await connect_as(read_properties(lost))
    world.give_keys(AuthorityKeys(new, former=old.certificate))
    await world.user("nora")
    assert is_issued_by(world.secret("nora")["tls.crt"], new.certificate)


@in_world(UserWorld)
async def test_a_user_deleted_with_its_cluster_does_not_come_back(world: UserWorld) -> None:
    """Also one whose deletion no operator has seen: what has no User has no rights."""
    await _topic(world)
    for name in ("henry", "iris", "jack"):
        world.make(USERS, name, acls=[READS])
        await world.user(name)
    files = {name: read_properties(world.secret(name)) for name in ("henry", "iris", "jack")}
    world.make(USERS, "karl", deletionPolicy="Retain")
    await world.user("karl")
    karl = read_properties(world.secret("karl"))
    world.delete_cluster()
    world.delete(USERS, "henry")
    await world.user("henry")
    for name in ("iris", "jack", "karl"):
        world.delete(USERS, name)
    await connect_as(files["henry"], "orders")
    world.make_cluster_again()
    world.make(USERS, "jack", acls=[READS])
    await world.user("jack")
    for name in ("henry", "iris"):
        with pytest.raises(ConnectionFailed):
            await connect_as(files[name])
    await connect_as(read_properties(world.secret("jack")), "orders")
    await connect_as(karl)
    assert world.entries(USERS) == {"jack"}
    async with world.admin() as admin:
        principals = {one.entry.principal for one in await admin.acls.list()}
        assert principals.isdisjoint({"User:henry", "User:iris"})


@in_world(UserWorld)
async def test_no_user_is_held_and_brokers_that_are_away_forget_it_later(world: UserWorld) -> None:
    world.make(USERS, "lena")
    await world.user("lena")
    properties = read_properties(world.secret("lena"))
    there, world.bootstrap = world.bootstrap, "127.0.0.1:1"
    world.delete(USERS, "lena")
    assert not world.is_there(USERS, "lena"), "a namespace that is deleted waits for nothing of ours"
    await world.user("lena")
    assert world.key(USERS, "lena") in world.woken and world.entries(USERS) >= {"lena"}
    world.bootstrap = there
    world.restart_operator()
    await world.user("lena")
    with pytest.raises(ConnectionFailed):
        await connect_as(properties)
    assert "lena" not in world.entries(USERS)


@in_world(UserWorld)
async def test_a_user_of_an_earlier_version_is_let_go_and_forgotten(world: UserWorld) -> None:
    world.make(USERS, "mona")
    world.merge(USERS, "mona", {"metadata": {"finalizers": [CLEANUP_FINALIZER]}})
    await world.user("mona")
    properties = read_properties(world.secret("mona"))
    assert not world.body(USERS, "mona")["metadata"].get("finalizers")
    world.merge(USERS, "mona", {"metadata": {"finalizers": [CLEANUP_FINALIZER]}})
    world.delete(USERS, "mona")
    assert world.is_there(USERS, "mona")
    await world.user("mona")
    assert not world.is_there(USERS, "mona")
    with pytest.raises(ConnectionFailed):
        await connect_as(properties)


@in_world(UserWorld)
async def test_a_secret_of_another_is_neither_used_nor_changed(world: UserWorld) -> None:
    world.create(SECRETS, "frank")
    world.merge(SECRETS, "frank", {"data": {"password": "aGVpZGk="}})
    world.make(USERS, "frank")
    await world.user("frank")
    assert world.ready(USERS, "frank") == ("False", "SecretTaken")
    assert world.body(SECRETS, "frank")["data"] == {"password": "aGVpZGk="}
    async with world.admin() as admin:
        assert await admin.scram.describe(["frank"]) == {}


@in_world(UserWorld)
async def test_whatever_happens_between_two_writes_the_next_operator_goes_on(world: UserWorld) -> None:
    for cut in range(4):
        name = f"cut-{cut}"
        world.make(USERS, name, acls=[READS])
        with world.kubernetes.killed_after(cut) as life:
            await world.user(name)
        world.restart_operator()
        await world.user(name)
        assert world.ready(USERS, name) == ("True", "Ready"), (cut, life.was_cut)
        await connect_as(read_properties(world.secret(name)))


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


@in_world(UserWorld)
async def test_a_password_that_is_brought_is_followed(world: UserWorld) -> None:
    world.create(SECRETS, "hers", labels={"odradek.io/password": "true"})
    world.merge(SECRETS, "hers", {"data": encoded('a "quoted" \\ word')})
    world.make(USERS, "fay", authentication=password_from("hers"))
    again = await world.user("fay")
    assert world.ready(USERS, "fay") == ("True", "Ready")
    assert again is not None and 59 < again <= 60, "no event shows a change"
    files = world.secret("fay")
    assert files["password"] == 'a "quoted" \\ word' and files["sasl.mechanism"] == "SCRAM-SHA-512"
    former = read_properties(files)
    await connect_as(former)
    written = len(world.kubernetes.written)
    world.restart_operator()
    await world.user("fay")
    assert len(world.kubernetes.written) == written, "as it is"
    world.merge(SECRETS, "hers", {"data": encoded("another")})
    world.restart_operator()  # a minute later
    await world.user("fay")
    present = read_properties(world.secret("fay"))
    assert present["sasl.mechanism"] == "SCRAM-SHA-512", "clients of its owner know the mechanism"
    await connect_as(present)
    with pytest.raises(ConnectionFailed):
        await connect_as(former)
    # Without the field the operator keeps what is good, and a rotation makes another one.
    world.edit(USERS, "fay", authentication=None)
    await world.user("fay")
    assert world.secret("fay")["password"] == "another"
    world.rotate("fay", "once")
    await world.user("fay")
    rotated = world.secret("fay")
    assert rotated["password"] != "another" and rotated["sasl.mechanism"] == "SCRAM-SHA-256"


@in_world(UserWorld)
async def test_a_password_that_cannot_be_used_leaves_the_present_one(world: UserWorld) -> None:
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
    await connect_as(read_properties(before))
    world.merge(SECRETS, "his", {"data": encoded("good")})
    world.restart_operator()
    await world.user("gus")
    assert world.ready(USERS, "gus") == ("True", "Ready") and world.secret("gus")["password"] == "good"
