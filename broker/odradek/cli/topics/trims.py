"""Plans which records `topics trim` deletes from all partitions, and deletes them only with --execute."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import click

from odradek.cli.shared.output import failure_fields
from odradek.cli.shared.partition_names import find_named_partitions
from odradek.cli.shared.times import parse_moment_ms
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.results import ResourceType
from odradek.foundation.errors import OdradekError, OffsetOutOfRange, PolicyViolation
from odradek.foundation.ids import TopicPartition, by_topic

_END = -1
_FILE_EXAMPLE = '{"partitions": [{"topic": "t", "partition": 0, "offset": 3}], "version": 1}'


class TrimTarget(NamedTuple):
    """Up to where: an offset (-1: the end), a time in milliseconds since 1970, or offsets by partition."""

    offset: int | None = None
    timestamp_ms: int | None = None
    by_partition: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True)
class Trim:
    """One partition: its first offset before and after, and its end. `records` counts offsets, which may have gaps."""

    topic: str
    partition: int
    first: int
    new_first: int
    end: int
    error: OdradekError | None = None

    @property
    def records(self) -> int:
        """The number of deleted records."""
        return 0 if self.error is not None else self.new_first - self.first

    def document(self) -> dict[str, object]:
        """The JSON object; it has the keys of an error only if there is one."""
        fields: dict[str, object] = {
            "topic": self.topic,
            "partition": self.partition,
            "first_offset": self.first,
            "new_first_offset": self.new_first if self.error is None else self.first,
            "next_offset": self.end,
            "records": self.records,
        }
        if self.error is not None:
            fields |= failure_fields(self.error)
        return fields


def parse_target(
    names: Sequence[str],
    *,
    to_offset: int | None,
    to_datetime: str | None,
    to_latest: bool,
    from_file: str | None,
) -> TrimTarget:
    """The one of the options that was given. Raises click.UsageError, and the errors of `read_offsets`."""
    given = [to_offset is not None, to_datetime is not None, to_latest, from_file is not None]
    if sum(given) != 1:
        raise click.UsageError(
            "give the end with one of --to-offset, --to-datetime, --to-latest, --from-file"
        )
    if (from_file is None) != bool(names):
        raise click.UsageError("name at least one topic, or give --from-file, which names them itself")
    if from_file is not None:
        return TrimTarget(by_partition=read_offsets(from_file))
    if to_datetime is not None:
        try:
            return TrimTarget(timestamp_ms=parse_moment_ms(to_datetime, now_ms=time.time_ns() // 1_000_000))
        except ValueError as failure:
            raise click.BadParameter(str(failure), param_hint="--to-datetime") from failure
    return TrimTarget(offset=_END if to_latest else to_offset)


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """The offsets in a file of kafka-delete-records. Raises FileNotFoundError, and ValueError with the mistake."""
    try:
        with click.open_file(path) as file:
            return _offsets(json.load(file))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: there is no such file") from None
    except (ValueError, OSError) as failure:
        raise ValueError(f"{path} cannot be read ({failure}); it looks like {_FILE_EXAMPLE}") from failure


def _offsets(document: object) -> dict[TopicPartition, int]:
    rows = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(rows, list) or not rows:
        raise ValueError("it has no list of partitions")
    if document.get("version", 1) != 1:
        raise ValueError(f"its version is {document['version']}, and 1 is what is known")
    found: dict[TopicPartition, int] = {}
    for row in rows:
        match row:
            # A bool is an int to Python, not to JSON.
            case {"topic": str(topic), "partition": int(partition), "offset": int(offset)} if not (
                isinstance(partition, bool) or isinstance(offset, bool)
            ):
                key = TopicPartition(topic, partition)
            case _:
                raise ValueError(f"{json.dumps(row)} does not name a topic, a partition and an offset")
        if key in found:
            raise ValueError(f"it names the partition {key} twice")
        found[key] = offset
    return found


async def plan_trims(client: Client, names: Sequence[str], target: TrimTarget) -> list[Trim]:
    """The records that each partition would lose. Raises UnknownTopicOrPartition, OffsetOutOfRange past a high
    watermark, and PolicyViolation for a topic that is only compacted. Then no record of any partition may be deleted.
    """
    if target.by_partition is not None:
        names = [
            f"{topic}:{','.join(map(str, numbers))}"
            for topic, numbers in by_topic(sorted(target.by_partition)).items()
        ]
    keys = await find_named_partitions(client, names)
    await _require_delete_policy(client, sorted({key.topic for key in keys}))
    logs = LogAdmin(client)
    first = await logs.offsets_at(keys, EARLIEST)
    end = await logs.offsets_at(keys, LATEST)
    at_time: Mapping[TopicPartition, int] = {}
    if target.timestamp_ms is not None:
        at_time = await logs.offsets_at(keys, target.timestamp_ms)
    trims: list[Trim] = []
    for key in keys:
        high_watermark = end[key]
        if target.by_partition is not None:
            wanted = target.by_partition[key]
        elif target.timestamp_ms is not None:
            wanted = at_time[key]  # -1 where every record is older
        else:
            wanted = _END if target.offset is None else target.offset
        if wanted < _END or wanted > high_watermark:
            raise OffsetOutOfRange(
                f"partition {key} has records up to its high watermark {high_watermark}, so it cannot be trimmed to "
                f"{wanted}; nothing was deleted"
            )
        new_first = max(high_watermark if wanted == _END else wanted, first[key])
        trims.append(Trim(*key, first=first[key], new_first=new_first, end=high_watermark))
    return trims


async def _require_delete_policy(client: Client, topics: Sequence[str]) -> None:
    found = await ConfigAdmin(client).describe_many(ResourceType.TOPIC, topics, keys=["cleanup.policy"])
    for topic, entries in found.items():
        if isinstance(entries, OdradekError):
            continue  # this user may not read the setting: the broker decides
        if any(entry.value == "compact" for entry in entries):
            raise PolicyViolation(
                f"topic {topic!r} has cleanup.policy=compact, under which only newer records replace older ones; "
                "add delete to the policy to trim it"
            )


async def apply_trims(client: Client, trims: Sequence[Trim]) -> list[Trim]:
    """Delete the records. Returns each partition with its new first offset, or its error."""
    wanted = {TopicPartition(one.topic, one.partition): one.new_first for one in trims if one.records}
    outcome = await LogAdmin(client).delete_records_each(wanted)
    done: list[Trim] = []
    for one in trims:
        result = outcome.get(TopicPartition(one.topic, one.partition), one.new_first)
        if isinstance(result, OdradekError):
            done.append(replace(one, error=result))
        else:
            done.append(replace(one, new_first=result))
    return done
