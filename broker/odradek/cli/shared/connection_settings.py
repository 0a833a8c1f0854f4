"""Where a command's connection settings come from: option, environment, property file, profile, default.

Each value remembers its origin, so that an error and `odradek profile show` can name it. Later layers of `resolve` win
over earlier ones. Only the files that a layer names are opened, and the one that names the current profile. The
client's modules are imported when a client is made, because each verb imports this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import click

from odradek.cli.shared import late, profiles
from odradek.cli.shared.environment import (
    BOOTSTRAP_VARIABLE,
    PROFILE_VARIABLE,
    SCHEMA_REGISTRY_VARIABLE,
)
from odradek.client.properties import (
    API_TIMEOUT_MS,
    BOOTSTRAP_SERVERS,
    CLIENT_ID,
    CLIENT_PROPERTIES,
    CONNECT_TIMEOUT_MS,
    METADATA_AGE_MS,
    PLAINTEXT,
    REQUEST_TIMEOUT_MS,
    SCHEMA_REGISTRY_URL,
    SECURITY_PROTOCOL,
    ReadProperties,
    security_of,
)
from odradek.foundation.errors import SettingError

if TYPE_CHECKING:
    from odradek.client.client import Client
    from odradek.network.network import Network

BOOTSTRAP_OPTION = "--bootstrap"
TIMEOUT_OPTION = "--timeout"
DEFAULT = "default"
PRECEDENCE = "option, environment, --command-config, profile, default"


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """The connection's options as given; None for an option that is not given."""

    bootstrap: str | None = None
    timeout_seconds: float | None = None
    command_config: str | None = None
    profile: str | None = None

    def over(self, above: GivenOptions) -> GivenOptions:
        """These options, completed by those of `above`: an option after the verb wins over one before it."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(above, **given)


class Sourced(NamedTuple):
    """A value as text and the name of its origin, as an error shows it: `--bootstrap`, `profile 'staging'`."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Every property with its value in force. `profile` is the one that was read, or None."""

    values: Mapping[str, Sourced]
    profile: str | None
    warnings: tuple[str, ...] = ()

    @property
    def bootstrap(self) -> Sourced:
        return self.values[BOOTSTRAP_SERVERS]

    @property
    def client_id(self) -> str:
        """The name that brokers see."""
        return self.values[CLIENT_ID].value

    @property
    def is_secured(self) -> bool:
        """Whether connections are encrypted or logged in."""
        return self.values[SECURITY_PROTOCOL].value.upper() != PLAINTEXT

    @property
    def security(self) -> dict[str, str]:
        """The properties of security. They hold secrets."""
        return security_of({name: one.value for name, one in self.values.items()})

    def milliseconds(self, name: str) -> int:
        """The value of a time by the property's name, as REQUEST_TIMEOUT_MS."""
        return int(self.values[name].value)


def new_client(
    settings: ClientSettings, *, wait_ms_max: int | None = None, network: Network | None = None
) -> Client:
    """A client with these settings, not yet connected. `wait_ms_max` limits its timeouts.

    `network` is one with security of its own, in place of that of the settings.
    """

    def at_most(name: str) -> int:
        timeout_ms = settings.milliseconds(name)
        return timeout_ms if wait_ms_max is None else min(timeout_ms, wait_ms_max)

    return late.Client(
        settings.bootstrap.value,
        security=settings.security if settings.is_secured and network is None else None,
        network=network,
        client_id=settings.client_id,
        request_timeout_ms=at_most(REQUEST_TIMEOUT_MS),
        api_timeout_ms=at_most(API_TIMEOUT_MS),
        connect_timeout_ms=at_most(CONNECT_TIMEOUT_MS),
        metadata_age_ms_max=settings.milliseconds(METADATA_AGE_MS),
    )


