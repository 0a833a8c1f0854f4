"""The settings of each process of a machine, as they follow from the machine's own. Pure.

    process          1          2           n
    id               1          10001       id + 10000 (n - 1)
    listener 9092    9192       9292        port + 100 n
    folder           DIR        DIR/process.2

All processes together listen at the machine's own port, where clients bootstrap from. A port of 0 stays 0: each process
takes a free one. The first process has the directory itself. So a single broker becomes a machine, and a machine a
single broker, without a move of files. No log of a topic can have a folder's name, which has no dash.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.foundation.endpoints import Endpoint
from odradek.foundation.errors import SettingError
from odradek.foundation.machine_limits import PROCESS_IDS_APART, PROCESS_PORTS_APART
from odradek.foundation.settings.broker_settings import Settings

_PORT_MAX = 65_535


def machine_name(settings: Settings) -> str:
    """broker.machine, else the number of the machine's first broker."""
    return settings.broker_machine or str(settings.effective_broker_id)


def process_id(settings: Settings, number: int) -> int:
    """The id of the broker in process `number`, from 1 on."""
    return settings.effective_broker_id + PROCESS_IDS_APART * (number - 1)


def process_folder(directory: str, number: int) -> str:
    """The folder of process `number` in one of the log directories."""
    return directory if number == 1 else f"{directory.rstrip('/')}/process.{number}"


def process_port(port: int, number: int) -> int:
    """The port of process `number` beside the machine's, which has the number 0."""
    return port + PROCESS_PORTS_APART * number if port else 0


def process_entries(settings: Settings, number: int) -> dict[str, str]:
    """The settings of process `number`, as texts by key."""
    given = {key: text for key, text in settings.given.items() if key not in ("broker.id", "log.dir")}
    entries = {
        **given,
        "node.id": str(process_id(settings, number)),
        "broker.machine": machine_name(settings),
        "log.dirs": ",".join(process_folder(path, number) for path in settings.log_directories),
        "listeners": _move_ports(settings.listener_endpoints, number),
    }
    if settings.advertised_listeners:
        entries["advertised.listeners"] = _move_ports(settings.advertised_endpoints, number)
    return entries


def check_machine(settings: Settings) -> None:
    """Raises SettingError for settings with which the processes of a machine would be in each other's way."""
    problems = list(_problems(settings))
    if problems:
        raise SettingError("; ".join(problems))


def _problems(settings: Settings) -> Iterator[str]:
    count = settings.broker_processes
    if settings.effective_broker_id >= PROCESS_IDS_APART:
        yield (
            f"node.id={settings.effective_broker_id} must be below {PROCESS_IDS_APART} with broker.processes={count}: "
            f"the brokers of a machine have ids {PROCESS_IDS_APART} apart"
        )
    rule = f"the ports of process n are {PROCESS_PORTS_APART} n higher"
    own = {one.port for one in settings.listener_endpoints if one.port}
    ports = {process_port(port, number) for port in own for number in range(count + 1)}
    if len(ports) < len(own) * (count + 1):
        yield (
            f"listeners={settings.listeners} has ports that meet with broker.processes={count}: {rule}; choose others"
        )
    advertised = max((one.port for one in settings.advertised_endpoints), default=0)
    highest = process_port(max([*own, advertised], default=0), count)
    if highest > _PORT_MAX:
        yield f"the listeners need ports up to {highest} with broker.processes={count}: {rule}; choose lower ones"


def _move_ports(endpoints: tuple[Endpoint, ...], number: int) -> str:
    return ",".join(str(one._replace(port=process_port(one.port, number))) for one in endpoints)
