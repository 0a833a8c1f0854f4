"""A question in ListOffsets that Kafka has not: where a log's segments start.

Version 0 answered with a list of them, which SimpleConsumer's getOffsetsBefore needs, and is gone since Kafka 4.0
(KIP-896). Here the time of a request stands for an offset. The answer is the start of the newest segment that starts
before it, with the time of that segment's newest record. Apache Kafka answers UNSUPPORTED_VERSION to such a time.
"""

from __future__ import annotations

from typing import Final

# Half of all negative numbers, far below Kafka's special values.
_HIGHEST: Final = -(2**62)


def time_of_offset(offset: int) -> int:
    """The time that asks for the segment before `offset`."""
    return _HIGHEST - min(offset, 2**62)


def offset_of_time(timestamp_ms: int) -> int | None:
    """The offset that a time stands for; None for any other time."""
    return _HIGHEST - timestamp_ms if timestamp_ms <= _HIGHEST else None