def resolve(given: GivenOptions) -> ClientSettings:
    """The settings in force. Raises SettingError for a file, profile or value that cannot be used,
    FileNotFoundError for a file or a profile that is not there.
    """
    values = _defaults()
    warnings: list[str] = []

    def lay(read: ReadProperties, source: str) -> None:
        warnings.extend(read.warnings)
        _lay(values, read, source)

    profile = _lay_profile(given, lay)
    if given.command_config is not None:
        lay(late.read_property_file(given.command_config), given.command_config)
    if from_environment := os.environ.get(BOOTSTRAP_VARIABLE):
        _warn_of_hidden(values, given, from_environment, warnings)
        values[BOOTSTRAP_SERVERS] = Sourced(from_environment, f"${BOOTSTRAP_VARIABLE}")
    if registry := os.environ.get(SCHEMA_REGISTRY_VARIABLE):
        values[SCHEMA_REGISTRY_URL] = Sourced(registry, f"${SCHEMA_REGISTRY_VARIABLE}")
    if given.bootstrap is not None:
        values[BOOTSTRAP_SERVERS] = Sourced(given.bootstrap, BOOTSTRAP_OPTION)
    if given.timeout_seconds is not None:
        timeout_ms = max(1, round(given.timeout_seconds * 1000))
        values[REQUEST_TIMEOUT_MS] = values[API_TIMEOUT_MS] = Sourced(str(timeout_ms), TIMEOUT_OPTION)
        if timeout_ms < int(values[CONNECT_TIMEOUT_MS].value):
            values[CONNECT_TIMEOUT_MS] = Sourced(str(timeout_ms), TIMEOUT_OPTION)
    _check_bootstrap(values[BOOTSTRAP_SERVERS])
    return ClientSettings(values, profile, tuple(warnings))


def resolve_alone(given: GivenOptions, *, what: str = "--command-config") -> ClientSettings:
    """The settings of a profile or a file by itself, as where a command names several clusters. The environment, which
    means one, counts for none of them. `what` is the option that names it. Raises as `resolve`, and SettingError where
    no broker is named.
    """
    values = _defaults()
    if given.command_config is not None:
        read, source = late.read_property_file(given.command_config, what=what), given.command_config
    else:
        assert given.profile is not None
        read, source = profiles.read(given.profile), f"profile {given.profile!r}"
    _lay(values, read, source)
    if values[BOOTSTRAP_SERVERS].source == DEFAULT:
        words = f"{source}: {BOOTSTRAP_SERVERS} is missing, so no cluster is named"
        raise SettingError("; ".join((words, *read.warnings)))
    return ClientSettings(values, given.profile, read.warnings)


def _defaults() -> dict[str, Sourced]:
    return {name: Sourced(one.default_text or "", DEFAULT) for name, one in CLIENT_PROPERTIES.items()}


def _lay(values: dict[str, Sourced], read: ReadProperties, source: str) -> None:
    """Put what was read over the values."""
    values.update({name: Sourced(value, source) for name, value in read.values.items()})
    if REQUEST_TIMEOUT_MS in read.values and API_TIMEOUT_MS not in read.values:
        values[API_TIMEOUT_MS] = values[REQUEST_TIMEOUT_MS]


def _lay_profile(given: GivenOptions, lay: Callable[[ReadProperties, str], None]) -> str | None:
    name, named_by = given.profile, "--profile"
    if name is None:
        name, named_by = os.environ.get(PROFILE_VARIABLE) or None, f"${PROFILE_VARIABLE}"
    if name is None:
        name, named_by = profiles.current(), "`odradek profile use`"
    if name is None:
        return None
    lay(profiles.read(name, named_by=named_by), f"profile {name!r}")
    return name


def _warn_of_hidden(
    values: Mapping[str, Sourced], given: GivenOptions, from_environment: str, warnings: list[str]
) -> None:
    """A user who names a profile or a file expects its brokers, but the environment wins over both."""
    hidden = values[BOOTSTRAP_SERVERS]
    is_named = given.profile is not None or hidden.source == given.command_config
    if is_named and hidden.source != DEFAULT and given.bootstrap is None and hidden.value != from_environment:
        warnings.append(
            f"${BOOTSTRAP_VARIABLE} goes before {hidden.source}: the brokers are {from_environment}, "
            f"not {hidden.value}"
        )


def _check_bootstrap(bootstrap: Sourced) -> None:
    try:
        late.parse_addresses(bootstrap.value)
    except ValueError as failure:
        kind = click.UsageError if bootstrap.source == BOOTSTRAP_OPTION else SettingError
        raise kind(f"{bootstrap.source}: {failure}") from failure
