"""Runs `odradek console`: the settings of each cluster, and the process that serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import click

from odradek.cli.cluster.console_logins import LoginOptions, check_url, make_login_source, read_oidc
from odradek.cli.cluster.start_run import configure_logging
from odradek.cli.records.decoded_blocks import REGISTRY_OPTION, make_registry
from odradek.cli.shared.connection_settings import (
    ClientSettings,
    GivenOptions,
    Sourced,
    new_client,
    resolve_alone,
)
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import warn
from odradek.cli.shared.profiles import is_name
from odradek.cli.shared.property_files import read_text
from odradek.client.properties import SCHEMA_REGISTRY_URL, SECURITY_PROTOCOL
from odradek.client.schemas.registry import SchemaRegistry
from odradek.console.clusters import ONLY, ClusterSource
from odradek.console.http.server import ConsoleSettings
from odradek.console.masks import MaskRules, parse_masks
from odradek.console.serving import run_console
from odradek.console.showing import RecordShowing
from odradek.foundation.console_limits import (
    CONSOLE_CLUSTERS_MAX,
    CONSOLE_REQUEST_MS_MAX,
    CONSOLE_SCHEMA_MS_MAX,
)

CLUSTER_OPTION: Final = "--cluster"
ALLOW_HOST_OPTION: Final = "--allow-host"
MASKS_OPTION: Final = "--masks"


class NamedCluster(NamedTuple):
    """A cluster of the console, and the settings that it was read from."""

    source: ClusterSource
    settings: ClientSettings


def console(
    session: CommandSession,
    *,
    host: str,
    port: int,
    clusters: Sequence[str],
    registry_url: str | None,
    masks_file: str | None,
    allowed_hosts: Sequence[str],
    allow_changes: bool,
    logins: bool,
    url: str | None,
    oidc_issuer: str | None,
    oidc_client_id: str | None,
    oidc_client_secret_file: str | None,
    oidc_scope: str,
    log_level: str,
    log_format: str,
) -> int:
    check_hosts(allowed_hosts)
    found = find_clusters(session, clusters, registry_url=registry_url, masks=_read_masks(masks_file))
    options = LoginOptions(
        logins, check_url(url), oidc_issuer, oidc_client_id, oidc_client_secret_file, oidc_scope
    )
    sources = [make_login_source(*one) for one in found] if options.is_wanted else []
    oidc = read_oidc(options, sources)
    configure_logging(log_level, log_format)
    return run_console(
        ConsoleSettings(
            host=host,
            port=port,
            clusters=[one.source for one in found],
            allowed_hosts=allowed_hosts,
            may_change=allow_changes,
            logins=sources,
            url=options.url,
            oidc=oidc,
        )
    )


def check_hosts(names: Sequence[str]) -> None:
    """Raises click.BadParameter for a URL, and for a name with a port: neither is the name of a host."""
    for name in names:
        if "/" in name or name.count(":") == 1:
            raise click.BadParameter(
                f"{name!r} is no name of a host; write it like console.example.org",
                param_hint=ALLOW_HOST_OPTION,
            )


def find_clusters(
    session: CommandSession,
    clusters: Sequence[str],
    *,
    registry_url: str | None = None,
    masks: MaskRules | None = None,
) -> list[NamedCluster]:
    """The clusters that the command names. Raises click.UsageError, and SettingError for a file."""
    rules = masks or MaskRules()
    found = _list_clusters(session, clusters, registry_url, rules)
    for number in rules.list_unused(one.source.name for one in found):
        warn(f"rule {number} of {MASKS_OPTION} counts in no cluster of this console")
    for number, name in rules.list_dotted():
        warn(
            f"rule {number} of {MASKS_OPTION}: {name!r} is the name of one field; a path begins with $: '$.{name}'"
        )
    return found


def _list_clusters(
    session: CommandSession, clusters: Sequence[str], registry_url: str | None, masks: MaskRules
) -> list[NamedCluster]:
    if not clusters:
        return [_make_cluster(ONLY, session.settings, session.given, masks, url=registry_url)]
    if registry_url is not None:
        raise click.UsageError(
            f"{REGISTRY_OPTION} is for one cluster: files of several have {SCHEMA_REGISTRY_URL}"
        )
    if words := connection_words(session.given):
        raise click.UsageError(f"{CLUSTER_OPTION} names the clusters: leave {words[0]} out")
    if len(clusters) > CONSOLE_CLUSTERS_MAX:
        raise click.UsageError(f"a console has {CONSOLE_CLUSTERS_MAX} clusters at most")
    found: dict[str, NamedCluster] = {}
    for text in clusters:
        name, separator, file = text.partition("=")
        if not is_name(name) or (separator and not file):
            raise click.BadParameter(
                f"{text!r} names no cluster: write the name of a profile, or NAME=FILE",
                param_hint=CLUSTER_OPTION,
            )
        if name in found:
            raise click.BadParameter(f"{name!r} is named twice", param_hint=CLUSTER_OPTION)
        given = GivenOptions(command_config=file) if separator else GivenOptions(profile=name)
        settings = resolve_alone(given, what=CLUSTER_OPTION)
        for warning in settings.warnings:
            warn(warning)
        found[name] = _make_cluster(name, settings, given, masks)
    return list(found.values())


def _make_cluster(
    name: str, settings: ClientSettings, given: GivenOptions, masks: MaskRules, *, url: str | None = None
) -> NamedCluster:
    source = ClusterSource(
        new_client=lambda: new_client(settings, wait_ms_max=CONSOLE_REQUEST_MS_MAX),
        bootstrap=settings.bootstrap.value,
        name=name,
        security_protocol=settings.values[SECURITY_PROTOCOL].value.upper(),
        connection=connection_words(given),
        showing=RecordShowing(_make_registry(settings, url), masks.for_cluster(name)),
    )
    return NamedCluster(source, settings)


def _read_masks(path: str | None) -> MaskRules:
    if path is None:
        return MaskRules()
    return parse_masks(read_text(path, what=MASKS_OPTION), source=path)


def _make_registry(settings: ClientSettings, url: str | None) -> SchemaRegistry | None:
    """The registry of --schema-registry or of the properties; None where neither names one."""
    named = settings.values.get(SCHEMA_REGISTRY_URL) if url is None else Sourced(url, REGISTRY_OPTION)
    if named is None or not named.value:
        return None
    return make_registry(named, settings, timeout_seconds=CONSOLE_SCHEMA_MS_MAX / 1000)


def connection_words(given: GivenOptions) -> list[str]:
    """The options that name the cluster, as they were given: a command of the console's pages has the same."""
    named = {
        "--bootstrap": given.bootstrap,
        "--profile": given.profile,
        "--command-config": given.command_config,
    }
    return [word for option, value in named.items() if value is not None for word in (option, value)]
