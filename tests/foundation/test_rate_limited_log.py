"""Lines that clients cause are bounded, and those left out are counted."""

from __future__ import annotations

import asyncio
import logging

import pytest

from odradek.foundation.rate_limited_log import RateLimitedLog

logger = logging.getLogger("tests.rate_limited")


def _written(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records if record.name == logger.name]


def test_lines_per_minute_are_bounded_and_those_left_out_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    seconds = 30.0
    lines = RateLimitedLog(logger, "guests", now=lambda: seconds, lines_per_minute_max=2)
    for number in range(5):
        lines.warning("guest %d", number)
    seconds = 61.0
    lines.info("guest %d", 5)
    assert _written(caplog) == [
        (logging.WARNING, "guest 0"),
        (logging.WARNING, "guest 1"),
        (logging.WARNING, "3 more lines about guests were left out"),
        (logging.INFO, "guest 5"),
    ]


async def test_what_was_left_out_is_told_although_nothing_follows(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lines = RateLimitedLog(logger, "guests", now=asyncio.get_running_loop().time, lines_per_minute_max=1)
    for number in range(4):
        lines.info("guest %d", number)
    await asyncio.sleep(61)
    assert _written(caplog)[-1] == (logging.INFO, "3 more lines about guests were left out")
    await asyncio.sleep(120)
    lines.info("guest 4")
    assert [words for _, words in _written(caplog)] == [
        "guest 0",
        "3 more lines about guests were left out",
        "guest 4",
    ]
