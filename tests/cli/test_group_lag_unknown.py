"""`groups describe` where a lag is not known: partitions that do not answer their ends, or have no committed offset."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.groups.group_details import describe_groups
from odradek.cli.groups.group_tables import print_offsets
from odradek.client.client import Client
from odradek.client.consumer.group import GroupConsumer
from odradek.testing import TestBroker
from tests.cli.conftest import Shell

pytestmark = pytest.mark.thorough


@pytest.fixture
def testing_broker(tmp_path: Path) -> Iterator[TestBroker]:
    with TestBroker(tmp_path / "broker") as broker:
        yield broker


def test_a_partition_that_does_not_tell_its_end_hides_nothing_else(testing_broker: TestBroker) -> None:
    shell = Shell(testing_broker.bootstrap)
    testing_broker.create_topic("orders")
    shell.run("groups", "reset-offsets", "g", "--topic", "orders", "--to-earliest", "--execute")
    testing_broker.fail("ListOffsets", error="NOT_LEADER_OR_FOLLOWER")
    (group,) = shell.json("groups", "describe", "g", "--timeout", "2")
    (row,) = group["partitions"]
    assert (row["committed"], row["end"], row["lag"], row["lag_seconds"]) == (0, None, None, None)
    assert group["lag"] is None
    assert "  lag unknown\n" in shell.run("groups", "describe", "g", "--timeout", "2")


def test_records_without_a_committed_offset_are_no_lag_of_zero(testing_broker: TestBroker) -> None:
    """Whether they are read depends on the consumers' auto.offset.reset."""
    shell = Shell(testing_broker.bootstrap)
    testing_broker.create_topic("orders", partitions=2)
    shell.run("produce", "orders", "-p", "0", input="a\nb\nc\n")

    async def join_and_describe() -> tuple[Any, str]:
        async with (
            Client(testing_broker.bootstrap) as client,
            GroupConsumer(client, "g", ["orders"]) as member,
        ):
            while not member.assignment:
                await member.poll_blocks(records_max=1, timeout_ms=10)
            (described,) = await describe_groups(client, ["g"])
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                print_offsets([described], is_verbose=False)
            return described, printed.getvalue()

    described, printed = asyncio.run(join_and_describe())
    assert (described["lag"], described["lag_seconds"]) == (None, None)
    assert (described["partitions_without_commit"], described["records_without_commit"]) == (2, 3)
    assert "1 member  lag unknown; 2 partitions with 3 records have no committed offset" in printed

    shell.run("groups", "reset-offsets", "g", "--topic", "orders:0", "--to-offset", "1", "--execute")
    (group,) = shell.json("groups", "describe", "g")
    assert (group["lag"], group["partitions_without_commit"]) == (2, 0)
