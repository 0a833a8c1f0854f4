"""Runs `odradek transactions`: finds transactions and producers, prints them, and aborts."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from dataclasses import asdict

import click

from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import say, show
from odradek.cli.shared.partition_names import find_named_partitions
from odradek.cli.shared.times import format_moment, format_seconds, parse_duration_ms
from odradek.cli.shared.watch import look
from odradek.client.admin.logs import LogAdmin
from odradek.client.admin.transactions import (
    OpenTransaction,
    TransactionAdmin,
    TransactionDescription,
    TransactionListing,
)
from odradek.client.client import Client
from odradek.client.results import ProducerOnPartition
from odradek.foundation.ids import TopicPartition


def list_transactions(
    session: CommandSession,
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: str | None,
    pattern: str | None,
    watch: float | None,
) -> int:
    duration_ms = -1 if longer_than is None else _duration_ms(longer_than, "--longer-than")

    def work(client: Client) -> Awaitable[list[TransactionListing]]:
        return TransactionAdmin(client).list(
            states=states, producer_ids=producer_ids, duration_ms=duration_ms, pattern=pattern
        )

    def present(session: CommandSession, listed: list[TransactionListing]) -> None:
        show(
            session.output,
            headers=("TRANSACTIONAL ID", "COORDINATOR", "PRODUCER", "STATE"),
            rows=[(one.transactional_id, one.coordinator, one.producer_id, one.state) for one in listed],
            document=listed,
            empty="there is no transactional id",
        )

    return look(session, work, present, every_seconds=watch)


def describe(session: CommandSession, *, transactional_ids: tuple[str, ...], watch: float | None) -> int:
    async def work(client: Client) -> list[TransactionDescription]:
        return [await TransactionAdmin(client).describe(name) for name in transactional_ids]

    def present(session: CommandSession, described: list[TransactionDescription]) -> None:
        show(
            session.output,
            headers=(
                "TRANSACTIONAL ID",
                "COORDINATOR",
                "PRODUCER",
                "EPOCH",
                "STATE",
                "TIMEOUT",
                "BEGUN",
                "PARTITIONS",
            ),
            rows=[
                (
                    one.transactional_id,
                    one.coordinator,
                    one.producer_id,
                    one.producer_epoch,
                    one.state,
                    format_seconds(one.timeout_ms / 1000),
                    "-" if one.start_ms < 0 else format_moment(one.start_ms),
                    ",".join(map(str, one.partitions)) or "-",
                )
                for one in described
            ],
            document=[
                {
                    **asdict(one),
                    "partitions": [{"topic": topic, "partition": number} for topic, number in one.partitions],
                }
                for one in described
            ],
            empty="there is no transactional id",
        )

    return look(session, work, present, every_seconds=watch)


def describe_producers(session: CommandSession, *, topics: tuple[str, ...]) -> None:
    async def work(client: Client) -> list[tuple[TopicPartition, ProducerOnPartition]]:
        partitions = await find_named_partitions(client, topics)
        described = await LogAdmin(client).describe_producers_of(partitions)
        return [(one, found) for one, producers in described.items() for found in producers]

    found = session.run(work)
    show(
        session.output,
        headers=(
            "PARTITION",
            "PRODUCER",
            "EPOCH",
            "COORDINATOR EPOCH",
            "SEQUENCE",
            "LAST RECORD",
            "OPEN SINCE OFFSET",
        ),
        rows=[
            (
                str(partition),
                one.producer_id,
                one.producer_epoch,
                one.coordinator_epoch,
                one.last_sequence,
                format_moment(one.last_timestamp_ms),
                "-" if one.transaction_start_offset < 0 else one.transaction_start_offset,
            )
            for partition, one in found
        ],
        document=[_document(partition, one) for partition, one in found],
        empty="no producer is known there",
    )


def find_hanging(session: CommandSession, *, topics: tuple[str, ...], longer_than: str) -> None:
    open_longer_ms = _duration_ms(longer_than, "--longer-than")

    async def work(client: Client) -> Sequence[OpenTransaction]:
        names: Sequence[str] = topics or sorted((await client.refresh(None)).topics)
        partitions = await find_named_partitions(client, names)
        return await TransactionAdmin(client).hanging(
            partitions, now_ms=round(time.time() * 1000), open_longer_ms=open_longer_ms
        )

    found = session.run(work)
    show(
        session.output,
        headers=("PARTITION", "START OFFSET", "PRODUCER", "EPOCH", "COORDINATOR EPOCH", "LAST RECORD"),
        rows=[
            (
                str(one.partition),
                one.producer.transaction_start_offset,
                one.producer.producer_id,
                one.producer.producer_epoch,
                one.producer.coordinator_epoch,
                format_moment(one.producer.last_timestamp_ms),
            )
            for one in found
        ],
        document=[_document(one.partition, one.producer) for one in found],
        empty="no transaction hangs",
    )


def abort(session: CommandSession, *, partition: str, start_offset: int, execute: bool) -> int:
    if ":" not in partition:
        raise click.UsageError("give one partition, as orders:2")

    async def work(client: Client) -> OpenTransaction | None:
        where = await find_named_partitions(client, [partition])
        if len(where) != 1:
            raise click.UsageError("give one partition, as orders:2")
        admin = TransactionAdmin(client)
        found = await admin.find(where[0], start_offset)
        if found is not None and execute:
            await admin.abort(found)
        return found

    found = session.run(work)
    if found is None:
        click.echo(f"no transaction is open in {partition} from offset {start_offset} on", err=True)
        return ExitCode.NOT_FOUND
    done = "aborted" if execute else "would abort"
    tail = "" if execute else "; add --execute to do it"
    say(
        session.output,
        f"{done} the transaction of producer {found.producer.producer_id} in {found.partition} from offset "
        f"{start_offset} on{tail}",
        {"result": "aborted" if execute else "planned", **_document(found.partition, found.producer)},
    )
    return ExitCode.OK


def _document(partition: TopicPartition, producer: ProducerOnPartition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition, "producer": asdict(producer)}


def _duration_ms(text: str, option: str) -> int:
    """Raises click.BadParameter for a text that is no duration."""
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error
