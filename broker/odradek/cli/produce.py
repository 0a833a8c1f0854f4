"""`odradek produce`: lines become records."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, BinaryIO

import click

from odradek.cli.completing import partition_numbers_completed, topics_completed
from odradek.cli.options import Session, session_options
from odradek.cli.output import count, say

if TYPE_CHECKING:
    from odradek.cli.record_formats import NewRecord
    from odradek.client.client import Client

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
# Kafka's delivery.timeout.ms: a broker that starts again, or a leader that is elected, is worth waiting for.
DELIVERY_SECONDS_DEFAULT = 120.0
ACKS = {"0": 0, "1": 1, "all": -1}


@click.command()
@click.argument("topic", shell_complete=topics_completed)
@click.option("-f", "--file", "source", type=click.File("rb"), default="-", help="Read a file, not stdin.")
@click.option("--json", "is_json_input", is_flag=True, help="Each line is a JSON object; see below.")
@click.option("-k", "--key", help="One key for all records.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Lines are KEY TEXT VALUE; \\t for a tab.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(min=0),
    shell_complete=partition_numbers_completed,
    help="Send all to this partition.",
)
@click.option("--null-value", metavar="TEXT", help="A value of exactly this text becomes null.")
@click.option("--skip-empty", is_flag=True, help="Leave empty lines out.")
@click.option("-z", "--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(tuple(ACKS)), default="all", show_default=True)
@click.option("--linger-ms", type=click.FloatRange(min=0), default=5.0, show_default=True)
@click.option("--batch-bytes", type=click.IntRange(min=1), default=64 * 1024, show_default=True)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Records a second at most."
)
@click.option("-q", "--quiet", is_flag=True, help="Do not say how many were sent.")
@session_options
def produce(
    session: Session,
    *,
    topic: str,
    source: BinaryIO,
    is_json_input: bool,
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    null_value: str | None,
    skip_empty: bool,
    compression: str,
    acks: str,
    linger_ms: float,
    batch_bytes: int,
    rate: float | None,
    quiet: bool,
) -> None:
    """Send each line of stdin (or a file) as a record.

    \b
    Examples:
      echo hello | odradek produce orders
      printf 'a:1\\nb:2\\n' | odradek produce orders --key-separator :
      odradek produce orders --file orders.jsonl --json --compression zstd
      seq 1000 | odradek produce ticks --rate 10 --header source=cron

    \b
    With --json a line is what `odradek consume --output json` prints, of which only
    "value" need be there:
      {"key": "a", "value": "b", "headers": [["n", "v"]], "partition": 0, "timestamp_ms": 0}

    The command ends when every record is acknowledged; a record that failed makes it fail. What a broker does
    not take is sent again for --timeout, or else for two minutes.
    """
    if is_json_input and (key_separator or null_value):
        raise click.UsageError(
            "--json lines say their keys and nulls themselves: drop --key-separator, --null-value"
        )
    parser = _Parser(
        is_json=is_json_input,
        key=None if key is None else key.encode(),
        separator=key_separator,
        headers=headers,
        partition=partition,
        null_value=null_value,
        is_skipping_empty=skip_empty,
    )

    async def work(client: Client) -> int:
        from odradek.client.producer.producer import Producer
        from odradek.records.compression import Compression

        producer = Producer(
            client,
            acks=ACKS[acks],
            compression=Compression[compression.upper()],
            linger_ms=linger_ms,
            batch_bytes_max=batch_bytes,
            delivery_timeout_ms=round(1000 * (session.given_timeout_seconds or DELIVERY_SECONDS_DEFAULT)),
        )
        async with producer:
            return await _send_lines(producer, topic, source, parser, rate)

    sent = session.run(work)
    if session.is_json:
        say(session.output, "", {"topic": topic, "records": sent})
    elif not quiet and sys.stderr.isatty():
        click.echo(f"{count(sent, 'record')} sent to {topic}", err=True)


async def _send_lines(
    producer: object, topic: str, source: BinaryIO, parser: _Parser, rate: float | None
) -> int:
    from odradek.cli.line_input import read_lines
    from odradek.cli.progress import ProgressBar
    from odradek.client.producer.producer import Producer

    assert isinstance(producer, Producer)
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    sent = 0
    show_progress = source is not sys.stdin.buffer and not source.isatty()
    with ProgressBar("Producing", total=None, is_shown=show_progress) as bar:
        async for lines in read_lines(source):
            for line in lines:
                record = parser.parse(line)
                if record is None:
                    continue
                if rate is not None:
                    await asyncio.sleep(max(0.0, started_at + sent / rate - loop.time()))
                await producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                sent += 1
            bar.advance(len(lines))
        await producer.flush()
    return sent


class _Parser:
    """From a line to a record, by the command's options."""

    def __init__(
        self,
        *,
        is_json: bool,
        key: bytes | None,
        separator: str | None,
        headers: tuple[str, ...],
        partition: int | None,
        null_value: str | None,
        is_skipping_empty: bool,
    ) -> None:
        from odradek.cli.options import parse_assignments
        from odradek.cli.record_formats import unescape

        self._is_json = is_json
        self._key = key
        self._separator = unescape(separator).encode() if separator else None
        self._partition = partition
        self._null_value = None if null_value is None else null_value.encode()
        self._is_skipping_empty = is_skipping_empty
        self._line_number = 0
        for header in headers:
            parse_assignments((header,), option="--header")
        pairs = (header.partition("=") for header in headers)
        self._headers = tuple((name, value.encode()) for name, _, value in pairs)

    def parse(self, line: bytes) -> NewRecord | None:
        """The record of one line; None for a line to be left out. Raises InputError."""
        from odradek.cli.record_formats import InputError, NewRecord, parse_json_record

        self._line_number += 1
        if line.endswith(b"\r"):
            line = line[:-1]
        if not line and (self._is_skipping_empty or self._is_json):
            return None
        if self._is_json:
            record = parse_json_record(line, number=self._line_number)
            return record._replace(
                key=self._key if record.key is None else record.key,
                headers=record.headers + self._headers,
                partition=self._partition if record.partition is None else record.partition,
            )
        key = self._key
        value: bytes | None = line
        if self._separator is not None:
            key, found, value = line.partition(self._separator)
            if not found:
                raise InputError(
                    f"line {self._line_number} has no {self._separator.decode()!r} between key and value"
                )
        if value == self._null_value:
            value = None
        return NewRecord(key, value, self._headers, self._partition)
