"""The command `odradek-operator`: `run`, and commands that do one thing and end.

Options may also be given in the environment, as ODRADEK_OPERATOR_RUN_NAMESPACES. Commands load what they need when they
are called.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from typing import Any

import click

from odradek.foundation.log_lines import JsonLines, TextLines, log_to_standard_error
from odradek.foundation.verb_groups import VerbGroup
from odradek_operator.foundation.settings import OperatorSettings

_OF_THE_OPERATOR = ("kopf", "kubernetes", "yaml")
LOG_LEVELS = ("debug", "info", "warning", "error")


class _Commands(VerbGroup):
    """Commands that need more than a broker's installation has, and say so where it is not there."""

    def invoke(self, ctx: click.Context) -> Any:
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
@click.option("--lease-seconds", default=15.0, help="How long a silent holder keeps the Lease.")
@click.option("--http", default="0.0.0.0:8080", help="Where /metrics, /healthz and /readyz are served.")
@click.option("--workers", default=8, help="How many resources are worked on at a time.")
@click.option(
    "--resync-seconds", default=300.0, help="How often everything is looked at without being asked."
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
def run(http: str, log_level: str, log_format: str, home: str | None, **given: Any) -> None:
    """Run the operator until SIGTERM or Ctrl-C."""
    from odradek_operator.main.run import run_operator

    set_up_logging(log_level, log_format)
    host, _, port = http.rpartition(":")
    if not port.isdecimal():
        raise click.BadParameter(f"{http} is not HOST:PORT", param_hint="--http")
    given["namespaces"] = tuple(given["namespaces"])
    settings = OperatorSettings(
        http_host=host.strip("[]") or "0.0.0.0", http_port=int(port), home=home or "", **given
    )
    sys.exit(run_operator(settings))


@main.command("strip-finalizers")
@click.option(
    "--namespace", "namespaces", multiple=True, help="Only there. May be repeated; default: everywhere."
)
@click.option("--lease", help="NAMESPACE/NAME of the operator's Lease, to delete it as well.")
def strip_finalizers(namespaces: tuple[str, ...], lease: str | None) -> None:
    """Take the operator's finalizer off every resource, so that all can be deleted without an operator.

    Nothing is removed from any cluster of brokers. For a namespace that hangs in Terminating, and before the operator
    is uninstalled for good.
    """
    from odradek_operator.gateways.kubernetes import KubernetesError, NoAccess
    from odradek_operator.main.run import with_kubernetes
    from odradek_operator.main.strip_finalizers import strip

    set_up_logging("warning", "text")
    try:
        stripped = asyncio.run(
            with_kubernetes(lambda kubernetes: strip(kubernetes, namespaces, lease=lease, say=click.echo))
        )
    except (NoAccess, KubernetesError) as failure:
        raise click.ClickException(str(failure)) from failure
    click.echo(f"{stripped} resources were released")


@main.command("check-upgrade")
@click.option(
    "--namespace", "namespaces", multiple=True, help="Only there. May be repeated; default: everywhere."
)
@click.option("--broker-image", default="", help="The image of Clusters that name none.")
def check_upgrade(namespaces: tuple[str, ...], broker_image: str) -> None:
    """Say whether this version of the operator may take over the Clusters that there are. Nothing is changed.

    Exit code 1 where it may not: brokers have run an unknown version, or a Cluster's image cannot read what they
    wrote. The chart runs it before each upgrade and rollback.
    """
    from odradek_operator.gateways.kubernetes import KubernetesError, NoAccess
    from odradek_operator.main.check_upgrade import check_upgrade as check
    from odradek_operator.main.run import with_kubernetes

    set_up_logging("warning", "text")
    try:
        problems = asyncio.run(
            with_kubernetes(
                lambda kubernetes: check(kubernetes, namespaces, broker_image=broker_image, say=click.echo)
            )
        )
    except (NoAccess, KubernetesError) as failure:
        raise click.ClickException(str(failure)) from failure
    sys.exit(1 if problems else 0)


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
def export(topics: tuple[str, ...], bootstrap: str, cluster: str, namespace: str | None) -> None:
    """Write Topic resources for TOPICS, or for all topics that a cluster has, to standard output.

    \b
    kubectl port-forward service/NAME-bootstrap 9092 &
    odradek-operator export --cluster NAME > topics.yaml

    Applied, they take the topics over as they are.
    """
    from odradek.foundation.errors import OdradekError
    from odradek_operator.main.export import export as exported

    set_up_logging("warning", "text")
    try:
        documents = asyncio.run(exported(bootstrap, cluster=cluster, namespace=namespace, names=topics))
    except (OdradekError, ValueError) as failure:
        raise click.ClickException(str(failure)) from failure
    for document in documents:
        click.echo(document, nl=False)


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
