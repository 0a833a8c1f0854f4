"""Runs the commands of the operator that talk to Kubernetes; `cli` declares them."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import KubernetesError, NoAccess
from odradek_operator.main.check_upgrade import check_upgrade as check
from odradek_operator.main.cli import set_up_logging
from odradek_operator.main.run import run_operator, with_kubernetes
from odradek_operator.main.strip_finalizers import strip


def run(http: str, log_level: str, log_format: str, home: str | None, **given: Any) -> None:
    set_up_logging(log_level, log_format)
    host, _, port = http.rpartition(":")
    if not port.isdecimal():
        raise click.BadParameter(f"{http} is not HOST:PORT", param_hint="--http")
    given["namespaces"] = tuple(given["namespaces"])
    settings = OperatorSettings(
        http_host=host.strip("[]") or "0.0.0.0", http_port=int(port), home=home or "", **given
    )
    sys.exit(run_operator(settings))


def strip_finalizers(namespaces: tuple[str, ...], lease: str | None) -> None:
    set_up_logging("warning", "text")
    try:
        stripped = asyncio.run(
            with_kubernetes(lambda kubernetes: strip(kubernetes, namespaces, lease=lease, say=click.echo))
        )
    except (NoAccess, KubernetesError) as failure:
        raise click.ClickException(str(failure)) from failure
    click.echo(f"{stripped} resources were released")


def check_upgrade(namespaces: tuple[str, ...], broker_image: str) -> None:
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
