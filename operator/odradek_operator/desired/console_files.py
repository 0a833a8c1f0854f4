"""The files of a console that shows more than its own Cluster: the program that starts it, and what it puts together.

A cluster's client.properties come from a Secret or ConfigMap that the pod mounts and the operator does not read. What
the Cluster says besides stands in the console's ConfigMap, as NAME.properties. Nothing secret is in it. The start puts
both together, with the login of a schema registry. What comes out holds passwords, so it lies in memory only. It is a
file with a name, since the console's pages show commands with it, for `kubectl exec`.

The program is given as text, because an older image does not have it. It is Python, since a properties file of others
may be of any form that Java reads: the image's own reader takes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek_operator.desired.cluster_logins import ClusterLogin, mount_login
from odradek_operator.desired.names import CONSOLE, Context, Json
from odradek_operator.desired.pods import SETTINGS, digest
from odradek_operator.desired.scripts import SETTINGS_FOLDER
from odradek_operator.desired.security import secret_volume
from odradek_operator.desired.settings import properties
from odradek_operator.resources.console import (
    ClusterConsole,
    ConsoleConnection,
    ConsoleSchemaRegistry,
    ViewerLogins,
)
from odradek_operator.resources.console_masks import ConsoleMask

CLUSTERS_FOLDER: Final = "/etc/odradek-clusters"
REGISTRIES_FOLDER: Final = "/etc/odradek-registries"
TOGETHER_FOLDER: Final = "/run/odradek-clusters"
_PROVIDER_FOLDER: Final = "/etc/odradek-provider"
_PROVIDER_FILE: Final = "client-secret"
MASKS_FILE: Final = "masks.toml"
START_FILE: Final = "start.py"
_SUFFIX: Final = ".properties"
TOGETHER: Final = "together"
_PROVIDER: Final = "provider"
_USERS_MECHANISM: Final = "SCRAM-SHA-512"

START: Final = f"""\
import os, pathlib, sys
from odradek.foundation.settings.file import parse_properties
def read(file):
    return parse_properties(file.read_text(encoding="utf-8"), source=str(file))
def read_line(file):
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""
def read_registry(folder):
    user, password, token = (read_line(folder / name) for name in ("username", "password", "token"))
    if bool(user) != bool(password) or (user and token):
        sys.exit(f"{{folder}}: the Secret of a schema registry has username and password, or token")
    if user:
        yield "basic.auth.user.info", f"{{user}}:{{password}}"
    if token:
        yield "bearer.auth.token", token
    if (folder / "ca.crt").is_file():
        yield "schema.registry.ssl.truststore.location", str(folder / "ca.crt")
def escaped(text):
    text = text.replace("\\\\", "\\\\\\\\").replace("\\n", "\\\\n").replace("\\r", "\\\\r")
    return "\\\\" + text if text[:1] in (" ", "\\t") else text
