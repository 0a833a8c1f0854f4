"""Certificates, an authority and a password change while a producer writes; and what is taken away is gone at once.

The last test looks for every secret that the cluster of these tests has used in all that it has shown.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from odradek.network.outbound import OutboundConnection
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from tests.support import secured_cluster as secrets
from tests.support.broker_process import CHECKOUT
from tests.support.certificates import Authority
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.secured_cluster import (
    SCRAM,
    SecuredCluster,
    SecuredMember,
    connect,
    metrics,
    properties,
    set_password,
)
from tests.support.steady_load import SteadyLoad
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.integration, pytest.mark.clients, pytest.mark.timeout(300)]

DENIED = 29
FIRST, SECOND, READER = "secret-of-writer", "second-secret-of-writer", "secret-of-reader"
PARTITIONS = 3


def reloads(member: SecuredMember) -> float:
    """How often the listeners of a member took changed files."""
    return sum(
        value
        for name, value in metrics(member).items()
        if name.startswith("odradek_certificate_reloads_total")
    )


async def change_everywhere(cluster: SecuredCluster, change: Any, *, but: str = "") -> None:
    """Make a change of files, and wait until every listener of every member has taken it, `but` one kind."""
    due = {member.number: reloads(member) + len(member.ports.keys() - {but}) for member in cluster.members}
    change()
    await eventually(
        "all have taken the change",
        lambda: all(reloads(member) >= due[member.number] for member in cluster.members),
    )


def acl(user: str, topic: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


def make_topic(cluster: SecuredCluster, topic: str, *rights: AclBinding) -> AdminClient:
    admin = AdminClient(cluster.root)
    created = admin.create_topics([NewTopic(topic, PARTITIONS, 3)], request_timeout=30)
    created[topic].result(SECONDS_MAX)
    for future in admin.create_acls(list(rights)).values():
        future.result(SECONDS_MAX)
    return admin


@pytest.mark.thorough
@in_real_time
async def test_everything_is_renewed_without_a_failed_request(secured_cluster: SecuredCluster) -> None:
    cluster = secured_cluster
    set_password(cluster, "writer", FIRST)
    make_topic(cluster, "rotation", acl("writer", "rotation", AclOperation.WRITE))
    former, fresh = cluster.authority, Authority("Servers, second generation")
    # Clients trust both before the first server shows a certificate of the new authority.
    clients_trust = cluster.folder / "trusted-by-clients.pem"
    clients_trust.write_text(former.pem + fresh.pem)

    def trust(*authorities: Authority) -> None:
        new = cluster.ca_file.with_suffix(".new")
        new.write_text("".join(one.pem for one in authorities))
        new.replace(cluster.ca_file)

    def issue_all() -> None:
        for member in cluster.members:
            cluster.issue(member)

    (restarted, *_) = cluster.brokers.values()
    load = SteadyLoad(
        cluster.bootstrap,
        "rotation",
        partitions=PARTITIONS,
        per_second=100,
        settings={**cluster.client("writer", FIRST), "ssl.ca.location": str(clients_trust)},
    )
    try:
        await change_everywhere(cluster, issue_all)
        # NAMED trusts an authority of its own.
        await change_everywhere(cluster, lambda: trust(former, fresh), but="NAMED")
        cluster.authority = fresh
        await change_everywhere(cluster, issue_all)
        # New connections in both directions, of a process that has only new certificates.
        restarted.restart()
        await change_everywhere(cluster, lambda: trust(fresh), but="NAMED")
        set_password(cluster, "writer", SECOND)
        await eventually("more records", lambda: load.acknowledged > 500 or load.failed)
    finally:
        load.stop()
    assert load.failed == []
    print(f"{load.acknowledged} records, the longest wait {load.longest_seconds:.2f} s")
    for port in client_ports(cluster):
        with pytest.raises(ConnectionError, match="refuses the login"):
            await connect(port, properties(cluster, SCRAM, "SCRAM-SHA-512", "writer", FIRST))
        renewed = await connect(port, properties(cluster, SCRAM, "SCRAM-SHA-512", "writer", SECOND))
        await renewed.close()


def client_ports(cluster: SecuredCluster) -> list[int]:
    return [member.ports["CLIENTS"] for member in cluster.members if member.verb == "broker"]


async def topic_error(connection: OutboundConnection, topic: str) -> int:
    """The code with which a broker answers a Metadata request for a topic."""
    request = messages.request(ApiKey.METADATA, 4, topics=[{"name": topic}], allow_auto_topic_creation=False)
    frame = await connection.send_frame(
        lambda number: codec.encode_request(ApiKey.METADATA, 4, number, "test", request)
    )
    (found,) = codec.decode_response(ApiKey.METADATA, 4, frame)[1].topics
    return int(found.error_code)


def test_a_right_that_is_taken_away_is_gone_for_living_connections(secured_cluster: SecuredCluster) -> None:
    cluster = secured_cluster
    set_password(cluster, "reader", READER)
    right = acl("reader", "shared", AclOperation.READ)
    admin = make_topic(cluster, "shared", right)

    async def story() -> None:
        login = properties(cluster, SCRAM, "SCRAM-SHA-512", "reader", READER)
        connections = [await connect(port, login) for port in client_ports(cluster)]
        await until_all(connections, 0)
        removal = AclBindingFilter(
            ResourceType.TOPIC, "shared", ResourcePatternType.LITERAL, "User:reader", "*", AclOperation.READ,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        await asyncio.to_thread(next(iter(admin.delete_acls([removal]).values())).result, 30)
        began = time.monotonic()
        await until_all(connections, DENIED)
        print(f"gone after {time.monotonic() - began:.2f} s")
        for one in connections:
            await one.close()

    async def until_all(connections: list[OutboundConnection], code: int) -> None:
        async def are() -> bool:
            return {await topic_error(one, "shared") for one in connections} == {code}

        await eventually(f"all answer {code}", are, seconds_max=60)

    asyncio.run(story())


@pytest.mark.thorough
def test_no_secret_is_seen_anywhere(secured_cluster: SecuredCluster, tmp_path: Path) -> None:
    cluster = secured_cluster
    set_password(cluster, "writer", SECOND)
    passwords = [
        secrets.BROKER_SECRET, secrets.ROOT_SECRET, secrets.STRANGER_SECRET, secrets.ZOOKEEPER_SECRET,
        secrets.KEY_SECRET, secrets.TOKENS_SECRET, FIRST, SECOND, READER, "a-wrong-secret",
    ]  # fmt: skip
    wanted = [form for secret in passwords for form in (secret, base64.b64encode(secret.encode()).decode())]
    wanted += ["stored_key=", "BEGIN PRIVATE", "BEGIN ENCRYPTED"]
    for member in cluster.members:
        # A line of the middle of each key.
        wanted.append((member.folder / "member.pem").read_text().splitlines()[2])
    shown: dict[str, str] = {}
    for user, password in (("root", "a-wrong-secret"), ("writer", SECOND)):
        config = tmp_path / f"{user}.properties"
        mechanism, module = ("PLAIN", secrets.PLAIN) if user == "root" else ("SCRAM-SHA-512", SCRAM)
        given = properties(cluster, module, mechanism, user, password)
        config.write_text("".join(f"{key}={text}\n" for key, text in given.items()))
        shown[f"odradek as {user}"] = odradek(cluster, config, "topics", "list")
    config = tmp_path / "root.properties"
    config.write_text(config.read_text().replace("a-wrong-secret", secrets.ROOT_SECRET))
    for arguments in (
        ("status",),
        ("configs", "describe", "brokers", "1"),
        ("acls", "list"),
        ("profile", "show"),
    ):
        shown[" ".join(arguments)] = odradek(cluster, config, *arguments)
    for member in cluster.members:
        shown[f"/metrics of {member.folder.name}"] = str(metrics(member))
    # What a crash leaves in the log, and a start with settings that cannot serve.
    victim = cluster.members[-1]
    assert victim.abort() == -signal.SIGABRT
    assert "Fatal Python error" in victim.log()
    right = victim.settings["ssl.key.password"]
    victim.settings["ssl.key.password"] = "a-wrong-secret"
    refused = subprocess.run(victim.command(), capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2
    shown["a start that is refused"] = refused.stdout + refused.stderr
    victim.settings["ssl.key.password"] = right
    victim.start()
    for member in cluster.members:
        shown[f"the log of {member.folder.name}"] = member.log()
    assert not [what for what, text in shown.items() if not text.strip()]
    # The search itself finds what is there.
    config_text = (victim.folder / "server.properties").read_text()
    assert found(wanted, config_text)
    assert {place: hits for place, text in shown.items() if (hits := found(wanted, text))} == {}


def found(wanted: list[str], text: str) -> list[str]:
    return [secret for secret in wanted if secret in text]


def odradek(cluster: SecuredCluster, config: Path, *arguments: str) -> str:
    """What a command prints, with its errors."""
    done = subprocess.run(
        [
            sys.executable, "-m", "odradek", "--bootstrap", cluster.bootstrap, "--command-config", str(config),
            *arguments,
        ],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")},
    )  # fmt: skip
    return done.stdout + done.stderr
