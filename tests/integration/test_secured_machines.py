"""A machine whose port of --admin has TLS, users and rights: each process holds to them, whichever of them is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.integration.test_cluster import Writer, create
from tests.integration.test_machines import SETTINGS
from tests.integration.test_secured_admin_port import ANSWER_SECONDS_MAX, JAAS, Port
from tests.support.broker_process import SecuredBroker
from tests.support.certificates import Authority
from tests.support.local_process import running
from tests.support.machines import ClusterOfMachines
from tests.support.polling import wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.clients, pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture
def port(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[Port]:
    # Only for its certificates, and for the address of clients.
    secured = SecuredBroker(tmp_path, kinds={"PLAINTEXT": "PLAINTEXT"}, authority=Authority())
    settings = {
        **SETTINGS,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ADMIN:SASL_SSL",
        "admin.listener.name": "admin",
        "listener.name.admin.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.admin.plain.sasl.jaas.config": JAAS,
        "listener.name.admin.ssl.keystore.type": "PEM",
        "listener.name.admin.ssl.keystore.location": str(secured.server_file),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
    }
    made = ClusterOfMachines(tmp_path / "cluster", zookeeper.connect, machines=1, settings=settings)
    with running(made) as cluster:
        machine = cluster.machines[1]
        secured.bootstraps = {"PLAINTEXT": machine.bootstrap}
        yield Port(secured, machine.admin)


def test_each_process_shows_what_the_caller_may_see(port: Port) -> None:
    bootstrap = port.broker.bootstraps["PLAINTEXT"]
    wait_until("it is ready", lambda: port.ask("/readyz")[0] == 200)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for topic in ("payments", "salaries"):
        create(admin, topic, partitions=4, replicas=1)
        Writer(bootstrap, topic).write(50)
    acl = AclBinding(
        ResourceType.TOPIC,
        "payments",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([acl])[acl].result(ANSWER_SECONDS_MAX)

    def topics_of(user: tuple[str, str]) -> set[tuple[str, str]]:
        status, text = port.ask("/metrics", basic=user)
        assert status == 200
        lines = [one for one in text.splitlines() if one.startswith("odradek_topic_records_in_total{")]
        return {
            (process, topic)
            for one in lines
            for process in ("1", "2")
            for topic in ("payments", "salaries")
            if f'process="{process}"' in one and f'topic="{topic}"' in one
        }

    everything = {(process, topic) for process in ("1", "2") for topic in ("payments", "salaries")}
    alice = ("alice", "al:ice")
    wait_until("alice sees what is hers", lambda: topics_of(alice) == {("1", "payments"), ("2", "payments")})
    # Connections are new each time, so both processes are asked sooner or later.
    for _ in range(10):
        assert topics_of(("admin", "admin-secret")) == everything
        assert topics_of(alice) == {("1", "payments"), ("2", "payments")}
        assert port.ask("/metrics")[0] == 401
        assert port.ask("/metrics", basic=("alice", "wrong"))[0] == 401
    assert port.ask("/healthz") == (200, "ok\n")