os.umask(0o077)
for own in sorted(pathlib.Path("{SETTINGS_FOLDER}").glob("*{_SUFFIX}")):
    name = own.name.removesuffix("{_SUFFIX}")
    mounted = pathlib.Path("{CLUSTERS_FOLDER}") / name
    registry = pathlib.Path("{REGISTRIES_FOLDER}") / name
    file, entries = mounted / "client.properties", {{}}
    if file.is_file():
        entries = read(file)
    elif mounted.is_dir():
        sys.exit(f"{{file}} is missing: the Secret or ConfigMap of {{name}} needs client.properties")
    entries |= read(own)
    if registry.is_dir():
        entries |= read_registry(registry)
    lines = [f"{{key}}={{escaped(value)}}\\n" for key, value in entries.items()]
    (pathlib.Path("{TOGETHER_FOLDER}") / own.name).write_text("".join(lines), encoding="utf-8")
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Its errors name files and never what is in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOther:
    """Another cluster that a console shows. `login` is None for one that needs no file."""

    connection: ConsoleConnection
    login: ClusterLogin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleFiles:
    """All that a console is given: how it connects to its own Cluster and to others.

    `versions` are those of the Secrets that their owners bring, where the operator may know them.
    """

    login: ClusterLogin
    others: tuple[ConsoleOther, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A cluster of the console, as its files need it."""

    name: str
    login: ClusterLogin | None
    registry: ConsoleSchemaRegistry | None
    entries: Mapping[str, str]

    @property
    def volume(self) -> str:
        # A name may have capitals, dots and underscores, which names of volumes may not.
        return f"cluster-{digest(self.name)}"

    @property
    def registry_volume(self) -> str:
        return f"registry-{digest(self.name)}"

    @property
    def properties_file(self) -> str:
        registry = {} if self.registry is None else {"schema.registry.url": self.registry.url}
        return properties({**self.entries, **registry})


def console_config_map(context: Context, console: ClusterConsole, files: ConsoleFiles) -> Json:
    """The start, and what the Cluster says about each cluster and about masks."""
    data = {
        START_FILE: START,
        **{f"{one.name}{_SUFFIX}": one.properties_file for one in _list_shown(context, console, files)},
        **({MASKS_FILE: masks_file(console.masks)} if console.masks else {}),
    }
    return context.manifest("v1", "ConfigMap", context.object_name(CONSOLE), CONSOLE, data=data)


def masks_file(masks: Sequence[ConsoleMask]) -> str:
    """The rules in TOML."""
    return "\n".join("".join(_list_lines(mask)) for mask in masks)


def _list_lines(mask: ConsoleMask) -> Iterator[str]:
    yield "[[mask]]\n"
    for part in ("topics", "clusters", "key", "value", "headers"):
        texts: tuple[str, ...] | None = getattr(mask, part)
        if texts is not None:
            # A text of JSON is one of TOML, but for the pairs that JSON may have for a letter.
            yield f"{part} = {json.dumps(texts, ensure_ascii=False)}\n"


def console_words(context: Context, console: ClusterConsole, files: ConsoleFiles) -> list[str]:
    """The words of the command that name clusters, masks, and how viewers log in."""
    logins = console.logins
    return [
        *(
            word
            for one in _list_shown(context, console, files)
            for word in ("--cluster", f"{one.name}={TOGETHER_FOLDER}/{one.name}{_SUFFIX}")
        ),
        *(["--masks", f"{SETTINGS_FOLDER}/{MASKS_FILE}"] if console.masks else ()),
        *(["--logins"] if logins is not None else ()),
        *(["--url", logins.url] if logins is not None and logins.url is not None else ()),
        *(_provider_words(logins, files) if logins is not None else ()),
    ]


def _provider_words(logins: ViewerLogins, files: ConsoleFiles) -> list[str]:
    provider = logins.open_id_connect
    # The command refuses a provider that no cluster has a use for, as while that cluster is left out.
    if provider is None or not any(one.connection.client_secret for one in files.others):
        return []
    return [
        *("--oidc-issuer", provider.issuer, "--oidc-client-id", provider.client_id),
        *("--oidc-scope", provider.scope),
        *(
            ("--oidc-client-secret-file", f"{_PROVIDER_FOLDER}/{_PROVIDER_FILE}")
            if provider.client_secret is not None
            else ()
        ),
    ]


def console_mounts(context: Context, console: ClusterConsole, files: ConsoleFiles) -> dict[str, str]:
    """The folders that are only read, by volume."""
    shown = _list_shown(context, console, files)
    return {
        SETTINGS: SETTINGS_FOLDER,
        **{one.volume: f"{CLUSTERS_FOLDER}/{one.name}" for one in shown if one.login is not None},
        **{one.registry_volume: f"{REGISTRIES_FOLDER}/{one.name}" for one in shown if _registry_secret(one)},
        **({_PROVIDER: _PROVIDER_FOLDER} if _provider_secret(console) is not None else {}),
    }


def console_volumes(context: Context, console: ClusterConsole, files: ConsoleFiles) -> list[Json]:
    """The volumes of `console_mounts` but for the settings, and the one that the start writes to."""
    shown = _list_shown(context, console, files)
    volumes = [mount_login(one.volume, one.login) for one in shown if one.login is not None]
    volumes += [
        secret_volume(one.registry_volume, secret) for one in shown if (secret := _registry_secret(one))
    ]
    if (provider := _provider_secret(console)) is not None:
        volume = secret_volume(_PROVIDER, provider[0])
        # Of a Secret that may have more in it, the console needs this alone.
        volume["secret"]["items"] = [{"key": provider[1], "path": _PROVIDER_FILE}]
        volumes.append(volume)
    return [*volumes, {"name": TOGETHER, "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}]


def files_version(context: Context, console: ClusterConsole, files: ConsoleFiles) -> str:
    """Changes with the ConfigMap, and with what is known of all that the pod mounts."""
    config_map = console_config_map(context, console, files)
    logins = [
        f"{one.name} {'' if one.login is None else one.login.text}"
        for one in _list_shown(context, console, files)
    ]
    versions = [f"{name} {version}" for name, version in sorted(files.versions.items())]
    return digest("\n".join([*config_map["data"].values(), *logins, *versions]))


def list_given_secrets(console: ClusterConsole) -> list[str]:
    """The Secrets that their owners bring for the console itself; those of other clusters are beside them."""
    provider = _provider_secret(console)
    registry = console.schema_registry
    found = [
        None if registry is None else registry.secret_name,
        None if provider is None else provider[0],
    ]
    return [name for name in found if name is not None]


def _list_shown(context: Context, console: ClusterConsole, files: ConsoleFiles) -> list[_Shown]:
    """All clusters in their order: the console's own is the first."""
    mechanism = {} if console.logins is None else {"sasl.mechanism": _USERS_MECHANISM}
    shown = [
        _Shown(name=context.name, login=files.login, registry=console.schema_registry, entries=mechanism)
    ]
    for other in files.others:
        one = other.connection
        entries = mechanism if one.bootstrap is None else {"bootstrap.servers": one.bootstrap}
        shown.append(_Shown(name=one.name, login=other.login, registry=one.schema_registry, entries=entries))
    return shown


def _registry_secret(shown: _Shown) -> str | None:
    return None if shown.registry is None else shown.registry.secret_name


def _provider_secret(console: ClusterConsole) -> tuple[str, str] | None:
    """The Secret and its key."""
    if console.logins is None or console.logins.open_id_connect is None:
        return None
    secret = console.logins.open_id_connect.client_secret
    if secret is None:
        return None
    return secret.value_from.secret_key_ref.name, secret.value_from.secret_key_ref.key
