"""Programs against the installed package, by mypy and pyright: right ones pass in strict mode, wrong lines are refused.

Both forms of the client are used. The package says by `py.typed` that its types count, and checkers read them from
where pip put them. pyright needs node, and is skipped without either.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from release import tryout
from tests.release.test_packages import INSTALLED, named
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.thorough, pytest.mark.slow]

OF_ASYNCIO: Final = """
import asyncio
from typing import assert_type

from odradek import (
    EARLIEST, LATEST, Admin, Audit, Client, Compression, ConfigChange, Consumer, ConsumerRecord, Delivery, Producer,
    RecordMetadata, ResourceType, TopicPartition, TopicSpec, errors,
)


async def main() -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "…"}
    async with Client("127.0.0.1:9092", security=login, request_timeout_ms=5_000) as client:
        admin = Admin(client)
        await admin.topics.create("orders", partitions=3, configs={"retention.ms": 86_400_000})
        await admin.topics.create_many([TopicSpec("payments")])
        await admin.configs.alter(ResourceType.TOPIC, "orders", [ConfigChange("retention.ms", "1")])
        ends = await admin.logs.list_offsets({TopicPartition("orders", 0): LATEST})
        assert_type(ends[TopicPartition("orders", 0)].offset, int)
        assert_type([topic.name for topic in await admin.topics.list()], list[str])
        async with Producer(client, acks="all", compression="zstd", audit=Audit(["orders"])) as producer:
            delivery = await producer.send("orders", b"tea", key=b"anna", headers=[("trace", b"1")])
            assert_type(delivery, Delivery)
            assert_type(await delivery, RecordMetadata)
            await producer.send_many("orders", [b"tea", None], keys=[b"a", b"b"])
            await producer.flush()
        async with Producer(client, acks=0, compression=Compression.LZ4, transactional_id="t") as producer:
            async with producer.transaction():
                await producer.send_and_wait("orders", bytearray(b"tea"))
        async with Consumer(client, "orders", group_id="billing", auto_offset_reset="earliest") as consumer:
            assert_type(await consumer.poll(timeout_ms=5), list[ConsumerRecord])
            async for record in consumer:
                assert_type(record.value, bytes | None)
                await consumer.commit()
            await consumer.seek(TopicPartition("orders", 0), "earliest")
            await consumer.assign({TopicPartition("orders", 0): EARLIEST})


try:
    asyncio.run(main())
except errors.OdradekError as error:
    print(errors.is_retriable(error))
"""
SYNCHRONOUS: Final = """
from typing import assert_type

from odradek import LATEST, ConsumerRecord, RecordMetadata, TopicPartition, errors
from odradek.sync import Admin, Client, Consumer, Delivery, Producer


def main() -> None:
    with Client(["127.0.0.1:9092"], security={"security.protocol": "PLAINTEXT"}) as client:
        admin = Admin(client)
        assert_type(admin.topics.create("orders", partitions=3).name, str)
        ends = admin.logs.list_offsets({TopicPartition("orders", 0): LATEST})
        assert_type(ends[TopicPartition("orders", 0)].offset, int)
        assert_type([topic.name for topic in admin.topics.list(include_internal=False)], list[str])
        with Producer(client, acks="1") as producer:
            delivery = producer.send("orders", b"tea", key=b"anna", headers=[("trace", b"1")])
            assert_type(delivery, Delivery)
            assert_type(delivery.result(timeout_ms=5), RecordMetadata)
            assert_type(producer.send_and_wait("orders", None, key=b"anna").offset, int)
            producer.send_many("orders", [b"tea", None], keys=[b"a", b"b"])
            producer.flush(is_stopping_at_failure=True)
        with Producer(client, transactional_id="t") as producer, producer.transaction():
            producer.send("orders", b"tea")
        with Consumer(client, "orders", group_id="billing") as consumer:
            assert_type(consumer.poll(records_max=5), list[ConsumerRecord])
            assert_type(consumer.position(TopicPartition("orders", 0)), int)
            for record in consumer:
                assert_type(record, ConsumerRecord)
                consumer.commit({TopicPartition(record.topic, record.partition): record.offset + 1})


try:
    main()
except errors.ClientError:
    pass
"""
WRONG_OF_ASYNCIO: Final = """
from odradek import Admin, Client, Consumer, Producer, TopicPartition, sync


