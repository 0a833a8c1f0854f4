"""`odradek audit-access`: what of a cluster's registry and of a node's data is open to others."""

from __future__ import annotations

import click

from odradek.cli.shared.options import session_options
from odradek.foundation.verb_groups import run_in


@click.command("audit-access")
@click.option("--data", metavar="DIR", help="The data directory of a node.")
@click.option(
    "--zookeeper",
    metavar="CONNECT",
    help="The ensemble and the cluster's root node, as zk1:2181,zk2:2181/odradek.",
)
@click.option(
    "--config",
    metavar="FILE",
    help="The server.properties of a node, a broker or a controller: its directories, and how it reaches ZooKeeper.",
)
@session_options
@run_in("odradek.cli.security.audit_access_run")
def audit_access() -> None:
    """List what is open to others: nodes in ZooKeeper, and files and directories of this machine.

    A node is open when clients without a login may change it, or read it where it holds keys of users. One that belongs
    to another user than zookeeper.digest.user is listed too. Nothing is changed: a controller with
    zookeeper.set.acl=true puts nodes right when it starts. The exit code is 9 when something is open.

    \b
    Examples:
      odradek audit-access --config broker.properties
      odradek audit-access --zookeeper zk1:2181/odradek --output json
      odradek audit-access --data ./data
    """
