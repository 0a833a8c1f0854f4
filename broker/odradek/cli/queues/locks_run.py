"""Runs `odradek queues locks`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.queues.lock_details import QueueLocks, describe_locks, find_locks
from odradek.cli.shared.admin_urls import parse_admin_ports
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import (
    Document,
    bad,
    count,
    in_color,
    print_error,
    print_table,
    show_document,
)
from odradek.cli.shared.watch import look
from odradek.client.secured import http_security

_HEADERS = (
    "TOPIC",
    "PARTITION",
    "OFFSETS",
    "RECORDS",
    "MEMBER",
    "CLIENT",
    "HOST",
    "DELIVERIES",
    "TIME LEFT",
)


def locks(
    session: CommandSession, *, group_id: str, admin_ports: tuple[str, ...], watch: float | None
) -> int:
    security = http_security(session.settings.security)
    urls = parse_admin_ports(admin_ports, security)

    def present(session: CommandSession, found: QueueLocks) -> int:
        document = describe_locks(found)
        is_document = show_document(session.output, document)
        if not is_document:
            _print_locks(found, document, is_verbose=session.verbose)
        if watch is None:
            for text in _list_problems(found):
                print_error(text)
        elif not is_document:
            # Beside what is drawn again and again, since stderr would disturb it.
            for text in _list_problems(found):
                click.echo(in_color(bad(text)))
        return exit_code_for(found.missing[0].failure) if found.missing else ExitCode.OK

    return look(
        session, lambda client: find_locks(client, group_id, urls, security), present, every_seconds=watch
    )


def _list_problems(found: QueueLocks) -> Iterator[str]:
    for missing in found.missing:
        yield f"{missing}"
    for broker in found.truncated:
        yield f"warning: broker {broker} has more locks than are shown"


def _print_locks(found: QueueLocks, document: Document, *, is_verbose: bool) -> None:
    partitions = found.partitions
    locked = sum(one.acquired for one in partitions)
    again = sum(one.available for one in partitions)
    by = len({one.member_id for one in found.locks})
    click.echo(
        f"{found.group_id}  {count(locked, 'record')} locked by {count(by, 'member')}  "
        f"{count(again, 'record')} to be delivered again"
    )
    print_table(
        _HEADERS,
        [
            (
                one["topic"],
                one["partition"],
                str(one["first"]) if one["records"] == 1 else f"{one['first']}-{one['last']}",
                one["records"],
                one["member_id"],
                one["client_id"],
                one["client_host"],
                one["delivery_count"],
                f"{one['time_left_ms'] / 1000:.1f} s",
            )
            for one in document["locks"]
        ],
        empty="no record is locked at the brokers that answered" if found.missing else "no record is locked",
    )
    if is_verbose:
        print_table(
            ["TOPIC", "PARTITION", "IN FLIGHT", "LOCKED", "TO BE DELIVERED AGAIN"],
            [[one.topic, one.partition, one.in_flight, one.acquired, one.available] for one in partitions],
            empty="no record is in flight",
        )
