"""`odradek brokers`: list brokers, and drain one before it is removed. Disks and balance have their own modules."""

from __future__ import annotations

import click

from odradek.cli.brokers.disk import brokers_argument, disk, empty_disk
from odradek.cli.brokers.moves import throttle_option, wait_option
from odradek.cli.brokers.rebalance import rebalance
from odradek.cli.shared.completers import complete_brokers
from odradek.cli.shared.options import session_options
from odradek.cli.shared.watch import WatchCommand, watch_option
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import VerbGroup, run_in

broker_argument = click.argument(
    "broker_id", type=WholeNumber(min=0), metavar="ID", shell_complete=complete_brokers
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the moves, and change nothing.")


@click.group(cls=VerbGroup)
def brokers() -> None:
    """List brokers, their disks and versions, drain and remove one, fill new ones."""


brokers.add_command(disk)
brokers.add_command(empty_disk)
brokers.add_command(rebalance)


@brokers.command("list", cls=WatchCommand)
@watch_option
@session_options
@run_in("odradek.cli.brokers.verbs_run")
def list_brokers() -> None:
    """Show the live brokers and their partitions and disks.

    PREFERRED is the number of partitions whose preferred leader is the broker. DISK is free and total bytes of its log
    directories, and which are full or failed. A broker refuses records for a full directory. MACHINE is there where
    brokers share machines.

    \b
    Examples:
      odradek brokers list
      odradek brokers list --watch 5
      odradek brokers list --output json | jq '.[] | select(.is_cordoned)'
      odradek brokers list --output json | jq '.[].log_directories[] | select(.is_full)'
    """


@brokers.command("api-versions")
@brokers_argument
@click.option("--compare", is_flag=True, help="Only the APIs and features in which brokers differ.")
@session_options
@run_in("odradek.cli.brokers.verbs_run")
def api_versions() -> None:
    """Show which versions of each API brokers support, and their features. Without IDs all brokers are shown; brokers
    with equal versions are shown together.

    \b
    Examples:
      odradek brokers api-versions
      odradek brokers api-versions 1 --output json | jq '.[0].apis[] | select(.name == "Fetch")'
      odradek brokers api-versions --compare
    """


@brokers.command()
@click.argument(
    "broker_ids",
    type=WholeNumber(min=0),
    metavar="ID…",
    nargs=-1,
    required=True,
    shell_complete=complete_brokers,
)
@dry_run_option
@throttle_option
@wait_option
@session_options
@run_in("odradek.cli.brokers.verbs_run")
def drain() -> None:
    """Move all replicas off brokers, and give them no new ones.

    Replicas stay on a machine that has other brokers, so name all brokers of a machine that is taken out.

    The moves continue without this command. `odradek brokers drained` shows their progress, and when the broker can be
    removed. `odradek brokers undrain` reverses the drain. A broker that is down can be drained too, as long as other
    replicas of its partitions are in sync.

    \b
    Examples:
      odradek brokers drain 4 --dry-run
      odradek brokers drain 4 --throttle 50000000 --wait
      odradek brokers drain 1 10001
    """


@brokers.command("drained")
@broker_argument
@session_options
@run_in("odradek.cli.brokers.verbs_run")
def follow_drain() -> None:
    """Show the progress of a drain. The exit code is 0 when the broker can be removed, else 7. The throttle is lifted
    at the end, unless other partitions are moving.

    \b
    Examples:
      odradek brokers drained 4
      until odradek brokers drained 4; do sleep 10; done
    """


@brokers.command()
@broker_argument
@session_options
@run_in("odradek.cli.brokers.verbs_run")
def undrain() -> None:
    """Reverse a drain: replicas that have not moved yet stay, and the broker is given new replicas again.

    Replicas that have moved stay there; `odradek brokers rebalance` gives the broker its share.

    \b
    Examples:
      odradek brokers undrain 4
    """


@brokers.command()
@click.argument("broker_id", type=WholeNumber(min=0), metavar="ID")
@session_options
@run_in("odradek.cli.brokers.verbs_run")
def remove() -> None:
    """Have the cluster forget a broker that was taken out for good.

    The cluster knows a broker also while it is down, and may place replicas on it that it fetches when it is back. So
    drain a broker, stop it, and then remove it. A broker that is alive or has replicas is not removed. One that starts
    again is known again.

    \b
    Examples:
      odradek brokers drain 4 --wait
      odradek brokers remove 4
    """
