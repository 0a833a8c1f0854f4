"""`odradek perf`: how fast this client and a broker together write and read records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from odradek.cli.records.produce import ACKS, BATCH_BYTES_DEFAULT, COMPRESSIONS
from odradek.cli.shared.completers import complete_topics
from odradek.cli.shared.interrupts import Terminated
from odradek.cli.shared.options import CommandSession, session_options
from odradek.cli.shared.output import count, format_bytes, show_document
from odradek.foundation.verb_groups import VerbGroup

if TYPE_CHECKING:
    from odradek.cli.records.measuring import Measurement, OnInterrupt
    from odradek.client.client import Client

MEASURED = "this client and the broker together, one process each"


@click.group(cls=VerbGroup)
def perf() -> None:
    """Measure the throughput and latency of this client and a broker together.

    It is one client process and its broker, not the broker's limit: this client is Python and mostly the slower
    of the two. Compare runs of this command with each other; `make bench` compares brokers under Kafka's own clients.
    """


@perf.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-n", "--records", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option(
    "-s", "--size", type=click.IntRange(min=0), default=100, show_default=True, help="Bytes of a value."
)
@click.option("-z", "--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(tuple(ACKS)), default="all", show_default=True)
@click.option("--batch-bytes", type=click.IntRange(min=1), default=BATCH_BYTES_DEFAULT, show_default=True)
@click.option("--linger-ms", type=click.FloatRange(min=0), default=5.0, show_default=True)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Records a second at most."
)
@session_options
def produce(
    session: CommandSession,
    *,
    topic: str,
    records: int,
    size: int,
    compression: str,
    acks: str,
    batch_bytes: int,
    linger_ms: float,
    rate: float | None,
) -> None:
    """Send records of random bytes; print records/s, bytes/s and the latency from send to acknowledgement.

    The figures are those of one client process and the broker together. Records that the broker does not take
    within --timeout (30 seconds by default) end the measurement. Ctrl-C ends it too, and prints the figures until then.

    \b
    Examples:
      odradek perf produce bench --records 1000000 --size 100
      odradek perf produce bench --rate 1000 --linger-ms 0 --output json
    """
    from odradek.cli.topics.target_topic import check_name, ensure_topic

    check_name(topic)

    async def work(client: Client, on_interrupt: OnInterrupt) -> Measurement:
        from odradek.cli.records.measuring import measure_produce
        from odradek.cli.records.retry_notices import RetryNotices
        from odradek.client.producer.producer import Producer

        hint = f"run `odradek topics create {topic}`"
        await ensure_topic(client, topic, may_create=None, create_hint=hint)
        timeout_ms = round(1000 * session.timeout_seconds)
        producer = Producer(
            client,
            acks=ACKS[acks],
            compression=compression,
            batch_bytes_max=batch_bytes,
            linger_ms=linger_ms,
            delivery_timeout_ms=timeout_ms,
            # The broker's error for records comes before that of a full buffer.
            send_wait_ms_max=2 * timeout_ms,
            on_retry=RetryNotices(timeout_seconds=session.timeout_seconds),
        )
        async with producer:
            return await measure_produce(
                producer,
                topic,
                record_count=records,
                value_bytes=size,
                rate=rate,
                random=client.random,
                on_interrupt=on_interrupt,
            )

    _measure(session, work)


@perf.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-n", "--records", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--fetch-bytes", type=click.IntRange(min=1), default=1024 * 1024, show_default=True)
@click.option("--decode", is_flag=True, help="Decode every record, as an application does.")
@session_options
def consume(session: CommandSession, *, topic: str, records: int, fetch_bytes: int, decode: bool) -> None:
    """Read a topic from the beginning; print records/s, bytes/s and the latency of a fetch.

    The figures are those of one client process and the broker together. Batches are verified, but their records are
    decoded only with --decode.

    \b
    Examples:
      odradek perf consume bench --records 1000000
      odradek perf consume bench --decode --output json
    """
    from odradek.cli.records.measuring import measure_consume

    _measure(
        session,
        lambda client, on_interrupt: measure_consume(
            client,
            topic,
            record_count=records,
            partition_bytes=fetch_bytes,
            is_decoding=decode,
            on_interrupt=on_interrupt,
        ),
    )


def _measure(session: CommandSession, work: Callable[[Client, OnInterrupt], Awaitable[Measurement]]) -> None:
    """Print the figures of `work`, also after Ctrl-C or SIGTERM: those of what was done until then."""
    interrupted: list[Measurement] = []
    try:
        measured = session.run(lambda client: work(client, interrupted.append))
    except (KeyboardInterrupt, Terminated):
        for one in interrupted:
            _print(session, one)
        raise
    _print(session, measured)


def _print(session: CommandSession, measured: Measurement) -> None:
    document: dict[str, object] = measured.document()
    document["measured"] = MEASURED
    if show_document(session.output, document):
        return
    click.echo(
        f"{count(measured.records, 'record')}, {format_bytes(measured.size_bytes)} in {measured.seconds:.2f} s: "
        f"{measured.records / measured.seconds:,.0f} records/s, "
        f"{format_bytes(measured.size_bytes / measured.seconds)}/s"
    )
    if measured.is_interrupted:
        click.echo("interrupted: these are the figures until then")
    click.echo(f"measured: {MEASURED}")
    percentiles = measured.percentiles()
    if percentiles:
        click.echo("latency ms: " + "  ".join(f"{name} {value:.2f}" for name, value in percentiles.items()))
