"""The levels of this process's loggers under Kafka's names, so that they can be changed while it runs.

A logger without a level of its own has its parent's level; removing a level restores that. `root` stands for all.
"""

from __future__ import annotations

import logging
from typing import Final

from odradek.foundation.errors import InvalidConfig, InvalidRequest

ROOT: Final = "root"

# Python has no TRACE: it shows what DEBUG shows.
LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def logger_levels() -> dict[str, str]:
    """The level in force of every logger that this process has made, by name, `root` first."""
    names = sorted(
        name
        for name, logger in logging.Logger.manager.loggerDict.items()
        if isinstance(logger, logging.Logger)
    )
    levels = {ROOT: _level_name(logging.getLogger().getEffectiveLevel())}
    levels.update((name, _level_name(logging.getLogger(name).getEffectiveLevel())) for name in names)
    return levels


def check_level(name: str, level: str | None) -> None:
    """Raises InvalidConfig for an unknown level, InvalidRequest for a logger that does not exist. `level` None asks
    whether the level can be removed; the root's cannot, because it has no parent.
    """
    if name not in logger_levels():
        raise InvalidConfig(f"Logger {name} does not exist; describe the broker's loggers to see all")
    if level is None:
        if name == ROOT:
            raise InvalidRequest(
                f"Removing the log level of the {ROOT} logger is not allowed; set another level"
            )
    elif level not in LEVELS:
        raise InvalidConfig(
            f"Cannot set the log level of {name} to {level}: it must be one of {', '.join(LEVELS)}"
        )


def set_level(name: str, level: str | None) -> None:
    """Set a logger's level, or remove it with None. Raises as `check_level`."""
    check_level(name, level)
    logger = logging.getLogger(None if name == ROOT else name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])


def _level_name(level: int) -> str:
    if level <= logging.DEBUG:
        return "DEBUG"
    for name in ("INFO", "WARN", "ERROR"):
        if level <= LEVELS[name]:
            return name
    return "FATAL"
