"""The Compose files and the dev container say what the image, the settings and the Makefile have.

No Docker runs here. The published schema checks the files, the commands of the services run as processes on loopback,
and so does the health check.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from helm.generate.yaml_text import read_document
from odradek.cli.main import command_line
from odradek.foundation.settings.broker_settings import find_setting
from odradek.sync import Admin, Client, Consumer, Producer
from odradek_operator.desired import names
from odradek_operator.foundation.settings import OperatorSettings
from release import version
from tests.release.test_images import stage
from tests.support.broker_process import CHECKOUT, Broker, free_port
from tests.support.peers import skip_or_fail
from tests.support.polling import wait_until
from tests.support.programs import COMPOSE_SCHEMA
from tests.support.zookeeper import ZooKeeper

FILES = ("compose.yaml", "compose-cluster.yaml")
IMAGE = stage("broker")
Service = dict[str, Any]


def read(file: str) -> dict[str, Any]:
    document: dict[str, Any] = read_document((CHECKOUT / file).read_text())
    return document


def ours() -> Iterator[tuple[str, str, Service]]:
    """Each service of our image, with the file and the name."""
    for file in FILES:
        for name, service in read(file)["services"].items():
            if name != "zookeeper":
                yield file, name, service


SERVICES = {f"{file}:{name}": service for file, name, service in ours()}
each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def options(service: Service) -> dict[str, list[str]]:
    """The values of each option of its command."""
    found: dict[str, list[str]] = {}
    for word in service["command"][1:]:
        name, equals, value = word.partition("=")
        assert name.startswith("--") and equals, word
        found.setdefault(name.removeprefix("--"), []).append(value)
    return found


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_what_compose_reads(file: str) -> None:
    if not COMPOSE_SCHEMA.exists():
        skip_or_fail("python -m tests.tools compose-schema brings the schema")
    checker = jsonschema.Draft202012Validator(json.loads(COMPOSE_SCHEMA.read_text()))
    assert list(checker.iter_errors(read(file))) == []
    wrong = read(file)
    wrong["services"]["broker-1" if "cluster" in file else "broker"]["helthcheck"] = {}
    assert len(list(checker.iter_errors(wrong))) == 1


@each_service
def test_a_service_is_built_and_named_as_the_images_are(service: Service) -> None:
    assert service["image"] == f"localhost/odradek/broker:{version.declared()}"
    assert service["build"] == {"context": ".", "target": "broker"}


def test_zookeepers_image_is_the_operators() -> None:
    assert (
        read("compose-cluster.yaml")["services"]["zookeeper"]["image"] == OperatorSettings().zookeeper_image
    )


@each_service
def test_a_command_can_be_read_and_its_settings_exist(service: Service) -> None:
    verb, *arguments = service["command"]
    command = command_line.get_command(click.Context(command_line), verb)
    assert command is not None
    command.make_context(verb, list(arguments)).close()
    for pair in options(service)["set"]:
        key, _, value = pair.partition("=")
        setting = find_setting(key)
        assert setting is not None, key
        setting.parse(value)


@each_service
def test_ports_and_folders_are_those_of_the_image(service: Service) -> None:
    exposed = re.search(r"^EXPOSE (.+)$", IMAGE, re.MULTILINE)
    assert exposed is not None
    given = options(service)
    is_controller = service["command"][0] == "controller"
    client_port = names.CONTROLLER_PORT if is_controller else names.INTERNAL_PORT
    inside = given["listen"][0].rpartition(":")[2]
    assert (inside, given["admin"]) == (str(client_port), [f"0.0.0.0:{names.HTTP_PORT}"])
    assert {inside, str(names.HTTP_PORT)} <= set(exposed[1].split())
    if is_controller:
        assert "volumes" not in service and "ports" not in service
        return
    (volume,) = service["volumes"]
    assert given["data"] == [volume.partition(":")[2]] and f"VOLUME {given['data'][0]}\n" in IMAGE


@pytest.mark.parametrize("file", FILES)
def test_each_address_leads_to_its_broker(file: str) -> None:
    document = read(file)
    taken: list[str] = []
    for name, service in document["services"].items():
        given = options(service) if name != "zookeeper" else {}
        if "data" not in given:
            continue
        assert given["advertise"][0] == f"INSIDE://{name}:{names.INTERNAL_PORT}"
        public = given["advertise"][1].removeprefix("HOST://localhost:")
        inside = given["listen"][1].removeprefix("HOST://0.0.0.0:")
        assert f"127.0.0.1:{public}:{inside}" in service["ports"]
        assert service["volumes"][0].partition(":")[0] in document["volumes"]
        taken += [port.rpartition(":")[0] for port in service["ports"]]
    assert len(taken) == len(set(taken)) and all(port.startswith("127.0.0.1:") for port in taken)


def health_check() -> tuple[dict[str, str], list[str]]:
    """The image's: its times, and its command."""
    found = re.search(r"^HEALTHCHECK (.+) \\\n +CMD (\[.+\])$", IMAGE, re.MULTILINE)
    assert found is not None
    times = dict(word.removeprefix("--").replace("-", "_").split("=") for word in found[1].split())
    return times, json.loads(found[2])


@each_service
def test_the_health_check_is_the_images_but_for_readiness(service: Service) -> None:
    times, command = health_check()
    readiness = [word.replace("/healthz", "/readyz") for word in command]
    assert readiness != command
    assert service["healthcheck"] == {**times, "test": ["CMD", *readiness]}


