"""The topics of a command: by name, and by patterns that match a whole name.

A pattern is a regular expression in RE2's syntax, as consumer groups take them (KIP-848). An argument is a pattern if
it has a character that no topic's name can have, as in `ord.*`; `orders.eu` is a name. Internal topics match no
pattern, as for Kafka's consumers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast

from odradek.foundation.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from odradek.client.client import Client

_ONLY_IN_PATTERNS: Final = re.compile(r"[*+?|()\[\]{}^$\\]")


class Pattern(Protocol):
    """A compiled pattern of re2."""

    @property
    def pattern(self) -> str: ...

    def fullmatch(self, text: str, /) -> object: ...


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The names and compiled patterns that were given."""

    names: tuple[str, ...]
    patterns: tuple[Pattern, ...] = ()

    def among(self, topics: Iterable[tuple[str, bool]]) -> list[str]:
        """The chosen names: those given, then the matches among `topics`, pairs of name and is internal, in their
        order.
        """
        matches = sorted(
            name
            for name, is_internal in topics
            if not is_internal and any(p.fullmatch(name) for p in self.patterns)
        )
        return list(dict.fromkeys((*self.names, *matches)))

    async def find(self, client: Client) -> list[str]:
        """The chosen names now. Without a pattern they are the given ones, and no request is sent."""
        if not self.patterns:
            return list(self.names)
        cluster = await client.with_retries(lambda: client.refresh(None))
        return self.among((topic.name, topic.is_internal) for topic in cluster.topics.values())

    def nothing_matches(self) -> UnknownTopicOrPartition:
        """The error for patterns without a single match."""
        shown = " or ".join(repr(pattern.pattern) for pattern in self.patterns)
        return UnknownTopicOrPartition(
            f"no topic matches {shown}; a pattern is a regular expression for the whole name, where .* stands for any "
            "text. `odradek topics list` shows the topics, --follow waits for one"
        )


def choose_topics(arguments: Sequence[str], *, is_regex: bool = False) -> TopicChoice:
    """The choice of these arguments; with `is_regex` all of them are patterns. Raises ValueError."""
    names = [argument for argument in arguments if not (is_regex or _ONLY_IN_PATTERNS.search(argument))]
    return TopicChoice(
        tuple(names), tuple(_compile_pattern(argument) for argument in arguments if argument not in names)
    )


def _compile_pattern(pattern: str) -> Pattern:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return cast(Pattern, re2.compile(pattern, options))
    except re2.error as failure:
        reason = failure.args[0].decode() if isinstance(failure.args[0], bytes) else failure
        raise ValueError(
            f"the topic pattern {pattern!r} is not a regular expression: {reason}; write .* for any text, as in 'ord.*'"
        ) from failure
