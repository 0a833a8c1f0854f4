"""Kafka's names of error codes, for tools and tests that people write: `NOT_LEADER_OR_FOLLOWER` is 6."""

from __future__ import annotations


def error_number(name: str | int) -> int:
    """The number of the error with Kafka's `name` in any case; a number stays one. Raises ValueError."""
    from kio.schema.errors import ErrorCode

    if isinstance(name, int):
        known = {int(code.value) for code in ErrorCode}
        if name == 0 or name not in known:
            raise ValueError(
                f"there is no error with the number {name}; Kafka's are from -1 to {max(known)}, 0 is none"
            )
        return name
    found = ErrorCode.__members__.get(name.lower())
    if found is None or not found.value:
        from odradek.foundation.words import nearest_name

        nearest = nearest_name(name.lower(), ErrorCode.__members__)
        hint = "names are Kafka's, such as NOT_LEADER_OR_FOLLOWER"
        raise ValueError(
            f"there is no error {name!r}; {hint if nearest in (None, 'none') else f'did you mean {nearest.upper()!r}?'}"
        )
    return int(found.value)
