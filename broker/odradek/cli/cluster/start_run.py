"""Runs the broker that `odradek start` asks for: logging, settings, then `server.start`.

The settings are those of the file, then of the options, then of --set; the later wins.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.cli.cluster.start_options import StartArguments
from odradek.foundation.errors import DependencyError, SettingError
from odradek.foundation.log_lines import JsonLines, TextLines, log_to_standard_error
from odradek.foundation.plain_sockets import load_event_loop
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.settings.file import parse_properties

if TYPE_CHECKING:
    from odradek.broker.process.broker_process import BrokerProcess
    from odradek.broker.process.local_control import LocalControl
    from odradek.cli.cluster.console_beside import ConsoleBeside
    from odradek.foundation.endpoints import Endpoint

# As `exit_codes.ExitCode`, which is not imported here since it imports the client.
_FAILED = 1
_USAGE = 2

LISTEN_DEFAULT = "127.0.0.1:9092"
DATA_DEFAULT = "./data"
_LISTENER_NAME_DEFAULT = "PLAINTEXT"
_PLAINTEXT = "PLAINTEXT"
_PROTOCOL_MAP = "listener.security.protocol.map"
_ROLES = "process.roles"
_ROLES_ALONE = ({""}, {"broker", "controller"})
_CONTROLLERS = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def run(
    arguments: StartArguments,
    *,
    testing_faults: bool = False,
    on_ready: Callable[[BrokerProcess[LocalControl]], None] | None = None,
) -> int:
    """Serve until a signal; the exit code. `testing_faults` and `on_ready` are those of `server.start.run`."""
    configure_logging(arguments.log_level, arguments.log_format)
    try:
        settings = settings_of(arguments)
        admin = None if arguments.admin is None else host_and_port(arguments.admin)
        console = _new_console(arguments, settings)
    except SettingError as failure:
        print(f"odradek: {failure}", file=sys.stderr)
        return _USAGE
    logger = logging.getLogger("odradek.start")
    for warning in settings.warnings:
        logger.warning("%s", warning)
    if settings.unused:
        logger.info("settings without effect here: %s", ", ".join(settings.unused))
    if all(endpoint.security_protocol == "PLAINTEXT" for endpoint in settings.listener_endpoints):
        load_event_loop()
    from odradek.server.start import run as serve

    def note_ready(broker: BrokerProcess[LocalControl]) -> None:
        if arguments.hints:
            _print_hints(broker)
        if on_ready is not None:
            on_ready(broker)
        if console is not None:
            console.start(_plain_address(broker))

    try:
        return serve(settings, admin=admin, on_ready=note_ready, testing_faults=testing_faults)
    except DependencyError as failure:
        print(f"odradek: {failure}", file=sys.stderr)
        return _FAILED
    finally:
        if console is not None:
            console.stop()


def _new_console(arguments: StartArguments, settings: Settings) -> ConsoleBeside | None:
    """What --console asks for. Raises SettingError where every listener has TLS or a login."""
    if not arguments.console:
        return None
    if all(endpoint.security_protocol != _PLAINTEXT for endpoint in settings.listener_endpoints):
        raise SettingError(
            "--console needs a listener without TLS and login; start `odradek console --command-config FILE` with a "
            "user's properties instead"
        )
    from odradek.cli.cluster.console_beside import ConsoleBeside

    return ConsoleBeside()


def _plain_address(broker: BrokerProcess[LocalControl]) -> str:
    """The first address without TLS and login."""
    return _address_of(next(one for one in broker.endpoints if one.security_protocol == _PLAINTEXT))


def _address_of(endpoint: Endpoint) -> str:
    """HOST:PORT without the listener's name."""
    return str(endpoint).rpartition("://")[2]


def _print_hints(broker: BrokerProcess[LocalControl]) -> None:
    from odradek.cli.shared.hints import command_name, hints

    print(hints(_address_of(broker.endpoints[0]), command=command_name()), flush=True)


def host_and_port(text: str) -> tuple[str, int]:
    """The address of --admin. Raises SettingError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise SettingError(f"--admin {text}: write it like --admin 127.0.0.1:8080")
    return host.strip("[]"), int(port)


def configure_logging(level: str, log_format: str, *, process: int | None = None) -> None:
    """Log to stderr, as text for people or as JSON lines. `process` is the number of a machine's process."""
    formatter: TextLines | JsonLines
    if log_format == "json":
        formatter = JsonLines(process=process)
    else:
        number = "" if process is None else f"[{process}] "
        formatter = TextLines(f"%(asctime)s %(levelname)-7s {number}%(name)s: %(message)s")
    formatter.converter = time.gmtime
    formatter.default_time_format = "%Y-%m-%dT%H:%M:%S"
    formatter.default_msec_format = "%s.%03dZ"
    log_to_standard_error(level, formatter)


# --- settings -------------------------------------------------------------------------------------------------------


def settings_of(arguments: StartArguments) -> Settings:
    """A single broker's settings. Raises SettingError, also for a --config file that cannot be read."""
    entries = entries_of(arguments)
    connect = entries.get("zookeeper.connect")
    if connect:
        raise SettingError(
            f"zookeeper.connect={connect} names a cluster's ZooKeeper, and `odradek start` runs a single node: "
            "use `odradek broker` to join the cluster, or remove the key"
        )
    processes = entries.get("broker.processes", "1")
    if processes.strip() != "1":
        raise SettingError(
            f"broker.processes={processes} is for `odradek broker`, whose processes are members of a cluster on "
            "ZooKeeper; `odradek start` is one process: remove the key"
        )
    _refuse_cluster_of_kraft(entries)
    settings = Settings(entries)
    require_folder(*settings.log_directories)
    return settings


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
    entries.update(set_entries(arguments.set, example="log.retention.hours=24"))
    _name_protocols(entries)
    return entries


def require_folder(*paths: str) -> None:
    """Raises SettingError where one of these paths counts from the folder of this process, and that was removed."""
    relative = [path.strip() for path in paths if path.strip() and not path.strip().startswith("/")]
    try:
        if relative:
            os.getcwd()  # noqa: PTH109 (pathlib would cost the start milliseconds)
    except FileNotFoundError:
        raise SettingError(
            f"the folder of this command is gone, and {relative[0]} would be in it; change to another folder, or "
            "give a path that begins with /"
        ) from None


def set_entries(pairs: Iterable[str], *, example: str) -> dict[str, str]:
    """The values of --set, as texts by key. Raises SettingError, with an example."""
    entries: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingError(f"--set {pair}: write it like --set {example}")
        entries[key.strip()] = value.strip()
    return entries


def _read(path: str) -> dict[str, str]:
    require_folder(path)
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
