"""Reads the values of --admin, with the TLS of the client's connection."""

from __future__ import annotations

from collections.abc import Iterable

import click

from odradek.cli.shared.admin_option import ADMIN
from odradek.client.admin.http_port import parse_url
from odradek.client.secured import HttpSecurity


def parse_admin_ports(given: Iterable[str], security: HttpSecurity) -> list[str]:
    """A URL for each, of HTTPS where the client has TLS and the text says nothing else. Raises click.BadParameter."""
    try:
        return [parse_url(one, has_tls=security.tls is not None) for one in given]
    except ValueError as failure:
        raise click.BadParameter(str(failure), param_hint=ADMIN) from failure
