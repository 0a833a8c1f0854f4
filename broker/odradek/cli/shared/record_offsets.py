"""Offsets at a time, partition by partition, for `topics offsets`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import click

from odradek.cli.shared.output import failure_fields
from odradek.cli.shared.partition_names import find_named_partitions
from odradek.cli.shared.times import parse_moment_ms
from odradek.client.admin.logs import EARLIEST, LATEST, MAX_TIMESTAMP, LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition

_NAMED = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """One partition's offset. It is None if no record is that young, or if there is an `error`."""

    topic: str
    partition: int
    offset: int | None
    timestamp_ms: int | None
    leader_epoch: int | None
    error: OdradekError | None = None

    def document(self) -> dict[str, object]:
        """The JSON object; it has the keys of an error only if there is one."""
        fields: dict[str, object] = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "leader_epoch": self.leader_epoch,
        }
        if self.error is not None:
            fields |= failure_fields(self.error)
        return fields


def parse_at(text: str) -> int:
    """The value of `--at`, as in ListOffsets. Raises click.BadParameter."""
    if text in _NAMED:
        return _NAMED[text]
    try:
        return parse_moment_ms(text, now_ms=time.time_ns() // 1_000_000)
    except ValueError as failure:
        raise click.BadParameter(f"{failure}; or {', '.join(_NAMED)}", param_hint="--at") from failure


async def find_offsets(client: Client, names: Sequence[str], timestamp_ms: int) -> list[FoundOffset]:
    """The offsets of the named partitions, or of all topics without names. Raises UnknownTopicOrPartition."""
    if names:
        keys = await find_named_partitions(client, names)
    else:
        keys = [
            TopicPartition(topic.name, one.partition)
            for topic in await TopicAdmin(client).list()
            for one in topic.partitions
        ]
    found = await LogAdmin(client).list_offsets_each(dict.fromkeys(keys, timestamp_ms))
    rows: list[FoundOffset] = []
    for key in keys:
        one = found[key]
        if isinstance(one, OdradekError):
            rows.append(FoundOffset(*key, None, None, None, one))
            continue
        rows.append(
            FoundOffset(
                *key,
                _none_if_negative(one.offset),
                _none_if_negative(one.timestamp_ms),
                _none_if_negative(one.leader_epoch),
            )
        )
    return rows


def _none_if_negative(number: int) -> int | None:
    return None if number < 0 else number
