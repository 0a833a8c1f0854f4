"""The small text files of a log directory: Kafka's contents, round trips, and damage."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.storage.checkpoints import (
    CheckpointDamagedError,
    MetaProperties,
    OffsetCheckpoint,
    format_id,
    parse_id,
    read_meta_properties,
    read_topic_id,
    take_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
    write_topic_id,
)
from odradek.storage.epochs import LeaderEpochs
from odradek.storage.files import SystemDisk
from tests.support.disk import SimulatedDisk

DISK = SystemDisk()


def test_offsets_are_written_as_kafka_does(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint = OffsetCheckpoint(disk=DISK, path=str(path))
    assert checkpoint.read() == {}
    offsets = {TopicPartition("a", 0): 5, TopicPartition("b.c_d-e", 12): 2**62}
    checkpoint.write(offsets)
    assert path.read_bytes() == b"0\n2\na 0 5\nb.c_d-e 12 4611686018427387904\n"
    assert checkpoint.read() == offsets
    checkpoint.write({})
    assert path.read_bytes() == b"0\n0\n"
    assert checkpoint.read() == {}
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0",
        b"9\n0\n",
        b"0\nx\n",
        b"0\n-1\n",
        b"0\n1\n",
        b"0\n0\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 1 2\n",
        b"0\n1\na b 1\n",
        b"0\n1\na 0 12",
        b"\xff\n0\n",
    ],
)
def test_a_damaged_checkpoint_is_said_to_be_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log-start-offset-checkpoint"
    path.write_bytes(content)
    with pytest.raises(CheckpointDamagedError, match="log-start-offset-checkpoint") as raised:
        OffsetCheckpoint(disk=DISK, path=str(path)).read()
    assert isinstance(raised.value, KafkaStorageError)


@pytest.mark.parametrize("version", [0, 1])
def test_meta_properties_are_read_back(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "meta.properties")
    assert read_meta_properties(DISK, path) is None
    written = MetaProperties(
        cluster_id="9LqWQ7tzQk2rGNFJ7CwBSg", node_id=3, directory_id="AAAAAAAAAAAAAAAAAAAABQ", version=version
    )
    write_meta_properties(DISK, path, written)
    assert read_meta_properties(DISK, path) == written


def test_meta_properties_of_kafka_are_read(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text(
        "#\n#Thu Nov 20 10:00:00 UTC 2025\ncluster.id=abc\\:d\ndirectory.id=xyz\nnode.id=1\nversion=1\n"
    )
    assert read_meta_properties(DISK, str(path)) == MetaProperties(
        cluster_id="abc:d", node_id=1, directory_id="xyz", version=1
    )
    path.write_text("#comment\n\nbroker.id=7\nversion=0\ncluster.id=old\n")
    assert read_meta_properties(DISK, str(path)) == MetaProperties(
        cluster_id="old", node_id=7, directory_id="", version=0
    )


@pytest.mark.parametrize("content", ["version=2\nnode.id=1\n", "version=x\n", "version=1\nnode.id=one\n"])
def test_damaged_meta_properties_are_said_to_be_so(tmp_path: Path, content: str) -> None:
    path = tmp_path / "meta.properties"
    path.write_text(content)
    with pytest.raises(CheckpointDamagedError, match=r"meta\.properties"):
        read_meta_properties(DISK, str(path))


@given(st.uuids())
def test_ids_are_twenty_two_characters(value: uuid.UUID) -> None:
    text = format_id(value)
    assert len(text) == 22
    assert parse_id(text) == value


def test_a_known_id() -> None:
    assert format_id(uuid.UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    for other in ("", "AAAA", "AAAAAAAAAAAAAAAAAAAAA*", "A" * 23):
        with pytest.raises(ValueError, match=r"."):
            parse_id(other)


def test_topic_id_file_is_kafkas(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    assert read_topic_id(DISK, str(path)) is None
    topic_id = uuid.UUID(int=1)
    write_topic_id(DISK, str(path), topic_id)
    assert path.read_bytes() == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    assert read_topic_id(DISK, str(path)) == topic_id


@pytest.mark.parametrize(
    "content", [b"", b"version: 1\ntopic_id: x", b"version: 0\n", b"version: 0\ntopic_id: x"]
)
def test_a_damaged_topic_id_file_is_said_to_be_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "partition.metadata"
    path.write_bytes(content)
    with pytest.raises(CheckpointDamagedError, match=r"partition\.metadata"):
        read_topic_id(DISK, str(path))


def test_the_first_part_of_any_of_these_files_is_damaged(tmp_path: Path) -> None:
    """A power failure leaves one where a file was not synced; no number in it may read as a smaller one."""
    offsets, epochs = tmp_path / "offsets", tmp_path / "leader-epoch-checkpoint"
    properties, topic_id = tmp_path / "meta.properties", tmp_path / "partition.metadata"
    OffsetCheckpoint(disk=DISK, path=str(offsets)).write(
        {TopicPartition("a", 0): 55, TopicPartition("b", 1): 66}
    )
    written = LeaderEpochs(disk=DISK, path=str(epochs))
    written.assign(epoch=0, start_offset=0)
    written.assign(epoch=12, start_offset=30)
    write_meta_properties(DISK, str(properties), MetaProperties(cluster_id="c", node_id=12, directory_id="d"))
    write_topic_id(DISK, str(topic_id), uuid.UUID(int=1))
    readers: dict[Path, Callable[[], object]] = {
        offsets: OffsetCheckpoint(disk=DISK, path=str(offsets)).read,
        epochs: lambda: LeaderEpochs.load(disk=DISK, path=str(epochs)),
        properties: lambda: read_meta_properties(DISK, str(properties)),
        topic_id: lambda: read_topic_id(DISK, str(topic_id)),
    }
    for path, read in readers.items():
        read()
        whole = path.read_bytes()
        # What meta.properties means is whole without the end of its last line.
        for length in range(len(whole) - (path == properties)):
            path.write_bytes(whole[:length])
            with pytest.raises(CheckpointDamagedError, match=path.name):
                read()


def test_the_clean_shutdown_marker_counts_once(tmp_path: Path) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    assert not take_clean_shutdown(DISK, str(path))
    write_clean_shutdown(DISK, str(path), broker_epoch=12)
    assert json.loads(path.read_bytes()) == {"version": 0, "brokerEpoch": 12}
    assert take_clean_shutdown(DISK, str(path))
    assert not path.exists()
    assert not take_clean_shutdown(DISK, str(path))


def test_a_marker_that_was_taken_stays_away_after_a_power_failure() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/logs")
    write_clean_shutdown(disk, "/logs/.kafka_cleanshutdown")
    assert take_clean_shutdown(disk, "/logs/.kafka_cleanshutdown")
    disk.crash()
    assert not disk.exists("/logs/.kafka_cleanshutdown")
