"""Brokers and controllers as processes, with the settings and certificates that the operator writes for a Cluster.

Only what Kubernetes gives is put in: ports and addresses on loopback, and the folder of the mounted Secret.
"""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from odradek.client.addresses import Address
from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.errors import ConnectionFailed
from odradek.client.producer.producer import Producer
from odradek.client.secured import secured_network
from odradek.foundation.ids import TopicPartition
from odradek.foundation.settings.file import parse_properties
from odradek_operator.desired.client_properties import client_properties
from odradek_operator.desired.probes import http_probes
from odradek_operator.foundation.certificates import KeyPair, issue
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.brokers import BrokerClients, pods_context
from odradek_operator.gateways.cluster_admin import HttpClusterAdmin
from odradek_operator.gateways.kubernetes import CLUSTERS, CONFIG_MAPS, SECRETS, Json
from odradek_operator.gateways.record_times import RecordTimes
from tests.operator.support.cluster_world import ClusterWorld
from tests.support.broker_process import free_port
from tests.support.cluster_processes import Cluster, Member
from tests.support.polling import eventually
from tests.support.stories import in_real_time
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

SPEC: Json = {
    "brokers": {"replicas": 2},
    "internalListener": {"authentication": {"type": "scram-sha-512"}},
    "authorization": {},
    "certificates": {"authorityOverlapDays": 0},
    "listeners": [
        {"name": "mutual", "type": "Internal", "port": 9094, "tls": True, "authentication": {"type": "tls"}}
    ],
}


