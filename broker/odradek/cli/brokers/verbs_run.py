"""Runs the verbs of `odradek brokers` that `verbs` declares."""

from __future__ import annotations

from odradek.cli.brokers.broker_versions import show_differences, show_versions
from odradek.cli.brokers.moves import show_moves, wait_until_ended
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.disk_words import directory_document, disk_cell
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import bad, count, format_bytes, plain, say, show, warning
from odradek.cli.shared.watch import look
from odradek.client.addresses import Address
from odradek.client.admin.brokers import BrokerAdmin, BrokerLoad, DrainProgress
from odradek.client.admin.plans import Plan
from odradek.client.admin.versions import broker_versions
from odradek.client.client import Client


def list_brokers(session: CommandSession, *, watch: float | None) -> int:
    return look(session, lambda client: BrokerAdmin(client).list(), _show_brokers, every_seconds=watch)


def _show_brokers(session: CommandSession, found: list[BrokerLoad]) -> None:
    # Most clusters have a broker on each machine, and need no column for it.
    machines = ("MACHINE",) if any(one.machine for one in found) else ()
    show(
        session.output,
        headers=("ID", *machines, "ADDRESS", "RACK", "REPLICAS", "LEADS", "PREFERRED", "CORDONED", "DISK"),
        rows=[
            (
                one.id,
                *((one.machine,) if machines else ()),
                str(Address(one.host, one.port)),
                one.rack,
                one.replicas,
                one.leaders,
                one.preferred_leaders,
                warning(True) if one.is_cordoned else False,
                disk_cell(one.log_directories) if one.error is None else bad(one.error),
            )
            for one in sorted(found, key=lambda one: (one.machine or "", one.id))
        ],
        document=[
            plain(one) | {"log_directories": list(map(directory_document, one.log_directories))}
            for one in found
        ],
        empty="no broker is running",
    )


def api_versions(session: CommandSession, *, broker_ids: tuple[int, ...], compare: bool) -> int:
    found = session.run(lambda client: broker_versions(client, broker_ids))
    return show_differences(session, found) if compare else show_versions(session, found)


def drain(
    session: CommandSession, *, broker_ids: tuple[int, ...], dry_run: bool, throttle: int | None, wait: bool
) -> None:
    async def work(client: Client) -> tuple[Plan, Plan]:
        admin = BrokerAdmin(client)
        before = await admin.reassignments.assignment()
        if dry_run:
            return await admin.plan_drain(*broker_ids), before
        plan = await admin.drain(*broker_ids, bytes_per_second=throttle)
        if wait:
            await wait_until_ended(admin, plan)
        return plan, before

    show_moves(session, *session.run(work), is_planned=dry_run, waited=wait)


def follow_drain(session: CommandSession, *, broker_id: int) -> int:
    async def work(client: Client) -> DrainProgress:
        admin = BrokerAdmin(client)
        progress = await admin.drain_progress(broker_id)
        if progress.is_done:
            await admin.lift_throttles()
        return progress

    progress = session.run(work)
    if progress.is_done and not progress.is_live:
        sentence = (
            f"no broker {broker_id} is running, and no partition has a replica there: it can be removed "
            f"(`odradek brokers remove {broker_id}`)"
        )
    elif progress.is_done:
        sentence = f"broker {broker_id} has no replicas left and can be removed"
    elif not progress.is_cordoned:
        sentence = (
            f"broker {broker_id} has {count(progress.replicas, 'replica')} and is given new ones; start with "
            f"`odradek brokers drain {broker_id}`"
        )
    else:
        sentence = (
            f"broker {broker_id} has {count(progress.replicas, 'replica')}, of which {progress.moving} are moving "
            f"({format_bytes(progress.bytes_left)} left), and leads {progress.leaders}"
        )
        if progress.is_stuck:
            sentence += f"; for the others ask again: `odradek brokers drain {broker_id}`"
    names = ("is_done", "is_cordoned", "replicas", "leaders", "moving", "bytes_left")
    document = {"broker": broker_id} | {name: getattr(progress, name) for name in names}
    say(session.output, sentence, document)
    return ExitCode.OK if progress.is_done else ExitCode.REFUSED


def undrain(session: CommandSession, *, broker_id: int) -> None:
    taken_back = session.run(lambda client: BrokerAdmin(client).undrain(broker_id))
    say(
        session.output,
        f"undrained  broker {broker_id}, {count(len(taken_back), 'move')} taken back",
        {"broker": broker_id, "result": "undrained", "moves_taken_back": len(taken_back)},
    )


def remove(session: CommandSession, *, broker_id: int) -> None:
    session.run(lambda client: BrokerAdmin(client).remove(broker_id))
    say(session.output, f"removed  broker {broker_id}", {"broker": broker_id, "result": "removed"})
