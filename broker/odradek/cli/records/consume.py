"""`odradek consume`: records become lines."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.completers import complete_groups, complete_partition_numbers, complete_topics
from odradek.cli.shared.connection_settings import Sourced
from odradek.cli.shared.options import CommandSession, parse_partitions, session_options
from odradek.cli.shared.times import TIME_HELP, parse_moment_ms
from odradek.client.properties import SCHEMA_REGISTRY_URL

if TYPE_CHECKING:
    from odradek.cli.records.decoded_blocks import BlockDecoding
    from odradek.cli.records.reading import ReadPlan
    from odradek.cli.records.templates import Printer
    from odradek.client.client import Client

_COLLECTION_OBJECTS = 50_000


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@click.option("--regex", is_flag=True, help="Every TOPIC is a pattern, also one that could be a name.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    metavar="N[,N…]",
    shell_complete=complete_partition_numbers,
    help="Only these partitions, as 0,2 or 0-3.",
)
@click.option("--from-beginning", is_flag=True, help="Start at the first record kept.")
@click.option("--from", "start_time", metavar="TIME", help=f"Start at a time: {TIME_HELP}.")
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
    shell_complete=complete_groups,
    help="Join this group: share its partitions, and commit the offsets of printed records.",
)
@click.option(
    "--follow/--exit-at-end",
    default=None,
    help="Wait for more at the end, or stop there. Default: stop when a start is given and no group, else follow. "
    "--follow also waits for an --offset that is not there yet, and for a topic that matches.",
)
@click.option(
    "--idle-exit",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Stop when no record arrives for this time.",
)
@click.option("--keys", is_flag=True, help="Print the key and a tab before the value.")
@click.option("--headers", is_flag=True, help="Print headers.")
@click.option("--offsets", is_flag=True, help="Print partition:offset.")
@click.option("--timestamps", is_flag=True, help="Print the time, in UTC.")
@click.option(
    "-f",
    "--format",
    "template",
    metavar="TEMPLATE",
    help="Print by a template; see above for its two styles.",
)
@click.option(
    "--null-value",
    metavar="TEXT",
    help="Print keys and values that are null as this text. Default: NULL on a terminal, else nothing. "
    "JSON has null for them.",
)
@click.option(
    "--json-values",
    is_flag=True,
    help="With --output json: print keys and values that are JSON as JSON, and not as quoted text.",
)
@click.option(
    "--schema-registry",
    "registry_url",
    metavar="URL",
    help="Decode values by Avro, Protobuf and JSON schemas. Default: $ODRADEK_SCHEMA_REGISTRY, or the property "
    "schema.registry.url; '' for none.",
)
@click.option(
    "--schema-parts",
    type=click.Choice(("value", "key", "key,value")),
    default="value",
    show_default=True,
    help="What is decoded.",
)
@click.option(
    "--progress/--no-progress",
    default=None,
    help="Show on stderr how far it is. Default: when stderr is a terminal and stdout is a file.",
)
@click.option(
    "--isolation",
    type=click.Choice(("read_uncommitted", "read_committed")),
    default="read_uncommitted",
    show_default=True,
)
@session_options
def consume(
    session: CommandSession,
    *,
    topics: tuple[str, ...],
    regex: bool,
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
    null_value: str | None,
    json_values: bool,
    registry_url: str | None,
    schema_parts: str,
    progress: bool | None,
    isolation: str,
) -> int:
    """Print the records of topics.

    \b
    Examples:
      odradek consume orders                       from now on, until Ctrl-C
      odradek consume orders --from-beginning      all there is, then stop
      odradek consume orders --from 5m --follow    the last five minutes, and new ones
      odradek consume orders --offset -10          the last ten of each partition
      odradek consume 'orders.*'                   every topic whose name matches, new ones too
      odradek consume orders --group billing       share with others and commit the position
      odradek consume orders --from-beginning --output json --json-values | jq .value.id
      odradek consume orders --from-beginning --format '{partition}:{offset} {key:10} {value}'
      odradek consume orders --from-beginning -f '%t [%p] at %o: %k = %s\\n'
      odradek consume orders --from-beginning --schema-registry http://127.0.0.1:8081

    A TOPIC with a character that no name can have, such as * or |, is a pattern in RE2 syntax. It has to match a whole
    name, and never matches an internal topic.

    \b
    --format has two styles; a template of both is refused.
      {key} {value} {offset} {partition} {topic} {timestamp} {timestamp_ms} {headers} {key_bytes}
      {value_bytes}: a newline follows each record. {key:>10} {key:<10} {key:^10} {key:*>10} fill to a
      width, {value:.80} shortens. {{ and }} are braces.
      %k %s %o %p %t %T %h %K %S %R: kcat's tokens, %% for a percent sign; no newline follows.
    Both understand \\n \\t \\r \\xHH \\NNN. A size of -1 is a null.

    --schema-registry prints values that begin with a registry's header as JSON, and others as they are. For one that
    cannot be decoded stderr says why, and the exit code is 1. Client properties have its login and CA.
    """
    from odradek.cli.records.reading import ReadPlan, Start
    from odradek.cli.topics.topic_choice import choose_topics

    starts = sum((from_beginning, start_time is not None, offset is not None))
    if starts > 1:
        raise click.UsageError("give one of --from-beginning, --from and --offset")
    if group is not None and (offset is not None or start_time is not None or partitions is not None):
        raise click.UsageError("a group decides where to read: drop --partition, --from and --offset")
    if end_time is not None and (follow or group is not None):
        raise click.UsageError("--until contradicts --follow and --group")
    if json_values and not session.is_json:
        raise click.UsageError("--json-values needs --output json")
    decoding = _find_decoding(session, registry_url, schema_parts)
    now_ms = time.time_ns() // 1_000_000
    try:
        choice = choose_topics(topics, is_regex=regex)
        plan = ReadPlan(
            topics=choice,
            partitions=None if partitions is None else parse_partitions(partitions),
            start=Start(
                is_from_beginning=from_beginning,
                time_ms=None if start_time is None else parse_moment_ms(start_time, now_ms=now_ms),
                offset=offset,
            ),
            end_ms=None if end_time is None else parse_moment_ms(end_time, now_ms=now_ms),
            records_max=records_max,
            group=group,
            is_following=(not (starts or end_time) or group is not None) if follow is None else follow,
            may_wait=follow is True,
            idle_seconds_max=idle_exit,
            is_read_committed=isolation == "read_committed",
        )
        if session.is_json and template is None:
            from odradek.cli.records.json_lines import json_printer

            printer = json_printer(is_nested=json_values, is_decoded=decoding is not None)
        else:
            printer = _printer(template, null_value, keys, headers, offsets, timestamps)
    except ValueError as failure:
        raise click.UsageError(str(failure)) from failure
    if offset is not None and (len(topics) > 1 or choice.patterns):
        raise click.UsageError("--offset needs a single topic")
    session.run(lambda client: _print_all(client, plan, printer, decoding, is_progress_wanted=progress))
    return ExitCode.OK if decoding is None else decoding.exit_code


def _find_decoding(session: CommandSession, url: str | None, parts: str) -> BlockDecoding | None:
    """What decodes records, where a registry is named. Only then are modules for it loaded."""
    named = session.settings.values.get(SCHEMA_REGISTRY_URL)
    if url is not None:
        named = Sourced(url, "--schema-registry")
    if named is None or not named.value:
        return None
    from odradek.cli.records.decoded_blocks import BlockDecoding, make_registry

    registry = make_registry(named, session.settings, timeout_seconds=session.given_timeout_seconds)
    return BlockDecoding(registry, parts.split(","))


def _printer(
    template: str | None, null_value: str | None, keys: bool, headers: bool, offsets: bool, timestamps: bool
) -> Printer:
    from odradek.cli.records.templates import null_on_terminal, plain_printer

    null = b"" if null_value is None else null_value.encode()
    if template is not None:
        from odradek.cli.records.templates import compile_template

        return compile_template(template, null=null)
    if null_value is None and sys.stdout.isatty():
        null = null_on_terminal()
    return plain_printer(keys=keys, headers=headers, offsets=offsets, timestamps=timestamps, null=null)


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely: a block is thousands of tuples without cycles, and a collection takes as long as reading
    them.
    """
    before = gc.get_threshold()
    # Python can only unfreeze all. So what the caller of this process has frozen stays, and nothing is added to it.
    is_frozen_by_caller = gc.get_freeze_count() > 0
    if not is_frozen_by_caller:
        gc.freeze()
    gc.set_threshold(_COLLECTION_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not is_frozen_by_caller:
            gc.unfreeze()


async def _print_all(
    client: Client,
    plan: ReadPlan,
    printer: Printer,
    decoding: BlockDecoding | None,
    *,
    is_progress_wanted: bool | None,
) -> None:
    from odradek.cli.records.reading import ReadProgress, read

    out = sys.stdout.buffer
    with (
        _rare_collections(),
        contextlib.nullcontext() if decoding is None else decoding,
        ReadProgress(is_wanted=is_progress_wanted) as progress,
    ):
        async with contextlib.aclosing(read(client, plan, progress)) as records:
            async for blocks in records:
                if decoding is None:
                    out.write(b"".join(map(printer, blocks)))
                else:
                    for block in blocks:
                        decoded = await decoding.decode(block)
                        out.write(printer(decoded.block))
                        if decoded.stopped_by is not None:
                            raise decoded.stopped_by
                out.flush()
