"""Where `groups reset-offsets` moves a group to, worked out first and applied only when asked.

An offset that a partition does not hold becomes the nearest it does, as Kafka's own tool does it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import click

from odradek.cli.options import Session, parse_partitions
from odradek.cli.output import show
from odradek.cli.times import parse_duration_ms, parse_moment_ms
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.results import CommittedOffset
from odradek.client.client import Client
from odradek.foundation.errors import GroupIdNotFound, NonEmptyGroup, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition


class Reset(NamedTuple):
    """Where to: a `kind` and its number (offset, milliseconds since 1970, or records to shift by)."""

    kind: str
    value: int = 0


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """One partition's move; `current` is None where nothing is committed."""

    topic: str
    partition: int
    current: int | None
    new: int


def parse_reset(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
) -> Reset:
    """The one of the options that was given. Raises click.UsageError for none, several, or a time that is none."""
    now_ms = time.time_ns() // 1_000_000
    try:
        given = [
            Reset("earliest") if to_earliest else None,
            Reset("latest") if to_latest else None,
            Reset("current") if to_current else None,
            None if to_offset is None else Reset("offset", to_offset),
            None if to_datetime is None else Reset("time", parse_moment_ms(to_datetime, now_ms=now_ms)),
            None if by_duration is None else Reset("time", now_ms - parse_duration_ms(by_duration)),
            None if shift_by is None else Reset("shift", shift_by),
        ]
    except ValueError as failure:
        raise click.UsageError(str(failure)) from failure
    resets = [reset for reset in given if reset is not None]
    if len(resets) != 1:
        raise click.UsageError(
            "say where to with one of --to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, "
            "--by-duration, --shift-by"
        )
    return resets[0]


async def plan_resets(client: Client, group_id: str, topics: Sequence[str], reset: Reset) -> list[ResetPlan]:
    """What each partition would move to; `topics` empty for all that the group has committed.

    Raises UnknownTopicOrPartition, NonEmptyGroup while the group has members.
    """
    admin = GroupAdmin(client)
    try:
        description = await admin.describe(group_id)
    except GroupIdNotFound:
        if not topics:
            raise
    else:
        if description.members:
            raise NonEmptyGroup(
                f"group {group_id!r} has {len(description.members)} members; stop its consumers first"
            )
    committed = {key: found.offset for key, found in (await admin.offsets(group_id)).items()}
    keys = await _named_partitions(client, topics) if topics else sorted(committed)
    targets = await _targets(LogAdmin(client), keys, committed, reset)
    return [ResetPlan(*key, current=committed.get(key), new=targets[key]) for key in keys]


async def _named_partitions(client: Client, topics: Sequence[str]) -> list[TopicPartition]:
    keys: list[TopicPartition] = []
    for text in topics:
        name, colon, numbers = text.partition(":")
        known = [p.partition for p in (await client.refresh((name,))).topic(name).partitions]
        wanted = parse_partitions(numbers) if colon else known
        for number in wanted:
            if number not in known:
                raise UnknownTopicOrPartition(
                    f"topic {name!r} has no partition {number}; it has {len(known)}, numbered from 0"
                )
        keys.extend(TopicPartition(name, number) for number in wanted)
    return keys


async def _targets(
    logs: LogAdmin, keys: Sequence[TopicPartition], committed: dict[TopicPartition, int], reset: Reset
) -> dict[TopicPartition, int]:
    first = {k: found.offset for k, found in (await logs.list_offsets(dict.fromkeys(keys, EARLIEST))).items()}
    end = {k: found.offset for k, found in (await logs.list_offsets(dict.fromkeys(keys, LATEST))).items()}
    at_time: dict[TopicPartition, int] = {}
    if reset.kind == "time":
        listed = await logs.list_offsets(dict.fromkeys(keys, reset.value))
        at_time = {key: end[key] if found.offset < 0 else found.offset for key, found in listed.items()}
    targets: dict[TopicPartition, int] = {}
    for key in keys:
        match reset.kind:
            case "earliest":
                wanted = first[key]
            case "latest":
                wanted = end[key]
            case "current":
                wanted = committed.get(key, end[key])
            case "offset":
                wanted = reset.value
            case "time":
                wanted = at_time[key]
            case _:
                wanted = committed.get(key, end[key]) + reset.value
        targets[key] = min(max(wanted, first[key]), end[key])
    return targets


async def apply_resets(client: Client, group_id: str, plans: Sequence[ResetPlan]) -> None:
    """Commit the new offsets. Raises NonEmptyGroup when a member came meanwhile."""
    offsets = {TopicPartition(plan.topic, plan.partition): CommittedOffset(plan.new) for plan in plans}
    if offsets:
        await GroupAdmin(client).alter_offsets(group_id, offsets)


def print_resets(session: Session, plans: Sequence[ResetPlan], *, is_done: bool) -> None:
    """Print the moves, and that nothing happened when it was a dry run."""
    show(
        session.output,
        headers=("TOPIC", "PARTITION", "CURRENT", "NEW"),
        rows=[(plan.topic, plan.partition, plan.current, plan.new) for plan in plans],
        document={"executed": is_done, "partitions": list(plans)},
    )
    if not is_done:
        click.echo("dry run: nothing was changed; add --execute to do it", err=True)
