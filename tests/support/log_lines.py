"""A process's log as it is written: bounded lines of bytes."""

from __future__ import annotations

import io
import logging

from odradek.foundation.log_lines import JsonLines, LogLines, TextLines

FORMATS: dict[str, TextLines | JsonLines] = {
    "text": TextLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s"),
    "json": JsonLines(),
}


class Log:
    """A logger of its own, and what it wrote."""

    def __init__(self, form: str = "text") -> None:
        self.seconds = 0.0
        self._out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
        self.handler = LogLines(FORMATS[form], stream=self._out, now=lambda: self.seconds)
        self.logger = logging.Logger("tests.log_lines")
        self.logger.addHandler(self.handler)

    def lines(self) -> list[bytes]:
        self._out.flush()
        data = self._out.buffer.getvalue()
        return data.splitlines(keepends=True)
