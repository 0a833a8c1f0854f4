"""Runs `odradek consume`: reads records, and prints each in the form that the options choose."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator, Mapping

import click

from odradek.cli.exit_codes import ExitCode
from odradek.cli.records.decoded_blocks import BlockDecoding, make_registry
from odradek.cli.records.json_lines import json_printer
from odradek.cli.records.reading import ReadPlan, ReadProgress, Start, read
from odradek.cli.records.templates import Printer, compile_template, null_on_terminal, plain_printer
from odradek.cli.shared.connection_settings import Sourced
from odradek.cli.shared.options import CommandSession, parse_partitions
from odradek.cli.shared.times import parse_moment_ms
from odradek.cli.topics.topic_choice import choose_topics
from odradek.client.client import Client
from odradek.client.properties import SCHEMA_REGISTRY_URL

_COLLECTION_OBJECTS = 50_000


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
    share_group: str | None,
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
    starts = sum((from_beginning, start_time is not None, offset is not None))
    if starts > 1:
        raise click.UsageError("give one of --from-beginning, --from and --offset")
    if group is not None and (offset is not None or start_time is not None or partitions is not None):
        raise click.UsageError("a group decides where to read: drop --partition, --from and --offset")
    if end_time is not None and (follow or group is not None):
        raise click.UsageError("--until contradicts --follow and --group")
    if share_group is not None:
        _check_queue(
            {
                "--group": group is not None,
                "--partition": partitions is not None,
                "--from-beginning": from_beginning,
                "--from": start_time is not None,
                "--offset": offset is not None,
                "--until": end_time is not None,
                "--isolation": isolation != "read_uncommitted",
                "--exit-at-end": follow is False,
            }
        )
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
            share_group=share_group,
            is_following=(not (starts or end_time) or group is not None) if follow is None else follow,
            may_wait=follow is True,
            idle_seconds_max=idle_exit,
            is_read_committed=isolation == "read_committed",
        )
        if session.is_json and template is None:
            printer = json_printer(is_nested=json_values, is_decoded=decoding is not None)
        else:
            printer = _printer(template, null_value, keys, headers, offsets, timestamps)
    except ValueError as failure:
        raise click.UsageError(str(failure)) from failure
    if offset is not None and (len(topics) > 1 or choice.patterns):
        raise click.UsageError("--offset needs a single topic")
    session.run(lambda client: _print_all(client, plan, printer, decoding, is_progress_wanted=progress))
    return ExitCode.OK if decoding is None else decoding.exit_code


def _check_queue(given: Mapping[str, bool]) -> None:
    """Raises click.UsageError for an option that a queue decides itself."""
    for option, is_given in given.items():
        if is_given:
            raise click.UsageError(
                f"{option} and --share-group contradict each other: a queue gives what is not done yet. "
                "Its settings share.auto.offset.reset and share.isolation.level say from where, and --idle-exit ends it"
            )


def _find_decoding(session: CommandSession, url: str | None, parts: str) -> BlockDecoding | None:
    """What decodes records, where a registry is named. Only then are modules for it loaded."""
    named = session.settings.values.get(SCHEMA_REGISTRY_URL)
    if url is not None:
        named = Sourced(url, "--schema-registry")
    if named is None or not named.value:
        return None
    registry = make_registry(named, session.settings, timeout_seconds=session.given_timeout_seconds)
    return BlockDecoding(registry, parts.split(","))


def _printer(
    template: str | None, null_value: str | None, keys: bool, headers: bool, offsets: bool, timestamps: bool
) -> Printer:
    null = b"" if null_value is None else null_value.encode()
    if template is not None:
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
