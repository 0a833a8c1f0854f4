"""Real ZooKeeper servers, started by the script of their pods: which of them begins an ensemble, and which joins.

One that has lost its data does neither, and one that has what others no longer have does not vote.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from odradek_operator.desired.probes import zookeeper_probes
from odradek_operator.desired.zookeeper_files import NO_DATA
from odradek_operator.gateways.cluster_admin import HttpClusterAdmin
from odradek_operator.gateways.zookeeper_members import (
    EnsembleConfiguration,
    EnsembleError,
    read_configuration,
    reconfigure,
)
from tests.support.zookeeper_ensemble import Ensemble

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    made = Ensemble(tmp_path, 3)
    yield made
    made.close()


def write(ensemble: Ensemble, *names: str) -> None:
    client = KazooClient(hosts=ensemble.connect)
    client.start(timeout=30)
    for name in names:
        client.create(f"/{name}", b"x" * 100)
    client.stop()
    client.close()


def held(ensemble: Ensemble) -> set[str]:
    client = KazooClient(hosts=ensemble.connect)
    client.start(timeout=30)
    client.sync("/")
    found = set(client.get_children("/")) - {"zookeeper"}
    client.stop()
    client.close()
    return found


def change(
    ensemble: Ensemble, *, joining: tuple[int, ...] = (), leaving: tuple[int, ...] = ()
) -> EnsembleConfiguration:
    """As the operator does it: a change whose answer is lost is read afterwards."""
    serving = [one.connect for one in ensemble.servers if one.serves]

    async def story() -> EnsembleConfiguration:
        try:
            return await reconfigure(
                serving, joining=[ensemble[one].line for one in joining], leaving=leaving
            )
        except EnsembleError:
            return await read_configuration(serving)

    return asyncio.run(story())


def test_one_server_becomes_three_and_one_again_while_it_serves(ensemble: Ensemble) -> None:
    ensemble.found(1)
    write(ensemble, "a", "b")
    ensemble.start(2, 3)
    ensemble[2].wait()
    ensemble[3].wait()
    three = change(ensemble, joining=(2, 3))
    assert three.voters == (1, 2, 3)
    ensemble.configure(three)
    write(ensemble, "c")
    ensemble[1].kill()
    ensemble[2].wait()
    ensemble[3].wait()
    assert held(ensemble) == {"a", "b", "c"}, "two of three serve"
    ensemble.start(1)
    ensemble[1].wait("follower")
    one = change(ensemble, leaving=(2, 3))
    assert one.voters == (1,) and int(one.version, 16) > int(three.version, 16)
    ensemble.configure(one)
    ensemble[1].wait("leader")
    ensemble[2].kill()
    ensemble[3].kill()
    write(ensemble, "d")
    assert held(ensemble) == {"a", "b", "c", "d"}


def test_servers_without_data_never_make_an_ensemble_of_their_own(ensemble: Ensemble) -> None:
    """More than half of the servers are empty, and the one with the data is away."""
    ensemble.found(1)
    ensemble[1].kill()
    ends_alone(ensemble, 2, 3)
    # Also where it ends at the same time: another program answers in its place, and is no ZooKeeper.
    with socket.create_server(("127.0.0.1", ensemble[1].client)) as impostor:
        threading.Thread(target=answer_rw, args=(impostor,), daemon=True).start()
        ensemble.start(2, 3)
        for id in (2, 3):
            ensemble[id].wait_for_words("LOOKING")
        ensemble[2].watch_for_seconds(6)
        assert not ensemble[2].serves and not ensemble[3].serves
    ensemble.start(1)
    for id in (1, 2, 3):
        ensemble[id].wait()
    assert ensemble[1].mode == "leader"


def ends_alone(ensemble: Ensemble, *ids: int) -> None:
    """These are started together, find no server that serves, and end."""
    for id in ids:
        ensemble[id].patience_seconds = 3
    ensemble.start(*ids)
    for id in ids:
        assert ensemble[id].ended() == 1 and NO_DATA in ensemble[id].log
        ensemble[id].patience_seconds = 60


def answer_rw(listener: socket.socket) -> None:
    while True:
        try:
            asked, _ = listener.accept()
        except OSError:
            return
        asked.sendall(b"rw")
        asked.close()


def test_a_majority_without_volumes_waits_for_the_server_with_the_data(ensemble: Ensemble) -> None:
    ensemble.found(1, 2, 3)
    write(ensemble, "a")
    ensemble.configure(change(ensemble))
    for id in (1, 2, 3):
        ensemble[id].kill()
    for id in (2, 3):
        ensemble[id].lose_volume()
    ensemble.start(1)
    ends_alone(ensemble, 2, 3)
    assert not ensemble[1].serves


def test_a_server_without_its_volume_gets_the_data_and_votes_again(ensemble: Ensemble) -> None:
    ensemble.found(1, 2, 3)
    ensemble.configure(change(ensemble))
    write(ensemble, "a")
    ensemble[2].kill()
    ensemble[2].lose_volume()
    ensemble.start(2)
    ensemble[2].wait()
    ensemble[1].kill()
    ensemble[2].wait()
    ensemble[3].wait()
    assert held(ensemble) == {"a"}


def test_former_servers_with_old_data_do_not_vote_after_a_restart(ensemble: Ensemble) -> None:
    ensemble.found(1, 2, 3)
    write(ensemble, "a")
    old = {id: ensemble[id].copy_volume() for id in (2, 3)}
    one = change(ensemble, leaving=(2, 3))
    ensemble.configure(one)
    for id in (1, 2, 3):
        ensemble[id].kill()
    for id, volume in old.items():
        shutil.rmtree(ensemble[id].data)
        volume.rename(ensemble[id].data)
    ends_alone(ensemble, 2, 3)  # together they were more than half, once
    ensemble.start(1)
    ensemble[1].wait("leader")
    write(ensemble, "b")
    ensemble.start(2)
    ensemble[2].wait()
    assert change(ensemble).voters == (1,)


def test_probe_and_operator_distinguish_serving_from_listening(ensemble: Ensemble) -> None:
    def is_ready(id: int) -> bool:
        command = zookeeper_probes(ensemble[id].client, start_seconds_max=9)["readinessProbe"]["exec"][
            "command"
        ]
        return subprocess.run(command, timeout=30, check=False).returncode == 0

    def mode(id: int) -> str | None:
        return asyncio.run(HttpClusterAdmin(None).read_zookeeper_mode("127.0.0.1", ensemble[id].client))  # type: ignore[arg-type]

    assert not is_ready(1) and mode(1) is None
    ensemble.found(1, 2, 3)
    assert all(is_ready(id) for id in (1, 2, 3))
    assert sorted(str(mode(id)) for id in (1, 2, 3)) == ["follower", "follower", "leader"]
    ensemble[2].kill()
    ensemble[3].kill()
    ensemble[1].wait_until_it_stops_serving()
    assert ensemble[1].answer("ruok") == "imok" and not is_ready(1) and mode(1) is None


def test_volumes_from_another_namespace_serve_under_their_new_names(ensemble: Ensemble) -> None:
    """What a volume has as the configuration names servers that are not there."""
    ensemble.found(1, 2, 3)
    write(ensemble, "a")
    ensemble.configure(change(ensemble))
    for server in ensemble.servers:
        server.kill()
        files = list((server.data / "dynamic").glob("zoo.cfg.dynamic.*"))
        assert files
        for file in files:
            file.write_text(file.read_text().replace("=127.0.0.1:", "=events-zookeeper.former.invalid:"))
    ensemble.configure(EnsembleConfiguration(voters=(1, 2, 3), version="0"))
    ensemble.start(1, 2, 3, founders=(1, 2, 3))
    for server in ensemble.servers:
        server.wait()
    assert held(ensemble) == {"a"}
