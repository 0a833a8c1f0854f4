"""A real ZooKeeper that admits clients: what it was before, what they cannot do then, and whose its nodes are."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from odradek.metadata.registry.zookeeper.security import build_owned_acl
from odradek_operator.foundation.zookeeper_login import USER, ZookeeperLogin
from odradek_operator.gateways.zookeeper_access import ProtectedRegistry, protect_registry
from odradek_operator.gateways.zookeeper_members import EnsembleError, reconfigure
from tests.support.zookeeper_ensemble import Ensemble

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.thorough]

ROOT = "/default/events"
LOGIN, FORMER = (ZookeeperLogin(password=name, super_password=f"super-{name}") for name in ("now", "before"))
WANTED = ProtectedRegistry(root=ROOT, login=LOGIN, nodes_max=20, bytes_max=10_000)


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    made = Ensemble(tmp_path, 3)
    yield made
    made.close()


class Session:
    """A client of ZooKeeper; with a login, as a broker."""

    def __init__(self, ensemble: Ensemble, login: ZookeeperLogin | None = None) -> None:
        shown = [] if login is None else [("digest", f"{USER}:{login.password}")]
        self._client = KazooClient(hosts=ensemble[1].connect, auth_data=shown)

    def __enter__(self) -> KazooClient:
        self._client.start(timeout=30)
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()


def make_nodes(ensemble: Ensemble, login: ZookeeperLogin, *names: str) -> None:
    """As brokers of this login do."""
    with Session(ensemble, login) as broker:
        for path in (*itertools.accumulate(ROOT.strip("/").split("/"), "{}/{}".format), *names):
            whole = f"/{path}" if path not in names else f"{ROOT}/{path}"
            broker.create(whole, b"x", acl=build_owned_acl(whole.removeprefix(ROOT)))


def protect(ensemble: Ensemble, wanted: ProtectedRegistry = WANTED) -> None:
    asyncio.run(protect_registry([ensemble[1].connect], wanted))


def test_a_client_has_a_place_of_its_own_and_nothing_else(ensemble: Ensemble) -> None:
    ensemble.login = LOGIN
    ensemble.found(1)
    with Session(ensemble) as client:
        client.create("/mine")
        client.delete("/mine")
    protect(ensemble)
    with Session(ensemble, LOGIN) as broker:
        for name in ("config", "config/users", "kafka-acl"):
            broker.create(f"{ROOT}/{name}", b"x", acl=build_owned_acl(f"/{name}"))
    with Session(ensemble) as client:
        for path in (
            "/mine",
            "/default/mine",
            f"{ROOT}/controller",
            f"{ROOT}/kafka-acl/Topic",
            "/zookeeper/mine",
        ):
            with pytest.raises(NoAuthError):
                client.create(path, b"")
        for path in ("/", "/default", ROOT, f"{ROOT}/consumers", "/zookeeper/quota"):
            with pytest.raises(NoAuthError):
                client.set_acls(path, OPEN_ACL_UNSAFE)
        with pytest.raises(NoAuthError):
            client.get(f"{ROOT}/config/users")
        assert client.get(f"{ROOT}/kafka-acl")[0] == b"x"
        client.create(f"{ROOT}/consumers/billing/offsets/orders/0", b"7", makepath=True)
        client.delete(f"{ROOT}/consumers/billing", recursive=True)
    # Twice: what is as wanted stays.
    protect(ensemble)


def test_what_clients_take_up_is_bounded(ensemble: Ensemble) -> None:
    ensemble.login = LOGIN
    ensemble.found(1)
    protect(ensemble)
    place = f"{ROOT}/consumers"
    with Session(ensemble) as client:
        with pytest.raises(KazooException):
            client.create(f"{place}/large", b"x" * 20_000)
        with pytest.raises(KazooException):
            for number in range(30):
                client.create(f"{place}/{number}", b"")
        assert 10 < len(client.get_children(place)) < 20
        client.delete(f"{place}/0")
        client.create(f"{place}/again", b"")
    protect(ensemble, replace(WANTED, nodes_max=1_000))
    with Session(ensemble) as client:
        for number in range(100, 130):
            client.create(f"{place}/{number}", b"")


def test_an_ensemble_that_checks_grows_by_the_operators_login_alone(ensemble: Ensemble) -> None:
    ensemble.login = LOGIN
    ensemble.found(1)
    ensemble.start(2, 3)
    ensemble[2].wait()
    ensemble[3].wait()
    lines = [ensemble[id].line for id in (2, 3)]

    def grow(login: ZookeeperLogin | None) -> tuple[int, ...]:
        changing = reconfigure([ensemble[1].connect], joining=lines, leaving=(), login=login)
        return asyncio.run(changing).voters

    with pytest.raises(EnsembleError, match="NoAuth"):
        grow(None)
    with pytest.raises(EnsembleError, match="NoAuth"):
        grow(FORMER)
    assert grow(LOGIN) == (1, 2, 3)


def test_nodes_of_a_former_login_come_to_the_present_one(ensemble: Ensemble) -> None:
    """A Cluster is made again on kept volumes, or its Secret was lost."""
    ensemble.found(1)
    make_nodes(ensemble, FORMER, "brokers", "config", "config/users", "config/users/alice")
    ensemble[1].kill()
    ensemble.login = LOGIN
    ensemble.start(1)
    ensemble[1].wait()
    with Session(ensemble, LOGIN) as broker, pytest.raises(NoAuthError):
        broker.get(f"{ROOT}/config/users/alice")
    protect(ensemble, replace(WANTED, keeps_former=True))
    for login in (LOGIN, FORMER):
        with Session(ensemble, login) as broker:
            broker.set(f"{ROOT}/config/users/alice", b"y")
    protect(ensemble)
    with Session(ensemble, LOGIN) as broker:
        broker.create(f"{ROOT}/brokers/ids", b"")
        broker.set(f"{ROOT}/config/users/alice", b"z")
    for stranger in (FORMER, None):
        with Session(ensemble, stranger) as client, pytest.raises(NoAuthError):
            client.get(f"{ROOT}/config/users/alice")


def test_nodes_that_are_open_are_said_and_left_to_the_controller(ensemble: Ensemble) -> None:
    ensemble.found(1)
    with Session(ensemble) as client:
        client.create(f"{ROOT}/config/users/alice", b"", makepath=True)
        client.create(f"{ROOT}/consumers/billing", b"", makepath=True)
    ensemble[1].kill()
    ensemble.login = LOGIN
    ensemble.start(1)
    ensemble[1].wait()
    with pytest.raises(EnsembleError, match=r"4 nodes of ZooKeeper are open to all \(/default/events, "):
        protect(ensemble)


def test_a_server_begins_to_check_while_brokers_that_log_in_go_on(ensemble: Ensemble) -> None:
    """The order of a Cluster that runs: all log in, and then servers check one after the other."""
    ensemble.found(1, 2, 3)
    make_nodes(ensemble, LOGIN, "brokers")
    ensemble.login = LOGIN
    with Session(ensemble, LOGIN) as broker:
        for id in (2, 3):
            ensemble[id].kill()
            ensemble.start(id)
            ensemble[id].wait()
            broker.create(f"{ROOT}/brokers/{id}", b"", acl=build_owned_acl("/brokers"))
