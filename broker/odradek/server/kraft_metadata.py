"""The settings of topics in the metadata log that Apache Kafka (KRaft) leaves in a log directory.

A topic whose cleanup.policy was forgotten when its directory is taken over would lose what it was to keep. Only what
is needed for that is read: topics and their settings. What the log's records say, from document order:

    frame     varint 1, varint kind, varint version, then the fields
    2         topic          name compact string, id 16 bytes
    4         setting        kind of resource int8, resource, key compact strings, value compact nullable string
    9         topic is gone  id 16 bytes

A snapshot (`OFFSET-EPOCH.checkpoint`) holds all below its offset; segments (`OFFSET.log`) hold the rest. The
format is that of Kafka's metadata records (KIP-631, KIP-630). Left out: the defaults of brokers, users, quotas.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.foundation.errors import CorruptRecord, InvalidRequest
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
_OF_TOPIC: Final = 2
_ID_BYTES: Final = 16


class KraftTopics:
    """What the metadata says of topics so far: settings by name."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._settings: dict[str, dict[str, str]] = {}

    @property
    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of every topic that has some, by its name."""
        return {name: settings for name, settings in self._settings.items() if settings}

    def replay(self, value: bytes) -> None:
        """Take one record in. Raises InvalidRequest when it cannot be read."""
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
        elif kind == _SETTING and view[position] == _OF_TOPIC:
            topic, position = _text(view, position + 1)
            key, position = _text(view, position)
            text, position = _text(view, position)
            self._set(topic or "", key or "", text)

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
        raise InvalidRequest(f"a text of {length - 1} bytes in the metadata log is cut off")
    return str(view[position:end], "utf-8"), end


def read_topic_settings(disk: Disk, log_directories: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """The settings of topics that Kafka kept, by the topic's name; nothing where no metadata log lies.

    What cannot be read is left out with a line in the log. Raises OSError.
    """
    for directory in log_directories:
        path = f"{directory}/{DIRECTORY}"
        if disk.exists(path):
            return _read(disk, path).settings
    return {}


def _read(disk: Disk, path: str) -> KraftTopics:
    names = sorted(entry.name for entry in disk.entries(path))
    snapshots = [name for name in names if name.endswith(".checkpoint") and name[:20].isdigit()]
    topics = KraftTopics()
    begins_at = 0
    if snapshots:
        begins_at = int(snapshots[-1][:20])
        _replay(topics, disk.read(f"{path}/{snapshots[-1]}"), from_offset=0, where=f"{path}/{snapshots[-1]}")
    for name in names:
        if name.endswith(".log"):
            _replay(topics, disk.read(f"{path}/{name}"), from_offset=begins_at, where=f"{path}/{name}")
    return topics


def _replay(topics: KraftTopics, data: bytes, *, from_offset: int, where: str) -> None:
    try:
        for batch in split(data):
            if batch.is_control or batch.last_offset < from_offset:
                continue
            for record in records(batch):
                if record.offset >= from_offset and record.value is not None:
                    topics.replay(record.value)
    except (CorruptRecord, InvalidRequest, UnicodeDecodeError, IndexError) as error:
        # The end of the log after a crash; what stands before it has been taken in.
        logger.warning("%s is read up to where it is damaged: %s", where, error)
