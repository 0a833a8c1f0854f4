"""Runs `odradek topics list` and `odradek topics describe`."""

from __future__ import annotations

import click

from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import (
    Document,
    bad,
    count,
    in_color,
    print_table,
    show,
    show_document,
    warning,
)
from odradek.cli.shared.partition_words import problem_words
from odradek.cli.shared.watch import look
from odradek.cli.topics.topic_details import describe_topics
from odradek.client.admin.partition_states import PartitionState, Problem, count_problems, partition_states
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.metadata import TopicInfo


def list_topics(session: CommandSession, *, internal: bool, watch: float | None) -> int:
    async def work(client: Client) -> list[tuple[TopicInfo, dict[Problem, int]]]:
        found = await TopicAdmin(client).list(include_internal=internal)
        states: dict[str, list[PartitionState]] = {}
        for state in await partition_states(client, found):
            states.setdefault(state.where.topic, []).append(state)
        return [(topic, count_problems(states.get(topic.name, ()))) for topic in found]

    return look(session, work, _show_list, every_seconds=watch)


def _show_list(session: CommandSession, found: list[tuple[TopicInfo, dict[Problem, int]]]) -> None:
    headers = ["TOPIC", "PARTITIONS", "REPLICAS", "ID"]
    rows = [[t.name, len(t.partitions), _replication_factor(t), t.id] for t, _ in found]
    if any(problems for _, problems in found):
        headers.append("PROBLEMS")
        for row, (_, problems) in zip(rows, found, strict=True):
            row.append(problem_words(problems))
    show(
        session.output,
        headers=headers,
        rows=rows,
        document=[
            {
                "name": topic.name,
                "id": topic.id,
                "partitions": len(topic.partitions),
                "replication_factor": _replication_factor(topic),
                "is_internal": topic.is_internal,
                "problems": problems,
            }
            for topic, problems in found
        ],
        empty="there is no topic",
    )


def _replication_factor(topic: TopicInfo) -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)


def describe(
    session: CommandSession,
    *,
    names: tuple[str, ...],
    offsets: bool,
    with_configs: bool,
    watch: float | None,
    **only: bool,
) -> int:
    async def work(client: Client) -> list[Document]:
        kinds = [name.removeprefix("only_") for name, is_wanted in only.items() if is_wanted]
        return await describe_topics(
            client, names, with_offsets=offsets, with_configs=with_configs, only=kinds
        )

    def present(session: CommandSession, described: list[Document]) -> None:
        if show_document(session.output, described):
            return
        if not described:
            click.echo("no partition is of these kinds" if any(only.values()) else "there is no topic")
        for index, topic in enumerate(described):
            if index:
                click.echo()
            _print_topic(topic, with_offsets=offsets)

    return look(session, work, present, every_seconds=watch)


def _print_topic(topic: Document, *, with_offsets: bool) -> None:
    click.echo(
        f"{topic['name']}  id {topic['id']}  {count(len(topic['partitions']), 'partition')}"
        + ("  internal" if topic["is_internal"] else "")
    )
    for words in topic["warnings"]:
        click.echo(in_color(warning(f"  warning: {words}")))
    for key, value in topic.get("configs", {}).items():
        click.echo(f"  {key}={value}")
    headers = ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC"]
    if with_offsets:
        headers += ["FIRST", "NEXT", "RECORDS"]
    has_problems = any(partition["problems"] for partition in topic["partitions"])
    if has_problems:
        headers.append("PROBLEMS")
    rows = []
    for partition in topic["partitions"]:
        is_led = not {"offline", "leaderless"}.intersection(partition["problems"])
        in_sync = partition["in_sync_replicas"]
        row = [
            partition["partition"],
            partition["leader"] if is_led else bad("none"),
            partition["leader_epoch"],
            partition["replicas"],
            warning(in_sync) if "under_replicated" in partition["problems"] else in_sync,
        ]
        if with_offsets:
            first, end = partition["first_offset"], partition["next_offset"]
            row += [first, end, None if first is None or end is None else end - first]
        if has_problems:
            row.append(problem_words(partition["problems"]))
        rows.append(row)
    print_table(headers, rows, empty="no partition")
