"""Nodes in ZooKeeper that any client could change: none is made, and those that exist are put right."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from odradek.foundation.clock import SystemClock
from odradek.foundation.registry_errors import StoreAccessDenied
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller.controller import Controller
from odradek.metadata.controller.terms import ControllerTerm
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.dynamic_settings import DynamicSettings
from odradek.metadata.image.first_users import write_first_user
from odradek.metadata.image.image import ImageHolder
from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.store import Create
from odradek.metadata.registry.zookeeper_store import ZookeeperStore
from tests.support.local_process import running
from tests.support.stories import in_real_time
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration

OWNER = {
    "zookeeper.digest.user": "odradek",
    "zookeeper.digest.password": "a secret",
    "zookeeper.set.acl": "true",
}
RULE = (
    b'{"version":1,"acls":[{"principal":"User:eve","permissionType":"Allow","operation":"All","host":"*"}]}'
)


class Stranger:
    """A client of ZooKeeper that shows no user."""

    def __init__(self, connect: str) -> None:
        self.client = KazooClient(hosts=connect)
        self.client.start()

    def __enter__(self) -> KazooClient:
        return self.client

    def __exit__(self, *_: object) -> None:
        self.client.stop()
        self.client.close()


@pytest.fixture
def whole_zookeeper(tmp_path: Any) -> Iterator[ZooKeeper]:
    """One whose root no other test uses."""
    with running(ZooKeeper(tmp_path)) as server:
        yield server


async def _begin_term(store: Any) -> None:
    images = ImageHolder()
    settings = DynamicSettings(Settings({"node.id": "1"}), images, is_broker=False)
    controller = Controller(store, images, settings, SystemClock(), rng=random.Random(1))
    if not await store.exists(paths.CONTROLLER_EPOCH):
        await store.create(paths.CONTROLLER_EPOCH, b"1")
    version = (await store.get(paths.CONTROLLER_EPOCH)).version
    await controller.take_over(ControllerTerm(1, 1, version))


async def _open(connect: str) -> ZookeeperStore:
    store = await open_registry(connect, entries=OWNER)
    assert isinstance(store, ZookeeperStore)
    return store


@in_real_time
async def test_a_stranger_cannot_make_the_first_rule(whole_zookeeper: ZooKeeper) -> None:
    store = await _open(whole_zookeeper.connect)
    await _begin_term(store)
    await store.close()
    with Stranger(whole_zookeeper.connect) as stranger:
        for path in (
            "/kafka-acl/Topic",
            "/kafka-acl-extended/prefixed/Topic",
            "/delegation_token/tokens/t",
            "/config/users/eve",
        ):
            with pytest.raises(NoAuthError):
                stranger.create(path, RULE)
        for secret in ("/cluster/login_secret", "/config/users"):
            with pytest.raises(NoAuthError):
                stranger.get(secret)


def test_nodes_that_are_open_are_put_right_and_said(
    zookeeper: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    connect = f"{zookeeper.connect}/{uuid.uuid4()}"
    with Stranger(zookeeper.connect) as client:
        root = connect.partition("/")[2]
        for path in ("kafka-acl/Topic/secret", "config/users/eve", "admin/other"):
            client.create(f"/{root}/{path}", RULE if path.startswith("kafka") else b"", makepath=True)

    async def scenario() -> None:
        store = await _open(connect)
        await _begin_term(store)
        # The parents at once: no stranger can add to what is there.
        with Stranger(connect) as stranger:
            for path in ("/kafka-acl/x", "/config/users/mallory", "/late"):
                with pytest.raises(NoAuthError):
                    stranger.create(path, b"")
            assert len(stranger.get_acls("/kafka-acl/Topic/secret")[0]) == 1
        assert (
            "5 nodes of ZooKeeper were open to any client, and now belong to odradek (/, /config"
            in caplog.text
        )
        assert "/kafka-acl" in caplog.text
        caplog.clear()
        await store.protect(paths.BRANCHES, with_children=True)
        assert "/kafka-acl/Topic/secret" in caplog.text
        assert [one async for one in store.open_nodes(paths.BRANCHES, with_children=True)] == []
        caplog.clear()
        await store.protect(("/", *paths.SKELETON))
        assert caplog.text == ""
        with Stranger(connect) as stranger:
            for path in ("/kafka-acl/Topic/secret", "/admin/other"):
                assert stranger.get(path)
                with pytest.raises(NoAuthError):
                    stranger.set(path, b"mine")
            with pytest.raises(NoAuthError):
                stranger.get("/config/users/eve")
        await store.close()

    asyncio.run(scenario())


@in_real_time
async def test_a_term_does_not_begin_where_a_stranger_owns_the_rules(zookeeper: ZooKeeper) -> None:
    connect = f"{zookeeper.connect}/{uuid.uuid4()}"
    store = await _open(connect)
    with Stranger(zookeeper.connect) as stranger:
        stranger.add_auth("digest", "eve:evil")
        chroot = connect.partition("/")[2]
        # Before the chroot was protected.
        owner = KazooClient(hosts=zookeeper.connect, auth_data=[("digest", "odradek:a secret")])
        owner.start()
        owner.set_acls(
            f"/{chroot}", [make_digest_acl("eve", "evil", all=True), *owner.get_acls(f"/{chroot}")[0]]
        )
        stranger.create(f"/{chroot}/kafka-acl", b"", acl=[make_digest_acl("eve", "evil", all=True)])
        owner.stop()
        owner.close()
    with pytest.raises(StoreAccessDenied, match="/kafka-acl of the registry belong to another user"):
        await _begin_term(store)
    found = [one async for one in store.open_nodes(["/kafka-acl"], with_children=True)]
    assert [(one.path, one.is_foreign) for one in found] == [("/kafka-acl", True)]
    await store.close()


@in_real_time
async def test_every_kind_of_creation_makes_protected_nodes(zookeeper: ZooKeeper) -> None:
    connect = f"{zookeeper.connect}/{uuid.uuid4()}/below/another"
    store = await _open(connect)
    await store.create("/brokers")
    await store.create("/brokers/ephemeral", b"", ephemeral=True)
    await store.multi(
        [Create("/config"), Create("/config/users"), Create("/config/users/u"), Create("/e", b"", True)]
    )
    assert await write_first_user(store, "v", {"SCRAM-SHA-256": "x"}) is False
    assert [one async for one in store.open_nodes(["/"], with_children=True)] == []
    await store.close()
    above = await _open(zookeeper.connect)
    chroot = connect.partition("/")[2].split("/")
    steps = ["/" + "/".join(chroot[:count]) for count in (1, 2)]
    assert [one async for one in above.open_nodes(steps, with_children=False)] == []
    await above.close()


@in_real_time
async def test_the_first_user_closes_what_was_open(zookeeper: ZooKeeper) -> None:
    connect = f"{zookeeper.connect}/{uuid.uuid4()}"
    with Stranger(zookeeper.connect) as client:
        root = connect.partition("/")[2]
        client.create(
            f"/{root}/config/users/admin", nodes.write_config({"producer_byte_rate": "1"}), makepath=True
        )
    store = await _open(connect)
    await write_first_user(store, "admin", {"SCRAM-SHA-256": "x"})
    assert [one async for one in store.open_nodes(["/config"], with_children=True)] == []
    await store.close()


@in_real_time
async def test_consumers_of_zookeepers_groups_have_their_own_place(whole_zookeeper: ZooKeeper) -> None:
    """As Kafka's with zookeeper.set.acl: a client may write below /consumers, and nowhere else."""
    connect = f"{whole_zookeeper.connect}/demo"
    store = await _open(connect)
    await _begin_term(store)
    with Stranger(connect) as stranger:
        stranger.create("/consumers/billing/ids/one", b"", ephemeral=True, makepath=True)
        stranger.delete("/consumers/billing", recursive=True)
        with pytest.raises(NoAuthError):
            stranger.set_acls("/consumers", [make_digest_acl("eve", "x", all=True)])
        with pytest.raises(NoAuthError):
            stranger.create("/brokers/topics/mine", b"")
    await store.close()


@in_real_time
async def test_a_place_of_consumers_that_was_open_is_owned_and_stays_writable(zookeeper: ZooKeeper) -> None:
    connect = f"{zookeeper.connect}/{uuid.uuid4()}"
    with Stranger(zookeeper.connect) as client:
        client.create(f"/{connect.partition('/')[2]}/consumers/billing", b"", makepath=True)
    store = await _open(connect)
    await _begin_term(store)
    with Stranger(connect) as stranger:
        assert len(stranger.get_acls("/consumers")[0]) == 2, "the owner, and all others with less"
        stranger.create("/consumers/orders", b"")
        with pytest.raises(NoAuthError):
            stranger.set_acls("/consumers", [make_digest_acl("eve", "x", all=True)])
    await store.close()


@in_real_time
async def test_a_root_is_the_clusters_whatever_it_is_called(whole_zookeeper: ZooKeeper) -> None:
    store = await _open(f"{whole_zookeeper.connect}/consumers")
    with Stranger(whole_zookeeper.connect) as stranger, pytest.raises(NoAuthError):
        stranger.create("/consumers/mine", b"")
    await store.close()
