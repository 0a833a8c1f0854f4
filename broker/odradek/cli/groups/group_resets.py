"""Plans where `groups reset-offsets` moves groups to, and which offsets `groups delete-offsets` deletes. Only --execute
applies a plan. An offset that a partition does not hold becomes the nearest that it holds, as in Kafka's own tool. A
plan keeps the offsets from before, so that they can be saved and restored.

The offsets of a mirror's group count records of its source, and stand under the target's topics. So the bounds of these
partitions do not apply to them: an offset is taken as it is given.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from odradek.cli.groups.saved_offsets import SavedOffset, load, save
from odradek.cli.shared.options import CommandSession, parse_partitions
from odradek.cli.shared.output import count, say_dry_run, show, warn
from odradek.cli.shared.partition_names import find_named_partitions
from odradek.cli.shared.times import parse_duration_ms, parse_moment_ms
from odradek.client.admin.group_resets import Reset, find_reset_offsets
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.results import CommittedOffset
from odradek.foundation.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidRequest,
    NonEmptyGroup,
    OdradekError,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicPartition
from odradek.mirror.settings import GROUP_PREFIX


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """One partition's move. `before` is None when no offset is committed, `after` when the commit is deleted."""

    group: str
    key: TopicPartition
    before: CommittedOffset | None
    after: CommittedOffset | None

    @property
    def row(self) -> tuple[object, ...]:
        """Group, topic, partition and both offsets."""
        current = None if self.before is None else self.before.offset
        return (self.group, *self.key, current, None if self.after is None else self.after.offset)


def parse_reset(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    is_given: bool,
) -> Reset | None:
    """The one of the options that was given; None where offsets are `is_given` by a file or a mirror.

    Raises click.UsageError for none, for several, and for a time that cannot be read.
    """
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
    if len(resets) != (0 if is_given else 1):
        raise click.UsageError(
            "give the new position with one of --to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, "
            "--by-duration, --shift-by, --from-file, --from-mirror"
        )
    return resets[0] if resets else None


async def plan_resets(client: Client, group_id: str, topics: Sequence[str], reset: Reset) -> list[ResetPlan]:
    """The new offset of each partition. Empty `topics` mean all that the group has committed.

    Raises UnknownTopicOrPartition, NonEmptyGroup while the group has members, InvalidRequest for one in ZooKeeper, and
    for a mirror's group where the destination is no exact offset.
    """
    committed = await _fetch_committed(client, group_id, must_exist=not topics)
    keys = await find_named_partitions(client, topics) if topics else sorted(committed)
    offsets = {key: found.offset for key, found in committed.items()}
    if is_mirror_group(group_id):
        targets = _source_offsets(group_id, keys, offsets, reset)
    else:
        targets = await find_reset_offsets(LogAdmin(client), keys, offsets, reset)
    return [ResetPlan(group_id, key, committed.get(key), CommittedOffset(targets[key])) for key in keys]


async def plan_from_saved(
    client: Client, group_id: str, topics: Sequence[str], saved: Sequence[SavedOffset]
) -> list[ResetPlan]:
    """As `plan_resets`, back to saved offsets; with `topics` only those of them. Leader epochs and metadata are
    restored too, except with an offset that is replaced by the nearest one.
    """
    committed = await _fetch_committed(client, group_id, must_exist=False)
    wanted = {TopicPartition(one.topic, one.partition): one for one in saved}
    if topics:
        named = await find_named_partitions(client, topics)
        missing = [str(key) for key in named if key not in wanted]
        if missing:
            raise UnknownTopicOrPartition(
                f"there is no such offset of group {group_id!r} for {', '.join(missing)}"
            )
        wanted = {key: wanted[key] for key in named}
    logs = LogAdmin(client)
    is_exact = is_mirror_group(group_id)
    first = {} if is_exact else await logs.offsets_at(wanted, EARLIEST)
    end = {} if is_exact else await logs.offsets_at(wanted, LATEST)
    plans: list[ResetPlan] = []
    for key, one in wanted.items():
        after = None
        if one.offset is not None:
            offset = one.offset if is_exact else min(max(one.offset, first[key]), end[key])
            is_there = offset == one.offset
            after = CommittedOffset(
                offset, one.leader_epoch if is_there else -1, one.metadata if is_there else ""
            )
        plans.append(ResetPlan(group_id, key, committed.get(key), after))
    return plans


def read_saved(path: str, group_ids: Sequence[str]) -> dict[str, list[SavedOffset]]:
    """The saved offsets by group: of the groups named, or of all in the file. Raises click.UsageError."""
    saved = load(path)
    if any(one.group is None for one in saved):
        if len(group_ids) != 1:
            raise click.UsageError(f"--from-file {path} names no group; give the name of one GROUP")
        saved = [one._replace(group=group_ids[0]) for one in saved if one.group is None]
    by_group: dict[str, list[SavedOffset]] = {}
    for one in saved:
        by_group.setdefault(one.group or "", []).append(one)
    missing = [group_id for group_id in group_ids if group_id not in by_group]
    if missing:
        there = ", ".join(sorted(by_group))
        raise click.UsageError(f"--from-file {path} has no offsets of group {missing[0]!r}; it has: {there}")
    return {group_id: by_group[group_id] for group_id in (group_ids or by_group)}


