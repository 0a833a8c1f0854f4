"""Runs `odradek-operator export`, which needs brokers and no Kubernetes."""

from __future__ import annotations

import asyncio

import click

from odradek.foundation.errors import OdradekError
from odradek_operator.main.cli import set_up_logging
from odradek_operator.main.export import export as exported


def export(topics: tuple[str, ...], bootstrap: str, cluster: str, namespace: str | None) -> None:
    set_up_logging("warning", "text")
    try:
        documents = asyncio.run(exported(bootstrap, cluster=cluster, namespace=namespace, names=topics))
    except (OdradekError, ValueError) as failure:
        raise click.ClickException(str(failure)) from failure
    for document in documents:
        click.echo(document, nl=False)
