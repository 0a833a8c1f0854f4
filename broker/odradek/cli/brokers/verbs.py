"""`odradek brokers`: list brokers, and drain one before it is removed. Disks and balance have their own modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odradek.cli.brokers.disk import brokers_argument, disk
from odradek.cli.brokers.moves import show_moves, throttle_option, wait_option, wait_until_ended
from odradek.cli.brokers.rebalance import rebalance
from odradek.cli.shared.completers import complete_brokers
from odradek.cli.shared.options import CommandSession, session_options
from odradek.cli.shared.output import bad, count, format_bytes, plain, say, show, warning
from odradek.cli.shared.watch import WatchCommand, look, watch_option
from odradek.foundation.verb_groups import VerbGroup

if TYPE_CHECKING:
    from odradek.client.admin.brokers import BrokerLoad, DrainProgress
    from odradek.client.admin.plans import Plan
    from odradek.client.client import Client

broker_argument = click.argument(
    "broker_id", type=click.IntRange(min=0), metavar="ID", shell_complete=complete_brokers
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the moves, and change nothing.")


@click.group(cls=VerbGroup)
def brokers() -> None:
    """List brokers, their disks and versions, drain and remove one, fill new ones."""


brokers.add_command(disk)
brokers.add_command(rebalance)


@brokers.command("list", cls=WatchCommand)
@watch_option
@session_options
def list_brokers(session: CommandSession, *, watch: float | None) -> int:
    """Show the live brokers and their partitions and disks.

    PREFERRED is the number of partitions whose preferred leader is the broker. DISK is free and total bytes of its log
    directories, and which are full or failed. A broker refuses records for a full directory.

    \b
    Examples:
      odradek brokers list
      odradek brokers list --watch 5
      odradek brokers list --output json | jq '.[] | select(.is_cordoned)'
      odradek brokers list --output json | jq '.[].log_directories[] | select(.is_full)'
    """
    from odradek.client.admin.brokers import BrokerAdmin

    return look(session, lambda client: BrokerAdmin(client).list(), _show_brokers, every_seconds=watch)


def _show_brokers(session: CommandSession, found: list[BrokerLoad]) -> None:
    from odradek.cli.shared.disk_words import directory_document, disk_cell
    from odradek.client.addresses import Address

    show(
        session.output,
        headers=("ID", "ADDRESS", "RACK", "REPLICAS", "LEADS", "PREFERRED", "CORDONED", "DISK"),
        rows=[
            (
                one.id,
                str(Address(one.host, one.port)),
                one.rack,
                one.replicas,
                one.leaders,
                one.preferred_leaders,
                warning(True) if one.is_cordoned else False,
                disk_cell(one.log_directories) if one.error is None else bad(one.error),
            )
            for one in found
        ],
        document=[
            plain(one) | {"log_directories": list(map(directory_document, one.log_directories))}
            for one in found
        ],
        empty="no broker is running",
    )


@brokers.command("api-versions")
@brokers_argument
@click.option("--compare", is_flag=True, help="Only the APIs and features in which brokers differ.")
@session_options
def api_versions(session: CommandSession, *, broker_ids: tuple[int, ...], compare: bool) -> int:
    """Show which versions of each API brokers support, and their features. Without IDs all brokers are shown; brokers
    with equal versions are shown together.

    \b
    Examples:
      odradek brokers api-versions
      odradek brokers api-versions 1 --output json | jq '.[0].apis[] | select(.name == "Fetch")'
      odradek brokers api-versions --compare
    """
    from odradek.cli.brokers.broker_versions import show_differences, show_versions
    from odradek.client.admin.versions import broker_versions

    found = session.run(lambda client: broker_versions(client, broker_ids))
    return show_differences(session, found) if compare else show_versions(session, found)


@brokers.command()
@broker_argument
@dry_run_option
@throttle_option
@wait_option
@session_options
def drain(
    session: CommandSession, *, broker_id: int, dry_run: bool, throttle: int | None, wait: bool
) -> None:
    """Move all replicas off a broker, and give it no new ones.

    The moves continue without this command. `odradek brokers drained` shows their progress, and when the broker can be
    removed. `odradek brokers undrain` reverses the drain. A broker that is down can be drained too, as long as other
    replicas of its partitions are in sync.

    \b
    Examples:
      odradek brokers drain 4 --dry-run
      odradek brokers drain 4 --throttle 50000000 --wait
    """

    async def work(client: Client) -> tuple[Plan, Plan]:
        from odradek.client.admin.brokers import BrokerAdmin

        admin = BrokerAdmin(client)
        before = await admin.reassignments.assignment()
        if dry_run:
            return await admin.plan_drain(broker_id), before
        plan = await admin.drain(broker_id, bytes_per_second=throttle)
        if wait:
            await wait_until_ended(admin, plan)
        return plan, before

    show_moves(session, *session.run(work), is_planned=dry_run, waited=wait)


@brokers.command("drained")
@broker_argument
@session_options
def follow_drain(session: CommandSession, *, broker_id: int) -> int:
    """Show the progress of a drain. The exit code is 0 when the broker can be removed, else 7. The throttle is lifted
    at the end, unless other partitions are moving.

    \b
    Examples:
      odradek brokers drained 4
      until odradek brokers drained 4; do sleep 10; done
    """
    from odradek.cli.exit_codes import ExitCode

    async def work(client: Client) -> DrainProgress:
        from odradek.client.admin.brokers import BrokerAdmin

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


@brokers.command()
@broker_argument
@session_options
def undrain(session: CommandSession, *, broker_id: int) -> None:
    """Reverse a drain: replicas that have not moved yet stay, and the broker is given new replicas again.

    Replicas that have moved stay there; `odradek brokers rebalance` gives the broker its share.

    \b
    Examples:
      odradek brokers undrain 4
    """
    from odradek.client.admin.brokers import BrokerAdmin

    taken_back = session.run(lambda client: BrokerAdmin(client).undrain(broker_id))
    say(
        session.output,
        f"undrained  broker {broker_id}, {count(len(taken_back), 'move')} taken back",
        {"broker": broker_id, "result": "undrained", "moves_taken_back": len(taken_back)},
    )


@brokers.command()
@click.argument("broker_id", type=click.IntRange(min=0), metavar="ID")
@session_options
def remove(session: CommandSession, *, broker_id: int) -> None:
    """Have the cluster forget a broker that was taken out for good.

    The cluster knows a broker also while it is down, and may place replicas on it that it fetches when it is back. So
    drain a broker, stop it, and then remove it. A broker that is alive or has replicas is not removed. One that starts
    again is known again.

    \b
    Examples:
      odradek brokers drain 4 --wait
      odradek brokers remove 4
    """
    from odradek.client.admin.brokers import BrokerAdmin

    session.run(lambda client: BrokerAdmin(client).remove(broker_id))
    say(session.output, f"removed  broker {broker_id}", {"broker": broker_id, "result": "removed"})
