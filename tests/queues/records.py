"""The records of the proof: each value says what its members have to answer, so that any member answers alike.

    accept.one.17 ....      what is answered, the producer and the number; padding follows

Most records are accepted. Some are released once and then accepted. Some are poison: they are rejected, or released at
each delivery until the queue gives them up.
"""

from __future__ import annotations

from typing import Final

ACCEPT, ONCE, RELEASE, REJECT = "accept", "once", "release", "reject"
POISON: Final = (RELEASE, REJECT)
_ONCE_EVERY: Final = 100
_POISON_EVERY: Final = 1_000
_PADDING: Final = b"." * 24


def fate_of(number: int) -> str:
    """What becomes of the record of this number."""
    if number % _POISON_EVERY == _POISON_EVERY // 2:
        return POISON[number // _POISON_EVERY % 2]
    return ONCE if number % _ONCE_EVERY == _ONCE_EVERY // 4 else ACCEPT


def name_record(producer: str, number: int) -> str:
    return f"{fate_of(number)}.{producer}.{number}"


def build_value(producer: str, number: int) -> bytes:
    return b"%s %s" % (name_record(producer, number).encode(), _PADDING)


def read_name(value: bytes | None) -> str:
    """The name that a value begins with."""
    return (value or b"").split(b" ", 1)[0].decode(errors="replace")


def choose_answer(value: bytes | None, delivery_count: int) -> str:
    """What a member answers: accept, release or reject."""
    fate = (value or b"").split(b".", 1)[0].decode(errors="replace")
    if fate == ONCE:
        return RELEASE if delivery_count == 1 else ACCEPT
    return fate if fate in POISON else ACCEPT
