"""Three brokers and two controllers on a ZooKeeper, where every connection is encrypted and every process logs in."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic, ScramMechanism, UserScramCredentialDeletion
from kazoo.client import KazooClient

from odradek.foundation import registry_errors, security_errors
from odradek.foundation.security_errors import (
    DelegationTokenAuthorizationFailed,
    DelegationTokenRequestNotAllowed,
)
from odradek.metadata.registry.registries import open_registry
from odradek.network.outbound import OutboundConnection
from odradek.network.secured import LoginFailed
from odradek.wire.protocol import cluster_changes, codec, controller_requests, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.cluster_changes import FollowRequest
from odradek.wire.protocol.controller_requests import LeaveRequest
from odradek.wire.protocol.errors import error_code
from tests.support.certificates import Authority
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.secured_cluster import (
    BROKER_SECRET,
    KEY_SECRET,
    PLAIN,
    ROOT_SECRET,
    SCRAM,
    STRANGER_SECRET,
    ZOOKEEPER_SECRET,
    SecuredCluster,
    SecuredMember,
    api_versions,
    connect,
    metrics,
    named,
    properties,
    set_password,
    until_lost,
)
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.integration, pytest.mark.clients, pytest.mark.timeout(300)]

DENIED = error_code(security_errors.ClusterAuthorizationFailed())
TOKEN_DENIED = error_code(DelegationTokenAuthorizationFailed())
NOT_ALLOWED = error_code(DelegationTokenRequestNotAllowed())


@in_real_time
async def test_private_requests_are_for_brokers(secured_cluster: SecuredCluster) -> None:
    cluster = secured_cluster

    async def ask(member: SecuredMember, user: str, password: str) -> tuple[int, int, int]:
        connection = await connect(
            member.ports["CONTROLLER"], properties(cluster, PLAIN, "PLAIN", user, password)
        )
        follow = await connection.send_frame(
            lambda number: cluster_changes.pack_request(FollowRequest(number, "test", 9, -1, -1, 0, 100))
        )
        forward = await connection.send_frame(
            lambda number: controller_requests.pack_forward(
                api_versions(0)[4:],
                correlation_id=number,
                client_id="test",
                client_host="",
                principal="User:root",
            )
        )
        leave = await connection.send_frame(
            lambda number: controller_requests.pack_leave(
                LeaveRequest(number, "test", broker_id=1, broker_epoch=0)
            )
        )
        await connection.close()
        return (
            cluster_changes.parse_response(follow).error_code,
            controller_requests.parse_forwarded(forward).error_code,
            controller_requests.parse_left(leave).error_code,
        )

    controllers = [member for member in cluster.members if member.verb == "controller"]
    answers = [await ask(member, "stranger", STRANGER_SECRET) for member in controllers]
    assert (DENIED, DENIED, DENIED) in answers
    answers = [await ask(member, "broker", BROKER_SECRET) for member in controllers]
    assert not any(DENIED in answer for answer in answers)
    for member in controllers:
        with pytest.raises(ConnectionError, match="refuses the login"):
            await ask(member, "broker", "guessed")


@in_real_time
async def test_zookeeper_serves_nobody_else(secured_cluster: SecuredCluster) -> None:
    cluster = secured_cluster
    (member, *_) = cluster.members
    given = {key: text for key, text in member.settings.items() if key.startswith("zookeeper.")}
    keystore = given["zookeeper.ssl.keystore.location"]
    host, _, chroot = cluster.connect.partition("/")
    client = KazooClient(
        hosts=host,
        use_ssl=True,
        verify_certs=True,
        ca=given["zookeeper.ssl.truststore.location"],
        certfile=keystore,
        keyfile=keystore,
        keyfile_password=KEY_SECRET,
        sasl_options={"mechanism": "DIGEST-MD5", "username": "odradek", "password": ZOOKEEPER_SECRET},
    )
    client.start(30)
    try:
        for path, is_secret in (("brokers/ids", False), ("config/users", True)):
            acls, _ = client.get_acls(f"/{chroot}/{path}")
            # The owner by login, and by certificate.
            assert {acl.id.scheme for acl in acls} - {"world"} == {"sasl", "x509"}
            assert any(acl.id.scheme == "world" for acl in acls) is not is_secret
    finally:
        client.stop()
        client.close()

    async def refused(**changes: str) -> str:
        entries = {**given, **{f"zookeeper.{key.replace('_', '.')}": text for key, text in changes.items()}}
        with pytest.raises(
            (
                registry_errors.StoreConnectionLost,
                registry_errors.StoreAccessDenied,
                registry_errors.StoreSessionExpired,
            )
        ) as failure:
            store = await open_registry(cluster.connect, entries=entries)
            await store.close()
        return str(failure.value)

    assert "zookeeper.digest" in await refused(digest_password="guessed", connection_timeout_ms="5000")
    # ZooKeeper answers so or closes the connection.
    await refused(sasl_client="false", connection_timeout_ms="5000")


def test_another_controller_takes_over(secured_cluster: SecuredCluster) -> None:
    cluster = secured_cluster
    admin = AdminClient(cluster.root)
    created = admin.create_topics([NewTopic("first", 1, 3)], request_timeout=30)
    created["first"].result(SECONDS_MAX)
    for number, member in cluster.controllers.items():
        # Whichever was active: after both have been restarted, each has decided.
        member.restart()
        name = f"after-{number}"
        admin.create_topics([NewTopic(name, 1, 3)], request_timeout=60)[name].result(SECONDS_MAX)
    for broker in cluster.brokers.values():
        assert "traceback" not in broker.log().lower()


@in_real_time
async def test_users_that_are_deleted_lose_their_connections_on_every_broker(
    secured_cluster: SecuredCluster,
) -> None:
    cluster = secured_cluster
    set_password(cluster, "alice", "secret-of-alice")
    set_password(cluster, "bob", "secret-of-bob")
    ports = [member.ports["CLIENTS"] for member in cluster.members if member.verb == "broker"]
    logins = {
        user: properties(cluster, SCRAM, "SCRAM-SHA-512", user, f"secret-of-{user}")
        for user in ("alice", "bob")
    }
    alices = [await connect(port, logins["alice"]) for port in ports]
    bobs = [await connect(port, logins["bob"]) for port in ports]
    await asyncio.to_thread(set_password, cluster, "alice", "another secret")
    began = time.monotonic()
    changed = properties(cluster, SCRAM, "SCRAM-SHA-512", "alice", "another secret")
    await eventually("the new password holds", lambda: log_in(ports, changed))
    print(f"changed after {time.monotonic() - began:.2f} s")
    deletion = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512)
    admin = AdminClient(cluster.root)
    await asyncio.to_thread(admin.alter_user_scram_credentials([deletion])["bob"].result, 30)
    began = time.monotonic()
    await until_lost(bobs)
    print(f"lost after {time.monotonic() - began:.2f} s")
    for port in ports:
        for login in logins.values():
            with pytest.raises(ConnectionError, match="refuses the login"):
                await connect(port, login)
    # As in Kafka, a changed password ends no connection.
    assert not any(one.is_lost for one in alices)
    for one in alices:
        await one.close()


async def log_in(ports: list[int], login: dict[str, str]) -> bool:
    """Whether every port lets a client log in."""
    try:
        for port in ports:
            await (await connect(port, login)).close()
    except ConnectionError:
        return False
    return True


@in_real_time
async def test_an_authority_that_is_taken_away_takes_its_clients_with_it(
    secured_cluster: SecuredCluster,
) -> None:
    cluster = secured_cluster
    former, kept = Authority("Former"), cluster.clients_authority

    def trust(*authorities: Authority) -> None:
        fresh = cluster.clients_ca_file.with_suffix(".new")
        fresh.write_text("".join(one.pem for one in authorities))
        fresh.replace(cluster.clients_ca_file)

    ports = [member.ports["NAMED"] for member in cluster.members if member.verb == "broker"]
    trust(former, kept)
    leaving = named(cluster, former, "leaving")
    async with asyncio.timeout(SECONDS_MAX):
        left: list[OutboundConnection] = []
        while len(left) < len(ports):
            try:
                left.append(await connect(ports[len(left)], leaving))
                await left[-1].send_frame(api_versions)
            except ConnectionError:
                left = left[: len(left) - 1] if left and left[-1].is_lost else left
                await asyncio.sleep(0.1)
    staying = [await connect(port, named(cluster, kept, "staying")) for port in ports]
    trust(kept)
    began = time.monotonic()
    await until_lost(left)
    print(f"lost after {time.monotonic() - began:.2f} s")
    for port, one in zip(ports, staying, strict=True):
        assert await one.send_frame(api_versions)
        with pytest.raises(ConnectionError):
            refused = await connect(port, leaving)
            await refused.send_frame(api_versions)
        await one.close()


def test_handshakes_and_logins_are_counted(secured_cluster: SecuredCluster) -> None:
    cluster = secured_cluster
    (broker, *_) = (member for member in cluster.members if member.verb == "broker")

    async def attempt(listener: str, given: dict[str, str]) -> None:
        with pytest.raises(ConnectionError):
            connection = await connect(broker.ports[listener], given)
            await connection.send_frame(api_versions)

    async def log_in_once(given: dict[str, str]) -> None:
        await (await connect(broker.ports["CLIENTS"], given)).close()

    before = metrics(broker)
    asyncio.run(log_in_once(properties(cluster, PLAIN, "PLAIN", "root", ROOT_SECRET)))
    asyncio.run(attempt("CLIENTS", properties(cluster, PLAIN, "PLAIN", "root", "guessed")))
    asyncio.run(attempt("CLIENTS", properties(cluster, SCRAM, "SCRAM-SHA-256", "root", "guessed")))
    asyncio.run(attempt("NAMED", named(cluster, Authority("Nobody's"), "stranger")))
    after = metrics(broker)
    for name in (
        'odradek_login_failures_total{listener="CLIENTS",mechanism="PLAIN"}',
        'odradek_login_failures_total{listener="CLIENTS",mechanism="none"}',
        'odradek_tls_handshake_failures_total{listener="NAMED"}',
    ):
        assert after[name] == before[name] + 1, name
    assert after['odradek_tls_handshakes_total{listener="CLIENTS"}'] > 0
    logins = 'odradek_logins_total{listener="CLIENTS",mechanism="PLAIN"}'
    assert after[logins] > before[logins]
    days_left = (after['odradek_certificate_not_after_seconds{listener="NAMED"}'] - time.time()) / 86_400
    assert 29 < days_left < 31
    (controller, *_) = (member for member in cluster.members if member.verb == "controller")
    of_controller = metrics(controller)
    assert of_controller['odradek_logins_total{listener="CONTROLLER",mechanism="PLAIN"}'] >= 0

    # A file that is half written is refused, counted, and taken once it is whole.
    whole = (broker.folder / "member.pem").read_text()
    failures = 'odradek_certificate_reload_failures_total{listener="CLIENTS"}'
    reloads = 'odradek_certificate_reloads_total{listener="CLIENTS"}'
    (broker.folder / "member.pem").write_text(whole[: len(whole) // 2])
    asyncio.run(eventually("refused", lambda: metrics(broker)[failures] > after[failures]))
    cluster.issue(broker)
    asyncio.run(eventually("taken", lambda: metrics(broker)[reloads] > after[reloads]))


@in_real_time
async def test_a_delegation_token_holds_on_every_broker(secured_cluster: SecuredCluster) -> None:
    """Made through one broker by the controller, which sees the client's name and not its login."""
    cluster = secured_cluster
    set_password(cluster, "maker", "the-maker's")
    ports = [broker.ports["CLIENTS"] for broker in cluster.members if broker.verb == "broker"]

    async def ask(port: int, given: dict[str, str], api: ApiKey, version: int, **fields: Any) -> Any:
        connection = await connect(port, given)
        try:
            request = messages.request(api, version, **fields)
            answer = await connection.send_frame(
                lambda number: codec.encode_request(api, version, number, "test", request)
            )
            return codec.decode_response(api, version, answer)[1]
        finally:
            await connection.close()

    maker = properties(cluster, SCRAM, "SCRAM-SHA-512", "maker", "the-maker's")
    create = {"renewers": [], "max_lifetime": -1}
    made = await ask(ports[0], maker, ApiKey.CREATE_DELEGATION_TOKEN, 3, **create)
    assert int(made.error_code) == 0
    assert (made.principal_name, made.token_requester_principal_name) == ("maker", "maker")
    password = base64.b64encode(made.hmac).decode()
    token = properties(cluster, SCRAM, "SCRAM-SHA-512", made.token_id, password)
    token["sasl.jaas.config"] = token["sasl.jaas.config"].replace(";", ' tokenauth="true";')
    for port in ports:
        # Other brokers follow the controller.
        refused = await eventually(
            "the token is known",
            lambda port=port: ask(port, token, ApiKey.CREATE_DELEGATION_TOKEN, 3, **create),  # type: ignore[misc]
            not_yet=LoginFailed,
        )
        assert int(refused.error_code) == NOT_ALLOWED
    for_root = {**create, "owner_principal_type": "User", "owner_principal_name": "root"}
    denied = await ask(ports[1], maker, ApiKey.CREATE_DELEGATION_TOKEN, 3, **for_root)
    assert int(denied.error_code) == TOKEN_DENIED
    ended = await ask(
        ports[2], maker, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=made.hmac, expiry_time_period=-1
    )
    assert int(ended.error_code) == 0
    with pytest.raises(LoginFailed):
        await ask(ports[2], token, ApiKey.LIST_GROUPS, 0)
