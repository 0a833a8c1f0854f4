"""`odradek profile`: connection settings under a name, so that a cluster need not be given with each command."""

from __future__ import annotations

import os

import click

from odradek.cli.shared import profiles
from odradek.cli.shared.completers import (
    complete_profiles,
    complete_properties,
    complete_property_assignments,
)
from odradek.cli.shared.connection_settings import GivenOptions, resolve
from odradek.cli.shared.environment import PROFILE_VARIABLE
from odradek.cli.shared.options import CommandSession, parse_assignments, session_options
from odradek.cli.shared.output import print_error, say, show, show_document, warn
from odradek.cli.shared.property_files import read_property_file
from odradek.client.properties import (
    API_TIMEOUT_MS,
    BOOTSTRAP_SERVERS,
    CLIENT_PROPERTIES,
    REQUEST_TIMEOUT_MS,
    SCHEMA_REGISTRY_PROPERTIES,
    hide_secret,
    read_client_properties,
)
from odradek.foundation.errors import OdradekError
from odradek.foundation.verb_groups import VerbGroup

set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_property_assignments,
    help="A client property; may be repeated.",
)


@click.group(cls=VerbGroup)
def profile() -> None:
    """Keep the connections to clusters under names, and choose one.

    Profiles lie in $XDG_CONFIG_HOME/odradek (~/.config/odradek), readable by their owner only, in the
    syntax of Kafka's client.properties.
    """


@profile.command()
@click.argument("name")
@set_option
@session_options
def create(session: CommandSession, *, name: str, assignments: tuple[str, ...]) -> None:
    """Make a profile of the connection options given, and use it from now on. --command-config imports a
    client.properties; --profile copies a profile.

    \b
    Examples:
      odradek profile create local --bootstrap 127.0.0.1:9092
      odradek profile create staging --command-config client.properties
      odradek profile create slow --profile staging --set request.timeout.ms=120000
    """
    properties = _read_given_properties(session.given, assignments)
    if not properties:
        raise click.UsageError("nothing to keep: give --bootstrap, --command-config, --profile or --set")
    profiles.create(name, properties)
    profiles.use(name)
    document = {"profile": name, "result": "created", "is_current": True}
    say(session.output, f"created  {name}, which is now in use", document)


def _read_given_properties(given: GivenOptions, assignments: tuple[str, ...]) -> dict[str, str]:
    properties: dict[str, str] = {}
    if given.profile is not None:
        properties.update(profiles.read(given.profile, named_by="--profile").values)
    if given.command_config is not None:
        read = read_property_file(given.command_config)
        for warning in read.warnings:
            warn(f"{warning}; it is left out")
        properties.update(read.values)
    options: dict[str, str] = {}
    if given.bootstrap is not None:
        options[BOOTSTRAP_SERVERS] = given.bootstrap
    if given.timeout_seconds is not None:
        timeout_ms = max(1, round(1000 * given.timeout_seconds))
        options[REQUEST_TIMEOUT_MS] = options[API_TIMEOUT_MS] = str(timeout_ms)
    properties.update(_strictly(options, source="--bootstrap or --timeout"))
    properties.update(_strictly(parse_assignments(assignments, option="--set"), source="--set"))
    return properties


def _strictly(entries: dict[str, str], *, source: str) -> dict[str, str]:
    """As for a file, but a key without effect is an error, since the user has just typed it."""
    read = read_client_properties(entries, source=source)
    if read.warnings:
        raise click.UsageError("; ".join(read.warnings))
    return dict(read.values)


