"""`odradek produce`: lines become records."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, BinaryIO

import click

from odradek.cli.shared.completers import complete_partition_numbers, complete_topics
from odradek.cli.shared.options import CommandSession, session_options
from odradek.cli.shared.output import count, show_document

if TYPE_CHECKING:
    from odradek.client.client import Client

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
# Kafka's delivery.timeout.ms: long enough for the restart of a broker or the election of a leader.
DELIVERY_SECONDS_DEFAULT = 120.0
# Each batch has a fixed cost, so batches are large. A topic with a lower limit gets it in parts.
BATCH_BYTES_DEFAULT = 512 * 1024
ACKS = {"0": 0, "1": 1, "all": -1}


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-f", "--file", "source", type=click.File("rb"), default="-", help="Read a file, not stdin.")
@click.option("--json", "is_json_input", is_flag=True, help="Each line is a JSON object; see above.")
@click.option("-k", "--key", help="One key for all records.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Lines are KEY TEXT VALUE; \\t for a tab.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(min=0),
    shell_complete=complete_partition_numbers,
    help="Send all to this partition.",
)
@click.option("--null-value", metavar="TEXT", help="A value of exactly this text becomes null.")
@click.option("--skip-empty", is_flag=True, help="Leave empty lines out.")
@click.option(
    "--crlf", "is_crlf", is_flag=True, help="Lines end with CR LF: the CR is not part of the value."
)
@click.option(
    "--skip-lines",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Leave out the first N lines: continue where a run ended.",
)
@click.option(
    "--create/--no-create",
    default=None,
    help="Make a missing topic, or fail. Default: make it, unless its name looks like that of another topic misspelt.",
)
@click.option("-z", "--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(tuple(ACKS)), default="all", show_default=True)
@click.option("--linger-ms", type=click.FloatRange(min=0), default=5.0, show_default=True)
@click.option("--batch-bytes", type=click.IntRange(min=1), default=BATCH_BYTES_DEFAULT, show_default=True)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Records a second at most."
)
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Send all records in one transaction: `consume --isolation read_committed` prints all or none.",
)
@click.option(
    "--transaction-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="The broker aborts a transaction that is open for longer.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not print how many records were sent.")
@session_options
def produce(
    session: CommandSession,
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
    is_crlf: bool,
    skip_lines: int,
    create: bool | None,
    compression: str,
    acks: str,
    linger_ms: float,
    batch_bytes: int,
    rate: float | None,
    transactional_id: str | None,
    transaction_timeout: float,
    quiet: bool,
) -> None:
    """Send each line of stdin (or a file) as a record.

    \b
    Examples:
      echo hello | odradek produce orders
      printf 'a:1\\nb:2\\n' | odradek produce orders --key-separator :
      odradek produce orders --file orders.jsonl --json --compression zstd
      seq 1000 | odradek produce ticks --rate 10 --header source=cron
      odradek produce orders --file day.jsonl --json --transactional-id day   all of it, or nothing

    \b
    With --json a line is what `odradek consume --output json` prints, of which only
    "value" need be there. Text and null mean themselves; an object, a list, a number or
    true is written as compact JSON. So is it with "key". Other fields are refused.
      {"key": "a", "value": {"b": 1}, "headers": [["n", "v"]], "partition": 0, "timestamp_ms": 0}

    The command ends when every record is acknowledged, and fails when a record failed. A record that a broker refuses
    for now is sent again for --timeout, by default two minutes. The command may end early: a line is not a record, an
    error, Ctrl-C. It then prints how many records were written, and the --skip-lines that continues from there.
    """
    from odradek.cli.records.produce_lines import LineFormat
    from odradek.cli.topics.target_topic import check_name, ensure_topic

    check_name(topic)
    if transactional_id is not None and (acks != "all" or not transactional_id):
        raise click.UsageError("--transactional-id needs a name, and --acks all")
    if is_json_input and (key_separator or null_value):
        raise click.UsageError(
            "--json lines have their own keys and nulls: drop --key-separator, --null-value"
        )
    lines = LineFormat(
        is_json=is_json_input,
        key=key,
        separator=key_separator,
        headers=headers,
        partition=partition,
        null_value=null_value,
        is_skipping_empty=skip_empty,
        is_crlf=is_crlf,
        skip_lines=skip_lines,
    )

    async def work(client: Client) -> int:
        from odradek.cli.records.produce_run import LineSender
        from odradek.cli.records.retry_notices import RetryNotices
        from odradek.client.producer.producer import Producer

        await ensure_topic(client, topic, may_create=create, create_hint="add --create")
        timeout_seconds = session.given_timeout_seconds or DELIVERY_SECONDS_DEFAULT
        producer = Producer(
            client,
            acks=ACKS[acks],
            compression=compression,
            linger_ms=linger_ms,
            batch_bytes_max=batch_bytes,
            delivery_timeout_ms=round(1000 * timeout_seconds),
            # Records fail by the broker's error, not by a full buffer, so that error comes first.
            send_wait_ms_max=round(1000 * (timeout_seconds + session.timeout_seconds)),
            on_retry=RetryNotices(timeout_seconds=timeout_seconds),
            transactional_id=transactional_id,
            transaction_timeout_ms=round(1000 * transaction_timeout),
        )
        is_transaction = transactional_id is not None
        sender = LineSender(
            producer, topic, lines, rate=rate, is_acknowledged=ACKS[acks] != 0, is_transaction=is_transaction
        )
        async with producer:
            if not is_transaction:
                return await sender.run(source)
            async with producer.transaction():
                return await sender.run(source)

    sent = session.run(work)
    if (
        not show_document(session.output, {"topic": topic, "records": sent})
        and not quiet
        and sys.stderr.isatty()
    ):
        click.echo(f"{count(sent, 'record')} sent to {topic}", err=True)
