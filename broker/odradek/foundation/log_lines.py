"""What a process writes to its log: lines of bounded length, and of each kind a bounded number in a minute.

Clients choose names, values and bytes that reach the log, and how often. So one handler, `LogLines`, stands between all
loggers of a process, those of libraries too, and its standard error:

- A message is one line of at most `LOG_LINE_BYTES_MAX` bytes. Characters that do not print are escaped.
- The kind of a line is the place in the code that logs it; with a trace, also the place that raised the exception. Of
  each kind a bounded number is written in a minute, and then how many were left out.
- A trace shows where the code failed. A peer that breaks a connection is no failure of the code: asyncio logs such
  errors with a trace, and here they get one line.
"""

from __future__ import annotations

import copy
import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, TextIO

from odradek.foundation.limits import (
    LOG_LINE_BYTES_MAX,
    LOG_LINES_OF_KIND_PER_MINUTE_MAX,
    LOG_TRACE_LINES_MAX,
    LOG_TRACES_OF_KIND_PER_MINUTE_MAX,
)

_MINUTE_SECONDS: Final = 60
# Texts in a message are truncated to this before the message is made: formatting a request of 100 MB takes long.
_ARGUMENT_CHARACTERS_MAX: Final = LOG_LINE_BYTES_MAX
# How asyncio and uvloop begin when a peer or the network ends a connection.
_BROKEN_CONNECTION: Final = "Fatal "
_Kind = tuple[object, ...]


class Lines(Protocol):
    """A formatter of this module."""

    def lines(self, record: logging.LogRecord, trace: list[str]) -> Iterator[str]:
        """The lines of a record, whose message is bounded, and of its trace."""
        ...


class TextLines(logging.Formatter):
    """Lines for people. Fields of a record stand behind its message, as `topic=orders`."""

    def lines(self, record: logging.LogRecord, trace: list[str]) -> Iterator[str]:
        yield cut(self.format(record) + "".join(f" {name}={_word(value)}" for name, value in _fields(record)))
        for line in trace:
            yield cut(line)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the fields of the record, and the trace if there is one.

    A trace that does not fit follows in further objects, whose message counts them. `process` is the number of a
    machine's process.
    """

    def __init__(self, *, process: int | None = None, datefmt: str | None = None) -> None:
        super().__init__(datefmt=datefmt)
        self._process = {} if process is None else {"process": str(process)}

    def fields(self, record: logging.LogRecord) -> dict[str, str]:
        return {
            "time": self.formatTime(record, self.datefmt),
            "level": record.levelname.lower(),
            **self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }

    def lines(self, record: logging.LogRecord, trace: list[str]) -> Iterator[str]:
        fields: dict[str, object] = {**self.fields(record), **dict(_fields(record))}
        if not trace:
            yield _json(fields, "message")
            return
        whole = json.dumps({**fields, "trace": "\n".join(trace)}, ensure_ascii=False)
        if _size(whole) <= LOG_LINE_BYTES_MAX - 1:
            yield whole
            return
        yield _json(fields, "message")
        # Escaped, a character takes six bytes at most; most lines of a trace are short.
        parts = _parts(trace, LOG_LINE_BYTES_MAX // 2)
        for number, part in enumerate(parts, start=1):
            fields["message"] = f"trace, part {number} of {len(parts)}"
            yield _json({**fields, "trace": part}, "trace")


class LogLines(logging.Handler):
    """Writes the records of all loggers to `stream`, the standard error of the time without one."""

    def __init__(
        self, formatter: Lines, *, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._formatter = formatter
        self._stream = stream
        self._now = now
        self._minute = -1
        # Records of this minute by kind, and one record of each kind that was left out.
        self._counts: dict[_Kind, int] = {}
        self._left_out: dict[_Kind, logging.LogRecord] = {}

    def emit(self, record: logging.LogRecord) -> None:
        try:
            minute = int(self._now() // _MINUTE_SECONDS)
            if minute != self._minute:
                self.report_left_out()
                self._minute = minute
                self._counts.clear()
            if not self._is_left_out(record):
                self._write(limit_record(record))
        except Exception:
            self.handleError(record)

    def report_left_out(self) -> None:
        """Log how many lines of each kind were left out, if any."""
        self.acquire()
        try:
            left_out, self._left_out = self._left_out, {}
            for kind, record in left_out.items():
                lines_max = _lines_max(record)
                count, self._counts[kind] = self._counts[kind] - lines_max, lines_max
                told = copy.copy(record)
                told.exc_info = None
                told.msg, told.args = "%d more lines as this one were left out: %s", (count, _message(record))
                self._write(limit_record(told))
        finally:
            self.release()

    def close(self) -> None:
        self.report_left_out()
        super().close()

    def _is_left_out(self, record: logging.LogRecord) -> bool:
        kind = _kind(record)
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= _lines_max(record):
            return False
        if kind not in self._left_out:
            self._left_out[kind] = record
            self._report_at_end_of_minute()
        return True

    def _report_at_end_of_minute(self) -> None:
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # In a thread. The next record reports it, or the end of the process.
        loop.call_later(_MINUTE_SECONDS - self._now() % _MINUTE_SECONDS, self.report_left_out)

    def _write(self, record: logging.LogRecord) -> None:
        stream = self._stream or sys.stderr
        trace = _trace(record)
        record.exc_info = record.exc_text = record.stack_info = None
        for line in self._formatter.lines(record, trace):
            # A character that the stream cannot write would end the line, and print a trace of this module.
            encoding = stream.encoding or "utf-8"
            stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()


def log_to_standard_error(level: str, formatter: Lines) -> None:
    """Make a process log from `level` on, with nothing but bounded lines."""
    root = logging.getLogger()
    root.handlers[:] = [LogLines(formatter)]
    root.setLevel(level.upper())


def limit_record(record: logging.LogRecord) -> logging.LogRecord:
    """A copy of `record` with a message of one bounded line, and without the trace of a broken connection."""
    failure = record.exc_info[1] if record.exc_info else None
    message = _message(record)
    one = copy.copy(record)
    is_broken_connection = record.name == "asyncio" and message.startswith(_BROKEN_CONNECTION)
    if is_broken_connection and isinstance(failure, OSError):
        message = f"{message}: {failure}"
        one.exc_info = None
    # The prefix takes some of the line, and quotes are escaped in JSON.
    one.msg, one.args = cut(_printable(message)), None
    return one


def cut(line: str) -> str:
    """`line` with at most `LOG_LINE_BYTES_MAX` bytes, its end included; says how much is gone."""
    size = len(line)
    if size * 4 < LOG_LINE_BYTES_MAX:
        return line
    data = line[:LOG_LINE_BYTES_MAX].encode("utf-8", "backslashreplace")
    if size <= LOG_LINE_BYTES_MAX and len(data) < LOG_LINE_BYTES_MAX:
        return line
    kept = data[: LOG_LINE_BYTES_MAX - 40].decode("utf-8", "ignore")
    return f"{kept}… ({size} characters)"


def _size(line: str) -> int:
    return len(line.encode("utf-8", "backslashreplace"))


def _message(record: logging.LogRecord) -> str:
    arguments = record.args
    if arguments:
        arguments = (
            {key: _shorten(value) for key, value in arguments.items()}
            if isinstance(arguments, Mapping)
            else tuple(map(_shorten, arguments))
        )
        return str(record.msg) % arguments
    return str(record.msg)


def _shorten(argument: object) -> object:
    if isinstance(argument, str | bytes) and len(argument) > _ARGUMENT_CHARACTERS_MAX:
        beginning = argument[: _ARGUMENT_CHARACTERS_MAX // 2]
        if isinstance(beginning, bytes):
            return beginning + b"... (%d bytes)" % len(argument)
        return f"{beginning}… ({len(argument)} characters)"
    return argument


def _printable(message: str) -> str:
    """`message` as one line: a line break in it would begin a line that nothing logged."""
    message = message[: 2 * LOG_LINE_BYTES_MAX] if len(message) > 2 * LOG_LINE_BYTES_MAX else message
    if message.isprintable():
        return message
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in message
    )


def _trace(record: logging.LogRecord) -> list[str]:
    """The lines of a record's trace and stack, each bounded; the middle of a long one is left out."""
    lines: list[str] = []
    if record.exc_info and record.exc_info[1] is not None:
        # Not by the record's cached text: another handler may have made it.
        lines += "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n").split("\n")
    if record.stack_info:
        lines += record.stack_info.split("\n")
    if len(lines) > LOG_TRACE_LINES_MAX:
        half = LOG_TRACE_LINES_MAX // 2
        lines[half:-half] = [f"... {len(lines) - 2 * half} lines are left out"]
    return [cut(_printable(line)) for line in lines]


