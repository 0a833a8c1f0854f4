"""Reads settings, protection and the next producer id from the metadata log that Apache Kafka (KRaft) leaves.

A topic without its cleanup.policy would lose records after its directory is adopted. The protection (access control
lists, users, quotas) is not in force in this broker, and its owner must know. The records of the log:

    frame     varint 1, varint kind, varint version, then the fields
    2         topic               name compact string, id 16 bytes
    4         setting             kind of resource int8, resource, key compact strings, value compact nullable string
    9         topic is gone       id 16 bytes
    11, 22    SCRAM user          name compact string, mechanism int8; gone: the same
    14        client's quota      entities (type, nullable name), key compact string, value float64, is removed bool
    15        producer ids        broker int32, its epoch int64, next producer id int64
    18, 19    access control      id 16 bytes; gone: the same

A snapshot (`OFFSET-EPOCH.checkpoint`) holds all below its offset; segments (`OFFSET.log`) hold the rest. The
format is that of Kafka's metadata records (KIP-631, KIP-630). Left out: delegation tokens, which expire.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odradek.foundation.errors import CorruptRecord, InvalidRequest
from odradek.foundation.protection import missing_protection
from odradek.foundation.settings import find_setting
from odradek.log.files import Disk
from odradek.protocol.varint import read_unsigned_varint
from odradek.records.batch import split
from odradek.records.record import records

logger = logging.getLogger(__name__)

DIRECTORY: Final = "__cluster_metadata-0"

_FRAME: Final = 1
_TOPIC: Final = 2
_SETTING: Final = 4
_TOPIC_GONE: Final = 9
_USER: Final = 11
_QUOTA: Final = 14
_PRODUCER_IDS: Final = 15
_ACL: Final = 18
_ACL_GONE: Final = 19
_USER_GONE: Final = 22
_OF_TOPIC: Final = 2
_OF_BROKER: Final = 4
_ID_BYTES: Final = 16
_FLOAT64_BYTES: Final = 8
_BROKER_AND_EPOCH_BYTES: Final = 12
_INT64_BYTES: Final = 8


class KraftMetadata:
    """The metadata of the records replayed up to now: settings of topics, the cluster's protection, producer ids."""

    def __init__(self) -> None:
        self.next_producer_id = 0
        """All producer ids from here on were never allocated."""
        self._names: dict[bytes, str] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self._acls: set[bytes] = set()
        self._users: set[tuple[str | None, int]] = set()
        self._quotas: set[bytes] = set()
        self._broker_settings: dict[tuple[str | None, str], str] = {}

    @property
    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of every topic that has any, by its name."""
        return {name: settings for name, settings in self._settings.items() if settings}

    @property
    def protection(self) -> Sequence[str]:
        """The cluster's protection that is not in force here, one phrase each; empty if there was none."""
        counted = (
            (len(self._acls), "access control entry", "access control entries"),
            (len(self._users), "SCRAM user", "SCRAM users"),
            (len(self._quotas), "quota of a client", "quotas of clients"),
        )
        found = [f"{count} {one if count == 1 else more}" for count, one, more in counted if count]
        keys = {
            key
            for (_, key), text in self._broker_settings.items()
            if missing_protection(key, text, find_setting) is not None
        }
        return [*found, *(f"the setting {key}" for key in sorted(keys))]

    def replay(self, value: bytes) -> None:
        """Apply one record. Raises InvalidRequest when it cannot be read."""
        view = memoryview(value)
        frame, position = read_unsigned_varint(view, 0)
        kind, position = read_unsigned_varint(view, position)
        _, position = read_unsigned_varint(view, position)
        if frame != _FRAME:
            raise InvalidRequest(f"a record of the metadata log has the frame version {frame}; 1 is known")
        if kind == _TOPIC:
            name, position = _text(view, position)
            self._names[bytes(view[position : position + _ID_BYTES])] = name or ""
        elif kind == _TOPIC_GONE:
            gone = self._names.pop(bytes(view[position : position + _ID_BYTES]), None)
            if gone is not None:
                self._settings.pop(gone, None)
        elif kind == _SETTING and view[position] in (_OF_TOPIC, _OF_BROKER):
            of_topic = view[position] == _OF_TOPIC
            resource, position = _text(view, position + 1)
            key, position = _text(view, position)
            text, position = _text(view, position)
            if of_topic:
                self._set(resource or "", key or "", text)
            elif text is None:
                self._broker_settings.pop((resource, key or ""), None)
            else:
                self._broker_settings[resource, key or ""] = text
        elif kind in (_ACL, _ACL_GONE):
            acl = bytes(view[position : position + _ID_BYTES])
            (self._acls.add if kind == _ACL else self._acls.discard)(acl)
        elif kind in (_USER, _USER_GONE):
            name, position = _text(view, position)
            (self._users.add if kind == _USER else self._users.discard)((name, view[position]))
        elif kind == _PRODUCER_IDS:
            begin = position + _BROKER_AND_EPOCH_BYTES
            allocated = view[begin : begin + _INT64_BYTES]
            if len(allocated) < _INT64_BYTES:
                raise InvalidRequest("a record of producer ids in the metadata log is truncated")
            self.next_producer_id = max(self.next_producer_id, int.from_bytes(allocated, "big", signed=True))
        elif kind == _QUOTA:
            end = _end_of_quota_key(view, position)
            is_removed = bool(view[end + _FLOAT64_BYTES])
            (self._quotas.discard if is_removed else self._quotas.add)(bytes(view[position:end]))

    def _set(self, topic: str, key: str, text: str | None) -> None:
        settings = self._settings.setdefault(topic, {})
        if text is None:
            settings.pop(key, None)
        else:
            settings[key] = text


def _text(view: memoryview, position: int) -> tuple[str | None, int]:
    """A compact nullable string and the position after it."""
    length, position = read_unsigned_varint(view, position)
    if length == 0:
        return None, position
    end = position + length - 1
    if end > len(view):
        raise InvalidRequest(f"a text of {length - 1} bytes in the metadata log is truncated")
    return str(view[position:end], "utf-8"), end


def _end_of_quota_key(view: memoryview, position: int) -> int:
    """The position after a quota's entities and key, which together name it."""
    entities, position = read_unsigned_varint(view, position)
    for _ in range(entities - 1):
        _, position = _text(view, position)
        _, position = _text(view, position)
        tags, position = read_unsigned_varint(view, position)
        if tags:
            raise InvalidRequest("a quota in the metadata log has tagged fields, and none are known")
    return _text(view, position)[1]


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
