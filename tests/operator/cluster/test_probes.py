"""A start that goes well fails no probe: what the startup probe runs waits for the server, instead of asking often."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from odradek_operator.desired.probes import UNTIL_READY, http_probes, zookeeper_probes
from tests.support.broker_process import free_port
from tests.support.helm import CHECKOUT, objects, template

ENDED_SECONDS_MAX = 60


class Server:
    """A server that is alive at once, and ready once it has been asked a second time whether it is."""

    def __init__(self, port: int) -> None:
        asked: list[str] = []
        self.asked = asked

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                is_ready = asked.count("/readyz") > 1
                self.send_response(200 if self.path == "/healthz" or is_ready else 503)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("localhost", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.mark.integration
def test_the_startup_probe_waits_until_a_late_server_is_ready() -> None:
    port = free_port()
    command = http_probes(port, ready_path="/readyz", start_seconds_max=9)["startupProbe"]["exec"]["command"]
    probe = subprocess.Popen([sys.executable, *command[1:]])
    server = Server(port)
    try:
        assert probe.wait(ENDED_SECONDS_MAX) == 0
        assert server.asked.count("/readyz") == 2
    finally:
        server.stop()


@pytest.mark.integration
def test_a_live_server_that_never_becomes_ready_fails_readiness() -> None:
    port = free_port()
    server = Server(port)
    command = [sys.executable, "-c", UNTIL_READY, str(port), "/never", "0"]
    try:
        assert subprocess.run(command, timeout=ENDED_SECONDS_MAX, check=False).returncode == 0
    finally:
        server.stop()


@pytest.mark.integration
def test_zookeepers_startup_probe_waits_until_it_serves() -> None:
    """A server that has no leader yet closes the connection, or answers `null`; the readiness probe would fail."""
    answers = [b"", b"null", b"rw"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(ENDED_SECONDS_MAX)
        port = server.getsockname()[1]
        probe = subprocess.Popen(
            zookeeper_probes(port, start_seconds_max=9)["startupProbe"]["exec"]["command"]
        )
        while answers:
            assert probe.poll() is None, f"it has ended before {answers}"
            connection, _ = server.accept()
            with connection:
                connection.settimeout(ENDED_SECONDS_MAX)
                if connection.recv(4) == b"isro":  # the first look at the port asks nothing
                    connection.sendall(answers.pop(0))
        assert probe.wait(ENDED_SECONDS_MAX) == 0


def test_one_failure_of_the_startup_probe_ends_the_container() -> None:
    """It is asked once, for as long as a start may take: what asks often has failed often by then."""
    for probes in (
        http_probes(1, ready_path="/readyz", start_seconds_max=300),
        zookeeper_probes(1, start_seconds_max=300),
    ):
        assert probes["startupProbe"]["failureThreshold"] == 1
        assert probes["startupProbe"]["timeoutSeconds"] == 300


@pytest.mark.thorough
def test_the_operators_chart_waits_by_the_same_program() -> None:
    assert (CHECKOUT / "helm/odradek-operator/files/until-ready.txt").read_text() == UNTIL_READY
    (deployment,) = [one for one in objects(template("odradek-operator")) if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["startupProbe"]["exec"]["command"] == [
        "python3",
        "-c",
        UNTIL_READY,
        "8080",
        "/readyz",
        "60",
    ]
