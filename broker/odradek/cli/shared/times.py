"""Times and durations as users type them.

A time is `2026-03-01T12:00:00Z`, `2026-03-01`, milliseconds since the Unix epoch, `now`, or a duration before now
(`5m`, `1h30m`). Without a zone it is UTC, as in Kafka's own tools. A duration is `500ms`, `90s`, `5m`, `1h30m`, `2d`,
or ISO 8601 (`PT1H30M`) as in Kafka's --by-duration.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

TIME_HELP = "ISO 8601 (UTC where no zone is given) or 5m for five minutes ago"

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_SHORT_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+")
_SHORT_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_ISO_DURATION = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_YEAR_9999_MS = 253_402_300_799_999
_EPOCH_MS_DIGITS_MIN = 11  # fewer digits could be a year or seconds: refuse rather than guess


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration. Raises ValueError with the allowed forms."""
    given = text.strip()
    if _SHORT_DURATION.fullmatch(given):
        return round(sum(float(amount) * _UNIT_MS[unit] for amount, unit in _SHORT_PART.findall(given)))
    iso = _ISO_DURATION.fullmatch(given)
    if iso is not None and any(iso.groupdict().values()):
        return round(
            sum(float(amount) * _UNIT_MS[unit] for unit, amount in iso.groupdict().items() if amount)
        )
    raise ValueError(f"{text!r} is not a duration; write it like 500ms, 90s, 5m, 1h30m, 2d or PT1H30M")


def parse_moment_ms(text: str, *, now_ms: int) -> int:
    """Milliseconds since the Unix epoch of a time. Raises ValueError with the allowed forms."""
    given = text.strip()
    if given == "now":
        return now_ms
    if given.isdigit() and len(given) >= _EPOCH_MS_DIGITS_MIN:
        return int(given)
    if _SHORT_DURATION.fullmatch(given) or _ISO_DURATION.fullmatch(given):
        return now_ms - parse_duration_ms(given)
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; write it like 2026-03-01T12:00:00 (UTC), 2026-03-01T12:00:00+02:00, "
            "2026-03-01, 5m (five minutes ago), now, or milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def format_moment(timestamp_ms: int) -> str:
    """A timestamp as ISO 8601 in UTC with milliseconds; `-` when there is none, digits beyond the year 9999."""
    if timestamp_ms < 0:
        return "-"
    if timestamp_ms > _YEAR_9999_MS:
        return str(timestamp_ms)
    moment = datetime.fromtimestamp(timestamp_ms // 1000, tz=UTC)
    return f"{moment.isoformat()[:19]}.{timestamp_ms % 1000:03d}Z"


def format_seconds(seconds: float) -> str:
    """A duration for people: `0.4s`, `12s`, `3m 05s`, `2h 03m`, `4d 01h`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3_600}h {whole % 3_600 // 60:02d}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3_600:02d}h"