@profile.command("set")
@click.argument("assignments", nargs=-1, metavar="KEY=VALUE…", shell_complete=complete_property_assignments)
@click.option(
    "--unset",
    multiple=True,
    metavar="KEY",
    shell_complete=complete_properties,
    help="Remove a property; may be repeated.",
)
@session_options
def set_properties(session: CommandSession, *, assignments: tuple[str, ...], unset: tuple[str, ...]) -> None:
    """Change properties of the profile in use, or of the one that --profile names.

    \b
    Examples:
      odradek profile set bootstrap.servers=127.0.0.1:9292,127.0.0.1:9293
      odradek profile set --profile staging client.id=ana --unset request.timeout.ms
    """
    changes = _strictly(parse_assignments(assignments, option="KEY=VALUE"), source="profile set")
    if not changes and not unset:
        raise click.UsageError("nothing to change: give KEY=VALUE or --unset")
    name = session.given.profile or _choose_profile()
    if name is None:
        raise click.UsageError("no profile is in use; name one with --profile, or `odradek profile use`")
    properties = profiles.entries(name)
    for key in unset:
        if properties.pop(key, None) is None:
            raise click.UsageError(
                f"profile {name!r} has no {key}; it has: {', '.join(properties) or 'none'}"
            )
    profiles.write(name, properties | changes)
    say(session.output, f"changed  {name}", {"profile": name, "result": "changed"})


@profile.command("list")
@session_options
def list_profiles(session: CommandSession) -> None:
    """List the profiles and which is in use.

    \b
    Examples:
      odradek profile list
    """
    chosen = _choose_profile()
    documents: list[dict[str, object]] = []
    for name in profiles.names():
        try:
            brokers = profiles.entries(name).get(BOOTSTRAP_SERVERS)
        except OdradekError as failure:
            print_error(failure)
            brokers = None
        documents.append({"name": name, "is_current": name == chosen, "bootstrap": brokers})
    show(
        session.output,
        headers=("PROFILE", "IN USE", "BOOTSTRAP"),
        rows=[(one["name"], one["is_current"], one["bootstrap"]) for one in documents],
        document=documents,
        empty="there is no profile; `odradek profile create NAME` makes one",
    )


@profile.command()
@click.argument("name", required=False, shell_complete=complete_profiles)
@click.option("--none", "is_none", is_flag=True, help="Use no profile.")
@session_options
def use(session: CommandSession, *, name: str | None, is_none: bool) -> None:
    """Use a profile from now on.

    \b
    Examples:
      odradek profile use staging
      odradek profile use --none
    """
    if (name is None) is not is_none:
        raise click.UsageError("give the name of a profile, or --none")
    profiles.use(name)
    sentence = "no profile is in use now" if name is None else f"in use   {name}"
    say(session.output, sentence, {"profile": name, "result": "used"})
    if overriding := _from_environment():
        warn(f"${PROFILE_VARIABLE} is set to {overriding!r} and wins over it")


@profile.command("show")
@click.argument("name", required=False, shell_complete=complete_profiles)
@session_options
def show_settings(session: CommandSession, *, name: str | None) -> None:
    """Show the connection settings in force and where each comes from.

    SOURCE is an option, an environment variable, a file, a profile or the default; the first of these wins. A NAME has
    the same effect as --profile NAME.

    \b
    Examples:
      odradek profile show
      odradek profile show staging
      odradek profile show --command-config client.properties --timeout 5
    """
    settings = resolve(GivenOptions(profile=name).over(session.given))
    for warning in settings.warnings:
        warn(warning)
    show(
        session.output,
        headers=("PROPERTY", "VALUE", "SOURCE"),
        rows=[
            (key, hide_secret(key, settings.values[key].value), settings.values[key].source)
            for key in (*CLIENT_PROPERTIES, *SCHEMA_REGISTRY_PROPERTIES)
            if key in settings.values
        ],
        document={
            "profile": settings.profile,
            "properties": {
                key: {"value": hide_secret(key, value), "source": source}
                for key, (value, source) in settings.values.items()
            },
        },
        empty="no property",
    )


@profile.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=complete_profiles)
@session_options
def delete(session: CommandSession, *, names: tuple[str, ...]) -> None:
    """Delete profiles. After the one in use is deleted, none is in use.

    \b
    Examples:
      odradek profile delete staging
    """
    for name in names:
        profiles.delete(name)
        if not session.is_json:
            click.echo(f"deleted  {name}")
    show_document(session.output, [{"profile": name, "result": "deleted"} for name in names])


def _from_environment() -> str | None:
    return os.environ.get(PROFILE_VARIABLE) or None


def _choose_profile() -> str | None:
    return _from_environment() or profiles.current()
