"""The small text files of a log directory. Each is replaced whole: a crash leaves the old one or the new one.

- `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `replication-offset-checkpoint`: a
  version line `0`, a count, then `topic partition offset` lines.
- `meta.properties`: whose directory this is (cluster, node, directory id).
- `partition.metadata`: the topic id of a partition's directory.
- `.kafka_cleanshutdown`: there while the directory was closed cleanly and not opened since.

Names and contents are Apache Kafka's, so that either side opens the other's directories. A damaged file
raises CheckpointDamagedError: the caller knows whether it can do without.
"""

from __future__ import annotations

import base64
import json
import logging
import os.path
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.words import count
from odradek.storage.files import Disk

logger = logging.getLogger(__name__)

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
REPLICATION_FILE: Final = "replication-offset-checkpoint"
META_PROPERTIES_FILE: Final = "meta.properties"
PARTITION_METADATA_FILE: Final = "partition.metadata"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

_VERSION: Final = "0"


class CheckpointDamagedError(KafkaStorageError):
    """A small file of a log directory that cannot be understood; the message names it and what is wrong."""


def format_lines(lines: Iterable[str]) -> bytes:
    """A checkpoint file of these lines, version and count in front."""
    body = list(lines)
    return "".join(f"{line}\n" for line in (_VERSION, str(len(body)), *body)).encode()


def parse_lines(data: bytes, *, path: str) -> list[str]:
    """The lines after version and count. Raises CheckpointDamagedError when these do not fit, or the end is missing.

    A loss of power may leave the first part of a file that was not synced. Its last number then reads as another one.
    """
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CheckpointDamagedError(f"{path} is not text: {error}") from error
    if lines and not data.endswith(b"\n"):
        raise CheckpointDamagedError(f"{path} ends within a line, {lines[-1]!r}: its rest is missing")
    if len(lines) < 2:
        raise CheckpointDamagedError(
            f"{path} has {count(len(lines), 'line')}; a version and a count are due at least"
        )
    if lines[0].strip() != _VERSION:
        raise CheckpointDamagedError(f"{path} has the version {lines[0]!r}; only {_VERSION} is known")
    if not lines[1].strip().isdigit() or int(lines[1]) != len(lines) - 2:
        raise CheckpointDamagedError(f"{path} announces {lines[1]!r} entries and holds {len(lines) - 2}")
    return lines[2:]


class OffsetCheckpoint:
    """One file of offsets by partition, in one log directory."""

    def __init__(self, *, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """The offsets; empty when there is no file. Raises CheckpointDamagedError, OSError."""
        try:
            data = self._disk.read(self.path)
        except FileNotFoundError:
            return {}
        offsets: dict[TopicPartition, int] = {}
        for line in parse_lines(data, path=self.path):
            try:
                topic, partition, offset = line.split()
                offsets[TopicPartition(topic, int(partition))] = int(offset)
            except ValueError:
                raise CheckpointDamagedError(
                    f"{self.path}: {line!r} is not a topic, a partition and an offset"
                ) from None
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file, and sync it. Raises OSError."""
        lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
        self._disk.replace(self.path, format_lines(lines))


class MetaProperties(NamedTuple):
    """Whose a log directory is."""

    cluster_id: str
    """The cluster's id, 22 characters of base64; empty when the file has none."""
    node_id: int
    """The broker's id; -1 when the file has none."""
    directory_id: str = ""
    """This directory's own id; empty in directories from before Kafka 3.7."""
    version: int = 1
    """1 since Kafka's KRaft, 0 before, when the node id was written as broker.id."""


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    """The contents of `meta.properties`; None when there is no file. Raises CheckpointDamagedError, OSError."""
    try:
        data = disk.read(path)
    except FileNotFoundError:
        return None
    values: dict[str, str] = {}
    for line in data.decode("iso-8859-1").splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            key, _, value = stripped.replace("\\:", ":").replace("\\=", "=").partition("=")
            values[key.strip()] = value.strip()
    try:
        version = int(values.get("version", "0"))
        node_id = int(values.get("node.id", values.get("broker.id", "-1")))
    except ValueError as error:
        raise CheckpointDamagedError(f"{path}: version and node.id must be numbers: {error}") from error
    if version not in (0, 1):
        raise CheckpointDamagedError(f"{path} has the version {version}; 0 and 1 are known")
    missing = {"version", "cluster.id"} if version else {"version"}
    if missing := missing - values.keys():
        raise CheckpointDamagedError(
            f"{path} has no {' and no '.join(sorted(missing))}. It was damaged or written by hand. Restore it, or "
            "move it away to let this broker mark the directory as its own."
        )
    return MetaProperties(
        cluster_id=values.get("cluster.id", ""),
        node_id=node_id,
        directory_id=values.get("directory.id", ""),
        version=version,
    )


def write_meta_properties(disk: Disk, path: str, properties: MetaProperties) -> None:
    """Replace `meta.properties`. Raises OSError."""
    lines = ["#", f"cluster.id={properties.cluster_id}"]
    if properties.directory_id:
        lines.append(f"directory.id={properties.directory_id}")
    lines.append(f"{'node.id' if properties.version else 'broker.id'}={properties.node_id}")
    lines.append(f"version={properties.version}")
    disk.replace(path, "".join(f"{line}\n" for line in lines).encode("iso-8859-1"), sync=True)


def format_id(value: uuid.UUID) -> str:
    """An id as Kafka prints it: URL-safe base64 of its 16 bytes, 22 characters, no padding."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_id(text: str) -> uuid.UUID:
    """The id behind 22 characters of base64. Raises ValueError for anything else."""
    if len(text) != 22:
        raise ValueError(f"{text!r} has {len(text)} characters; an id has 22 of URL-safe base64")
    return uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))


def read_topic_id(disk: Disk, path: str, *, may_be_damaged: bool = False) -> TopicId | None:
    """The topic id in a `partition.metadata` file; None without one. Raises CheckpointDamagedError.

    With `may_be_damaged` a damaged file counts as none: a crash soon after the log was made may leave half a file.
    """
    try:
        return _parse_topic_id(disk.read(path), path)
    except FileNotFoundError:
        return None
    except CheckpointDamagedError as error:
        if not may_be_damaged:
            raise
        logger.warning("%s is damaged and rewritten: %s", path, error)
        return None


def _parse_topic_id(data: bytes, path: str) -> TopicId:
    values: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        values[key.strip()] = value.strip()
    if values.get("version") != "0":
        raise CheckpointDamagedError(f"{path} has the version {values.get('version')!r}; only 0 is known")
    try:
        return parse_id(values.get("topic_id", ""))
    except ValueError as error:
        raise CheckpointDamagedError(f"{path}: the topic id is wrong: {error}") from error


def write_topic_id(disk: Disk, path: str, topic_id: TopicId) -> None:
    """Replace a `partition.metadata` file; a flush syncs it. Raises OSError."""
    disk.replace(path, f"version: 0\ntopic_id: {format_id(topic_id)}".encode(), sync=False)


def write_clean_shutdown(disk: Disk, path: str, *, broker_epoch: int = -1) -> None:
    """Leave the marker that says: closed cleanly, nothing to recover. Raises OSError."""
    disk.replace(path, json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode(), sync=True)


def take_clean_shutdown(disk: Disk, path: str) -> bool:
    """Whether the marker was there; it is removed, so that a later crash counts. Raises OSError.

    Its removal is on the device too: a marker that reappears after a power failure would hide the loss.
    """
    if not disk.exists(path):
        return False
    disk.remove(path)
    disk.sync_directory(os.path.dirname(path))
    return True
