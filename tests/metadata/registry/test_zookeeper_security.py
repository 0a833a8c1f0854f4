"""Access to the nodes in ZooKeeper, and encrypted connections to it, against real servers."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.foundation.errors import SettingError
from odradek.foundation.registry_errors import StoreAccessDenied, StoreConnectionLost
from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.store import Create, Put, Store
from tests.support.local_process import running
from tests.support.stories import in_real_time
from tests.support.zookeeper import Certificates, ZooKeeper

pytestmark = pytest.mark.integration


async def open_as(user: str | None, connect: str) -> Store:
    entries = {}
    if user is not None:
        entries = {
            "zookeeper.digest.user": user,
            "zookeeper.digest.password": f"{user}'s secret",
            "zookeeper.set.acl": "true",
        }
    return await open_registry(connect, entries=entries)


@in_real_time
async def test_only_the_creator_of_nodes_changes_them_and_reads_secrets(zookeeper: ZooKeeper) -> None:
    connect = f"{zookeeper.connect}/secured/{uuid.uuid4()}"
    owner = await open_as("odradek", connect)
    for path in ("/config", "/config/brokers", "/config/brokers/1", "/config/topics", "/brokers"):
        await owner.create(path, b"x")
    await owner.multi([Create("/config/topics/t", b"x"), Put("/config/topics/t", b"y")])
    for stranger in (await open_as(None, connect), await open_as("somebody", connect)):
        for public in ("/config/topics/t", "/brokers"):
            assert await stranger.exists(public)
            assert (await stranger.get(public)).data in (b"x", b"y")
        for attempt in (
            stranger.put("/config/topics/t", b"z"),
            stranger.create("/brokers/1"),
            stranger.delete("/config/topics/t"),
            stranger.get("/config/brokers/1"),
            stranger.children("/config/brokers"),
            stranger.create("/at-the-root"),
        ):
            with pytest.raises(StoreAccessDenied, match=r"zookeeper\.digest"):
                await attempt
        with pytest.raises(StoreAccessDenied) as failure:
            await stranger.multi([Put("/brokers", b"z"), Create("/x")])
        assert failure.value.operation == 0
        await stranger.close()
    again = await open_as("odradek", connect)
    await again.put("/config/brokers/1", b"changed")
    assert (await owner.get("/config/brokers/1")).data == b"changed"
    await again.close()
    await owner.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_zookeeper(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ZooKeeper]:
    with running(ZooKeeper(tmp_path_factory.mktemp("tls-zookeeper"), certificates=certificates)) as server:
        yield server


@in_real_time
async def test_connections_use_tls_with_certificates_of_both_sides(
    tls_zookeeper: ZooKeeper, certificates: Certificates
) -> None:
    entries = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(certificates.authority),
        "zookeeper.ssl.keystore.location": str(certificates.signed("client", password="opensesame")),
        "zookeeper.ssl.keystore.password": "opensesame",
        "zookeeper.ssl.enabled.protocols": "TLSv1.3",
    }
    store = await open_registry(f"127.0.0.1:{tls_zookeeper.tls_port}/secret", entries=entries)
    # Larger than a TLS record, and several answers at once.
    await store.create("/n", b"x" * 100_000)
    await asyncio.gather(*(store.create(f"/n/{number}") for number in range(100)))
    nodes = await asyncio.gather(*(store.get("/n") for _ in range(20)))
    assert {len(node.data) for node in nodes} == {100_000}
    assert len(await store.children("/n")) == 100
    await store.close()
    plain = await open_registry(f"{tls_zookeeper.connect}/secret")
    assert len(await plain.children("/n")) == 100
    await plain.close()


@in_real_time
async def test_a_server_that_is_not_trusted_is_not_spoken_to(
    tls_zookeeper: ZooKeeper, certificates: Certificates, tmp_path: Path
) -> None:
    entries = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(certificates.signed("client")),
    }
    trusted = {"zookeeper.ssl.truststore.location": str(certificates.authority)}

    async def attempt(host: str, **more: str) -> None:
        given = {**entries, **{f"zookeeper.{key.replace('_', '.')}": value for key, value in more.items()}}
        store = await open_registry(f"{host}:{tls_zookeeper.tls_port}", entries=given)
        await store.close()

    with pytest.raises(StoreConnectionLost, match=r"(?i)is not trusted.*certificate verify failed"):
        await attempt("127.0.0.1")
    authority = {"ssl_truststore_location": trusted["zookeeper.ssl.truststore.location"]}
    # The certificate is for 127.0.0.1, not for this name.
    with pytest.raises(StoreConnectionLost, match=r"(?i)is not trusted.*hostname mismatch"):
        await attempt("localhost", **authority)
    await attempt(
        "localhost",
        **authority,
        ssl_endpoint_identification_algorithm="",
    )


@in_real_time
async def test_files_that_cannot_be_used_are_named(certificates: Certificates, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("nothing")
    locked = certificates.signed("locked", password="right")
    for entries, complaint in (
        ({"zookeeper.ssl.truststore.location": "/nowhere.pem"}, r"/nowhere\.pem.*truststore\.location"),
        ({"zookeeper.ssl.truststore.location": str(damaged)}, r"truststore\.location.*of certificates"),
        ({"zookeeper.ssl.keystore.location": str(damaged)}, r"keystore\.location.*private key"),
        ({"zookeeper.ssl.keystore.location": str(locked)}, r"keystore\.location"),
        (
            {"zookeeper.ssl.keystore.location": str(locked), "zookeeper.ssl.keystore.password": "wrong"},
            r"keystore\.location",
        ),
    ):
        with pytest.raises(SettingError, match=complaint):
            await open_registry("127.0.0.1", entries={"zookeeper.ssl.client.enable": "true", **entries})
