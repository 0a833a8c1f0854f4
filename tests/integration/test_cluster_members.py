"""One broker and one controller as processes: what they report of themselves, how they wait, and when they refuse."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import free_port
from tests.support.cluster_processes import Cluster, Member
from tests.support.polling import SECONDS_MAX
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    made = Cluster(tmp_path, zookeeper.connect, brokers=2, controllers=1)
    yield made
    made.close()


def with_admin(member: Member) -> str:
    """Give a member an HTTP address; its beginning."""
    port = free_port()
    member.arguments += ["--admin", f"127.0.0.1:{port}"]
    return f"http://127.0.0.1:{port}"


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def await_listening(url: str) -> None:
    """Until a process listens there; pytest's time limit bounds it."""
    host, _, port = url.removeprefix("http://").partition(":")
    waiting = threading.Event()
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            waiting.wait(0.05)


def test_both_tell_how_they_are_over_http(cluster: Cluster) -> None:
    controller, broker = cluster.controllers[101], cluster.brokers[1]
    of_controller, of_broker = with_admin(controller), with_admin(broker)
    controller.start()
    broker.start()
    for url in (of_controller, of_broker):
        assert get(f"{url}/healthz") == (200, "ok\n")
        assert get(f"{url}/readyz") == (200, "ready\n")
    metrics = get(f"{of_controller}/metrics")[1]
    assert "\nodradek_is_controller 1.0\n" in metrics
    assert "\nodradek_controller_epoch 1.0\n" in metrics
    assert "\nodradek_controller_followers 1.0\n" in metrics
    metrics = get(f"{of_broker}/metrics")[1]
    assert "\nodradek_is_fenced 0.0\n" in metrics
    assert "\nodradek_is_controller 0.0\n" in metrics
    assert "\nodradek_brokers 1.0\n" in metrics
    status, answer = get(f"{of_broker}/can-restart")
    assert (status, json.loads(answer)["can_restart"]) == (200, True)
    assert broker.stop() == controller.stop() == 0


def test_a_broker_waits_for_a_controller_and_is_told_to_stop_meanwhile(cluster: Cluster) -> None:
    broker = cluster.brokers[1]
    url = with_admin(broker)
    process = subprocess.Popen(broker.command(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        await_listening(url)
        assert get(f"{url}/healthz")[0] == 200
        assert get(f"{url}/readyz") == (503, "the broker is starting or stopping\n")
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=SECONDS_MAX)[0] == ""
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    cluster.controllers[101].start()
    broker.start()
    assert broker.stop() == 0


def test_a_second_broker_of_one_id_is_refused_and_the_first_serves_on(cluster: Cluster) -> None:
    cluster.controllers[101].start()
    first = cluster.brokers[1]
    first.start()
    other = cluster.brokers[2]
    other.number = 1
    with pytest.raises(AssertionError, match="has the id 1 already"):
        other.start()
    assert first.is_running
    assert first.stop() == 0
