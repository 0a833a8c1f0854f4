"""`odradek console`: clusters in a browser."""

from __future__ import annotations

import click

from odradek.cli.cluster.start_options import LOG_FORMATS, LOG_LEVELS
from odradek.cli.shared.options import session_options
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import run_in

HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8088


@click.command()
@click.option("--host", default=HOST_DEFAULT, show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=WholeNumber(min=0, max=65535),
    default=PORT_DEFAULT,
    show_default=True,
    help="The port to listen on; 0 takes a free one.",
)
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME[=FILE]",
    help="Show this cluster: that of a profile, or of a client.properties. Repeat it for several.",
)
@click.option(
    "--schema-registry",
    "registry_url",
    metavar="URL",
    help="Decode records by Avro, Protobuf and JSON schemas. Default: $ODRADEK_SCHEMA_REGISTRY, or the property "
    "schema.registry.url; '' for none.",
)
@click.option(
    "--masks",
    "masks_file",
    type=click.Path(),
    metavar="FILE",
    help="Hide fields of records from all viewers, by the rules of this file: docs/console.md.",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which browsers reach it, besides localhost and --host. May be repeated.",
)
@click.option(
    "--allow-changes",
    is_flag=True,
    help="Let viewers produce records, make, change and delete topics, and reset offsets.",
)
@click.option(
    "--logins",
    is_flag=True,
    help="Let each viewer log in as a user of the cluster, and see and change what that user may.",
)
@click.option(
    "--url",
    metavar="URL",
    help="The address by which browsers reach it, as that of a proxy with TLS: its name is allowed, and cookies of "
    "https are secure.",
)
@click.option(
    "--oidc-issuer",
    metavar="URL",
    help="The identity provider of --logins at clusters with sasl.mechanism=OAUTHBEARER.",
)
@click.option("--oidc-client-id", metavar="ID", help="The name that the provider has for this console.")
@click.option(
    "--oidc-client-secret-file",
    type=click.Path(),
    metavar="FILE",
    help="A file with the secret that the provider gave this console, if it did.",
)
@click.option(
    "--oidc-scope",
    default="openid",
    show_default=True,
    help="What is asked of the provider, with blanks between.",
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default=LOG_LEVELS[1], help="How much to log.")
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default=LOG_FORMATS[0],
    help="Log as text for people or as JSON lines.",
)
@session_options
@run_in("odradek.cli.cluster.console_run")
def console() -> None:
    """Show clusters in a browser, until SIGTERM or Ctrl-C: brokers and what is wrong, topics, records, groups.

    It works with Apache Kafka, too. Pages are served at http://127.0.0.1:8088, from this process alone, and send
    nothing elsewhere. It only shows, unless --allow-changes is given. Without --logins each person who reaches the port
    sees what the user of this command may see. One line, `ready …`, is printed once it serves.

    \b
    Examples:
      odradek console
      odradek console --bootstrap kafka-1:9092 --port 9000
      odradek console --profile staging --allow-changes
      odradek console --cluster staging --cluster production=kafka.properties
      odradek console --host 0.0.0.0 --allow-host console.example.org
      odradek console --command-config kafka.properties --logins --url https://console.example.org
    """
