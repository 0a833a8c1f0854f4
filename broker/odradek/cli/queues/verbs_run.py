"""Runs the verbs of `odradek queues` that `verbs` declares."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.queues.queue_details import describe_queues, peek_records
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import (
    Document,
    count,
    failure_fields,
    in_color,
    print_errors,
    print_table,
    say,
    say_dry_run,
    show,
    show_document,
    state_in_color,
    text,
    warn,
)
from odradek.cli.shared.times import format_moment, parse_moment_ms
from odradek.cli.shared.watch import look
from odradek.client.admin.group_resets import Reset, find_reset_offsets
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import LogAdmin
from odradek.client.admin.queues import QueueAdmin, QueueOffset
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.suggestions import with_suggestions
from odradek.foundation.errors import GroupIdNotFound, OdradekError
from odradek.foundation.ids import TopicPartition

_VALUE_CHARACTERS_MAX = 60
_NO_QUEUE = "there is no queue"


def list_queues(session: CommandSession, *, watch: float | None) -> int:
    def present(session: CommandSession, described: list[dict[str, object]]) -> None:
        keys = ("queue", "state", "members", "topics", "lag")
        found = [{**one, "members": len(_items(one["members"]))} for one in described]
        for one in found:
            one["topics"] = sorted({str(part["topic"]) for part in _items(one["partitions"])})
        show(
            session.output,
            headers=("QUEUE", "STATE", "MEMBERS", "TOPICS", "LAG"),
            rows=[
                [state_in_color(str(one[key])) if key == "state" else one[key] for key in keys]
                for one in found
            ],
            document=[{key: one[key] for key in keys} for one in found],
            empty="there is no queue; the first member of a share group makes one",
        )

    return look(session, lambda client: describe_queues(client, ()), present, every_seconds=watch)


def describe(
    session: CommandSession, *, group_ids: tuple[str, ...], members: bool, watch: float | None
) -> int:
    def present(session: CommandSession, described: list[dict[str, object]]) -> None:
        print_queues = _print_members if members else _print_offsets
        if not show_document(session.output, described):
            print_queues(described, is_verbose=session.verbose)

    return look(session, lambda client: describe_queues(client, group_ids), present, every_seconds=watch)


def _print_offsets(queues: Sequence[Document], *, is_verbose: bool) -> None:
    """One table for each queue, with its settings when `is_verbose`."""
    if not queues:
        click.echo(_NO_QUEUE)
    for number, queue in enumerate(queues):
        _print_title(queue, number)
        print_table(
            ["TOPIC", "PARTITION", "START", "LAG"],
            [[one["topic"], one["partition"], one["start"], one["lag"]] for one in queue["partitions"]],
            empty="it has begun no topic",
        )
        if is_verbose:
            print_table(["SETTING", "VALUE"], sorted(queue["settings"].items()), empty="no settings")


def _print_members(queues: Sequence[Document], *, is_verbose: bool) -> None:
    """One table for each queue, with epochs and subscriptions when `is_verbose`."""
    if not queues:
        click.echo(_NO_QUEUE)
    keys = ["member_id", "client_id", "client_host", "assignment"]
    headers = ["MEMBER", "CLIENT", "HOST", "PARTITIONS"]
    if is_verbose:
        keys, headers = [*keys, "topics", "epoch"], [*headers, "SUBSCRIBES TO", "EPOCH"]
    for number, queue in enumerate(queues):
        _print_title(queue, number)
        rows = [[one[key] for key in keys] for one in queue["members"]]
        print_table(headers, rows, empty="it has no members")


def _print_title(queue: Document, number: int) -> None:
    if number:
        click.echo()
    state = in_color(state_in_color(queue["state"]))
    lag = "lag unknown" if queue["lag"] is None else f"lag {count(queue['lag'], 'record')}"
    click.echo(f"{queue['queue']}  {state}  {count(len(queue['members']), 'member')}  {lag}")


def peek(session: CommandSession, *, group_id: str, topics: tuple[str, ...], max_records: int) -> None:
    records = session.run(
        lambda client: peek_records(client, group_id, topics or None, records_max=max_records)
    )
    show(
        session.output,
        headers=("TOPIC", "PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE"),
        rows=[
            (
                one.topic,
                one.partition,
                one.offset,
                format_moment(one.timestamp_ms),
                _short(one.key),
                _short(one.value),
            )
            for one in records
        ],
        document=[_document(one) for one in records],
        empty="nothing waits in the queue",
    )


def reset(
    session: CommandSession,
    *,
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: str | None,
    execute: bool,
) -> None:
    if bool(topics) == all_topics:
        raise click.UsageError("give --topic (may be repeated), or --all-topics")
    if to_earliest + to_latest + (to_datetime is not None) != 1:
        raise click.UsageError("give one of --to-earliest, --to-latest, --to-datetime")
    target = Reset("earliest" if to_earliest else "latest")
    if to_datetime is not None:
        target = Reset("time", parse_moment_ms(to_datetime, now_ms=time.time_ns() // 1_000_000))

    async def work(client: Client) -> tuple[dict[TopicPartition, QueueOffset], dict[TopicPartition, int]]:
        queues = QueueAdmin(client)
        if await queues.find(group_id) is None:
            warn(f"there is no queue {group_id!r} yet: a start for it makes it")
        before = await queues.offsets(group_id)
        keys = sorted(before)
        if not all_topics:
            cluster = await client.topics(topics)
            keys = [key for name in topics for key in cluster.partitions(name)]
        starts = await find_reset_offsets(LogAdmin(client), keys, {}, target)
        if execute and starts:
            await queues.alter_offsets(group_id, starts)
        return before, starts

    before, starts = session.run(work)
    rows = [(*key, before[key].start if key in before else None, start) for key, start in starts.items()]
    show(
        session.output,
        headers=("TOPIC", "PARTITION", "START", "NEW START"),
        rows=rows,
        document=[
            {"topic": topic, "partition": partition, "start": now, "new_start": start}
            for topic, partition, now, start in rows
        ],
        empty="the queue has begun no topic",
    )
    if not execute:
        say_dry_run("moved", is_empty=not rows)


def forget(session: CommandSession, *, group_id: str, topics: tuple[str, ...], execute: bool) -> None:
    if not topics:
        raise click.UsageError("give --topic (may be repeated)")

    async def work(client: Client) -> list[str]:
        queues = QueueAdmin(client)
        await queues.describe(group_id)
        begun = sorted({key.topic for key in await queues.offsets(group_id)})
        if execute:
            await queues.delete_offsets(group_id, topics)
        return [name for name in topics if name in begun]

    done = "forgot" if execute else "would forget"
    found = session.run(work)
    for name in found:
        say(session.output, f"{done}  {name}", {"queue": group_id, "topic": name, "result": done})
    if not execute:
        say_dry_run("forgotten", is_empty=not found)


def delete(session: CommandSession, *, group_ids: tuple[str, ...], execute: bool) -> int:
    async def work(client: Client) -> dict[str, OdradekError | None]:
        outcome: dict[str, OdradekError | None] = {}
        for group_id in group_ids:
            try:
                # A consumer group of that name stays.
                await QueueAdmin(client).describe(group_id)
                if execute:
                    await GroupAdmin(client).delete(group_id)
                outcome[group_id] = None
            except OdradekError as failure:
                outcome[group_id] = failure
        failures = {name: one for name, one in outcome.items() if isinstance(one, GroupIdNotFound)}
        better = await with_suggestions(client, list(failures.values()))
        return outcome | dict(zip(failures, better, strict=True))

    done = "deleted" if execute else "would delete"
    found = session.run(work)
    failures = [one for one in found.values() if one is not None]
    documents: list[dict[str, object]] = []
    for group_id, failure in found.items():
        if failure is None:
            documents.append({"queue": group_id, "result": done})
            if not session.is_json:
                click.echo(f"{done}  {group_id}")
        else:
            documents.append({"queue": group_id, "result": "failed", **failure_fields(failure)})
    print_errors(failures)
    if not execute:
        say_dry_run("deleted", is_empty=len(failures) == len(found))
    show_document(session.output, documents)
    return exit_code_for(failures[0]) if failures else ExitCode.OK


def _items(value: object) -> Sequence[dict[str, object]]:
    assert isinstance(value, list)
    return value


def _short(value: bytes | None) -> str | None:
    if value is None:
        return None
    found = text(value[: 4 * _VALUE_CHARACTERS_MAX])
    return found if len(found) <= _VALUE_CHARACTERS_MAX else found[: _VALUE_CHARACTERS_MAX - 1] + "…"


def _document(record: ConsumerRecord) -> dict[str, object]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": None if record.key is None else text(record.key),
        "value": None if record.value is None else text(record.value),
    }
