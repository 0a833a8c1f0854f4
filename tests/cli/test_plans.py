"""Plans in files: what is accepted, and the errors for other files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.brokers.moves import plan_document, read_plan
from odradek.foundation.ids import TopicPartition

ROW: dict[str, Any] = {"topic": "t", "partition": 0, "replicas": [1, 2]}


def test_a_plan_is_read_as_it_was_written_with_or_without_a_version(tmp_path: Path) -> None:
    plan = {TopicPartition("t", 0): (1, 2), TopicPartition("u", 7): (3,)}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_document(plan)))
    assert read_plan(str(path)) == plan
    # Kafka's own tool writes the directories of the replicas, too.
    path.write_text(json.dumps({"partitions": [{**ROW, "log_dirs": ["any", "any"]}]}))
    assert read_plan(str(path)) == {TopicPartition("t", 0): (1, 2)}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xd8\x00\xff", "can't decode"),
        (b"{bad", "Expecting property name"),
        (b"[1, 2]", "no list of partitions"),
        (b'{"partitions": {}}', "no list of partitions"),
        (
            json.dumps({"version": 9, "partitions": [ROW]}).encode(),
            "its version is 9, and 1 is what is known",
        ),
        *(
            (json.dumps({"version": 1, "partitions": [row]}).encode(), "names no topic, partition and list")
            for row in (7, {}, ROW | {"replicas": "12"}, ROW | {"replicas": [True]}, ROW | {"partition": "0"})
        ),
        (b'{"partitions": []}', "has no partitions"),
        (json.dumps({"partitions": [ROW, ROW | {"replicas": [3]}]}).encode(), "names a partition twice"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_by_name(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        read_plan(str(path))
    assert str(caught.value).startswith(str(path))
