"""`odradek brokers rebalance`: show a plan that levels brokers, run it in batches, stop and resume it.

Nothing is kept between two calls. A plan is made from the cluster as it is, with the moves under way taken as ended. So
a second call continues after a first one that was stopped.
"""

from __future__ import annotations

import click

from odradek.cli.brokers.disk import brokers_argument
from odradek.cli.brokers.moves import throttle_option
from odradek.cli.shared.options import session_options
from odradek.foundation.client_limits import BALANCE_BATCH_MOVES_MAX, BALANCE_TOLERANCE
from odradek.foundation.option_types import AnyNumber, WholeNumber
from odradek.foundation.verb_groups import run_in

PERCENT = 100


@click.command()
@brokers_argument
@click.option("--plan", "--dry-run", "is_planned", is_flag=True, help="Show the plan, and change nothing.")
@click.option("--stop", is_flag=True, help="Cancel the moves under way, and lift their throttles.")
@throttle_option
@click.option(
    "--batch",
    type=WholeNumber(min=1),
    default=BALANCE_BATCH_MOVES_MAX,
    show_default=True,
    metavar="N",
    help="Partitions that move at a time.",
)
@click.option(
    "--tolerance",
    type=AnyNumber(min=0, max=100),
    default=BALANCE_TOLERANCE * PERCENT,
    show_default=True,
    metavar="PERCENT",
    help="How far brokers may be from their share.",
)
@click.option(
    "--sample-seconds",
    type=AnyNumber(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Measure bytes in and out for so long, and level them too.",
)
@click.option(
    "--within-machines",
    is_flag=True,
    help="Level the brokers of each machine among themselves: no record leaves its machine.",
)
@click.option("--wait", is_flag=True, help="Wait for the end, as the command does without it.")
@session_options
@run_in("odradek.cli.brokers.rebalance_run")
def rebalance() -> None:
    """Level the load of brokers: racks, bytes on disks, replicas, leaders, bytes in and out, in this order.

    Brokers within the tolerance are left alone, and as few bytes as possible move. With IDs only those brokers are
    given replicas. Bytes in and out count with --sample-seconds; they are read from logs and groups' offsets. A single
    broker that has become a machine of several (`odradek broker --processes`) shares its replicas with the others by
    --within-machines.

    Partitions move in batches, and the command waits for each. Ctrl-C begins no further batch; what is moving arrives
    without the command. The same command resumes, and --stop takes back what has not arrived.

    \b
    Examples:
      odradek brokers rebalance --plan
      odradek brokers rebalance --plan --sample-seconds 60
      odradek brokers rebalance 4 5 --throttle 50000000
      odradek brokers rebalance --within-machines --plan
      odradek brokers rebalance --stop
    """
