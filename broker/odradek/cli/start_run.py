"""Runs the broker that `odradek start` asks for: logging, settings, then `server.start`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.cli.start_options import StartArguments
from odradek.cli.start_settings import settings_of
from odradek.foundation.errors import DependencyError, SettingError
from odradek.foundation.plain_sockets import load_event_loop

if TYPE_CHECKING:
    from odradek.server.broker.broker_process import BrokerProcess
    from odradek.server.broker.local_control import LocalControl

# As `exit_codes.ExitCode`, which is not imported here since it imports the client.
_FAILED = 1
_USAGE = 2


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

    try:
        return serve(
            settings,
            admin=admin,
            on_ready=_print_hints if arguments.hints else on_ready,
            testing_faults=testing_faults,
        )
    except DependencyError as failure:
        print(f"odradek: {failure}", file=sys.stderr)
        return _FAILED


def _print_hints(broker: BrokerProcess[LocalControl]) -> None:
    from odradek.cli.hints import command_name, hints
    from odradek.client.addresses import Address

    endpoint = broker.endpoints[0]
    print(hints(str(Address(endpoint.host, endpoint.port)), command=command_name()), flush=True)


def host_and_port(text: str) -> tuple[str, int]:
    """The address of --admin. Raises SettingError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise SettingError(f"--admin {text}: write it like --admin 127.0.0.1:8080")
    return host.strip("[]"), int(port)


class _JsonFormatter(logging.Formatter):
    """One JSON object a line: time (ISO 8601, UTC), level, logger, message, trace if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        import json

        fields = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def configure_logging(level: str, log_format: str) -> None:
    """Log to stderr, as text for people or as JSON lines."""
    import time

    formatter: logging.Formatter
    if log_format == "json":
        formatter = _JsonFormatter()
    else:
        formatter = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    formatter.converter = time.gmtime
    formatter.default_time_format = "%Y-%m-%dT%H:%M:%S"
    formatter.default_msec_format = "%s.%03dZ"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
