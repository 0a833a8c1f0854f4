"""A worker as a Mirror starts it, between two real brokers with logins: the example's rights are all that it needs.

The Mirror and its Users are those of manifests/examples/mirror.yaml.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from helm.generate.yaml_text import read_documents
from odradek.client.admin.admin import Admin
from odradek.client.admin.scram import ScramPassword
from odradek.client.client import Client
from odradek.foundation.ids import TopicPartition
from odradek_operator.desired.client_properties import Password
from odradek_operator.desired.mirror import START
from odradek_operator.desired.mirror_names import MirrorContext
from odradek_operator.desired.mirror_settings import mirror_properties
from odradek_operator.desired.user_secret import UserConnection, UserLogin, user_files
from odradek_operator.gateways.kubernetes import Json
from odradek_operator.gateways.mirrors import HttpMirrorWorkers, WorkerPage
from odradek_operator.reconcilers.user.decide import acls_of
from odradek_operator.reconcilers.user.facts import DesiredUser
from odradek_operator.resources.mirror import MirrorSpec
from odradek_operator.resources.structure import parse
from odradek_operator.resources.user import UserSpec, UserStatus
from tests.support.broker_process import CHECKOUT, SecuredBroker, free_port
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.stories import in_real_time

pytestmark = pytest.mark.integration

EXAMPLE = {
    (one["kind"], one["metadata"]["name"]): one["spec"]
    for one in read_documents((CHECKOUT / "manifests" / "examples" / "mirror.yaml").read_text())
}
USERS = {"shared": "mirror", "backup": "mirror-backup"}
PASSWORD = "of-no-other-use"
RECORDS = 500


def secured(folder: Path) -> SecuredBroker:
    """A broker with logins and rights, and a listener where the test may do everything."""
    return SecuredBroker(
        folder,
        kinds={"OWN": "PLAINTEXT", "INTERNAL": "SASL_SSL"},
        settings={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "listener.name.internal.sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
        },
    )


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, SecuredBroker]]:
    """The brokers of the Clusters `shared` and `backup`."""
    made = {alias: secured(tmp_path_factory.mktemp(alias)) for alias in USERS}
    for broker in made.values():
        broker.start()
    yield made
    for broker in made.values():
        broker.close()


async def make_user(broker: SecuredBroker, name: str) -> dict[str, str | bytes]:
    """What the operator makes of a User of the example: a login, rights, and the files of its Secret."""
    spec = parse(UserSpec, EXAMPLE["User", name])
    desired = DesiredUser(name=name, uid="u", generation=1, spec=spec, status=UserStatus())
    password = Password(user=name, mechanism="SCRAM-SHA-512", password=PASSWORD)
    async with Client(broker.bootstraps["OWN"]) as client:
        admin = Admin(client)
        await admin.scram.alter([ScramPassword(name, password.mechanism, password.password)])
        assert all(one is None for one in await admin.acls.create(sorted(acls_of(desired))))
    connection = UserConnection(
        bootstrap=broker.bootstraps["INTERNAL"], protocol="SASL_SSL", authority=broker.authority.pem
    )
    return user_files(name, connection, UserLogin(credential=password))


@contextmanager
def worker(folder: Path, spec: Json, files: dict[str, dict[str, str | bytes]], port: int) -> Iterator[Path]:
    """A worker of the Mirror as its container starts it; its log."""
    for alias, found in files.items():
        (folder / "clusters" / alias).mkdir(parents=True)
        (folder / "clusters" / alias / "client.properties").write_text(str(found["client.properties"]))
    context = MirrorContext(
        name="backup", namespace="odradek", spec=parse(MirrorSpec, spec), owner={}, image="odradek"
    )
    (folder / "mirror.properties").write_text(mirror_properties(context))
    text = START.replace("/etc/odradek-clusters", str(folder / "clusters"))
    text = text.replace("/etc/odradek/mirror.properties", str(folder / "mirror.properties"))
    text = text.replace('":9644"', f'"127.0.0.1:{port}"')
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    log = folder / "log"
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", text], stdout=said, stderr=said, env={**os.environ, "PATH": path}
        )
    try:
        yield log
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0, log.read_text()[-3000:]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def ran(broker: SecuredBroker, *words: str, stdin: str | None = None) -> str:
    """What the command line prints."""
    command = [sys.executable, "-m", "odradek", *words, "--bootstrap", broker.bootstraps["OWN"]]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


async def seen(port: int, wanted: Any, log: Path) -> WorkerPage:
    """The worker's page, as the operator reads it, once it is as wanted."""
    workers = HttpMirrorWorkers()
    try:
        (page,) = await eventually(
            "the worker's page is as wanted",
            lambda: workers.fetch_pages(["127.0.0.1"], port),
            lambda pages: pages[0] is not None and wanted(pages[0]),
            more=log.read_text,
        )
        assert page is not None
        return page
    finally:
        await workers.close()


