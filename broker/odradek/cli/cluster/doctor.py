"""`odradek doctor`: what is wrong with a cluster and how it is set up, and what to do about it."""

from __future__ import annotations

import click

from odradek.cli.shared.options import session_options
from odradek.foundation.verb_groups import run_in

# The names of `client.admin.diagnosis.RULES`, which no other command has to wait for.
CHECKS = (
    "health",
    "addresses",
    "copies",
    "racks",
    "settings",
    "groups",
    "transactions",
    "clocks",
    "certificates",
    "rights",
    "unasked",
)


@click.command()
@click.option(
    "--only",
    type=click.Choice(CHECKS),
    multiple=True,
    help="This check alone; may be given several times.",
)
@session_options
@run_in("odradek.cli.cluster.doctor_run")
def doctor() -> None:
    """Look at a cluster and how it is set up, and say what is wrong and what to do. The checks are health, addresses,
    copies, racks, settings, groups, transactions, clocks, certificates and rights. It changes nothing. The exit code is
    0 where nothing or only a note was found, 9 for warnings and 10 for problems.

    \b
    A problem does not work. A warning works, and will fail or lose records when something else happens. A note is often
    meant. What this user may not look at is named.

    \b
    Examples:
      odradek doctor
      odradek doctor --only copies --only settings
      odradek doctor --output json | jq -r '.findings[].message'
    """
