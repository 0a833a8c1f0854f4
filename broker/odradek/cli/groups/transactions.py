"""`odradek transactions`: list and describe transactional ids, find transactions that hang, abort one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from odradek.cli.exit_codes import ExitCode
from odradek.cli.lazy import LazyGroup
from odradek.cli.shared.completers import complete_partitions, one_of
from odradek.cli.shared.options import CommandSession, execute_options, session_options
from odradek.cli.shared.output import say, show
from odradek.cli.shared.times import format_moment, format_seconds, parse_duration_ms
from odradek.cli.shared.watch import WatchCommand, look, watch_option

if TYPE_CHECKING:
    from odradek.client.admin.results import ProducerOnPartition
    from odradek.client.admin.transactions import OpenTransaction, TransactionDescription, TransactionListing
    from odradek.client.client import Client
    from odradek.foundation.ids import TopicPartition

# Kafka's names (TransactionState).
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
VERBS = {
    "list": "odradek.cli.groups.transactions:list_transactions",
    "describe": "odradek.cli.groups.transactions:describe",
    "describe-producers": "odradek.cli.groups.transactions:describe_producers",
    "find-hanging": "odradek.cli.groups.transactions:find_hanging",
    "abort": "odradek.cli.groups.transactions:abort",
}
# The longest timeout that brokers allow by default (transaction.max.timeout.ms).
HANGING_AFTER = "15m"


@click.group(cls=LazyGroup, verbs=VERBS)
def transactions() -> None:
    """List and describe transactions, find and abort those that hang."""


@click.command("list", cls=WatchCommand)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(STATES, case_sensitive=False),
    shell_complete=one_of(STATES),
    help="Only in this state, as Ongoing; may be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    multiple=True,
    type=int,
    help="Only of this producer id; may be repeated.",
)
@click.option("--longer-than", metavar="DURATION", help="Only begun longer ago than this, as 5m.")
@click.option("--pattern", metavar="RE2", help="Only ids that match the whole pattern.")
@watch_option
@session_options
def list_transactions(
    session: CommandSession,
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: str | None,
    pattern: str | None,
    watch: float | None,
) -> int:
    """List the transactional ids of all brokers.

    \b
    Examples:
      odradek transactions list
      odradek transactions list --state Ongoing --longer-than 5m
    """
    from odradek.client.admin.transactions import TransactionAdmin

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


@click.command(cls=WatchCommand)
@click.argument("transactional_ids", nargs=-1, required=True, metavar="ID…")
@watch_option
@session_options
def describe(session: CommandSession, *, transactional_ids: tuple[str, ...], watch: float | None) -> int:
    """Show the state of transactional ids, and the partitions of an open transaction.

    \b
    Examples:
      odradek transactions describe billing-0
    """

    async def work(client: Client) -> list[TransactionDescription]:
        from odradek.client.admin.transactions import TransactionAdmin

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


@click.command("describe-producers")
@click.argument(
    "topics", nargs=-1, required=True, metavar="TOPIC[:PARTITIONS]…", shell_complete=complete_partitions
)
@session_options
def describe_producers(session: CommandSession, *, topics: tuple[str, ...]) -> None:
    """Show the producers whose state the leaders of partitions have, and their open transactions.

    \b
    Examples:
      odradek transactions describe-producers orders
      odradek transactions describe-producers orders:0,2
    """

    async def work(client: Client) -> list[tuple[TopicPartition, ProducerOnPartition]]:
        from odradek.cli.shared.partition_names import find_named_partitions
        from odradek.client.admin.logs import LogAdmin

        partitions = await find_named_partitions(client, topics)
        return [
            (one, found) for one in partitions for found in await LogAdmin(client).describe_producers(one)
        ]

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


@click.command("find-hanging")
@click.argument("topics", nargs=-1, metavar="[TOPIC[:PARTITIONS]…]", shell_complete=complete_partitions)
@click.option(
    "--longer-than",
    metavar="DURATION",
    default=HANGING_AFTER,
    show_default=True,
    help="Only without a record for this long; at least the longest transaction timeout of your producers.",
)
@session_options
def find_hanging(session: CommandSession, *, topics: tuple[str, ...], longer_than: str) -> None:
    """Find transactions that are open in a partition although their coordinator has none (all topics without names).

    Readers of committed records wait for such a transaction for ever. `odradek transactions abort` ends it.

    \b
    Examples:
      odradek transactions find-hanging
      odradek transactions find-hanging orders --longer-than 1h
    """
    open_longer_ms = _duration_ms(longer_than, "--longer-than")

    async def work(client: Client) -> Sequence[OpenTransaction]:
        from odradek.cli.shared.partition_names import find_named_partitions
        from odradek.client.admin.transactions import TransactionAdmin

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


@click.command()
@click.argument("partition", metavar="TOPIC:PARTITION", shell_complete=complete_partitions)
@click.option(
    "--start-offset", type=int, required=True, metavar="OFFSET", help="Its first offset, from find-hanging."
)
@execute_options
@session_options
def abort(session: CommandSession, *, partition: str, start_offset: int, execute: bool) -> int:
    """Abort a transaction that hangs in one partition, past its coordinator.

    Without --execute it only shows the transaction. Use it only on what find-hanging shows: a producer whose
    transaction is still alive would commit half of it.

    \b
    Examples:
      odradek transactions abort orders:2 --start-offset 4711
      odradek transactions abort orders:2 --start-offset 4711 --execute
    """
    if ":" not in partition:
        raise click.UsageError("give one partition, as orders:2")

    async def work(client: Client) -> OpenTransaction | None:
        from odradek.cli.shared.partition_names import find_named_partitions
        from odradek.client.admin.transactions import TransactionAdmin

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
