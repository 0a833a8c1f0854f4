"""What is read from the files of a compacted log: its commits, and how many of them are from the part with gaps."""

from __future__ import annotations

from pathlib import Path

from odradek.broker.groups.schema import OffsetAndMetadata, encode_offset_key, encode_offset_value
from odradek.wire.records.batch import assign
from odradek.wire.records.builder import build_batch
from tests.chaos.final_logs import read_any_log, read_commits

GROUP, TOPIC = "group", "records"


def committed(*commits: tuple[str, int], base_offset: int) -> bytes:
    """A batch of commits on partition 0, each a name and a position."""
    key = encode_offset_key(GROUP, TOPIC, 0)
    records = [
        (1000 + position, key, encode_offset_value(OffsetAndMetadata(position, metadata=name)))
        for name, position in commits
    ]
    batch = build_batch(records)
    assign(batch, 0, base_offset=base_offset, leader_epoch=1)
    return bytes(batch)


def test_commits_before_the_last_gap_count_as_compacted(tmp_path: Path) -> None:
    batches = [committed(("1.1", 3), base_offset=4), committed(("1.2", 5), ("1.3", 7), base_offset=9)]
    (tmp_path / "00000000000000000000.log").write_bytes(b"".join(batches))
    found = read_commits(tmp_path)[GROUP][TOPIC, 0]
    assert found.commits == [("1.1", 3), ("1.2", 5), ("1.3", 7)]
    assert found.is_compacted
    assert found.compacted_count == 1


def test_commits_of_a_whole_log_are_not_compacted(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(committed(("1.1", 3), ("1.2", 5), base_offset=0))
    found = read_commits(tmp_path)[GROUP][TOPIC, 0]
    assert not found.is_compacted
    assert found.compacted_count == 0


def test_a_record_has_the_same_name_in_a_replica_that_lost_its_neighbours(tmp_path: Path) -> None:
    whole, compacted = tmp_path / "whole", tmp_path / "compacted"
    whole.mkdir()
    compacted.mkdir()
    (whole / "00000000000000000000.log").write_bytes(committed(("1.1", 3), ("1.2", 5), base_offset=0))
    (compacted / "00000000000000000000.log").write_bytes(committed(("1.2", 5), base_offset=1))
    assert read_any_log(whole).records[1] == read_any_log(compacted).records[0]
