"""Runs `odradek perf`: measures, and prints the figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import click

from odradek.cli.records.measuring import Measurement, OnInterrupt, measure_consume, measure_produce
from odradek.cli.records.produce import ACKS
from odradek.cli.records.retry_notices import RetryNotices
from odradek.cli.shared.interrupts import Terminated
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import count, format_bytes, show_document
from odradek.cli.topics.target_topic import check_name, ensure_topic
from odradek.client.client import Client
from odradek.client.producer.producer import Producer

MEASURED = "this client and the broker together, one process each"


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
    check_name(topic)

    async def work(client: Client, on_interrupt: OnInterrupt) -> Measurement:
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


def consume(session: CommandSession, *, topic: str, records: int, fetch_bytes: int, decode: bool) -> None:
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
