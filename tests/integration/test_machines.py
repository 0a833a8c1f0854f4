"""Machines of two brokers on a real ZooKeeper: one port, one page of metrics, one stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.server.start import SAME_SIGNAL_SECONDS
from tests.integration.test_cluster import Writer, create, partitions_of, read_all
from tests.support.broker_process import CHECKOUT
from tests.support.local_process import running
from tests.support.machines import ClusterOfMachines, Machine
from tests.support.polling import SECONDS_MAX, wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.clients, pytest.mark.slow, pytest.mark.thorough]

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
}


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[ClusterOfMachines]:
    with running(ClusterOfMachines(tmp_path, zookeeper.connect, machines=2, settings=SETTINGS)) as made:
        made.await_ready()
        yield made


def machine_of(broker_id: int) -> int:
    return broker_id % 10_000


def test_a_machine_is_one_to_clients_and_to_its_keeper(cluster: ClusterOfMachines) -> None:
    machine = cluster.machines[1]
    admin = AdminClient({"bootstrap.servers": machine.bootstrap})
    brokers = admin.list_topics(timeout=30).brokers
    ports = {one.id: one.port for one in brokers.values()}
    assert sorted(ports) == [1, 2, 10_001, 10_002]
    assert (ports[1], ports[10_001]) == (machine.port + 100, machine.port + 200)

    create(admin, "orders", partitions=12, replicas=2)
    placed = [one.replicas for one in partitions_of(admin, "orders").values()]
    assert all(len({machine_of(broker) for broker in replicas}) == 2 for replicas in placed)
    assert {broker for replicas in placed for broker in replicas} == {1, 2, 10_001, 10_002}
    three = admin.create_topics([NewTopic("three", 1, 3)], request_timeout=60)["three"]
    with pytest.raises(Exception, match="no machine has two replicas"):
        three.result(SECONDS_MAX)

    writer = Writer(machine.bootstrap, "orders")
    writer.write(200)
    assert sorted(read_all(machine.bootstrap, "orders", group="g", count=200)) == list(range(200))

    status, text = machine.ask("/metrics")
    lines = text.splitlines()
    assert status == 200
    for number in (1, 2):
        assert f'odradek_machine_process_up{{process="{number}"}} 1.0' in lines
        assert any(
            one.startswith(f'odradek_topic_bytes_in_total{{process="{number}",topic="orders"')
            for one in lines
        )
    assert lines.count("# TYPE odradek_brokers gauge") == 1
    assert machine.ask("/healthz") == (200, "ok\n")
    assert machine.ask("/can-restart")[0] == 200
    logged = machine.log()
    assert " [1] odradek." in logged
    assert " [2] odradek." in logged


def test_a_process_that_is_killed_comes_back(cluster: ClusterOfMachines) -> None:
    machine = cluster.machines[1]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create(admin, "orders", partitions=12, replicas=2)
    writer = Writer(cluster.bootstrap, "orders")
    writer.write(100)
    killed = machine.processes_by_number()[2]
    os.kill(killed, signal.SIGKILL)
    wait_until("the machine says that it is not whole", lambda: machine.ask("/readyz")[0] == 503)
    assert "process 2: " in machine.ask("/readyz")[1]
    assert machine.ask("/healthz")[0] == 200
    assert 'odradek_machine_process_up{process="2"} 0.0' in machine.ask("/metrics")[1]
    writer.write(100)
    wait_until("it is whole again", lambda: machine.ask("/readyz")[0] == 200)
    assert machine.processes_by_number()[2] != killed
    assert 'odradek_machine_process_restarts_total{process="2"} 1.0' in machine.ask("/metrics")[1]
    writer.write(100)
    assert sorted(read_all(cluster.bootstrap, "orders", group="g", count=300)) == list(range(300))


def test_a_stop_of_the_machine_stops_all_cleanly(cluster: ClusterOfMachines) -> None:
    machine = cluster.machines[1]
    admin = AdminClient({"bootstrap.servers": cluster.machines[2].bootstrap})
    create(admin, "orders", partitions=12, replicas=2)
    assert machine.stop() == 0
    for folder in (machine.data, machine.data / "process.2"):
        assert (folder / ".kafka_cleanshutdown").exists(), folder
    leaders = {one.leader for one in partitions_of(admin, "orders").values()}
    assert leaders <= {2, 10_002}
    machine.start()
    wait_until(
        "all replicas in sync again",
        lambda: all(len(one.isrs) == 2 for one in partitions_of(admin, "orders").values()),
    )


def test_processes_stop_when_their_parent_is_killed(cluster: ClusterOfMachines) -> None:
    machine = cluster.machines[1]
    children = list(machine.processes_by_number().values())
    assert len(children) == 2
    machine.kill()
    wait_until("the brokers have ended", lambda: not any(map(is_alive, children)))
    assert (machine.data / ".kafka_cleanshutdown").exists()


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def run_command(cluster: ClusterOfMachines, *arguments: str) -> str:
    command = [sys.executable, "-m", "odradek", *arguments, "--bootstrap", cluster.bootstrap]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def replicas_of(admin: AdminClient, topic: str) -> dict[int, list[int]]:
    return {number: one.replicas for number, one in partitions_of(admin, topic).items()}


def count_replicas(admin: AdminClient, topic: str) -> dict[int, int]:
    return Counter(broker for replicas in replicas_of(admin, topic).values() for broker in replicas)


def restart_with(machine: Machine, *, processes: int, admin: AdminClient, topic: str) -> None:
    assert machine.stop() == 0
    machine.processes = processes
    machine.start()
    wait_until(
        "all replicas in sync again",
        lambda: all(len(one.isrs) == 2 for one in partitions_of(admin, topic).values()),
    )


def test_single_brokers_become_machines_and_single_brokers_again(
    tmp_path: Path, zookeeper: ZooKeeper
) -> None:
    """One after the other, as in a roll. No record leaves its machine, and none is lost."""
    made = ClusterOfMachines(tmp_path, zookeeper.connect, machines=2, processes=1, settings=SETTINGS)
    with running(made) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        create(admin, "orders", partitions=12, replicas=2)
        writer = Writer(cluster.bootstrap, "orders")
        writer.write(300)
        assert count_replicas(admin, "orders") == {1: 12, 2: 12}

        for machine in cluster.machines.values():
            restart_with(machine, processes=2, admin=admin, topic="orders")
        writer.write(300)
        assert count_replicas(admin, "orders") == {1: 12, 2: 12}
        run_command(cluster, "brokers", "rebalance", "--within-machines")
        spread = replicas_of(admin, "orders")
        assert all(sorted(map(machine_of, replicas)) == [1, 2] for replicas in spread.values())
        assert count_replicas(admin, "orders") == {1: 6, 10_001: 6, 2: 6, 10_002: 6}
        listed = run_command(cluster, "brokers", "list").splitlines()
        assert listed[0].split()[:2] == ["ID", "MACHINE"]
        assert [row.split()[:2] for row in listed[1:]] == [
            ["1", "1"],
            ["10001", "1"],
            ["2", "2"],
            ["10002", "2"],
        ]
        writer.write(300)

        for broker_id in (10_001, 10_002):
            run_command(cluster, "brokers", "drain", str(broker_id), "--wait")
        assert all(sorted(replicas) == [1, 2] for replicas in replicas_of(admin, "orders").values())
        for machine in cluster.machines.values():
            restart_with(machine, processes=1, admin=admin, topic="orders")
        for broker_id in (10_001, 10_002):
            run_command(cluster, "brokers", "remove", str(broker_id))
        writer.write(300)
        assert sorted(read_all(cluster.bootstrap, "orders", group="g", count=1200)) == list(range(1200))


def test_a_machine_that_is_killed_under_load_loses_nothing(tmp_path: Path, zookeeper: ZooKeeper) -> None:
    """Both of its brokers leave in one election, and each partition has a leader on another machine."""
    settings = {
        **SETTINGS,
        "default.replication.factor": "3",
        "offsets.topic.replication.factor": "3",
        # Longer than the test waits: only what its machine refuses says that it has ended.
        "zookeeper.session.timeout.ms": "40000",
    }
    with running(ClusterOfMachines(tmp_path, zookeeper.connect, settings=settings)) as cluster:
        cluster.await_ready()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        create(admin, "orders", partitions=12, replicas=3, min_insync_replicas="2")
        writer, has_written = Writer(cluster.bootstrap, "orders"), Event()

        def write_until_told() -> int:
            written = 0
            while not has_written.is_set():
                writer.write(1000)
                written += 1000
            return written

        machine = cluster.machines[2]
        with ThreadPoolExecutor(1) as threads:
            under_load = threads.submit(write_until_told)
            wait_until("it writes", lambda: len(writer.acknowledged) > 2_000)
            machine.kill_all()
            wait_until(
                "others lead",
                lambda: (
                    {one.leader for one in partitions_of(admin, "orders").values()} <= {1, 3, 10_001, 10_003}
                ),
            )
            before = len(writer.acknowledged)
            wait_until("it writes again", lambda: len(writer.acknowledged) > before + 2_000)
            has_written.set()
            written = under_load.result()
        lines = cluster.controllers[101].log().splitlines()
        left = [number for number, line in enumerate(lines) if "left the cluster" in line]
        assert len(left) == 2
        assert left[1] == left[0] + 1, lines[left[0] : left[1] + 1]
        machine.start()
        wait_until(
            "three replicas in sync",
            lambda: all(len(one.isrs) == 3 for one in partitions_of(admin, "orders").values()),
        )
        assert sorted(writer.acknowledged) == list(range(written))
        found = read_all(cluster.bootstrap, "orders", group="g", count=written)
        assert sorted(found) == list(range(written))


def test_a_second_signal_ends_all_processes_at_once(cluster: ClusterOfMachines) -> None:
    machine = cluster.machines[1]
    children = list(machine.processes_by_number().values())
    with ending(children):
        end_by_two_signals(machine, children)


@contextmanager
def ending(processes: list[int]) -> Iterator[None]:
    """None of them is left: one that stands still ends by nothing else."""
    try:
        yield
    finally:
        for one in filter(is_alive, processes):
            os.kill(one, signal.SIGKILL)


def end_by_two_signals(machine: Machine, children: list[int]) -> None:
    # One that stands still does not stop, so only the second signal ends it.
    os.kill(children[0], signal.SIGSTOP)
    machine.process.send_signal(signal.SIGTERM)
    wait_until("it stops", lambda: "stopping all processes cleanly" in machine.log())
    wait_until("the other has stopped", lambda: not is_alive(children[1]))
    # One that comes within half a second counts as the first.
    time.sleep(2 * SAME_SIGNAL_SECONDS)
    machine.process.send_signal(signal.SIGTERM)
    wait_until("it has ended", lambda: machine.process.poll() is not None)
    assert machine.process.returncode == 130
    wait_until("no process is left", lambda: not any(map(is_alive, children)))
    machine.kill()
