"""Kafka's names of error codes, for tools and tests that people write: `NOT_LEADER_OR_FOLLOWER` is 6."""

from __future__ import annotations


def error_number(name: str | int) -> int:
    """The number of the error with Kafka's `name` in any case; a number stays one. Raises ValueError."""
    from kio.schema.errors import ErrorCode

    if isinstance(name, int):
        return name
    found = ErrorCode.__members__.get(name.lower())
    if found is None:
        raise ValueError(f"there is no error {name!r}; names are Kafka's, such as NOT_LEADER_OR_FOLLOWER")
    return int(found.value)