class _Member(Member):
    """A process with a file of settings."""

    def __init__(self, folder: Path, verb: str, number: int, *, connect: str, file: dict[str, str]) -> None:
        super().__init__(folder, verb, number, connect=connect, settings={})
        names = [one.partition(":")[0] for one in file["listeners"].split(",")]
        self.ports = {name: self.port if at == 0 else free_port() for at, name in enumerate(names)}
        self.admin_port = free_port()
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        self.file = file | {"listeners": listeners, "zookeeper.session.timeout.ms": "4000"}

    def command(self) -> list[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "server.properties"
        config.write_text("".join(f"{key}={text}\n" for key, text in self.file.items()))
        command = [sys.executable, "-m", "odradek", self.verb, "--id", str(self.number)]
        command += ["--zookeeper", self.connect, "--config", str(config)]
        command += ["--admin", f"127.0.0.1:{self.admin_port}"]
        return command + (["--data", str(self.data)] if self.verb == "broker" else [])


class _Processes(Cluster):
    """What the operator wants of the Cluster `events`, running here."""

    def __init__(self, folder: Path, zookeeper: str, world: ClusterWorld) -> None:
        super().__init__(folder, zookeeper, brokers=0, controllers=0)
        self.mounted = mounted = folder / "broker-tls"
        mounted.mkdir(parents=True)
        self.mount(world)
        for verb, group, numbers in (
            ("controller", self.controllers, (101,)),
            ("broker", self.brokers, (0, 1)),
        ):
            found = world.body(CONFIG_MAPS, f"events-{verb}")
            file = dict(parse_properties(found["data"][f"{verb}.properties"]))
            for key in ("zookeeper.connect", "log.dirs"):
                file.pop(key, None)
            file = {key: text.replace("/etc/odradek-tls/broker", str(mounted)) for key, text in file.items()}
            for number in numbers:
                group[number] = _Member(folder, verb, number, connect=self.connect, file=file)

    def mount(self, world: ClusterWorld) -> None:
        """Bring the present Secret to the brokers. The kubelet does so for all files at once."""
        secret = world.body(SECRETS, "events-broker-tls")
        for name, text in secret["data"].items():
            staged = self.mounted / f".{name}"
            staged.write_bytes(base64.b64decode(text))
            staged.rename(self.mounted / name)

    def address(self, listener: str) -> str:
        member = self.brokers[0]
        assert isinstance(member, _Member)
        return f"127.0.0.1:{member.ports[listener]}"


@pytest.fixture(scope="module")
def world() -> ClusterWorld:
    made = ClusterWorld(SPEC)
    made.now = datetime.now(UTC)
    made.settle()
    return made


@pytest.fixture(scope="module")
def processes(world: ClusterWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Processes]:
    folder = tmp_path_factory.mktemp("processes")
    zookeeper = ZooKeeper(folder / "zookeeper")
    zookeeper.start()
    made = _Processes(folder, zookeeper.connect, world)
    try:
        made.start()
        yield made
    finally:
        made.close()
        zookeeper.close()


def _operators(world: ClusterWorld, processes: _Processes, listener: str = "REPLICATION") -> dict[str, str]:
    (properties,) = world.brokers.secured.values()
    return {**properties, "bootstrap.servers": processes.address(listener)}


def _pair(world: ClusterWorld, name: str) -> KeyPair:
    found = world.body(SECRETS, name)
    files = {key: base64.b64decode(text).decode() for key, text in found["data"].items()}
    return KeyPair(files["tls.crt"], files["tls.key"])


async def _topics(properties: dict[str, str], *make: str) -> set[str]:
    async with Client(properties["bootstrap.servers"], network=secured_network(properties)) as client:
        for name in make:
            await Admin(client).topics.create(name, partitions=2, replication_factor=2)
        # The broker that is asked need not be the one that was asked to make them.
        seen = await eventually(
            "the topics are known",
            lambda: client.refresh(None),
            lambda cluster: set(make) <= cluster.topics.keys(),
        )
        return set(seen.topics)


@in_real_time
async def test_the_operator_administers_and_brokers_replicate(
    world: ClusterWorld, processes: _Processes
) -> None:
    properties = _operators(world, processes)
    assert "orders" in await _topics(properties, "orders")
    async with Client(properties["bootstrap.servers"], network=secured_network(properties)) as client:

        async def is_replicated() -> bool:
            orders = (await client.refresh(["orders"])).topics["orders"]
            return all(len(one.in_sync_replicas) == 2 for one in orders.partitions)

        await eventually("all replicas are in sync", is_replicated)


@pytest.mark.thorough
def test_a_broker_that_holds_its_listeners_serves_the_operator_alone(
    world: ClusterWorld, processes: _Processes, tmp_path: Path
) -> None:
    """As brokers start on volumes of an earlier Cluster, while what that has left is deleted."""
    served = processes.brokers[0]
    assert isinstance(served, _Member)
    clients = ("listener.name.internal.", "listener.name.mutual.")
    file = {key: text for key, text in served.file.items() if not key.startswith(clients)}
    held = file | {"listeners": "REPLICATION://:9091"}
    broker = _Member(tmp_path, "broker", 2, connect=processes.connect, file=held)
    broker.start()
    try:
        properties = _operators(world, processes) | {
            "bootstrap.servers": f"127.0.0.1:{broker.ports['REPLICATION']}"
        }
        assert "held" in asyncio.run(_topics(properties, "held"))
        assert set(broker.ports) == {"REPLICATION"}
    finally:
        broker.close()


def test_no_client_passes_for_a_broker_or_the_operator(world: ClusterWorld, processes: _Processes) -> None:
    """A certificate of the authority for clients is none for the brokers' own listener, whatever its name is."""
    authority, clients = _pair(world, "events-cluster-ca"), _pair(world, "events-clients-ca")
    stranger = issue(clients, "events-broker", organization="odradek.io", days=1, now=datetime.now(UTC))
    nobody = issue(clients, "alice", days=1, now=datetime.now(UTC))

    async def asked(listener: str, pair: KeyPair | None) -> set[str]:
        return await _topics(
            client_properties(
                processes.address(listener), "SSL", authority=authority.certificate, credential=pair
            )
        )

    for pair in (stranger, nobody, None):
        with pytest.raises(ConnectionFailed):
            asyncio.run(asked("REPLICATION", pair))
    with pytest.raises(ConnectionFailed):
        asyncio.run(asked("MUTUAL", None))
    assert asyncio.run(asked("MUTUAL", nobody)) == set(), "it may see nothing"


def _admin_port(processes: _Processes, verb: str = "broker") -> int:
    member = processes.brokers[0] if verb == "broker" else processes.controllers[101]
    assert isinstance(member, _Member)
    return member.admin_port


@in_real_time
async def test_the_operator_asks_the_http_ports_over_tls(world: ClusterWorld, processes: _Processes) -> None:
    """Lag in seconds, restarts and measures: the operator is a super user, and others learn no name."""
    key = Key("Cluster", "default", "events")
    properties = _operators(world, processes)
    members = [one for one in processes.brokers.values() if isinstance(one, _Member)]
    ports = {Address("127.0.0.1", one.ports["REPLICATION"]): one.admin_port for one in members}
    # Only the leader of the partition answers.
    asked = {address: {TopicPartition("aged", 0): 0} for address in ports}
    async with Client(properties["bootstrap.servers"], network=secured_network(properties)) as client:
        await Admin(client).topics.create("aged", partitions=1, replication_factor=2)
        async with Producer(client) as producer:
            await producer.send("aged", b"v")
    admin = HttpClusterAdmin(BrokerClients())
    times = RecordTimes(lambda address: f"127.0.0.1:{ports[address]}")
    try:
        unknown = await admin.restart_answer("127.0.0.1", _admin_port(processes), key)
        assert not unknown.known, "an operator without its certificate is not answered"
        await admin.secure(properties["bootstrap.servers"], properties, key)
        answer = await admin.restart_answer("127.0.0.1", _admin_port(processes), key)
        assert answer.known
        health = await admin.read_health("127.0.0.1", _admin_port(processes, "controller"), key)
        assert health is not None and health.is_active_controller
        found = await times.fetch_times(asked, pods_context(properties))
        assert abs(found[TopicPartition("aged", 0)] / 1000 - time.time()) < 600
        stranger = client_properties("", "SSL", authority=_pair(world, "events-cluster-ca").certificate)
        assert await times.fetch_times(asked, pods_context(stranger)) == {}
    finally:
        await times.close()
        await admin.close()


def test_probes_of_a_secured_cluster_reach_its_http_port(processes: _Processes) -> None:
    for verb in ("broker", "controller"):
        probes = http_probes(
            _admin_port(processes, verb), ready_path="/readyz", start_seconds_max=9, has_tls=True
        )
        waits = probes["startupProbe"]["exec"]["command"]
        assert subprocess.run([sys.executable, *waits[1:]], timeout=60, check=False).returncode == 0
        assert probes["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"


@pytest.mark.thorough
def test_new_keys_of_the_authorities_fail_no_request(world: ClusterWorld, processes: _Processes) -> None:
    """Last of the file. At each step the Secret changes while records are produced to both brokers."""
    old = _operators(world, processes)
    change: Json = {"metadata": {"annotations": {"odradek.io/rotate-authority": "now"}}}
    world.merge(CLUSTERS, "events", change)

    async def step() -> int:
        """Produce while brokers take what the operator writes now; how many records were acknowledged."""
        properties = _operators(world, processes)
        acknowledged = 0
        async with (
            Client(properties["bootstrap.servers"], network=secured_network(properties)) as client,
            Producer(client) as producer,
        ):
            await producer.send("rotated", b"before")
            await asyncio.to_thread(world.settle)
            processes.mount(world)
            ends_at = time.monotonic() + 3  # twice a second brokers look at their files
            while time.monotonic() < ends_at:
                await producer.send("rotated", b"during", partition=acknowledged % 2)
                acknowledged += 1
        assert await _topics(_operators(world, processes)) >= {"rotated"}
        return acknowledged

    async def is_refused(properties: dict[str, str]) -> bool:
        try:
            await _topics(properties)
        except ConnectionFailed:
            return True
        return False

    async def story() -> None:
        await _topics(old, "rotated")
        for _ in ("announced", "used", "retired"):
            assert await step() > 10
            world.now += timedelta(minutes=16)
        await eventually(
            "former keys are refused", lambda: is_refused(_operators(world, processes) | _keys_of(old))
        )
        await eventually("all that was retired is refused", lambda: is_refused(old))

    asyncio.run(story())


def _keys_of(properties: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in properties.items() if key.startswith("ssl.keystore")}