def _kind(record: logging.LogRecord) -> _Kind:
    """The place in the code that logs, and the one that raised."""
    if not record.exc_info or record.exc_info[1] is None:
        return record.pathname, record.lineno
    failure = record.exc_info[1]
    place = failure.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    raised_at = () if place is None else (place.tb_frame.f_code, place.tb_lineno)
    return record.pathname, record.lineno, type(failure), *raised_at


def _lines_max(record: logging.LogRecord) -> int:
    return LOG_TRACES_OF_KIND_PER_MINUTE_MAX if record.exc_info else LOG_LINES_OF_KIND_PER_MINUTE_MAX


def _json(fields: dict[str, object], longest: str) -> str:
    """`fields` as one object within the bound, the one named `longest` truncated as far as it takes."""
    text = str(fields[longest])
    kept = LOG_LINE_BYTES_MAX
    while True:
        line = json.dumps(fields, ensure_ascii=False)
        if _size(line) <= LOG_LINE_BYTES_MAX - 1:
            return line
        kept = kept * 3 // 4
        fields = {**fields, longest: f"{text[:kept]}… ({len(text)} characters)"}


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """What a record has beside its message, as `extra={"fields": …}`. Its caller bounds it (`printable_start`)."""
    yield from getattr(record, "fields", {}).items()


def _word(value: object) -> str:
    """A value as one word: a text with blanks or quotes stands in quotes."""
    text = str(value)
    is_plain = text and not any(one in text for one in ' "=')
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def printable_start(text: str, bytes_max: int) -> str:
    """The beginning of a text that a client chose, in printable characters of at most this many bytes."""
    printable = _printable(text[:bytes_max])
    data = printable.encode("utf-8", "backslashreplace")
    if len(data) <= bytes_max and len(text) <= bytes_max:
        return printable
    return data[: bytes_max - len("…".encode())].decode("utf-8", "ignore") + "…"


def _parts(lines: list[str], size_max: int) -> list[str]:
    """`lines` joined into texts of at most `size_max` characters; a longer line is a text of its own."""
    parts: list[str] = []
    for line in lines:
        if parts and len(parts[-1]) + len(line) < size_max:
            parts[-1] += f"\n{line}"
        else:
            parts.append(line)
    return parts
