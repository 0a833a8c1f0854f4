"""A disk that is full: writes fail with an error that says so, reads continue, and room makes writes work again."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.cli.exit_codes import ExitCode
from odradek.wire.protocol.api import ApiKey
from tests.integration.conftest import MakeBroker
from tests.support.broker_process import CHECKOUT, Broker, free_port
from tests.support.plain_client import PlainClient
from tests.support.polling import eventually

pytestmark = pytest.mark.integration

KAFKA_STORAGE_ERROR = 56
BLOCK = b"x" * 100_000


def test_a_full_disk_refuses_writes_and_serves_reads(make_broker: MakeBroker, small_disk: Path) -> None:
    broker = make_broker(small_disk)
    with PlainClient(broker.port) as client:
        client.create_topic("filled", segment_bytes=1 << 20)
        written = 0
        code = 0
        while code == 0 and written < 200:
            code, _ = client.produce("filled", [BLOCK])
            written += code == 0
        assert code == KAFKA_STORAGE_ERROR
        assert written > 10
        assert client.fetch_all("filled") == [BLOCK] * written
        assert client.produce("filled", [BLOCK])[0] == KAFKA_STORAGE_ERROR
        asked = [{"name": "filled", "partitions": [{"partition_index": 0, "offset": written - 1}]}]
        client.ask(ApiKey.DELETE_RECORDS, 1, topics=asked, timeout=5000)
    broker.stop()
    broker.start()
    with PlainClient(broker.port) as client:
        assert client.ask(ApiKey.API_VERSIONS, 0).error_code == 0


def odradek(broker: Broker, *arguments: str, code: int = 0) -> str:
    return run_odradek(broker, *arguments, code=code).stdout


def odradek_error(broker: Broker, *arguments: str, code: int = 0) -> str:
    return run_odradek(broker, *arguments, code=code).stderr


def run_odradek(broker: Broker, *arguments: str, code: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "odradek", *arguments, "--bootstrap", broker.bootstrap]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def on_small_disk(tmp_path: Path, small_disk: Path) -> Iterator[tuple[Broker, int]]:
    """A broker whose data are on the small disk, its log elsewhere; and its admin port."""
    admin = free_port()
    broker = Broker(tmp_path / "broker", arguments=("--admin", f"127.0.0.1:{admin}"))
    broker.data = small_disk / "data"
    broker.start()
    yield broker, admin
    broker.close()


@pytest.mark.thorough
def test_a_full_disk_is_told_where_people_look(on_small_disk: tuple[Broker, int], small_disk: Path) -> None:
    broker, admin = on_small_disk
    other = small_disk / "other-files"
    other.write_bytes(b"x" * (5 << 20))

    def shown(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{admin}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as failure:
            with failure:
                return failure.code, failure.read().decode()

    with PlainClient(broker.port) as client:
        client.create_topic("filled", segment_bytes=1 << 20)
        assert shown("/readyz") == (200, "ready\n")
        odradek(broker, "groups", "reset-offsets", "before", "-t", "filled", "--to-latest", "--execute")
        codes = [client.produce("filled", [BLOCK])[0] for _ in range(50)]
        assert codes[0] == 0 and codes[-1] == KAFKA_STORAGE_ERROR
        status, reason = shown("/readyz")
        assert status == 503 and f"the log directory {small_disk / 'data'} has been full for " in reason
        assert shown("/readyz?exclude=disk") == (200, "ready\n")
        assert shown("/healthz") == (200, "ok\n")
        gauge = f'{{path="{small_disk / "data"}"}}'
        assert f"odradek_log_directory_full{gauge} 1.0\n" in shown("/metrics")[1]
        assert f"odradek_log_directory_total_bytes{gauge} 8.388608e+06\n" in shown("/metrics")[1]
        (found,) = client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None).results
        usage = os.statvfs(small_disk)
        assert found.total_bytes == usage.f_blocks * usage.f_frsize
        assert found.usable_bytes == usage.f_bavail * usage.f_frsize < len(BLOCK)

        listed = odradek(broker, "brokers", "list")
        (told,) = json.loads(odradek(broker, "brokers", "list", "--output", "json"))[0]["log_directories"]
        assert "full, " in listed and "of 8.0 MiB free" in listed
        assert told["is_full"] and told["path"] == str(small_disk / "data") and told["error"] is None
        health = odradek(broker, "status", code=ExitCode.UNHEALTHY)
        assert f"!! broker 1: the disk of {small_disk / 'data'} is full\n" in health
        described = odradek(broker, "groups", "describe", "before")
        assert f"commits are refused: the log directory {small_disk / 'data'} of the coordinator" in described
        (group,) = json.loads(odradek(broker, "groups", "describe", "before", "--output", "json"))
        assert group["commits_refused"] in described

        other.unlink()
        asyncio.run(eventually("ready again", lambda: shown("/readyz") == (200, "ready\n")))
        assert client.produce("filled", [BLOCK])[0] == 0
    assert f"odradek_log_directory_full{gauge} 0.0\n" in shown("/metrics")[1]
    assert "full" not in odradek(broker, "brokers", "list")
    assert "refused" not in odradek(broker, "groups", "describe", "before")
    assert broker.stop() == 0
    assert broker.log().count(" is full (No space left on device") == 1
    assert broker.log().count("takes writes again after") == 1


@pytest.mark.thorough
def test_a_topic_made_on_a_full_disk_is_said_to_take_no_records(
    on_small_disk: tuple[Broker, int], small_disk: Path
) -> None:
    broker, _ = on_small_disk
    warning = f"the log directory {small_disk / 'data'} of broker 1 is full"
    with PlainClient(broker.port) as client:
        client.create_topic("filled", segment_bytes=1 << 20)
        while client.produce("filled", [BLOCK])[0] == 0:
            pass
    for verb in (("create", "late"), ("alter", "filled", "--partitions", "2")):
        error = odradek_error(broker, "topics", *verb, code=ExitCode.DEGRADED)
        assert (
            f"odradek: warning: topic {verb[1]}: its records are refused until there is room: {warning}"
            in error
        )


def test_a_file_size_limit_is_told_as_a_storage_error(make_broker: MakeBroker) -> None:
    """What a quota does: the file may not grow. No root is needed for this one."""
    limited = (
        "import os, resource, signal, sys;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({1_000_000}, {resource.RLIM_INFINITY}));"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    broker = make_broker(wrapper=(sys.executable, "-c", limited))
    with PlainClient(broker.port) as client:
        client.create_topic("capped")
        codes = [client.produce("capped", [BLOCK])[0] for _ in range(15)]
        good = codes.count(0)
        assert codes == [0] * good + [KAFKA_STORAGE_ERROR] * (15 - good)
        assert 5 <= good < 15
        assert client.fetch_all("capped") == [BLOCK] * good
    assert broker.stop() in (0, 1)


def test_topics_are_deleted_however_long_the_disk_has_been_full(
    on_small_disk: tuple[Broker, int], small_disk: Path
) -> None:
    broker, _ = on_small_disk

    def take_all_room() -> None:
        with (small_disk / "other-files").open("ab", buffering=0) as other, suppress(OSError):
            while True:
                other.write(b"x" * 4096)

    with PlainClient(broker.port) as client:
        for topic in ("filled", "first", "second"):
            client.create_topic(topic)
        for topic in ("first", "second"):
            take_all_room()
            for number in range(60):
                changes = [{"name": "retention.ms", "config_operation": 0, "value": str(60_000 + number)}]
                resources = [{"resource_type": 2, "resource_name": "filled", "configs": changes}]
                answer = client.ask(
                    ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False
                )
                assert answer.responses[0].error_code == 0, answer
                take_all_room()
            assert "deleted" in odradek(broker, "topics", "delete", topic, "--execute")
