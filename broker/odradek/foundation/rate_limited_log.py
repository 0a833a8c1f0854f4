"""Rate-limited log lines: a bounded number per minute, then a count of those left out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from odradek.foundation.limits import LOG_LINES_PER_MINUTE_MAX

_SECONDS: int = 60


class RateLimitedLog:
    """One kind of lines of `logger`. `what` names the kind in the line that counts those left out. In an event loop
    that line is logged at the end of the minute, otherwise before the next line.
    """

    def __init__(
        self,
        logger: logging.Logger,
        what: str,
        *,
        now: Callable[[], float] = time.monotonic,
        lines_per_minute_max: int = LOG_LINES_PER_MINUTE_MAX,
    ) -> None:
        self._logger = logger
        self._what = what
        self._now = now
        self._lines_max = lines_per_minute_max
        self._minute = -1
        self._lines = 0
        self._level = logging.WARNING

    def debug(self, message: str, *arguments: object) -> None:
        """Log at level DEBUG, or count the line as left out."""
        self._log(logging.DEBUG, message, arguments)

    def info(self, message: str, *arguments: object) -> None:
        """Log at level INFO, or count the line as left out."""
        self._log(logging.INFO, message, arguments)

    def warning(self, message: str, *arguments: object) -> None:
        """Log at level WARNING, or count the line as left out."""
        self._log(logging.WARNING, message, arguments)

    def report_left_out(self) -> None:
        """Log how many lines were left out, if any, and reset the count."""
        left_out = self._lines - self._lines_max
        self._lines = min(self._lines, self._lines_max)
        if left_out > 0:
            self._logger.log(self._level, "%d more lines about %s were left out", left_out, self._what)

    def _log(self, level: int, message: str, arguments: tuple[object, ...]) -> None:
        minute = int(self._now() // _SECONDS)
        if minute != self._minute:
            self.report_left_out()
            self._minute = minute
            self._lines = 0
        self._lines += 1
        if self._lines <= self._lines_max:
            # The kind of the line is its caller's (`log_lines`).
            self._logger.log(level, message, *arguments, stacklevel=3)
        elif self._lines == self._lines_max + 1:
            self._level = level
            self._report_at_end_of_minute()

    def _report_at_end_of_minute(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        loop.call_later(_SECONDS - self._now() % _SECONDS, self.report_left_out)
