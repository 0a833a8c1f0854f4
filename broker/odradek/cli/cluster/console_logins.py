"""The logins of `odradek console --logins`: how viewers log in at each cluster, and the identity provider."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import click

from odradek.cli.shared.connection_settings import ClientSettings, new_client
from odradek.cli.shared.output import warn
from odradek.cli.shared.property_files import read_text
from odradek.client.client import Client
from odradek.client.secured import network_with_login, protocol_of
from odradek.console.clusters import ONLY, ClusterSource
from odradek.console.http.logins import REDIRECT_PATH
from odradek.console.http.protection import LOOPBACK_NAMES, host_name
from odradek.console.logins import LoginSource
from odradek.console.oidc import OidcSettings
from odradek.foundation.console_limits import CONSOLE_REQUEST_MS_MAX
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.protection import SASL_MECHANISMS, WITH_SASL
from odradek.security.authentication.credentials import Credentials

LOGINS_OPTION: Final = "--logins"
URL_OPTION: Final = "--url"
ISSUER_OPTION: Final = "--oidc-issuer"
CLIENT_ID_OPTION: Final = "--oidc-client-id"
SECRET_OPTION: Final = "--oidc-client-secret-file"
OWN_FILE: Final = "my.properties"
_MECHANISM: Final = "sasl.mechanism"
_OWN_LOGIN: Final = "sasl.jaas.config"


class LoginOptions(NamedTuple):
    """The options about logins, as they were given."""

    is_wanted: bool = False
    url: str | None = None
    issuer: str | None = None
    client_id: str | None = None
    secret_file: str | None = None
    scope: str = "openid"


def make_login_source(source: ClusterSource, settings: ClientSettings) -> LoginSource:
    """How viewers log in at a cluster. Raises SettingError for one without logins."""
    properties, where = settings.security, f"the cluster of {settings.bootstrap.source}"
    if source.name != ONLY:
        where = f"cluster {source.name} ({settings.bootstrap.source})"
    protocol, mechanism = protocol_of(properties), properties.get(_MECHANISM, "")
    if protocol not in WITH_SASL:
        raise SettingError(
            f"{where} has no logins: security.protocol is {protocol}, and {LOGINS_OPTION} needs one of "
            f"{', '.join(WITH_SASL)}"
        )
    if mechanism not in SASL_MECHANISMS:
        raise SettingError(f"{where}: {_MECHANISM} has to be one of {', '.join(SASL_MECHANISMS)}")

    if _OWN_LOGIN in properties:
        warn(f"{where}: {_OWN_LOGIN} has no effect with {LOGINS_OPTION}, since viewers log in themselves")

    def make_client(credentials: Credentials) -> Client:
        network = network_with_login(properties, credentials, client_id=settings.client_id)
        return new_client(settings, wait_ms_max=CONSOLE_REQUEST_MS_MAX, network=network)

    # Files of TLS that cannot be read stop the start, and not the first login.
    network_with_login(properties, Credentials(mechanism), client_id=settings.client_id)
    # A command of the pages is for the viewer, and viewers have logins of their own.
    own = replace(source, connection=("--bootstrap", source.bootstrap, "--command-config", OWN_FILE))
    return LoginSource(own, mechanism, make_client)


def check_url(given: str | None) -> str | None:
    """The address by which browsers reach the console, without a path. Raises click.BadParameter."""
    if given is None:
        return None
    parts = urlsplit(given.rstrip("/"))
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.path
        or parts.query
        or "@" in given
    ):
        raise click.BadParameter(
            f"{given!r} is no address of a console; write it like https://console.example.org",
            param_hint=URL_OPTION,
        )
    return given.rstrip("/")


def read_oidc(options: LoginOptions, sources: Iterable[LoginSource]) -> OidcSettings | None:
    """What is known of the identity provider. Raises click.UsageError, where a cluster needs one that is not named."""
    takers = [one.cluster.name for one in sources if one.takes_tokens]
    if not takers:
        if options.issuer is not None:
            raise click.UsageError(
                f"{ISSUER_OPTION} needs {LOGINS_OPTION} and a cluster with {_MECHANISM}=OAUTHBEARER"
            )
        return None
    if options.issuer is None or options.client_id is None or options.url is None:
        raise click.UsageError(
            f"logins at {', '.join(takers)} need {ISSUER_OPTION}, {CLIENT_ID_OPTION} and {URL_OPTION}"
        )
    _check_issuer(options.issuer)
    secret = "" if options.secret_file is None else read_text(options.secret_file, what=SECRET_OPTION).strip()
    return OidcSettings(
        options.issuer, options.client_id, f"{options.url}{REDIRECT_PATH}", options.scope, secret
    )


def _check_issuer(issuer: str) -> None:
    parts = urlsplit(issuer)
    is_local = parts.scheme == "http" and host_name(parts.netloc) in LOOPBACK_NAMES
    if not parts.hostname or not (parts.scheme == "https" or is_local) or "@" in issuer:
        raise click.BadParameter(
            "write the provider's address as it has it itself, with https://", param_hint=ISSUER_OPTION
        )
