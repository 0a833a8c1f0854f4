"""Topic patterns that members of consumer groups subscribe to, matched by the broker in RE2's syntax.

RE2 takes time in proportion to the topic's name for every pattern, so no client can keep the broker busy for hours.
Matches are remembered for as long as the topics are the same. The library is loaded with the first pattern.

The event loop and the thread that plans large groups ask at the same time, and may see different topics.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from odradek.foundation.errors import InvalidRegularExpression
from odradek.foundation.limits import TOPIC_PATTERN_LENGTH_MAX, TOPIC_PATTERNS_REMEMBERED

_COMPILED_BYTES_MAX: Final = 1024 * 1024


class TopicPatterns:
    """Compiled patterns and what they match among the topics of one image."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._compiled: OrderedDict[str, Any] = OrderedDict()
        self._remembered: tuple[Mapping[str, object], dict[str, tuple[str, ...]]] = ({}, {})

    def check(self, pattern: str) -> None:
        """Raises InvalidRegularExpression when the pattern is too long or no RE2 expression."""
        self._compile(pattern)

    def matches(self, pattern: str, topics: Mapping[str, object]) -> tuple[str, ...]:
        """The names among `topics` that match as a whole, sorted. Raises as `check`."""
        of_topics, matches = self._remembered
        if topics is not of_topics:
            matches = {}
            self._remembered = (topics, matches)
        known = matches.get(pattern)
        if known is None:
            fullmatch = self._compile(pattern).fullmatch
            known = tuple(sorted(name for name in topics if fullmatch(name)))
            if len(matches) >= TOPIC_PATTERNS_REMEMBERED:
                matches.clear()
            matches[pattern] = known
        return known

    def _compile(self, pattern: str) -> Any:
        with self._lock:
            compiled = self._compiled.get(pattern)
            if compiled is not None:
                self._compiled.move_to_end(pattern)
                return compiled
        if len(pattern) > TOPIC_PATTERN_LENGTH_MAX:
            raise InvalidRegularExpression(
                f"the topic pattern has {len(pattern)} characters, more than {TOPIC_PATTERN_LENGTH_MAX}"
            )
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = _COMPILED_BYTES_MAX
        try:
            compiled = re2.compile(pattern, options)
        except re2.error as error:
            reason = error.args[0] if error.args else error
            words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            raise InvalidRegularExpression(
                f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {words}"
            ) from error
        with self._lock:
            self._compiled[pattern] = compiled
            if len(self._compiled) > TOPIC_PATTERNS_REMEMBERED:
                self._compiled.popitem(last=False)
        return compiled
