"""Reads the files of a partition without the broker, and finds damage in them.

    .log             batches: size, magic, CRC, offsets that rise
    .index           each entry must name a batch of the segment at its position
    .timeindex       timestamps and offsets that rise; no timestamp above those in the log
    .txnindex        whole entries
    .snapshot        its own CRC

Nothing is written and no lock is taken; a partition that a broker writes to may show an unfinished last batch.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from odradek.foundation.errors import CorruptRecord, OdradekError
from odradek.storage.index import OFFSET_ENTRY, TIME_ENTRY
from odradek.storage.producer_snapshots import decode_snapshot
from odradek.wire.records.batch import LOG_OVERHEAD_BYTES, MAGIC, BatchHeader, verify_header
from odradek.wire.records.legacy import magic_at, messages

_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
LOG_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


class NoLogFileError(OdradekError):
    """A path that is neither a file of a log nor a directory with such files."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One damage. `position` is a byte in the file."""

    path: str
    position: int
    reason: str


@dataclass(slots=True)
class SegmentReport:
    """One .log file, read through."""

    path: str
    base_offset: int
    size_bytes: int
    batches: int = 0
    records: int = 0
    last_offset: int = -1
    max_timestamp_ms: int = -1
    damage: list[Damage] = field(default_factory=list)
    # The batches' last offsets by position, which indexes are checked against.
    last_offset_at: dict[int, int] = field(default_factory=dict)


OnBatch = Callable[[int, BatchHeader, memoryview], None]


def find_files(paths: tuple[str, ...]) -> list[str]:
    """The log's files at these paths, directories searched through, in order. Raises NoLogFileError."""
    found: list[str] = []
    for path in paths:
        if not Path(path).exists():
            raise FileNotFoundError(f"{path}: there is no such file or directory")
        if Path(path).is_file():
            if not path.endswith(LOG_SUFFIXES):
                raise NoLogFileError(f"{path} is not a file of a log; those end in {', '.join(LOG_SUFFIXES)}")
            found.append(path)
            continue
        inside = sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(path)
            for name in names
            if name.endswith(LOG_SUFFIXES)
        )
        if not inside:
            raise NoLogFileError(f"{path} holds no file of a log; give a partition's directory or log.dirs")
        found.extend(inside)
    return list(dict.fromkeys(found))


def read_segment(path: str, *, on_batch: OnBatch | None = None) -> SegmentReport:
    """Read a .log file to its end or to its first bad batch. Raises OSError."""
    size = Path(path).stat().st_size
    name = Path(path).name.split(".")[0]
    base_offset = int(name) if name.isdigit() else 0
    report = SegmentReport(path=path, base_offset=base_offset, size_bytes=size)
    if size == 0:
        return report
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        data = memoryview(mapped)
        try:
            _walk(data, report, on_batch)
        finally:
            data.release()
    return report


def _walk(data: memoryview, report: SegmentReport, on_batch: OnBatch | None) -> None:
    position = 0
    while position < len(data):
        try:
            if magic_at(data, position) < MAGIC:
                position = _walk_legacy(data, position, report)
                continue
            with data[position:] as rest:
                header = verify_header(rest)
            _check_offsets(header, report)
        except CorruptRecord as failure:
            report.damage.append(Damage(report.path, position, str(failure)))
            return
        end = position + header.size_bytes
        if on_batch is not None:
            with data[position:end] as batch:
                on_batch(position, header, batch)
        report.batches += 1
        report.records += header.record_count
        report.last_offset = header.last_offset
        report.max_timestamp_ms = max(report.max_timestamp_ms, header.max_timestamp_ms)
        report.last_offset_at[position] = header.last_offset
        position = end


def _check_offsets(header: BatchHeader, report: SegmentReport) -> None:
    if header.base_offset <= report.last_offset or header.base_offset < report.base_offset:
        raise CorruptRecord(
            f"the batch begins at offset {header.base_offset}, which does not follow {report.last_offset} "
            f"in a segment from {report.base_offset} on"
        )
    if header.last_offset_delta < 0 or header.record_count > header.last_offset_delta + 1:
        raise CorruptRecord(
            f"the batch at offset {header.base_offset} has {header.record_count} records "
            f"in {header.last_offset_delta + 1} offsets"
        )


