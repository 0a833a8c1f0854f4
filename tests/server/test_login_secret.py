"""The secret of the cluster that logins of unknown users depend on: made once, the same in every process."""

from __future__ import annotations

from odradek.metadata.image import nodes, paths
from odradek.metadata.registry.store import Delete
from tests.support.memory_registry import MemoryStore
from tests.support.whole_broker import WholeBroker
from tests.support.whole_cluster import WholeCluster


async def test_all_brokers_have_it_and_another_controller_keeps_it() -> None:
    cluster = await WholeCluster.start(brokers=2)
    secrets = {broker.images.current.login_secret for broker in cluster.brokers.values()}
    (secret,) = secrets
    assert len(secret) == 32
    first = cluster.active
    assert first is not None
    assert first.login_secret() == secret
    (standby,) = [one for one in cluster.controllers.values() if one is not first]
    assert standby.login_secret() == b""
    cluster.stores[cluster.host(first.id)].sever()
    await cluster.until(lambda: cluster.active is standby and standby.is_active)
    assert standby.login_secret() == secret
    await cluster.start_broker(3)
    assert cluster.brokers[3].images.current.login_secret == secret
    assert secret.hex() not in repr(cluster.brokers[3].images.current)


async def test_a_single_node_keeps_it_over_a_restart() -> None:
    broker = await WholeBroker.start()
    secret = broker.broker.images.current.login_secret
    assert len(secret) == 32
    again = await broker.restart()
    assert again.broker.images.current.login_secret == secret


def test_the_node_is_read_back() -> None:
    secret = bytes(range(32))
    assert nodes.read_login_secret(paths.LOGIN_SECRET, nodes.write_login_secret(secret)) == secret


async def test_a_registry_of_an_older_release_gets_one_in_the_next_term() -> None:
    cluster = await WholeCluster.start(brokers=1)
    first = cluster.active
    assert first is not None
    store = MemoryStore(cluster.registry)
    await store.multi([Delete(paths.LOGIN_SECRET)])
    cluster.stores[cluster.host(first.id)].sever()
    await cluster.until(lambda: cluster.active is not None and cluster.active is not first)
    node = await store.get(paths.LOGIN_SECRET)
    secret = nodes.read_login_secret(paths.LOGIN_SECRET, node.data)
    await cluster.until(lambda: cluster.brokers[1].images.current.login_secret == secret)
    await store.close()