async def records_of(broker: SecuredBroker, count: int) -> list[str]:
    """What the copy holds, once it holds so many records."""
    return await eventually(
        f"the copy holds {count} records",
        lambda: ran(broker, "consume", "shared.orders", "--from-beginning").splitlines(),
        lambda lines: len(lines) >= count,
    )


async def has_moved(broker: SecuredBroker, group: str, count: int) -> None:
    """Wait until a group's offsets at the target are behind so many records; what is written before is less."""
    async with Client(broker.bootstraps["OWN"]) as client:
        offset = await eventually(
            f"{group} is at {count}", lambda: _offset_of(client, group), lambda offset: offset >= count
        )
    assert offset == count


async def _offset_of(client: Client, group: str) -> int:
    return sum(one.offset for one in (await Admin(client).groups.offsets(group)).values())


def has_copied(page: WorkerPage) -> bool:
    (flow,) = page.flows
    return flow.state == "running" and bool(flow.partitions) and all(one.lag == 0 for one in flow.partitions)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="a pod's start is a program for Linux")
@in_real_time
async def test_a_worker_needs_no_more_than_the_rights_of_the_example(
    brokers: dict[str, SecuredBroker], tmp_path: Path
) -> None:
    often = {"groups": 1, "checkpoints": 1, "groupOffsets": 1}
    spec = {**EXAMPLE["Mirror", "backup"], "intervalSeconds": often}
    port = free_port()
    async with Client(brokers["shared"].bootstraps["OWN"]) as client:
        await Admin(client).topics.create("orders", partitions=2, replication_factor=1)
        await Admin(client).topics.create("private", partitions=1, replication_factor=1)
    lines = "".join(f"{number}\n" for number in range(RECORDS))
    ran(brokers["shared"], "produce", "orders", stdin=lines)
    ran(brokers["shared"], "consume", "orders", "--from-beginning", "-g", "billing", "-n", str(RECORDS))
    files = {alias: await make_user(brokers[alias], name) for alias, name in USERS.items()}
    with worker(tmp_path, spec, files, port) as log:
        page = await seen(port, has_copied, log)
        (flow,) = page.flows
        assert flow.source == "shared"
        assert "orders" in {one.topic for one in flow.partitions} <= {"orders", "heartbeats"}
        copied = await records_of(brokers["backup"], len(lines.splitlines()))
        assert sorted(copied) == sorted(lines.splitlines())
        await has_moved(brokers["backup"], "billing", len(copied))
        page = await seen(port, has_copied, log)
        assert page.flows[0].error is None
        # Neither a missing right nor a login was written into the log.
        assert "may not do this" not in log.read_text() and PASSWORD not in log.read_text()
    async with Client(brokers["backup"].bootstraps["OWN"]) as client:
        topics = (await client.refresh(None)).topics
        assert "shared.orders" in topics and "shared.private" not in topics
        positions = await Admin(client).groups.offsets("odradek-mirror.odradek.backup.shared")
        assert set(positions) >= {TopicPartition("shared.orders", one) for one in range(2)}