async def main(client: Client, blocking: sync.Client) -> None:
    Client(9092)  # refused
    Client("127.0.0.1:9092", security={"security.protocol": 5})  # refused
    Client("127.0.0.1:9092", timeout_ms=5)  # refused
    Producer(blocking)  # refused
    Producer("127.0.0.1:9092")  # refused
    producer = Producer(client, acks="most")  # refused
    await producer.send("orders", "tea")  # refused
    await producer.send("orders", b"tea", headers={"trace": b"1"})  # refused
    await producer.send("orders", b"tea", partition="0")  # refused
    consumer = Consumer(client, ["orders"])  # refused
    await consumer.seek("orders", 0)  # refused
    await consumer.commit([TopicPartition("orders", 0)])  # refused
    consumer.poll().append(b"")  # refused
    await Admin(client).topics.create("orders", partitions="3")  # refused
    await Admin(client).topics.creates("orders")  # refused
    await Admin(client).topics.create("orders", 3)  # refused
    with client:  # refused
        pass
"""
WRONG_SYNCHRONOUS: Final = """
import odradek
from odradek.sync import Admin, Client, Consumer, Producer


def main(client: Client, other: odradek.Client) -> None:
    Client("127.0.0.1:9092", timeout_ms=5)  # refused
    Consumer(other, "orders")  # refused
    producer = Producer(client, acks="most")  # refused
    producer.send("orders", "tea")  # refused
    producer.send("orders", b"tea").result().offsets  # refused
    producer.send_many("orders", ["tea"])  # refused
    producer.flush(True)  # refused
    consumer = Consumer(client, "orders", group_id=5)  # refused
    for record in consumer:
        record.value.decode()  # refused
    consumer.seek("orders", 0)  # refused
    Admin(client).topics.create("orders", partitions="3")  # refused
    Admin(client).topics.create("orders").nothing  # refused
    Admin(client).groups.describe()  # refused
    Admin(client).brokers.drain("1")  # refused
"""


@pytest.fixture(scope="module")
def installed(built: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tryout.Environment:
    folder = tmp_path_factory.mktemp("types") / "venv"
    return tryout.Environment(folder, [named(built, "odradek", ".whl")], dependencies=INSTALLED)


def run(command: list[str], folder: Path) -> str:
    # The checkout is on no path: what is checked is what pip installed.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def by_mypy(environment: tryout.Environment, program: Path) -> dict[int, str]:
    """The lines with errors."""
    if importlib.util.find_spec("mypy") is None:
        skip_or_fail("mypy is missing: `make check` installs it")
    python = environment.folder / "bin" / "python"
    said = run(
        [
            sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", "",
            "--cache-dir", str(environment.folder / "mypy"), "--python-executable", str(python), str(program),
        ],
        program.parent,
    )  # fmt: skip
    found = re.findall(rf"^{re.escape(program.name)}:(\d+): error: (.*)", said, re.MULTILINE)
    assert said.count(": error: ") == len(found), said
    return {int(line): text for line, text in found}


def by_pyright(environment: tryout.Environment, program: Path) -> dict[int, str]:
    """The lines with errors."""
    if importlib.util.find_spec("pyright") is None or shutil.which("node") is None:
        skip_or_fail("pyright or node is missing: pip install pyright, and install node")
    configuration = program.parent / "pyrightconfig.json"
    python = environment.folder / "bin" / "python"
    configuration.write_text(json.dumps({"typeCheckingMode": "strict"}))
    said = run(
        [
            sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python),
            "--project", str(configuration), str(program),
        ],
        program.parent,
    )  # fmt: skip
    if not said.startswith("{"):
        said = said[said.index("\n{") :]  # it says first that it brings itself
    found = json.loads(said)["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1: one["message"] for one in found if one["severity"] == "error"}


BOTH = pytest.mark.parametrize("check", [by_mypy, by_pyright], ids=["mypy", "pyright"])


@BOTH
@pytest.mark.parametrize("text", [OF_ASYNCIO, SYNCHRONOUS], ids=["asyncio", "synchronous"])
def test_a_right_program_passes(
    installed: tryout.Environment,
    tmp_path: Path,
    text: str,
    check: Callable[[tryout.Environment, Path], dict[int, str]],
) -> None:
    program = tmp_path / "program.py"
    program.write_text(text)
    assert check(installed, program) == {}


@BOTH
@pytest.mark.parametrize("text", [WRONG_OF_ASYNCIO, WRONG_SYNCHRONOUS], ids=["asyncio", "synchronous"])
def test_each_wrong_line_is_refused(
    installed: tryout.Environment,
    tmp_path: Path,
    text: str,
    check: Callable[[tryout.Environment, Path], dict[int, str]],
) -> None:
    program = tmp_path / "program.py"
    program.write_text(text)
    wrong = {number for number, line in enumerate(text.split("\n"), 1) if line.endswith("# refused")}
    found = check(installed, program)
    assert set(found) == wrong, found