def _walk_legacy(data: memoryview, position: int, report: SegmentReport) -> int:
    """Step over one message of magic 0 or 1, counting what is inside."""
    size = LOG_OVERHEAD_BYTES + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
    if size <= LOG_OVERHEAD_BYTES or position + size > len(data):
        raise CorruptRecord(f"the message at byte {position} gives its size as {size} bytes")
    for message in messages(bytes(data[position : position + size])):
        report.records += 1
        report.last_offset = message.offset
        report.max_timestamp_ms = max(report.max_timestamp_ms, message.timestamp_ms)
    report.batches += 1
    report.last_offset_at[position] = report.last_offset
    return position + size


# --- the files beside the log ----------------------------------------------------------------------------------------


def check_offset_index(path: str, segment: SegmentReport | None) -> tuple[int, list[Damage]]:
    """(entries, damage) of an .index. Without its segment only the order of its entries is checked."""
    damage: list[Damage] = []
    last = (-1, -1)
    count = 0
    for at, (relative, position) in _entries(path, OFFSET_ENTRY, damage):
        if relative == 0 and position == 0 and count:
            break  # Kafka allocates an index whole and trims it when the segment is closed: unused space
        if count and (relative <= last[0] or position <= last[1]):
            damage.append(Damage(path, at, f"the entry ({relative}, {position}) does not rise above {last}"))
            break
        if segment is not None and (relative or position):
            held, indexed = segment.last_offset_at.get(position), segment.base_offset + relative
            if held != indexed:
                there = "no batch begins there" if held is None else f"the batch there ends at offset {held}"
                damage.append(Damage(path, at, f"offset {indexed} at byte {position}: {there}"))
        last = (relative, position)
        count += 1
    return count, damage


def check_time_index(path: str, segment: SegmentReport | None) -> tuple[int, list[Damage]]:
    """(entries, damage) of a .timeindex."""
    damage: list[Damage] = []
    last = (-1, -1)
    count = 0
    for at, (timestamp_ms, relative) in _entries(path, TIME_ENTRY, damage):
        if timestamp_ms == 0 and relative == 0 and count:
            break
        if count and (timestamp_ms < last[0] or relative < last[1]):
            damage.append(Damage(path, at, f"the entry ({timestamp_ms}, {relative}) falls below {last}"))
            break
        if segment is not None and timestamp_ms > max(segment.max_timestamp_ms, 0):
            damage.append(Damage(path, at, f"the time {timestamp_ms} is above all those in the log"))
        last = (timestamp_ms, relative)
        count += 1
    return count, damage


def check_transaction_index(path: str) -> tuple[list[dict[str, int]], list[Damage]]:
    """(entries, damage) of a .txnindex."""
    damage: list[Damage] = []
    entries: list[dict[str, int]] = []
    for at, (version, producer_id, first, last, stable) in _entries(path, _TRANSACTION_ENTRY, damage):
        if version != 0 or last < first:
            damage.append(Damage(path, at, f"version {version}, offsets {first} to {last}"))
            break
        entries.append(
            {
                "producer_id": producer_id,
                "first_offset": first,
                "last_offset": last,
                "last_stable_offset": stable,
            }
        )
    return entries, damage


def check_snapshot(path: str) -> tuple[list[dict[str, int]], list[Damage]]:
    """(producers, damage) of a .snapshot."""
    data = Path(path).read_bytes()
    try:
        return [entry._asdict() for entry in decode_snapshot(data, name=path)], []
    except OdradekError as failure:
        return [], [Damage(path, 0, str(failure))]


def _entries(path: str, entry: struct.Struct, damage: list[Damage]) -> Iterator[tuple[int, tuple[int, ...]]]:
    data = Path(path).read_bytes()
    whole = len(data) // entry.size * entry.size
    for position in range(0, whole, entry.size):
        yield position, entry.unpack_from(data, position)
    if whole != len(data):
        damage.append(Damage(path, whole, f"{len(data) - whole} bytes remain after the last whole entry"))
