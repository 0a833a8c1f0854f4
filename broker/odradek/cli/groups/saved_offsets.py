"""Files of committed offsets: what `--save` writes and `--from-file` reads.

There are two formats. Reading distinguishes them by the first character, writing by the ending of the file's name:

    JSON            {"format": "odradek-offsets", "version": 1, "saved_at": "2026-03-01T12:00:00Z", "offsets": [
                      {"group": "billing", "topic": "orders", "partition": 0, "offset": 42,
                       "leader_epoch": 3, "metadata": ""}, …]}
                    An offset of null says that nothing was committed. leader_epoch and metadata may be missing.
    CSV (*.csv)     topic,partition,offset or group,topic,partition,offset, a line each and no header: what
                    kafka-consumer-groups.sh --export writes and its --from-file reads. It has no leader epochs, no
                    metadata, and no line for a partition without an offset.

Other keys of the JSON are ignored. A file is written as a whole (`atomic_files`) and never replaces another one.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click

from odradek.cli.shared.atomic_files import replace_file
from odradek.foundation.client_limits import SAVED_OFFSETS_BYTES_MAX

FORMAT = "odradek-offsets"
VERSION = 1
CSV_SUFFIX = ".csv"
PARTITION_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1


class SavedOffset(NamedTuple):
    """One line. `group` is None if the file names none, `offset` is None if none was committed."""

    group: str | None
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int = -1
    metadata: str = ""


def save(path: str, offsets: Sequence[SavedOffset]) -> int:
    """Write the offsets, synced before it returns. Returns the number of those that the format cannot hold.

    A file that holds the same offsets stays as it is. Raises FileExistsError for any other file, OSError.
    """
    target = Path(path)
    is_csv = target.suffix.lower() == CSV_SUFFIX
    if target.exists():
        if _is_same(path, offsets, is_csv=is_csv):
            return 0
        raise FileExistsError(f"--save {path}: the file exists already, with other offsets; name a new one")
    text = _as_csv(offsets) if is_csv else _as_json(offsets)
    try:
        replace_file(target, text.encode())
    except OSError as failure:
        raise OSError(f"--save {path}: {failure.strerror}; no offset was changed") from failure
    return sum(one.offset is None for one in offsets) if is_csv else 0


def _is_same(path: str, offsets: Sequence[SavedOffset], *, is_csv: bool) -> bool:
    try:
        there = load(path)
    except (click.UsageError, OSError):
        return False
    if not is_csv:
        return there == list(offsets)
    groups = {one.group for one in offsets}
    lines = [(one.group or next(iter(groups)), *one[1:4]) for one in there]
    return lines == [tuple(one[:4]) for one in offsets if one.offset is not None]


def _as_json(offsets: Sequence[SavedOffset]) -> str:
    document = {
        "format": FORMAT,
        "version": VERSION,
        "saved_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "offsets": [one._asdict() for one in offsets],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _as_csv(offsets: Sequence[SavedOffset]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    is_one_group = len({one.group for one in offsets}) == 1
    for one in offsets:
        if one.offset is not None:
            line = (one.topic, one.partition, one.offset)
            writer.writerow(line if is_one_group else (one.group, *line))
    return out.getvalue()


def load(path: str) -> list[SavedOffset]:
    """The offsets of a file, each partition of a group once.

    Raises FileNotFoundError, and click.UsageError naming the line or the entry that cannot be read.
    """
    text = _read(path)
    offsets = _from_json(text, path) if text.lstrip().startswith("{") else _from_csv(text, path)
    if not offsets:
        raise click.UsageError(f"--from-file {path}: it holds no offsets")
    seen: set[tuple[str | None, str, int]] = set()
    for one in offsets:
        key = one[:3]
        if key in seen:
            raise click.UsageError(f"--from-file {path}: {one.topic}-{one.partition} is in it twice")
        seen.add(key)
    return offsets


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(SAVED_OFFSETS_BYTES_MAX + 1)
    except FileNotFoundError as failure:
        raise FileNotFoundError(f"--from-file {path}: there is no such file") from failure
    except OSError as failure:
        raise click.UsageError(f"--from-file {path}: {failure.strerror}") from failure
    if len(data) > SAVED_OFFSETS_BYTES_MAX:
        raise click.UsageError(f"--from-file {path}: larger than {SAVED_OFFSETS_BYTES_MAX} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        raise click.UsageError(f"--from-file {path}: it is not UTF-8 text: {failure}") from failure


def _from_json(text: str, path: str) -> list[SavedOffset]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as failure:
        raise click.UsageError(f"--from-file {path}: it is not valid JSON: {failure}") from failure
    if document.get("format") != FORMAT or not isinstance(document.get("offsets"), list):
        raise click.UsageError(f"--from-file {path}: it is not a file of --save (no format {FORMAT!r})")
    if document.get("version") != VERSION:
        raise click.UsageError(
            f"--from-file {path}: version {document.get('version')!r} is not {VERSION}, which this odradek reads"
        )
    return [
        _check_entry(entry, f"--from-file {path}, entry {number}")
        for number, entry in enumerate(document["offsets"], start=1)
    ]


def _check_entry(entry: object, where: str) -> SavedOffset:
    if not isinstance(entry, dict):
        raise click.UsageError(f"{where}: {entry!r} is not an object")
    group, topic, metadata = entry.get("group"), entry.get("topic"), entry.get("metadata", "")
    leader_epoch = entry.get("leader_epoch", -1)
    if not (group is None or (isinstance(group, str) and group)) or not (isinstance(topic, str) and topic):
        raise click.UsageError(f"{where}: it needs a topic, and a group, as text")
    if not isinstance(metadata, str) or not _is_within(leader_epoch, -1, PARTITION_MAX):
        raise click.UsageError(f"{where}: leader_epoch is a number and metadata is text")
    partition = entry.get("partition", "")
    offset = entry.get("offset", "")
    if not _is_within(partition, 0, PARTITION_MAX):
        raise click.UsageError(f"{where}: {partition!r} is not a partition")
    if not (offset is None or _is_within(offset, 0, OFFSET_MAX)):
        raise click.UsageError(f"{where}: {offset!r} is not an offset (a number from 0, or null)")
    return SavedOffset(group, topic, int(partition), offset, int(leader_epoch), metadata)


def _is_within(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _from_csv(text: str, path: str) -> list[SavedOffset]:
    offsets: list[SavedOffset] = []
    width = 0
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            where = f"--from-file {path}, line {reader.line_num}"
            if not cells:
                continue
            width = width or len(cells)
            if len(cells) not in (3, 4) or len(cells) != width:
                raise click.UsageError(
                    f"{where}: {len(cells)} fields; write topic,partition,offset in every line, "
                    "or group,topic,partition,offset in every line"
                )
            group = cells[0] if width == 4 else None
            topic, partition, offset = (cell.strip() for cell in cells[-3:])
            if group == "" or not topic:
                raise click.UsageError(f"{where}: the name of the group or of the topic is empty")
            offsets.append(
                SavedOffset(
                    group,
                    topic,
                    _number(partition, PARTITION_MAX, f"{where}: {partition!r} is not a partition"),
                    _number(offset, OFFSET_MAX, f"{where}: {offset!r} is not an offset"),
                )
            )
    except csv.Error as failure:
        raise click.UsageError(f"--from-file {path}, line {reader.line_num}: {failure}") from failure
    return offsets


def _number(digits: str, highest: int, otherwise: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) <= highest):
        raise click.UsageError(otherwise)
    return int(digits)
