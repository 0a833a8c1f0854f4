"""The settings from the arguments of `odradek start`: the file, then the options, then --set; the later wins."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.cli.start_options import StartArguments
from odradek.foundation.errors import SettingError
from odradek.foundation.properties import parse_properties
from odradek.foundation.settings import Settings

LISTEN_DEFAULT = "127.0.0.1:9092"
DATA_DEFAULT = "./data"
_LISTENER_NAME_DEFAULT = "PLAINTEXT"
_PROTOCOL_MAP = "listener.security.protocol.map"
_ROLES = "process.roles"
_ROLES_ALONE = ({""}, {"broker", "controller"})
_CONTROLLERS = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def settings_of(arguments: StartArguments) -> Settings:
    """A single broker's settings. Raises SettingError, also for a --config file that cannot be read."""
    entries = entries_of(arguments)
    connect = entries.get("zookeeper.connect")
    if connect:
        raise SettingError(
            f"zookeeper.connect={connect} names a cluster's ZooKeeper, and `odradek start` runs a single node: "
            "use `odradek broker` to join the cluster, or remove the key"
        )
    _refuse_cluster_of_kraft(entries)
    return Settings(entries)


def _refuse_cluster_of_kraft(entries: Mapping[str, str]) -> None:
    """Refuse the node of an Apache Kafka cluster. It would serve its part of the topics as the whole."""
    roles = entries.get(_ROLES)
    if roles is not None and {role.strip() for role in roles.split(",")} not in _ROLES_ALONE:
        raise SettingError(
            f"{_ROLES}={roles} is for a node of a cluster, and `odradek start` runs a single node: remove the key. "
            "`odradek broker` joins a cluster of Odradek"
        )
    for key in _CONTROLLERS:
        addresses = entries.get(key, "").split(",")
        if len(addresses) > 1:
            raise SettingError(
                f"{key} names {len(addresses)} controllers of a cluster, and `odradek start` runs a single node: "
                "remove the key. `odradek broker` joins a cluster of Odradek"
            )


def entries_of(arguments: StartArguments, *, listen_default: str = LISTEN_DEFAULT) -> dict[str, str]:
    """The given settings, as texts by key. Raises SettingError as `settings_of`."""
    entries = {} if arguments.config is None else _read(arguments.config)
    if arguments.data is not None:
        if not arguments.data.strip():
            raise SettingError("--data is empty; name a directory, as --data ./data")
        entries["log.dirs"] = arguments.data
    elif "log.dirs" not in entries and "log.dir" not in entries:
        entries["log.dirs"] = DATA_DEFAULT
    if arguments.id is not None:
        entries["node.id"] = arguments.id
    if arguments.listen:
        entries["listeners"] = ",".join(_with_name(address) for address in arguments.listen)
    elif "listeners" not in entries:
        entries["listeners"] = _with_name(listen_default)
    if arguments.advertise:
        entries["advertised.listeners"] = ",".join(_with_name(address) for address in arguments.advertise)
    for pair in arguments.set:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingError(f"--set {pair}: write it like --set log.retention.hours=24")
        entries[key.strip()] = value.strip()
    _name_protocols(entries)
    return entries


def _read(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read(), source=path)
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else str(failure)
        raise SettingError(f"--config {path}: {reason}; give a file in server.properties syntax") from failure


def _with_name(address: str) -> str:
    return address if "://" in address else f"{_LISTENER_NAME_DEFAULT}://{address}"


def _name_protocols(entries: dict[str, str]) -> None:
    """Map a listener with a name of its own to PLAINTEXT. A map that is given stays as it is."""
    if _PROTOCOL_MAP in entries:
        return
    listeners = entries.get("listeners", "") + "," + entries.get("advertised.listeners", "")
    names = [
        address.partition("://")[0].strip().upper() for address in listeners.split(",") if "://" in address
    ]
    own = [name for name in dict.fromkeys(names) if name not in _PROTOCOLS]
    if own:
        known = [f"{protocol}:{protocol}" for protocol in _PROTOCOLS]
        entries[_PROTOCOL_MAP] = ",".join([*known, *(f"{name}:PLAINTEXT" for name in own)])
