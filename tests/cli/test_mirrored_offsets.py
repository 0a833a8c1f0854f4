"""`groups reset-offsets --from-mirror`: groups of another cluster continue where its mirror says."""

from __future__ import annotations

import asyncio

import pytest

from odradek.cli.exit_codes import ExitCode
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.foundation.ids import TopicPartition
from odradek.mirror.formats import Checkpoint, checkpoint_key, checkpoint_value
from tests.cli.conftest import Shell
from tests.cli.test_group_offsets import offsets

pytestmark = pytest.mark.integration


def write_checkpoints(bootstrap: str, source: str, checkpoints: list[Checkpoint]) -> None:
    async def story() -> None:
        topic = f"{source}.checkpoints.internal"
        async with Client(bootstrap) as client:
            await TopicAdmin(client).create(topic, partitions=1, configs={"cleanup.policy": "compact"})
            async with Producer(client) as producer:
                await producer.send(topic, b"another program's", key=b"k", partition=0)
                for one in checkpoints:
                    await producer.send(topic, checkpoint_value(one), key=checkpoint_key(one), partition=0)

    asyncio.run(story())


def test_offsets_come_from_the_newest_checkpoints(shell: Shell, bootstrap: str, unique: str) -> None:
    topic = f"{unique}.orders"
    shell.run("topics", "create", topic, "-p", "2")
    for partition in range(2):
        shell.run("produce", topic, "--partition", str(partition), input="a\nb\nc\nd\n")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    write_checkpoints(
        bootstrap,
        unique,
        [
            Checkpoint(unique, first, 7, 1, ""),
            Checkpoint(unique, second, 9, 2, ""),
            Checkpoint(unique, first, 8, 3, "newer"),
            Checkpoint("other", first, 8, 4, ""),
            Checkpoint(unique, TopicPartition(f"{unique}.deleted", 0), 8, 3, ""),
        ],
    )
    arguments = ("groups", "reset-offsets", unique, "--from-mirror", unique)
    planned = shell.run(*arguments)
    assert "--execute" in planned + shell.error
    shell.run(*arguments, "--execute")
    assert offsets(shell, unique) == {0: 3, 1: 2}
    only = f"{unique}-only"
    write = (
        "groups",
        "reset-offsets",
        "other",
        "--from-mirror",
        f"{unique}.checkpoints.internal",
        "-t",
        f"{topic}:0",
    )
    shell.run(*write, "--execute")
    assert offsets(shell, "other")[0] == 4
    shell.run("groups", "reset-offsets", only, "--from-mirror", unique, code=ExitCode.NOT_FOUND)
    assert f"no offsets of group '{only}'" in shell.error and f"but of other, {unique}" in shell.error


def test_a_cluster_that_is_not_mirrored_is_named(shell: Shell, unique: str) -> None:
    shell.run("groups", "reset-offsets", "g", "--from-mirror", unique, code=ExitCode.NOT_FOUND)
    assert f"there is no topic '{unique}.checkpoints.internal'" in shell.error
