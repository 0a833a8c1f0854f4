"""Runs `odradek queues dead-letters` and `odradek queues give-back`."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import bad, failure_fields, print_errors, show, text
from odradek.cli.shared.times import format_moment
from odradek.client.client import Client
from odradek.client.share.dead_letters import DeadLetterAdmin, GivenBackRecord, GivenUpRecord

_EMPTY = "the queue has no dead letter that was not given back"
_HEADERS = ("TOPIC", "PARTITION", "OFFSET", "DELIVERIES", "GIVEN UP", "WHY")


def dead_letters(session: CommandSession, *, group_id: str, max_letters: int) -> None:
    async def work(client: Client) -> list[GivenUpRecord]:
        return (await DeadLetterAdmin(client, group_id).list_letters(letters_max=max_letters))[0]

    letters = session.run(work)
    show(
        session.output,
        headers=_HEADERS,
        rows=[_row(one) for one in letters],
        document=[_document(one) for one in letters],
        empty=_EMPTY,
    )


def give_back(session: CommandSession, *, group_id: str, max_letters: int) -> int:
    async def work(client: Client) -> list[GivenBackRecord]:
        admin = DeadLetterAdmin(client, group_id)
        return await admin.give_back(*await admin.list_letters(letters_max=max_letters))

    found = session.run(work)
    show(
        session.output,
        headers=(*_HEADERS, "NEW OFFSET"),
        rows=[(*_row(one.letter), one.offset if one.failure is None else bad("failed")) for one in found],
        document=[_describe_given_back(one) for one in found],
        empty=_EMPTY,
    )
    failures = [one.failure for one in found if one.failure is not None]
    print_errors(failures)
    return exit_code_for(failures[0]) if failures else ExitCode.OK


def _row(letter: GivenUpRecord) -> Sequence[object]:
    moment = format_moment(letter.letter.timestamp_ms)
    return (*letter.key, letter.offset, letter.delivery_count, moment, letter.why)


def _document(letter: GivenUpRecord) -> dict[str, object]:
    copy = letter.letter
    return {
        "topic": letter.key.topic,
        "partition": letter.key.partition,
        "offset": letter.offset,
        "delivery_count": letter.delivery_count,
        "given_up_ms": copy.timestamp_ms,
        "why": letter.why,
        "key": None if copy.key is None else text(copy.key),
        "value": None if copy.value is None else text(copy.value),
    }


def _describe_given_back(one: GivenBackRecord) -> dict[str, object]:
    failed = {} if one.failure is None else failure_fields(one.failure)
    return {**_document(one.letter), "new_offset": one.offset, **failed}
