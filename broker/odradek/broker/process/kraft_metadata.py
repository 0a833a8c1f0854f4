"""Reads settings, rights, users and the next producer id from the metadata log that Apache Kafka (KRaft) leaves.

A topic without its cleanup.policy would lose records after its directory is adopted. Settings of brokers that protect
Kafka are not in force in this broker, and its owner must know. The records of the log:

    frame     varint 1, varint kind, varint version, then the fields
    2         topic               name compact string, id 16 bytes
    4         setting             kind of resource int8, resource, key compact strings, value compact nullable string
    9         topic is gone       id 16 bytes
    15        producer ids        broker int32, its epoch int64, next producer id int64
    11, 14, 18, 19, 22            users, quotas and access control lists: `kraft_access`

A snapshot (`OFFSET-EPOCH.checkpoint`) holds all below its offset; segments (`OFFSET.log`) hold the rest. The
format is that of Kafka's metadata records (KIP-631, KIP-630). Left out: delegation tokens, which expire.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.broker.process.kraft_access import KINDS as ACCESS_KINDS
from odradek.broker.process.kraft_access import KraftAccess, text_at
from odradek.foundation.errors import CorruptRecord, InvalidRequest
from odradek.foundation.settings.broker_settings import find_setting
from odradek.foundation.settings.protection import missing_protection
from odradek.storage.files import Disk
from odradek.wire.protocol.varint import read_unsigned_varint
from odradek.wire.records.batch import split
from odradek.wire.records.record import records

logger = logging.getLogger(__name__)

DIRECTORY: Final = "__cluster_metadata-0"

_FRAME: Final = 1
_TOPIC: Final = 2
_SETTING: Final = 4
_TOPIC_GONE: Final = 9
_PRODUCER_IDS: Final = 15
_OF_TOPIC: Final = 2
_OF_BROKER: Final = 4
_ID_BYTES: Final = 16
_BROKER_AND_EPOCH_BYTES: Final = 12
_INT64_BYTES: Final = 8


class KraftMetadata:
    """The metadata of the records replayed up to now: settings, users, quotas and ACLs, producer ids."""

    def __init__(self) -> None:
        self.next_producer_id = 0
        """All producer ids from here on were never allocated."""
        self._names: dict[bytes, str] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self.access = KraftAccess()
        """Users, quotas and access control lists."""
        self._broker_settings: dict[tuple[str | None, str], str] = {}

    @property
    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of every topic that has any, by its name."""
        return {name: settings for name, settings in self._settings.items() if settings}

    @property
    def protection(self) -> Sequence[str]:
        """The cluster's protection that is not in force here, one phrase each; empty if there was none."""
        keys = {
            key
            for (_, key), text in self._broker_settings.items()
            if missing_protection(key, text, find_setting) is not None
        }
        return [f"the setting {key}" for key in sorted(keys)]

    def replay(self, value: bytes) -> None:
        """Apply one record. Raises InvalidRequest when it cannot be read."""
        view = memoryview(value)
        frame, position = read_unsigned_varint(view, 0)
        kind, position = read_unsigned_varint(view, position)
        _, position = read_unsigned_varint(view, position)
        if frame != _FRAME:
            raise InvalidRequest(f"a record of the metadata log has the frame version {frame}; 1 is known")
        if kind == _TOPIC:
            name, position = text_at(view, position)
            self._names[bytes(view[position : position + _ID_BYTES])] = name or ""
        elif kind == _TOPIC_GONE:
            gone = self._names.pop(bytes(view[position : position + _ID_BYTES]), None)
            if gone is not None:
                self._settings.pop(gone, None)
        elif kind == _SETTING and view[position] in (_OF_TOPIC, _OF_BROKER):
            of_topic = view[position] == _OF_TOPIC
            resource, position = text_at(view, position + 1)
            key, position = text_at(view, position)
            text, position = text_at(view, position)
            if of_topic:
                self._set(resource or "", key or "", text)
            elif text is None:
                self._broker_settings.pop((resource, key or ""), None)
            else:
                self._broker_settings[resource, key or ""] = text
        elif kind in ACCESS_KINDS:
            self.access.replay(kind, view, position)
        elif kind == _PRODUCER_IDS:
            begin = position + _BROKER_AND_EPOCH_BYTES
            allocated = view[begin : begin + _INT64_BYTES]
            if len(allocated) < _INT64_BYTES:
                raise InvalidRequest("a record of producer ids in the metadata log is truncated")
            self.next_producer_id = max(self.next_producer_id, int.from_bytes(allocated, "big", signed=True))

    def _set(self, topic: str, key: str, text: str | None) -> None:
        settings = self._settings.setdefault(topic, {})
        if text is None:
            settings.pop(key, None)
        else:
            settings[key] = text


def read_kraft_metadata(disk: Disk, log_directories: Iterable[str]) -> KraftMetadata:
    """The content of Kafka's metadata log; empty where there is none.

    Records that cannot be read are logged and left out. Raises OSError.
    """
    for directory in log_directories:
        path = f"{directory}/{DIRECTORY}"
        if disk.exists(path):
            return _read(disk, path)
    return KraftMetadata()


def _read(disk: Disk, path: str) -> KraftMetadata:
    names = sorted(entry.name for entry in disk.entries(path))
    snapshots = [name for name in names if name.endswith(".checkpoint") and name[:20].isdigit()]
    metadata = KraftMetadata()
    begins_at = 0
    if snapshots:
        begins_at = int(snapshots[-1][:20])
        _replay(
            metadata, disk.read(f"{path}/{snapshots[-1]}"), from_offset=0, where=f"{path}/{snapshots[-1]}"
        )
    for name in names:
        if name.endswith(".log"):
            _replay(metadata, disk.read(f"{path}/{name}"), from_offset=begins_at, where=f"{path}/{name}")
    return metadata


def _replay(metadata: KraftMetadata, data: bytes, *, from_offset: int, where: str) -> None:
    try:
        for batch in split(data):
            if batch.is_control or batch.last_offset < from_offset:
                continue
            for record in records(batch):
                if record.offset >= from_offset and record.value is not None:
                    metadata.replay(record.value)
    except (CorruptRecord, InvalidRequest, UnicodeDecodeError, IndexError) as error:
        # The log may end like this after a crash; the records before it were replayed.
        logger.warning("%s is read up to where it is damaged: %s", where, error)
