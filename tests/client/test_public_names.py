"""What `from odradek import …` gives, and that importing `odradek` alone loads none of it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import assert_type

import pytest

import odradek
import odradek.errors
from odradek import Admin, Client, Compression, Consumer, ConsumerRecord, Producer, TopicPartition
from odradek.client.errors import RETRIABLE
from odradek.wire.protocol.errors import ROWS


@pytest.mark.parametrize("name", odradek.__all__)
def test_every_name_is_there_and_listed(name: str) -> None:
    assert getattr(odradek, name) is not None
    assert name in dir(odradek)


def test_the_names_come_from_where_they_say() -> None:
    assert set(odradek._HOMES) == set(odradek.__all__) - {"__version__"}
    for name, home in odradek._HOMES.items():
        assert getattr(odradek, name) is getattr(import_module(home), name)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'odradek' has no attribute 'Prodcer'"):
        _ = odradek.Prodcer
    with pytest.raises(ImportError, match="cannot import name 'Prodcer'"):
        from odradek import Prodcer  # noqa: F401


def test_import_odradek_loads_its_version_alone() -> None:
    program = "import sys; before = set(sys.modules); import odradek; print(*set(sys.modules) - before)"
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert set(loaded) <= {"odradek", "odradek.foundation", "odradek.foundation.version"}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("module", "others"),
    [
        (
            "odradek.sync",
            ("odradek.broker", "odradek.storage", "odradek.server", "odradek.cli."),
        ),
        (
            "odradek.client.consumer.topics",
            ("odradek.sync", "odradek.client.sync", "odradek.client.own_loops"),
        ),
    ],
)
def test_a_form_loads_no_part_of_others(module: str, others: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not [name for name in done.stdout.split() if name.startswith(others)]


def test_every_error_of_a_broker_has_a_public_name() -> None:
    public = {value for value in vars(odradek.errors).values() if isinstance(value, type)}
    assert {row.kind for row in ROWS if row.kind is not None} | {*RETRIABLE} <= public


def test_what_may_be_tried_again_is_said() -> None:
    assert odradek.errors.is_retriable(odradek.errors.NotLeaderOrFollower("moved"))
    assert odradek.errors.is_retriable(odradek.errors.ClientTimeout("late"))
    assert not odradek.errors.is_retriable(odradek.errors.RecordTooLarge("large"))
    assert not odradek.errors.is_retriable(ValueError("other"))


async def checked_by_mypy(client: Client) -> None:
    """Not called: strict typing sees the classes themselves, not `object`."""
    async with Producer(client, compression="zstd") as producer, Consumer(client, "t") as consumer:
        assert_type(producer, Producer)
        assert_type((await producer.send_and_wait("t", b"v")).offset, int)
        assert_type((await (await producer.send("t", bytearray(b"v")))).partition, int)
        async for record in consumer:
            assert_type(record, ConsumerRecord)
        await consumer.seek(TopicPartition("t", 0), "earliest")
    assert_type(Admin(client).topics is None, bool)
    assert_type(Compression(4), Compression)
