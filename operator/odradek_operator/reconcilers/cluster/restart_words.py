"""The words for what a broker answers when it is asked whether it may restart, and for long lists of names."""

from __future__ import annotations

from typing import Final

from odradek.foundation.words import count
from odradek_operator.gateways.cluster_admin import RestartAnswer

_NAMED_MAX: Final = 5


def format_names(names: tuple[str, ...]) -> str:
    """Some of them, and how many more there are."""
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def describe_wait(broker: int, answer: RestartAnswer) -> str:
    """The reason why a broker must not be stopped now."""
    if not answer.known:
        return f"broker {broker} does not say yet whether it may restart"
    if answer.refused_writes:
        return f"broker {broker} may not start again: {answer.refused_writes}"
    return f"without broker {broker} these would have too few replicas in sync: {format_names(answer.waiting_for)}"


def describe_last_copies(answer: RestartAnswer) -> str:
    """The partitions of which no other broker has a replica in sync."""
    named = f": {format_names(answer.last_named)}" if answer.last_named else ""
    return f"the only replica in sync of {count(answer.last_copies, 'partition')}{named}"
