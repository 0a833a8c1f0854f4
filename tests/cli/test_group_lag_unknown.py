"""`groups describe` where partitions do not answer their ends: what is known is shown, and the rest is a dash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
