"""The command `odradek-operator`: `run`, and commands that do one thing and end.

Options may also be given in the environment, as ODRADEK_OPERATOR_RUN_NAMESPACES. Commands load what they need when they
are called.
"""

from __future__ import annotations

import logging
import os
import socket

import click

from odradek.foundation.log_lines import JsonLines, TextLines, log_to_standard_error
from odradek.foundation.option_types import AnyNumber, WholeNumber
from odradek.foundation.verb_groups import VerbGroup, run_in

_OF_THE_OPERATOR = ("kopf", "kubernetes", "yaml")
LOG_LEVELS = ("debug", "info", "warning", "error")


class _Commands(VerbGroup):
    """Commands that need more than a broker's installation has, and say so where it is not there."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as failure:
            if (failure.name or "").partition(".")[0] not in _OF_THE_OPERATOR:
                raise
            raise click.ClickException(
                f"{failure.name} is not installed, which only the operator needs: pip install odradek-operator, in a "
                "clone `pip install . ./operator`, or run this in the operator's image"
            ) from failure


@click.group(
    cls=_Commands,
    context_settings={"auto_envvar_prefix": "ODRADEK_OPERATOR", "help_option_names": ["-h", "--help"]},
)
def main() -> None:
    """Odradek on Kubernetes: an operator for Clusters, Topics and ConsumerGroups."""


@main.command()
@click.option("--namespace", "namespaces", multiple=True, help="Act in this namespace only. May be repeated.")
@click.option("--home", envvar="POD_NAMESPACE", help="The namespace of the Lease. Default: the current one.")
@click.option(
    "--identity", envvar="POD_NAME", default=socket.gethostname, help="The holder's name in the Lease."
)
@click.option(
    "--pod", envvar="POD_NAME", default="", help="The pod that this is: when it is gone, its Lease is free."
)
@click.option(
    "--lease/--no-lease", default=True, help="Act only while holding the Lease; off for a run by hand."
)
@click.option(
    "--lease-seconds",
    type=AnyNumber(min=0, min_open=True),
    default=15.0,
    help="How long a silent holder keeps the Lease.",
)
@click.option("--http", default="0.0.0.0:8080", help="Where /metrics, /healthz and /readyz are served.")
@click.option(
    "--workers", type=WholeNumber(min=1), default=8, help="How many resources are worked on at a time."
)
@click.option(
    "--resync-seconds",
    type=AnyNumber(min=0, min_open=True),
    default=300.0,
    help="How often everything is looked at without being asked.",
)
@click.option("--cluster-domain", default="cluster.local", help="The DNS domain of Services.")
@click.option("--broker-image", default="", help="The image of Clusters that name none.")
@click.option(
    "--zookeeper-image", default="zookeeper:3.9", help="The image of ZooKeeper where a Cluster names none."
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", help="How much to log.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Text or JSON lines.",
)
@run_in("odradek_operator.main.commands")
def run() -> None:
    """Run the operator until SIGTERM or Ctrl-C."""


@main.command("strip-finalizers")
@click.option(
    "--namespace", "namespaces", multiple=True, help="Only there. May be repeated; default: everywhere."
)
@click.option("--lease", help="NAMESPACE/NAME of the operator's Lease, to delete it as well.")
@run_in("odradek_operator.main.commands")
def strip_finalizers() -> None:
    """Take the operator's finalizer off every resource, so that all can be deleted without an operator.

    Nothing is removed from any cluster of brokers. For a namespace that hangs in Terminating, and before the operator
    is uninstalled for good.
    """


@main.command("check-upgrade")
@click.option(
    "--namespace", "namespaces", multiple=True, help="Only there. May be repeated; default: everywhere."
)
@click.option("--broker-image", default="", help="The image of Clusters that name none.")
@run_in("odradek_operator.main.commands")
def check_upgrade() -> None:
    """Say whether this version of the operator may take over the Clusters that there are. Nothing is changed.

    Exit code 1 where it may not: brokers have run an unknown version, or a Cluster's image cannot read what they
    wrote. The chart runs it before each upgrade and rollback.
    """


@main.command()
@click.argument("topics", nargs=-1)
@click.option(
    "--bootstrap",
    default="127.0.0.1:9092",
    show_default=True,
    help="The brokers: HOST:PORT, or several with commas.",
)
@click.option("--cluster", required=True, help="The name of the Cluster that the resources are for.")
@click.option("--namespace", help="The resources' namespace. Default: none is written.")
@run_in("odradek_operator.main.export_command")
def export() -> None:
    """Write Topic resources for TOPICS, or for all topics that a cluster has, to standard output.

    \b
    kubectl port-forward service/NAME-bootstrap 9092 &
    odradek-operator export --cluster NAME > topics.yaml

    Applied, they take the topics over as they are.
    """


def set_up_logging(level: str, form: str) -> None:
    """Log to the standard error, as text for people or as one JSON object a line."""
    formatter = (
        _JsonLogLines(datefmt="%Y-%m-%dT%H:%M:%S%z")
        if form == "json"
        else TextLines("%(asctime)s %(levelname)s %(name)s %(message)s")
    )
    log_to_standard_error(level, formatter)
    logging.getLogger("aiohttp.access").setLevel(max(logging.WARNING, logging.getLogger().level))
    # kopf logs each event that it handles, and each try and trace of a watch that is refused; `main.watches` names it.
    logging.getLogger("kopf").setLevel(logging.DEBUG if level == "debug" else logging.CRITICAL)
    os.environ.setdefault("LOGNAME", "odradek-operator")


class _JsonLogLines(JsonLines):
    def fields(self, record: logging.LogRecord) -> dict[str, str]:
        return {**super().fields(record), "level": record.levelname}
