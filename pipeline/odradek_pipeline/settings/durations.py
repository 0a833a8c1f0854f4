"""Durations as people write them: `500ms`, `10s`, `5m`, `2h`, `1d`, or a number of seconds."""

from __future__ import annotations

import re
from typing import Final

from odradek_pipeline.errors import PipelineSettingError

_MS: Final = {"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")


def duration_ms(text: str, flag: str) -> int:
    """The milliseconds that `text` says. Raises PipelineSettingError, naming `flag`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise PipelineSettingError(f"{flag} is {text!r}; write a duration as 500ms, 10s, 5m, 2h or 1d")
    return round(float(found[1]) * _MS[found[2]])