def test_the_dev_container_fits_the_image_and_the_makefile() -> None:
    container = json.loads((CHECKOUT / ".devcontainer" / "devcontainer.json").read_text())
    base = re.search(r"^ARG BASE=(\S+)$", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)
    # The slim image lacks make and git.
    assert base is not None and container["image"] == base[1].replace("-slim", "")
    make, target = shlex.split(container["postCreateCommand"])
    assert make == "make" and re.search(rf"^{target}:", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    assert container["forwardPorts"] == [names.INTERNAL_PORT, names.HTTP_PORT]
    assert set(container["portsAttributes"]) == {str(port) for port in container["forwardPorts"]}


# --- the services as processes --------------------------------------------------------------------------------------


class ServiceProcess(Broker):
    """A service's command, with addresses of this machine in place of the containers'."""

    def __init__(self, folder: Path, service: Service, places: Mapping[str, str]) -> None:
        super().__init__(folder)
        self._words = []
        for word in service["command"]:
            for place, here in places.items():
                word = word.replace(place, here)
            self._words.append(word)
        self.service = service

    def command(self) -> list[str]:
        return [sys.executable, "-m", "odradek", *self._words]


def places_of(name: str, folder: Path, http_port: int) -> dict[str, str]:
    """What stands in the command for an address of the container, and what it is here."""
    inside, host = free_port(), free_port()
    return {
        "0.0.0.0:9644": f"127.0.0.1:{http_port}",
        "0.0.0.0:9092": f"127.0.0.1:{inside}",
        f"{name}:9092": f"127.0.0.1:{inside}",
        "0.0.0.0:9093": f"127.0.0.1:{inside}",
        f"{name}:9093": f"127.0.0.1:{inside}",
        "HOST://0.0.0.0:19092": f"HOST://127.0.0.1:{host}",
        "HOST://localhost:": f"HOST://localhost:{host}#",
        "--data=/data": f"--data={folder}",
    }


def started(
    name: str, service: Service, folder: Path, more: Mapping[str, str]
) -> tuple[ServiceProcess, int, str]:
    """The process, the port of its HTTP, and the address for programs of this machine."""
    http_port = free_port()
    places = {**places_of(name, folder / name, http_port), **more}
    host = places["HOST://0.0.0.0:19092"].rpartition(":")[2]
    process = ServiceProcess(folder / f"{name}-log", service, places)
    process._words = [re.sub(r"#\d+$", "", word) for word in process._words]
    process.start()
    return process, http_port, f"localhost:{host}"


def is_healthy(service: Service, http_port: int) -> bool:
    """Whether the service's health check, run here, succeeds."""
    kind, _python, *arguments = service["healthcheck"]["test"]
    assert kind == "CMD"
    command = [sys.executable, *(word.replace(":9644/", f":{http_port}/") for word in arguments)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def check_records(address: str, topic: str) -> None:
    """A record comes back."""
    with Client(address) as client, Producer(client) as producer:
        producer.send(topic, b"tea").result()
        with Consumer(client, topic, auto_offset_reset="earliest") as consumer:
            assert [record.value for record in consumer.poll(timeout_ms=10_000)] == [b"tea"]


@pytest.mark.integration
def test_the_broker_serves_and_its_health_check_succeeds(tmp_path: Path) -> None:
    service = read("compose.yaml")["services"]["broker"]
    process, http_port, address = started("broker", service, tmp_path, {})
    with closing(process):
        assert is_healthy(service, http_port)
        check_records(address, "orders")
    assert not is_healthy(service, http_port)


@pytest.mark.integration
@pytest.mark.java
@pytest.mark.thorough
def test_the_cluster_serves_and_its_health_checks_succeed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        zookeeper = ZooKeeper(tmp_path / "zookeeper")
        stack.callback(zookeeper.close)
        zookeeper.start()
        addresses = []
        for name, service in read("compose-cluster.yaml")["services"].items():
            if name == "zookeeper":
                continue
            more = {"zookeeper:2181": zookeeper.connect}
            process, http_port, address = started(name, service, tmp_path, more)
            stack.callback(process.close)
            wait_until(f"{name} is healthy", partial(is_healthy, service, http_port))
            if name.startswith("broker"):
                addresses.append(address)
        with Client(addresses[0]) as client:
            assert len(client.cluster.brokers) == 3
            Admin(client).topics.create("orders", partitions=3)
            topic = Admin(client).topics.describe("orders")
            assert all(len(partition.in_sync_replicas) == 3 for partition in topic.partitions)
        check_records(addresses[2], "orders")


PAGE = CHECKOUT / "docs" / "developing-with-odradek.md"


def commands_of_the_page() -> list[list[str]]:
    """The commands that containers, dev containers and CI jobs of the page give `odradek`."""
    blocks = re.findall(r"```(?:yaml|json)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    texts = [text for block in blocks for text in strings_of(read_document(block))]
    words = [shlex.split(text) for text in texts]
    found = [line[line.index("odradek") + 1 :] for line in words if "odradek" in line and len(line) > 2]
    found += [line[line.index("start") :] for line in words if line[:2] == ["docker", "run"]]
    services = [read_document(block)["tests"]["services"] for block in blocks if "services:\n    -" in block]
    return found + [service["command"] for some in services for service in some]


def strings_of(value: object) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)


def test_the_commands_on_the_page_can_be_read() -> None:
    commands = [line for line in commands_of_the_page() if line[0] == "start"]
    assert len(commands) == 4, "a dev container, two of GitHub, one of GitLab"
    for verb, *arguments in commands:
        command = command_line.get_command(click.Context(command_line), verb)
        assert command is not None
        command.make_context(verb, list(arguments)).close()
