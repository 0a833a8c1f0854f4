"""The options of `odradek start`, as a table that two parsers read.

The short path (`__main__`) parses them in microseconds, without click. From the same table click builds the command
for --help, completion, usage errors and the reference page. So the two cannot differ.
"""

from __future__ import annotations

from typing import Any

from odradek.foundation.named_tuple import NamedTuple


class StartOption(NamedTuple):
    """One option: `name` without dashes, `metavar` None for a flag."""

    name: str
    metavar: str | None
    help: str
    repeated: bool = False
    choices: tuple[str, ...] = ()


LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")

START_OPTIONS: tuple[StartOption, ...] = (
    StartOption("config", "FILE", "Settings in Kafka's server.properties syntax."),
    StartOption("set", "KEY=VALUE", "One setting; wins over the file. May be repeated.", repeated=True),
    StartOption(
        "data", "DIR", "The directory of the logs (log.dirs); made when it is missing. Default: ./data."
    ),
    StartOption(
        "listen",
        "[NAME://]HOST:PORT",
        "Where to listen; port 0 takes a free one. May be repeated. Default: 127.0.0.1:9092.",
        repeated=True,
    ),
    StartOption(
        "advertise",
        "[NAME://]HOST:PORT",
        "The address that clients connect to, when it differs from --listen. May be repeated.",
        repeated=True,
    ),
    StartOption("admin", "HOST:PORT", "Serve /metrics, /healthz and /readyz there over HTTP."),
    StartOption("id", "N", "This broker's id (node.id). Default: 1."),
    StartOption("hints", None, "Print copy-and-paste lines for kcat, Python and Spark once ready."),
    StartOption(
        "console", None, "Show the broker in a browser too: at http://127.0.0.1:8088, or a free port."
    ),
    StartOption("log-level", "LEVEL", "How much to log.", choices=LOG_LEVELS),
    StartOption("log-format", "FORMAT", "Log as text for people or as JSON lines.", choices=LOG_FORMATS),
)


class StartArguments(NamedTuple):
    """The options of the command line, by name."""

    config: str | None = None
    set: tuple[str, ...] = ()
    data: str | None = None
    listen: tuple[str, ...] = ()
    advertise: tuple[str, ...] = ()
    admin: str | None = None
    id: str | None = None
    hints: bool = False
    console: bool = False
    log_level: str = "info"
    log_format: str = "text"


def parse(arguments: list[str]) -> StartArguments | None:
    """The arguments, or None when click has to parse them: help, or a mistake."""
    by_name = {f"--{option.name}": option for option in START_OPTIONS}
    given: dict[str, Any] = {}
    position = 0
    while position < len(arguments):
        name, equals, value = arguments[position].partition("=")
        option = by_name.get(name)
        position += 1
        if option is None or (option.metavar is None and equals):
            return None
        parameter = option.name.replace("-", "_")
        if option.metavar is None:
            given[parameter] = True
            continue
        if not equals:
            if position >= len(arguments):
                return None
            value = arguments[position]
            position += 1
        if option.choices and value not in option.choices:
            return None
        given[parameter] = (*given.get(parameter, ()), value) if option.repeated else value
    return StartArguments(**given)


def command_line_of(arguments: StartArguments) -> list[str]:
    """The options as a command line that `parse` reads."""
    line: list[str] = []
    for option in START_OPTIONS:
        value = getattr(arguments, option.name.replace("-", "_"))
        if option.metavar is None:
            line += [f"--{option.name}"] * bool(value)
        elif value is not None:
            line += [f"--{option.name}={one}" for one in (value if option.repeated else (value,))]
    return line
