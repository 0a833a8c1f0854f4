"""The headers of a dead letter. Its key and value are the record's own bytes, and its headers come before these.

    odradek.dlq.topic        the record's topic               odradek.dlq.run       the run that could not read it
    odradek.dlq.topic_id     the topic's id                   odradek.dlq.error     why, at most 1,000 characters
    odradek.dlq.partition    its partition                    odradek.dlq.schema    part, format, file and hash
    odradek.dlq.offset       its offset                       odradek.dlq.attempt   how often it was tried, from 1
    odradek.dlq.timestamp    its time, milliseconds since 1970

All values are texts. A record that is sent back to its topic keeps `odradek.dlq.attempt` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

DEAD_LETTER_SUFFIX: Final = ".dlq"
"""What a topic of dead letters is named by, behind the name of its topic."""
PREFIX: Final = "odradek.dlq."
TOPIC: Final = f"{PREFIX}topic"
TOPIC_ID: Final = f"{PREFIX}topic_id"
PARTITION: Final = f"{PREFIX}partition"
OFFSET: Final = f"{PREFIX}offset"
TIMESTAMP: Final = f"{PREFIX}timestamp"
RUN: Final = f"{PREFIX}run"
ERROR: Final = f"{PREFIX}error"
SCHEMA: Final = f"{PREFIX}schema"
ATTEMPT: Final = f"{PREFIX}attempt"
NAMES: Final = (TOPIC, TOPIC_ID, PARTITION, OFFSET, TIMESTAMP, RUN, ERROR, SCHEMA, ATTEMPT)
ERROR_CHARACTERS_MAX: Final = 1000

Headers = Sequence[tuple[str, bytes | None]]


class LetterOrigin(NamedTuple):
    """The record that a dead letter is. The same record may be there several times, once for each attempt."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Letter:
    """The contents of a dead letter's headers. `headers` are the record's own."""

    origin: LetterOrigin
    timestamp_ms: int
    run: str
    error: str
    schema: str
    headers: tuple[tuple[str, bytes | None], ...]


class NoLetterError(ValueError):
    """A record of the topic is no dead letter; the text says what is missing."""


def parse_letter(headers: Iterable[tuple[str, bytes | None]]) -> Letter:
    """The letter that a record's headers describe. Raises NoLetterError."""
    found: dict[str, str] = {}
    own = []
    for name, value in headers:
        if name in NAMES:
            found[name] = (value or b"").decode(errors="replace")  # the last one counts
        else:
            own.append((name, value))
    try:
        origin = LetterOrigin(
            found[TOPIC], found[TOPIC_ID], int(found[PARTITION]), int(found[OFFSET]), int(found[ATTEMPT])
        )
        return Letter(
            origin,
            int(found[TIMESTAMP]),
            found.get(RUN, ""),
            found.get(ERROR, ""),
            found.get(SCHEMA, ""),
            tuple(own),
        )
    except KeyError as failure:
        raise NoLetterError(f"the header {failure.args[0]} is missing") from failure
    except ValueError as failure:
        raise NoLetterError(f"a header is no number: {failure}") from failure


def headers_to_return(letter: Letter) -> list[tuple[str, bytes | None]]:
    """The headers of a letter that goes back to its topic: the record's own, and how often it was tried."""
    return [*letter.headers, (ATTEMPT, str(letter.origin.attempt).encode())]
