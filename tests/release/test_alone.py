"""Each distribution starts where it alone is installed, with what it declares to need. Pages show the rest."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.release.conftest import build_tool
from tests.support.alone_environment import make_environment

pytestmark = [pytest.mark.integration, pytest.mark.thorough]

# Loaded with the first certificate, by a caller that says what to install.
DOORS = {"odradek.testing.certificates": "cryptography"}


@pytest.mark.parametrize(
    ("distribution", "modules", "without"),
    [
        # Tables of records need the extra `compaction`, text of .proto files the extra `schemas`, and the screen of
        # `odradek top` the extra `top`. Traces need the extra `traces`. Test suites that use the plug-in have pytest.
        ("odradek", "odradek", {"numpy", "google", "pytest", "textual", "opentelemetry"}),
        ("odradek-operator", "odradek_operator", {"numpy", "pytest"}),
        ("odradek-pipeline", "odradek_pipeline pyspark_odradek", set()),
    ],
)
def test_every_module_of_a_distribution_imports_where_it_is_alone(
    distribution: str, modules: str, without: set[str], tmp_path: Path
) -> None:
    build_tool()
    python = make_environment(tmp_path / "environment", distribution) / "bin" / "python"
    script = """if True:
        import importlib, pkgutil, sys
        failed = []
        for root in sys.argv[1:]:
            package = importlib.import_module(root)
            for module in pkgutil.walk_packages(package.__path__, root + "."):
                if module.name.rpartition(".")[2] == "__main__":
                    continue
                try:
                    importlib.import_module(module.name)
                except ModuleNotFoundError as failure:
                    failed.append((module.name, failure.name))
        for module, missing in failed:
            print(module, missing)
    """
    command = [str(python), "-I", "-c", script, *modules.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    missing = dict(line.split() for line in done.stdout.splitlines())
    for door, library in DOORS.items():
        assert missing.pop(door, library) == library
    assert {module: name for module, name in missing.items() if name not in without} == {}


def test_a_test_suite_has_a_broker_by_the_wheel_alone(tmp_path: Path) -> None:
    build_tool()
    python = make_environment(tmp_path / "environment", "odradek") / "bin" / "python"
    script = """if True:
        import odradek.testing
        from odradek.sync import Client, Consumer, Producer
        from odradek.testing.containers import KafkaContainer

        with KafkaContainer().with_env("KAFKA_NUM_PARTITIONS", "1") as kafka:
            with Client(kafka.get_bootstrap_server()) as client, Producer(client) as producer:
                producer.send("orders", b"tea")
                producer.flush()
                with Consumer(client, "orders", auto_offset_reset="earliest") as consumer:
                    print([record.value for record in consumer.poll(timeout_ms=10_000)])
        with odradek.testing.broker(security_protocol="SASL_PLAINTEXT", users={"alice": "secret"}) as broker:
            with Client(broker.bootstrap, security=broker.client_properties()) as client:
                print(len(client.cluster.brokers))
    """
    command = [str(python), "-I", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[b'tea']\n1\n", 0), done.stderr
