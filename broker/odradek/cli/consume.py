"""`odradek consume`: records become lines."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from odradek.cli.completing import groups_completed, partition_numbers_completed, topics_completed
from odradek.cli.options import Session, parse_partitions, session_options
from odradek.cli.times import parse_moment_ms

if TYPE_CHECKING:
    from odradek.cli.reading import ReadPlan
    from odradek.client.client import Client
    from odradek.client.consumer.positions import ConsumerRecord


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=topics_completed)
@click.option(
    "-p",
    "--partition",
    "partitions",
    metavar="N[,N…]",
    shell_complete=partition_numbers_completed,
    help="Only these partitions, as 0,2 or 0-3.",
)
@click.option("--from-beginning", is_flag=True, help="Start at the first record kept.")
@click.option(
    "--from", "start_time", metavar="TIME", help="Start at a time: ISO 8601, or 5m for five minutes ago."
)
@click.option(
    "--offset", type=int, metavar="N", help="Start at this offset; -N for the last N of each partition."
)
@click.option("--until", "end_time", metavar="TIME", help="Stop before records of this time or later.")
@click.option(
    "-n", "--max", "records_max", type=click.IntRange(min=1), metavar="N", help="Stop after N records."
)
@click.option(
    "-g",
    "--group",
    metavar="ID",
    shell_complete=groups_completed,
    help="Join this group: share partitions, commit what was printed.",
)
@click.option(
    "--follow/--exit-at-end",
    default=None,
    help="Wait for more at the end, or stop there. Default: stop when a start is given and no group, else follow.",
)
@click.option(
    "--idle-exit", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop when nothing comes so long."
)
@click.option("--keys", is_flag=True, help="Print the key and a tab before the value.")
@click.option("--headers", is_flag=True, help="Print headers.")
@click.option("--offsets", is_flag=True, help="Print partition:offset.")
@click.option("--timestamps", is_flag=True, help="Print the time.")
@click.option(
    "--format", "template", metavar="TEMPLATE", help="Print by a template, as '{offset} {key}={value}'."
)
@click.option(
    "--isolation",
    type=click.Choice(("read_uncommitted", "read_committed")),
    default="read_uncommitted",
    show_default=True,
)
@session_options
def consume(
    session: Session,
    *,
    topics: tuple[str, ...],
    partitions: str | None,
    from_beginning: bool,
    start_time: str | None,
    offset: int | None,
    end_time: str | None,
    records_max: int | None,
    group: str | None,
    follow: bool | None,
    idle_exit: float | None,
    keys: bool,
    headers: bool,
    offsets: bool,
    timestamps: bool,
    template: str | None,
    isolation: str,
) -> None:
    """Print the records of topics.

    \b
    Examples:
      odradek consume orders                       from now on, until Ctrl-C
      odradek consume orders --from-beginning      all there is, then stop
      odradek consume orders --from 5m --follow    the last five minutes, then go on
      odradek consume orders --offset -10          the last ten of each partition
      odradek consume orders --group billing       share with others and remember the place
      odradek consume orders --from-beginning --output json | jq .value
      odradek consume orders --from-beginning --format '{partition}:{offset} {key} {value}'

    \b
    Fields of --format: key value offset partition topic timestamp timestamp_ms headers
    key_bytes value_bytes; \\t and \\n are understood, {{ is a brace.
    """
    from odradek.cli.reading import ReadPlan

    starts = sum((from_beginning, start_time is not None, offset is not None))
    if starts > 1:
        raise click.UsageError("give one of --from-beginning, --from and --offset")
    if group is not None and (offset is not None or start_time is not None or partitions is not None):
        raise click.UsageError("a group decides where to read: drop --partition, --from and --offset")
    if offset is not None and len(topics) > 1:
        raise click.UsageError("--offset needs a single topic")
    if end_time is not None and (follow or group is not None):
        raise click.UsageError("--until cannot be had with --follow or --group")
    now_ms = time.time_ns() // 1_000_000
    try:
        plan = ReadPlan(
            topics=topics,
            partitions=None if partitions is None else parse_partitions(partitions),
            is_from_beginning=from_beginning,
            start_ms=None if start_time is None else parse_moment_ms(start_time, now_ms=now_ms),
            offset=offset,
            end_ms=None if end_time is None else parse_moment_ms(end_time, now_ms=now_ms),
            records_max=records_max,
            group=group,
            is_following=(not (starts or end_time) or group is not None) if follow is None else follow,
            idle_seconds_max=idle_exit,
            is_read_committed=isolation == "read_committed",
        )
        render = _renderer(session, template, keys, headers, offsets, timestamps)
    except ValueError as failure:
        raise click.UsageError(str(failure)) from failure
    session.run(lambda client: _print_all(client, plan, render))


def _renderer(
    session: Session, template: str | None, keys: bool, headers: bool, offsets: bool, timestamps: bool
) -> Callable[[ConsumerRecord], bytes]:
    from odradek.cli.record_printing import compile_template, json_record

    if template is not None:
        return compile_template(template)
    if session.is_json:
        import json

        return lambda record: json.dumps(json_record(record), ensure_ascii=False).encode() + b"\n"
    wanted = (
        (timestamps, "{timestamp}"),
        (offsets, "{partition}:{offset}"),
        (headers, "{headers}"),
        (keys, "{key}"),
        (True, "{value}"),
    )
    return compile_template("\t".join(field for is_wanted, field in wanted if is_wanted))


async def _print_all(client: Client, plan: ReadPlan, render: Callable[[ConsumerRecord], bytes]) -> None:
    from odradek.cli.reading import read

    out = sys.stdout.buffer
    async with contextlib.aclosing(read(client, plan)) as records:
        async for some in records:
            out.write(b"".join(map(render, some)))
            out.flush()