async def _fetch_committed(
    client: Client, group_id: str, *, must_exist: bool
) -> dict[TopicPartition, CommittedOffset]:
    admin = GroupAdmin(client)
    await admin.check_changeable(group_id, has_offsets=True)
    try:
        description = await admin.describe(group_id)
    except GroupIdNotFound:
        if must_exist:
            raise
    else:
        if description.members:
            members = count(len(description.members), "member")
            raise NonEmptyGroup(f"group {group_id!r} has {members}; stop its consumers first")
    return await admin.offsets(group_id)


def is_mirror_group(group_id: str) -> bool:
    """Whether the group's offsets are the positions of a mirror."""
    return group_id.startswith(GROUP_PREFIX)


def _source_offsets(
    group_id: str, keys: Sequence[TopicPartition], committed: Mapping[TopicPartition, int], reset: Reset
) -> dict[TopicPartition, int]:
    """Where a mirror's partitions begin again, in offsets of the source."""
    if reset.kind == "offset":
        return dict.fromkeys(keys, reset.value)
    if reset.kind != "shift":
        raise InvalidRequest(
            f"group {group_id!r} has the positions of a mirror, which are offsets of its source: give one of "
            "--to-offset, --shift-by, --from-file; or forget them with `odradek groups delete-offsets`"
        )
    without = [str(key) for key in keys if key not in committed]
    if without:
        raise InvalidRequest(
            f"group {group_id!r} has no offset of {', '.join(without)} to shift; give --to-offset"
        )
    return {key: max(0, committed[key] + reset.value) for key in keys}


async def plan_deletions(client: Client, group_id: str, topics: Sequence[str]) -> list[ResetPlan]:
    """A plan for each partition named that has an offset, also of a deleted topic.

    Raises GroupIdNotFound, GroupSubscribedToTopic, UnknownTopicOrPartition for a partition without an offset, and
    InvalidRequest for a group in ZooKeeper.
    """
    admin = GroupAdmin(client)
    await admin.check_changeable(group_id, has_offsets=True)
    group = await admin.describe(group_id)
    committed = await admin.offsets(group_id)
    keys: dict[TopicPartition, None] = {}
    for text in topics:
        topic, colon, numbers = text.partition(":")
        readers = [
            m for m in group.members if topic in m.topics or any(k.topic == topic for k in m.assignment)
        ]
        if readers:
            clients = ", ".join(sorted({f"{m.client_id} ({m.client_host})" for m in readers}))
            raise GroupSubscribedToTopic(
                f"group {group_id!r} has members that subscribe to topic {topic!r}: {clients}; "
                "stop these consumers first"
            )
        there = {key.partition: key for key in sorted(committed) if key.topic == topic}
        wanted = parse_partitions(numbers) if colon else tuple(there)
        missing = [number for number in wanted if number not in there]
        if missing or not wanted:
            what = f"partition {topic}-{missing[0]}" if missing else f"topic {topic!r}"
            known = ", ".join(sorted({key.topic for key in committed})) or "no topic"
            raise UnknownTopicOrPartition(
                f"group {group_id!r} has no committed offset for {what}; it has offsets for {known}"
            )
        keys.update(dict.fromkeys(there[number] for number in wanted))
    return [ResetPlan(group_id, key, committed[key], None) for key in keys]


async def carry_out(
    client: Client, plans: Sequence[ResetPlan], *, save_path: str | None, execute: bool
) -> None:
    """Write the present offsets to the file of --save, then make the moves of --execute."""
    if save_path is not None:
        save_before(save_path, plans)
    if execute:
        await apply_resets(client, plans)


async def apply_resets(client: Client, plans: Sequence[ResetPlan]) -> None:
    """Commit the new offsets, and delete commits that did not exist before. Raises NonEmptyGroup when a member joined
    in between; the message names the groups that are done.
    """
    admin = GroupAdmin(client)
    by_group: dict[str, list[ResetPlan]] = {}
    for plan in plans:
        by_group.setdefault(plan.group, []).append(plan)
    done: list[str] = []
    for group_id, moves in by_group.items():
        offsets = {plan.key: plan.after for plan in moves if plan.after is not None}
        gone = [plan.key for plan in moves if plan.after is None and plan.before is not None]
        try:
            if offsets:
                await admin.alter_offsets(group_id, offsets)
            if gone:
                await admin.delete_offsets(group_id, gone)
        except OdradekError as failure:
            if done:
                failure.add_note(f"done before that: {', '.join(done)}")
            raise
        done.append(group_id)


def save_before(path: str, plans: Sequence[ResetPlan]) -> None:
    """Write the present offsets, so that --from-file can restore them. Raises FileExistsError, OSError."""
    left_out = save(
        path,
        [
            SavedOffset(plan.group, *plan.key, offset=None)
            if plan.before is None
            else SavedOffset(
                plan.group, *plan.key, plan.before.offset, plan.before.leader_epoch, plan.before.metadata
            )
            for plan in plans
        ],
    )
    if left_out:
        warn(
            f"CSV has no line for {count(left_out, 'partition')} without an offset; "
            "JSON (any name that does not end in .csv) keeps them",
            about=f"--save {path}",
        )


def print_resets(session: CommandSession, plans: Sequence[ResetPlan], *, is_done: bool) -> None:
    """Print the moves, and after a dry run that nothing was changed."""
    headers = ("GROUP", "TOPIC", "PARTITION", "CURRENT", "NEW")
    keys = [header.lower() for header in headers]
    show(
        session.output,
        headers=headers,
        rows=[plan.row for plan in plans],
        document={
            "executed": is_done,
            "partitions": [dict(zip(keys, plan.row, strict=True)) for plan in plans],
        },
        empty="no offset is committed there",
    )
    if not is_done:
        say_dry_run("changed", is_empty=not plans)
