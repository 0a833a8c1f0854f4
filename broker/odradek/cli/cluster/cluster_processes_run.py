"""Runs `odradek broker` and `odradek controller`: their settings, then `server`."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Protocol

from odradek.cli.cluster.machine_process import LogOptions, write_document
from odradek.cli.cluster.start_options import LOG_FORMATS, LOG_LEVELS, StartArguments
from odradek.cli.cluster.start_run import (
    LISTEN_DEFAULT,
    configure_logging,
    entries_of,
    host_and_port,
    require_folder,
)
from odradek.foundation import interpreter
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.broker_settings import Settings
from odradek.server.cluster_start import run_broker, run_controller

CONNECT_KEY = "zookeeper.connect"
CONTROLLER_LISTEN_DEFAULT = "127.0.0.1:9093"
_PROCESSES_KEY = "broker.processes"


class Run(Protocol):
    """`server.cluster_start.run_broker` or `run_controller`."""

    def __call__(self, settings: Settings, *, registry: str, admin: tuple[str, int] | None = None) -> int: ...


def broker(linger: float, processes: int | None, **given: Any) -> int:
    log = LogOptions(given["log_level"] or LOG_LEVELS[1], given["log_format"] or LOG_FORMATS[0])

    def serve(settings: Settings, *, registry: str, admin: tuple[str, int] | None = None) -> int:
        require_folder(*settings.log_directories)
        if settings.broker_processes == 1:
            return run_broker(settings, registry=registry, admin=admin, linger_seconds=linger)
        # Most brokers are one process, which does without these modules.
        from odradek.server.machine.run import run_machine

        return run_machine(
            settings,
            command=interpreter.command("odradek.cli.cluster.machine_process"),
            new_document=partial(write_document, settings=settings, registry=registry, log=log),
            admin=admin,
            linger_seconds=linger,
        )

    more = {} if processes is None else {_PROCESSES_KEY: str(processes)}
    return _run(serve, listen_default=LISTEN_DEFAULT, more=more, **given)


def controller(**given: Any) -> int:
    return _run(run_controller, listen_default=CONTROLLER_LISTEN_DEFAULT, more={}, **given)


def _run(
    serve: Run, *, zookeeper: str | None, listen_default: str, more: dict[str, str], **given: Any
) -> int:
    """Read the settings and serve until a signal. Raises SettingError for wrong settings."""
    configure_logging(given.pop("log_level") or LOG_LEVELS[1], given.pop("log_format") or LOG_FORMATS[0])
    arguments = StartArguments(**given)
    entries = entries_of(arguments, listen_default=listen_default) | more
    if zookeeper is not None:
        entries[CONNECT_KEY] = zookeeper
    registry = entries.get(CONNECT_KEY, "")
    if not registry:
        raise SettingError(
            "a cluster needs ZooKeeper: give --zookeeper HOST:PORT, or zookeeper.connect in the file; "
            "`odradek cluster` starts one for development, `odradek start` needs none"
        )
    settings = Settings(entries)
    logger = logging.getLogger("odradek.start")
    for warning in settings.warnings:
        logger.warning("%s", warning)
    unused = [key for key in settings.unused if not key.startswith("zookeeper.")]
    if unused:
        logger.info("settings without effect here: %s", ", ".join(unused))
    admin = None if arguments.admin is None else host_and_port(arguments.admin)
    return serve(settings, registry=registry, admin=admin)
