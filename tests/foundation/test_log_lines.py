"""Lines of a process's log are bounded in length and in number, whatever clients choose; traces of failures stay."""

from __future__ import annotations

import asyncio
import json

import pytest

from odradek.foundation.limits import (
    LOG_LINE_BYTES_MAX,
    LOG_LINES_OF_KIND_PER_MINUTE_MAX,
    LOG_TRACES_OF_KIND_PER_MINUTE_MAX,
)
from odradek.foundation.log_lines import cut
from odradek.foundation.rate_limited_log import RateLimitedLog
from tests.support.log_lines import FORMATS, Log
from tests.support.loop import run

LONG = "x" * 1_000_000


def fail(text: str, depth: int = 0) -> None:
    if depth:
        fail(text, depth - 1)
    raise ValueError(text)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "name",
    [LONG, "\n" * 10_000, '"' * 10_000, "\x1b[2J\r\n", "ñ€😀" * 5000, "\ud800" * 3000, "\u2028" * 3000],
)
def test_a_message_is_one_line_of_bounded_length(form: str, name: str) -> None:
    log = Log(form)
    log.logger.warning("the topic %s was made", name)
    log.logger.warning("the topic %r was made for %s", name, ValueError(name))
    log.logger.warning(f"the topic {name} was made")
    lines = log.lines()
    assert len(lines) == 3
    for line in lines:
        assert len(line) <= LOG_LINE_BYTES_MAX
        assert b"the topic" in line
        assert line[:-1].decode().isprintable()
        if form == "json":
            json.loads(line)


def test_a_cut_line_says_how_long_it_was() -> None:
    log = Log()
    log.logger.warning("%s", LONG)
    assert "… (1000000 characters)" in log.lines()[0].decode()
    assert cut("short") == "short"
    assert cut("x" * (LOG_LINE_BYTES_MAX - 1)) == "x" * (LOG_LINE_BYTES_MAX - 1)
    assert len(cut("€" * LOG_LINE_BYTES_MAX).encode()) < LOG_LINE_BYTES_MAX


@pytest.mark.parametrize("form", FORMATS)
def test_a_trace_is_whole_and_its_lines_are_bounded(form: str) -> None:
    log = Log(form)
    try:
        fail(LONG + "\nthe end", depth=60)
    except ValueError:
        log.logger.exception("a handler failed")
    lines = log.lines()
    assert all(len(line) <= LOG_LINE_BYTES_MAX for line in lines)
    if form == "json":
        text = "\n".join(json.loads(line).get("trace", "") for line in lines)
    else:
        text = b"".join(lines).decode()
    for expected in ("Traceback (most recent call last)", "in fail", "ValueError: xxx", "the end"):
        assert expected in text


def test_a_trace_without_end_keeps_its_ends() -> None:
    log = Log()
    try:
        fail("deep\n" * 10_000)
    except ValueError:
        log.logger.exception("a handler failed")
    text = b"".join(log.lines()).decode()
    assert "lines are left out" in text
    assert "Traceback (most recent call last)" in text
    assert len(log.lines()) < 250


def test_lines_of_a_kind_are_bounded_and_those_left_out_are_counted() -> None:
    log = Log()
    for number in range(LOG_LINES_OF_KIND_PER_MINUTE_MAX + 7):
        log.logger.info("guest %d", number)
    log.logger.info("something else")
    log.seconds = 61
    log.logger.info("later")
    texts = [line.decode() for line in log.lines()]
    assert len(texts) == LOG_LINES_OF_KIND_PER_MINUTE_MAX + 3
    assert "something else" in texts[-3]
    assert "7 more lines as this one were left out: guest 1000" in texts[-2]
    assert "later" in texts[-1]


def test_lines_left_out_are_counted_when_the_minute_or_the_process_ends() -> None:
    async def story() -> None:
        log = Log()
        for _ in range(LOG_LINES_OF_KIND_PER_MINUTE_MAX + 1):
            log.logger.info("guest")
        await asyncio.sleep(61)
        assert b"1 more lines" in log.lines()[-1]

    run(story())
    log = Log()
    for _ in range(LOG_LINES_OF_KIND_PER_MINUTE_MAX + 1):
        log.logger.info("guest")
    log.handler.close()
    assert b"1 more lines" in log.lines()[-1]


def test_a_failure_is_not_hidden_by_many_of_another_kind() -> None:
    log = Log()
    for number in range(LOG_TRACES_OF_KIND_PER_MINUTE_MAX + 30):
        try:
            fail(f"failure {number}")
        except ValueError:
            log.logger.exception("a handler failed")
    try:
        raise KeyError("missing")
    except KeyError as error:
        for _ in range(2):
            log.logger.error("a handler failed", exc_info=error)
    text = b"".join(log.lines()).decode()
    assert text.count("ValueError: failure") == LOG_TRACES_OF_KIND_PER_MINUTE_MAX
    assert text.count("KeyError: 'missing'") == 2


def test_a_broken_connection_has_no_trace_and_a_failed_task_has_one() -> None:
    log = Log()
    log.logger.name = "asyncio"
    failure = TimeoutError(110, "Connection timed out")
    log.logger.error("Fatal error on transport TCPTransport\nprotocol: <x>", exc_info=failure)
    assert len(log.lines()) == 1
    assert b"Connection timed out" in log.lines()[0]
    log.logger.error("Task exception was never retrieved\nfuture: <x>", exc_info=failure)
    assert log.lines()[-1].startswith(b"TimeoutError")


def test_lines_of_two_callers_of_one_rate_limited_log_are_two_kinds() -> None:
    log = Log()
    lines = RateLimitedLog(log.logger, "guests", lines_per_minute_max=2 * LOG_LINES_OF_KIND_PER_MINUTE_MAX)
    for _ in range(LOG_LINES_OF_KIND_PER_MINUTE_MAX + 10):
        lines.info("one")
    lines.info("another")
    assert b"another" in log.lines()[-1]
