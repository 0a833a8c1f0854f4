"""`odradek console` as a process: it serves without a cluster, ends cleanly, and says where it cannot listen."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import odradek
from odradek.cli.cluster.console_run import connection_words
from odradek.cli.shared.connection_settings import GivenOptions
from tests.support.broker_process import CHECKOUT, free_port
from tests.support.polling import SECONDS_MAX

pytestmark = pytest.mark.integration


@contextmanager
def console(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "odradek", "console", *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(CHECKOUT / "broker")},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_json(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=SECONDS_MAX) as answer:
        document: dict[str, object] = json.load(answer)
        return document


def test_it_serves_a_broker_until_a_signal(bootstrap: str) -> None:
    with console("--bootstrap", bootstrap, "--port", "0") as process:
        assert process.stdout is not None and process.stderr is not None
        ready, kind, url, cluster = process.stdout.readline().split()
        assert (ready, kind, cluster) == ("ready", "console", f"cluster={bootstrap}")
        assert read_json(f"{url}/api/about") == {
            "bootstrap": bootstrap,
            "version": odradek.__version__,
            "may_change": False,
        }
        assert read_json(f"{url}/api/overview")["verdict"] == "healthy"
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0
        assert "Traceback" not in process.stderr.read()


def test_it_serves_before_the_cluster_does_and_warns_of_its_reach() -> None:
    with console("--bootstrap", f"127.0.0.1:{free_port()}", "--port", "0", "--host", "0.0.0.0") as process:
        assert process.stdout is not None and process.stderr is not None
        port = process.stdout.readline().split()[2].rpartition(":")[2]
        assert read_json(f"http://127.0.0.1:{port}/api/about")["may_change"] is False
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0
        assert "put a proxy with a login before it" in process.stderr.read()


def test_without_a_host_it_serves_on_all_addresses_of_both_families(bootstrap: str, tmp_path: Path) -> None:
    """As a pod starts it: the address of the brokers is in a file."""
    file, port = tmp_path / "client.properties", free_port()
    file.write_text(f"bootstrap.servers={bootstrap}\nsecurity.protocol=PLAINTEXT\n")
    with console("--host", "", "--port", str(port), "--command-config", str(file)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[3] == f"cluster={bootstrap}"
        hosts = ["127.0.0.1", *(["[::1]"] if socket.has_dualstack_ipv6() else [])]
        for host in hosts:
            with urllib.request.urlopen(f"http://{host}:{port}/healthz", timeout=SECONDS_MAX) as answer:
                assert answer.read() == b"ok\n"
        assert read_json(f"http://127.0.0.1:{port}/api/about")["bootstrap"] == bootstrap


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with console("--port", str(port)) as process:
            assert process.wait(SECONDS_MAX) == 1
            assert process.stderr is not None
            assert f"cannot listen on 127.0.0.1:{port}" in process.stderr.read()


def test_a_line_names_the_cluster_as_the_console_was_started() -> None:
    assert connection_words(GivenOptions()) == []
    given = GivenOptions(bootstrap="b:1", timeout_seconds=3, command_config="c.properties")
    assert connection_words(given) == ["--bootstrap", "b:1", "--command-config", "c.properties"]
