"""`odradek start` as a process: the ready line, HTTP, signals, exit codes, what it refuses to start on."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.integration

WAIT_SECONDS = 30


class Started:
    """A broker process; `port` and `admin` are as its ready line says."""

    def __init__(self, data: Path, *options: str) -> None:
        command = [sys.executable, "-m", "odradek", "start", "--data", str(data)]
        self.process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline()

    @property
    def port(self) -> int:
        found = re.search(r"PLAINTEXT://127\.0\.0\.1:(\d+)", self.ready)
        assert found is not None, self.ready
        return int(found[1])

    def http(self, path: str, *, method: str = "GET", data: bytes | None = None) -> tuple[int, str]:
        found = re.search(r"admin=(\S+)", self.ready)
        assert found is not None, self.ready
        request = urllib.request.Request(found[1] + path, method=method, data=data)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as failure:
            with failure:
                return failure.code, failure.read().decode()

    def end(self) -> tuple[int, str]:
        """(exit code, what was logged)."""
        _, errors = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, errors


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    broker = Started(tmp_path / "data")
    yield broker
    if broker.process.poll() is None:
        broker.process.kill()
        broker.end()
    for pipe in (broker.process.stdout, broker.process.stderr):
        if pipe is not None:
            pipe.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_order(started: Started, tmp_path: Path, number: signal.Signals) -> None:
    assert started.ready.startswith("ready id=1 cluster=")
    assert started.port > 0
    started.process.send_signal(number)
    code, errors = started.end()
    assert code == 0, errors
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert "Traceback" not in errors


def test_health_readiness_and_metrics(started: Started) -> None:
    assert started.http("/healthz") == (200, "ok\n")
    assert started.http("/readyz") == (200, "ready\n")
    status, text = started.http("/metrics")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["odradek_brokers"].samples[0].value == 1
    assert families["process_resident_memory_bytes"].samples[0].value > 0
    assert started.http("/testing/faults", method="DELETE")[0] == 404, "faults are not for everyone"


def test_strangers_at_its_admin_port_cost_a_line_each_and_no_trace(started: Started) -> None:
    found = re.search(r"admin=http://([^:]+):(\d+)", started.ready)
    assert found is not None
    address = found[1], int(found[2])
    for sent in (
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(range(200)),
        b"POST /record-times HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        b"\x7f\xff\xff\xff" + b"x" * 100,
    ):
        with socket.create_connection(address, timeout=WAIT_SECONDS) as peer:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65_536):
                pass
    assert started.http("/healthz") == (200, "ok\n")
    started.process.terminate()
    code, errors = started.end()
    assert code == 0
    assert "Traceback" not in errors
    assert " ERROR " not in errors
    assert "a client of --admin sent no request" in errors


def test_a_second_broker_on_the_same_data_is_refused_and_says_why(started: Started, tmp_path: Path) -> None:
    second = Started(tmp_path / "data")
    code, errors = second.end()
    assert second.ready == ""
    assert code == 1
    assert "another process uses the log directory" in errors
    assert "Traceback" not in errors


def test_a_taken_port_is_named(started: Started, tmp_path: Path) -> None:
    second = Started(tmp_path / "other", "--set", f"listeners=PLAINTEXT://127.0.0.1:{started.port}")
    code, errors = second.end()
    assert code == 1
    assert f"127.0.0.1:{started.port}" in errors
    assert "Errno" not in errors


def test_a_taken_port_for_http_is_named(started: Started, tmp_path: Path) -> None:
    second = Started(tmp_path / "other", "--admin", f"127.0.0.1:{started.port}")
    code, errors = second.end()
    assert code == 1
    assert (
        f"--admin cannot listen on 127.0.0.1:{started.port}: Address already in use; choose another" in errors
    )


def test_a_marker_of_the_directory_that_makes_no_sense_is_refused_and_kept(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_text("garbage\n")
    code, errors = Started(data).end()
    assert code == 1
    assert "has no version" in errors
    assert (data / "meta.properties").read_text() == "garbage\n"


def test_bad_settings_have_an_exit_code_of_their_own(tmp_path: Path) -> None:
    broker = Started(tmp_path / "data", "--set", "num.partitions=0")
    code, errors = broker.end()
    assert code == 2
    assert "num.partitions" in errors
    assert not (tmp_path / "data").exists(), "nothing is written before the settings are known to be good"


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", ""])
def test_a_listener_on_every_interface_warns_of_its_advertised_address(tmp_path: Path, host: str) -> None:
    broker = Started(tmp_path / "data", "--listen", f"WIDE://{host}:0")
    advertised = re.search(r"WIDE://([^\s:]+):(\d+)", broker.ready)
    broker.process.terminate()
    code, errors = broker.end()
    assert code == 0, errors
    assert advertised is not None and advertised[1] not in ("0.0.0.0", "::"), broker.ready
    assert f"{advertised[1]}:{advertised[2]} is advertised to clients" in errors
    assert "--advertise" in errors


def test_several_listeners_and_advertised_addresses(tmp_path: Path) -> None:
    broker = Started(
        tmp_path / "data",
        "--listen",
        "INSIDE://127.0.0.1:0",
        "--advertise",
        "PLAINTEXT://outside.test:1234",
        "--advertise",
        "INSIDE://127.0.0.1:0",
    )
    try:
        assert "PLAINTEXT://outside.test:1234" in broker.ready
        assert re.search(r"INSIDE://127\.0\.0\.1:[1-9]\d*", broker.ready), broker.ready
    finally:
        broker.process.terminate()
        code, errors = broker.end()
    assert code == 0, errors


def test_a_killed_broker_starts_again_with_what_it_had(tmp_path: Path) -> None:
    first = Started(tmp_path / "data")
    os.kill(first.process.pid, signal.SIGKILL)
    assert first.end()[0] == -signal.SIGKILL
    again = Started(tmp_path / "data")
    cluster = re.search(r"cluster=(\S+)", first.ready)
    assert cluster is not None
    assert cluster[0] in again.ready
    again.process.terminate()
    assert again.end()[0] == 0


def test_no_heavy_module_is_loaded_to_start(tmp_path: Path) -> None:
    arguments = ["--data", str(tmp_path), "--listen", "127.0.0.1:0"]
    program = (
        "import sys, json; from odradek.cli.cluster import start_options, start_run\n"
        "def ready(broker):\n"
        "    import os, signal; print(json.dumps(sorted(sys.modules))); os.kill(os.getpid(), signal.SIGTERM)\n"
        f"sys.exit(start_run.run(start_options.parse({arguments!r}), on_ready=ready))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_SECONDS, check=True
    )
    loaded = set(json.loads(done.stdout.splitlines()[1]))
    heavy = {
        "aiohttp",
        "click",
        "rich",
        "kazoo",
        "prometheus_client",
        "shutil",
        "odradek.broker.groups.coordinator",
    }
    heavy |= {
        "ssl",
        "_ssl",
        "pathlib",
        "odradek.broker.transactions.coordinator",
        "odradek.storage.compaction.worker",
        "odradek.client.checked_calls",
        "odradek.client.own_loops",
        "odradek.client.sync",
        "odradek.sync",
    }
    assert not heavy & loaded
    assert not {name for name in loaded if name.startswith("kio.schema.")} - {
        "kio.schema",
        "kio.schema.errors",
    }
