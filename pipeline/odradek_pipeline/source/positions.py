"""The start and the end of a read: the options of both edges, and the offsets that they come to at a cluster.

The rules are the stock connector's. A time goes before times by partition, and these before offsets. JSON names every
partition that is read. The ends of a reader of committed records are the last stable offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.errors import OptionError
from odradek_pipeline.settings.options import Options


@dataclass(frozen=True, slots=True)
class OffsetRangeLimit:
    """One edge. `offsets` may have -2 and -1, `times` are in milliseconds; without both all partitions have `word`.

    `word` is EARLIEST or LATEST. `is_latest_without_match` is for a partition without a record at its time.
    """

    option: str
    word: int = EARLIEST
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    times_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    time_ms: int | None = None
    is_latest_without_match: bool = True


def parse_start(options: Options, *, is_stream: bool) -> OffsetRangeLimit:
    """Return the position at which a read begins. Raises OptionError."""
    is_latest = options["startingOffsetsByTimestampStrategy"] == "latest"
    default = "latest" if is_stream else "earliest"
    position = _parse_position(options, "starting", default=default, is_latest_without_match=is_latest)
    if not is_stream and (position.word == LATEST or LATEST in position.offsets.values()):
        raise OptionError(
            "a batch cannot start at the latest offset, as it would read nothing; set 'startingOffsets'"
        )
    return position


def parse_end(options: Options) -> OffsetRangeLimit:
    """Return the position at which a batch ends. Raises OptionError."""
    position = _parse_position(options, "ending", default="latest", is_latest_without_match=True)
    if position.word == EARLIEST or EARLIEST in position.offsets.values():
        raise OptionError(
            "a batch cannot end at the earliest offset, as it would read nothing; set 'endingOffsets'"
        )
    return position


def _parse_position(
    options: Options, edge: str, *, default: str, is_latest_without_match: bool
) -> OffsetRangeLimit:
    word = LATEST if edge == "ending" else EARLIEST
    name = f"{edge}Timestamp"
    if options.is_set(name):
        return OffsetRangeLimit(
            name, word, time_ms=options[name], is_latest_without_match=is_latest_without_match
        )
    name = f"{edge}OffsetsByTimestamp"
    if options.is_set(name):
        times = parse_by_partition(options[name], name, low=0)
        return OffsetRangeLimit(name, word, times_ms=times, is_latest_without_match=is_latest_without_match)
    name = f"{edge}Offsets"
    given = options[name] if options.is_set(name) else default
    if isinstance(given, str):
        return OffsetRangeLimit(name, EARLIEST if given == "earliest" else LATEST)
    offsets = parse_by_partition(given, name, low=EARLIEST)
    return OffsetRangeLimit(name, word, offsets=offsets)


def parse_by_partition(given: Mapping[str, Any], name: str, *, low: int) -> dict[TopicPartition, int]:
    """`{"orders": {"0": 10}}` as a mapping. Raises OptionError."""
    found: dict[TopicPartition, int] = {}
    for topic, numbers in given.items():
        if not isinstance(numbers, dict):
            raise OptionError(f"option {name!r}: topic {topic!r} needs an object of partitions and numbers")
        for partition, value in numbers.items():
            if (
                not partition.isdigit()
                or not isinstance(value, int)
                or isinstance(value, bool)
                or value < low
            ):
                raise OptionError(
                    f"option {name!r}: {topic!r} has {partition!r}: {value!r}; "
                    f"it takes the number of a partition and a whole number of at least {low}"
                )
            found[TopicPartition(topic, int(partition))] = value
    return found


async def resolve(
    client: Client,
    position: OffsetRangeLimit,
    partitions: Sequence[TopicPartition],
    *,
    is_read_committed: bool,
) -> dict[TopicPartition, int]:
    """The offset of each partition at this edge. Raises OptionError, and the brokers' errors."""
    if position.time_ms is not None:
        return await _find_at_times(
            client, position, dict.fromkeys(partitions, position.time_ms), is_read_committed
        )
    if position.times_ms:
        _check_all_named(position, position.times_ms, partitions)
        return await _find_at_times(client, position, position.times_ms, is_read_committed)
    if position.offsets:
        _check_all_named(position, position.offsets, partitions)
        wanted = {key: offset for key, offset in position.offsets.items() if offset < 0}
        listed = await LogAdmin(client).list_offsets(wanted, read_committed=is_read_committed)
        found = {key: one.offset for key, one in listed.items()}
        return {key: found.get(key, offset) for key, offset in position.offsets.items()}
    return await LogAdmin(client).offsets_at(partitions, position.word, read_committed=is_read_committed)


def _check_all_named(
    position: OffsetRangeLimit, named: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition]
) -> None:
    missing, unknown = sorted(set(partitions) - set(named)), sorted(set(named) - set(partitions))
    if missing or unknown:
        what = [f"does not name {', '.join(map(str, missing))}"] if missing else []
        what += [f"names {', '.join(map(str, unknown))}, which are not read"] if unknown else []
        raise OptionError(
            f"option {position.option!r} {' and '.join(what)}; it has to name all partitions that are read"
        )


async def _find_at_times(
    client: Client,
    position: OffsetRangeLimit,
    times_ms: Mapping[TopicPartition, int],
    is_read_committed: bool,
) -> dict[TopicPartition, int]:
    logs = LogAdmin(client)
    listed = await logs.list_offsets(times_ms, read_committed=is_read_committed)
    found = {key: one.offset for key, one in listed.items()}
    without = [key for key, offset in found.items() if offset < 0]
    if without and not position.is_latest_without_match:
        raise OptionError(
            f"option {position.option!r}: {', '.join(map(str, without))} have no record at that time or later; "
            "set 'startingOffsetsByTimestampStrategy' to 'latest' to start them at their ends"
        )
    return found | await logs.offsets_at(without, LATEST, read_committed=is_read_committed)
