"""Sends the lines of `odradek produce`, and reports the written records when it ends early. Records that were accepted
before a bad line, an error of the broker or Ctrl-C are still sent and waited for. The report names the line up to which
every record is acknowledged, so that `--skip-lines` continues from there.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections import deque
from collections.abc import Sequence
from typing import BinaryIO

import click

from odradek.cli.records.line_input import read_lines
from odradek.cli.records.produce import ACKS
from odradek.cli.records.produce_lines import LineFormat, RecordGroup
from odradek.cli.records.record_formats import InputError
from odradek.cli.records.retry_notices import RetryNotices
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import count, show_document
from odradek.cli.shared.progress import ProgressBar
from odradek.cli.topics.target_topic import check_name, ensure_topic
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.foundation.errors import OdradekError, RecordTooLarge, UnknownTopicOrPartition

# Kafka's delivery.timeout.ms: long enough for the restart of a broker or the election of a leader.
DELIVERY_SECONDS_DEFAULT = 120.0
# How long the command waits for records after Ctrl-C or an error of the broker: even a broker that answers needs a
# moment.
_SETTLE_SECONDS = 5.0


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


class LineSender:
    """Sends lines to one topic. `is_acknowledged`: whether the broker confirms writes (not with --acks 0).
    `is_transaction`: whether what ends early is aborted as a whole.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        lines: LineFormat,
        *,
        rate: float | None,
        is_acknowledged: bool,
        is_transaction: bool = False,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._lines = lines
        self._rate = rate
        self._verb = "written" if is_acknowledged else "sent"
        self._is_transaction = is_transaction
        self._skipped = lines.lines_seen
        # The serial number of the first record of each group that is not wholly acknowledged, and its lines.
        self._unwritten: deque[tuple[int, Sequence[int]]] = deque()
        self._started_at = 0.0

    async def run(self, source: BinaryIO) -> int:
        """Send all lines of `source`. Returns the number of records, all of them acknowledged. Raises the error of a
        bad line or of the broker, with a note of the written records. After Ctrl-C it prints that note and raises
        CancelledError.
        """
        self._started_at = asyncio.get_running_loop().time()
        try:
            await self._send_all(source)
            await self._producer.flush(is_stopping_at_failure=True)
        except asyncio.CancelledError:
            if not self._is_transaction:
                await self._settle()
            beginning = "\n" if sys.stderr.isatty() else ""  # a terminal shows ^C
            click.echo(f"{beginning}odradek: interrupted: {self.account()}", err=True)
            raise
        except (InputError, OSError) as failure:
            reason = await self._flush_after(failure)
            reason.add_note(self.account())
            raise reason from None
        except OdradekError as failure:
            await self._settle()
            failure.add_note(self.account())
            raise
        return self._producer.progress.written

    def account(self) -> str:
        """The records written so far, up to which line, and how to continue."""
        taken, written, written_in_order = self._producer.progress
        if self._is_transaction:
            return "the transaction is aborted, so readers of committed records see no record; send all lines again"
        if not written:
            return f"no record was {self._verb}"
        line = self._line_before(written_in_order)
        hint = (
            f"to continue from there, add --skip-lines {line}"
            if line
            else "to continue, send all lines again"
        )
        if written == taken:
            return f"{_were(written)} {self._verb}, up to line {line}; {hint}"
        beyond = written - written_in_order
        said = f"{written} of {count(taken, 'record')} {'was' if written == 1 else 'were'} {self._verb}"
        said += f": {written_in_order} up to line {line}, {beyond} after it" if line and beyond else ""
        said += f", all up to line {line}" if line and not beyond else ""
        return f"{said}; {hint} (records of later lines that arrived are then written twice)"

    async def _send_all(self, source: BinaryIO) -> None:
        to_skip = self._skipped
        with ProgressBar(
            "Producing", total=_size_bytes(source), unit="bytes", is_shown=_is_file(source)
        ) as bar:
            async for lines in read_lines(source):
                bar.advance(sum(map(len, lines)) + len(lines))
                if to_skip:
                    lines, to_skip = lines[to_skip:], max(0, to_skip - len(lines))
                    if not lines:
                        continue
                parsed = self._lines.parse(lines)
                for group in parsed.groups:
                    await self._send(group)
                if parsed.failure is not None:
                    raise parsed.failure
                if self._producer.failure is not None:
                    raise self._producer.failure
        if to_skip:
            raise InputError(
                f"the input ends after line {self._skipped - to_skip}, so --skip-lines {self._skipped} leaves nothing"
            )

    async def _send(self, group: RecordGroup) -> None:
        start = 0
        while start < len(group.values):
            end = (
                len(group.values)
                if self._rate is None
                else await self._wait_for_rate(start, len(group.values))
            )
            await self._send_part(group if end - start == len(group.values) else group.part(start, end))
            start = end

    async def _wait_for_rate(self, start: int, end: int) -> int:
        """Wait until --rate allows another record. Returns the end of the records that it allows."""
        assert self._rate is not None
        loop = asyncio.get_running_loop()
        taken = self._producer.progress.taken
        await asyncio.sleep(max(0.0, self._started_at + taken / self._rate - loop.time()))
        due = int((loop.time() - self._started_at) * self._rate) + 1 - taken
        return min(end, start + max(due, 1))

    async def _send_part(self, group: RecordGroup) -> None:
        self._forget_written()
        self._unwritten.append((self._producer.progress.taken, group.numbers))
        try:
            await self._put(group)
        except (RecordTooLarge, UnknownTopicOrPartition) as failure:
            taken = self._producer.progress.taken - self._unwritten[-1][0]
            raise type(failure)(f"line {group.numbers[taken]}: {failure}") from failure

    async def _put(self, group: RecordGroup) -> None:
        if group.timestamps_ms is None:
            await self._producer.send_many(
                self._topic,
                group.values,
                keys=group.keys,
                key=group.key,
                headers=group.headers,
                partition=group.partition,
            )
            return
        for index, (value, timestamp_ms) in enumerate(zip(group.values, group.timestamps_ms, strict=True)):
            await self._producer.send(
                self._topic,
                value,
                key=group.key if group.keys is None else group.keys[index],
                headers=group.headers,
                partition=group.partition,
                timestamp_ms=timestamp_ms,
            )

    # --- the report -----------------------------------------------------------------------------------------------

    def _forget_written(self) -> None:
        written_in_order = self._producer.progress.written_in_order
        while self._unwritten and self._unwritten[0][0] + len(self._unwritten[0][1]) < written_in_order:
            self._unwritten.popleft()

    def _line_before(self, written_in_order: int) -> int:
        """The line of the last record before which every record is acknowledged. Without one it is the last skipped
        line.
        """
        for first, numbers in reversed(self._unwritten):
            if first < written_in_order <= first + len(numbers):
                return numbers[written_in_order - 1 - first]
        return self._skipped

    async def _flush_after(self, failure: Exception) -> Exception:
        """Wait for the accepted records. Returns `failure`, or the broker's error if there is one."""
        try:
            await self._producer.flush()
        except OdradekError as other:
            other.add_note(f"before that, {failure}")
            return other
        return failure

    async def _settle(self) -> None:
        try:
            async with asyncio.timeout(_SETTLE_SECONDS):
                await self._producer.flush()
        except (OdradekError, TimeoutError):
            pass  # the report names the records without an acknowledgement


def _were(number: int) -> str:
    return f"{count(number, 'record')} {'was' if number == 1 else 'were'}"


def _is_file(source: BinaryIO) -> bool:
    try:
        return not source.isatty() and source.fileno() != 0
    except OSError:
        return False


def _size_bytes(source: BinaryIO) -> int | None:
    try:
        found = os.fstat(source.fileno())
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
