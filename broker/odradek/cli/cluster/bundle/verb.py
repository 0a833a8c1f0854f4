"""`odradek support-bundle`: what a maintainer needs, in one file without secrets."""

from __future__ import annotations

from pathlib import Path

import click

from odradek.cli.shared.admin_option import admin_option
from odradek.cli.shared.options import session_options
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.support_limits import SUPPORT_LOG_MB_DEFAULT, SUPPORT_LOG_MB_MAX
from odradek.foundation.verb_groups import run_in


@click.command("support-bundle")
@click.argument(
    "file", type=click.Path(dir_okay=False, path_type=Path), required=False, metavar="[FILE.tar.gz]"
)
@admin_option("The --admin port of a broker, for its /metrics and /readyz; may be given for each broker.")
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A log on this machine, of which the end is taken; may be repeated.",
)
@click.option(
    "--log-mb",
    type=WholeNumber(1, SUPPORT_LOG_MB_MAX),
    default=SUPPORT_LOG_MB_DEFAULT,
    show_default=True,
    help="How many megabytes of the end of each log.",
)
@click.option(
    "--data",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A log directory on this machine, whose files are listed and not read; may be repeated.",
)
@click.option(
    "--redact-names", is_flag=True, help="Replace names of topics, groups, users and hosts by pseudonyms."
)
@session_options
@run_in("odradek.cli.cluster.bundle.verb_run")
def support_bundle() -> None:
    """Write what a maintainer needs to one file. It has versions, what `odradek doctor` finds, brokers, topics, and
    settings with their source. It has groups and queues with lag, transactions that hang, and counts of quotas, ACLs
    and users. It has no records and is sent nowhere, and nothing is changed.

    Secrets are masked. These are settings that are declared as such, and in all texts what stands after names like
    password or token. So are logins in addresses, headers, tokens and PEM. --redact-names replaces names, too. Look
    through the files before you send them.

    A part that cannot be had is a text that says why, and manifest.json names what was left out. The file must not
    exist yet.

    \b
    Examples:
      odradek support-bundle
      odradek support-bundle problem.tar.gz --admin kafka-1:8080 --admin kafka-2:8080
      odradek support-bundle --log /var/log/odradek/broker.log --data /var/lib/odradek
      odradek support-bundle --redact-names
    """
