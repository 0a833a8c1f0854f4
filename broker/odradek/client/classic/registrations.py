"""The content of a consumer's id node, byte for byte as of Kafka's ZooKeeper consumers, and topic filters.

    /consumers/G/ids/ID   {"version":1,"subscription":{"t1":2},"pattern":"static","timestamp":"1795395054171"}

`pattern` is static, white_list or black_list. With a filter `subscription` has one entry, whose name is the filter. The
documents' own form, `{"t1": 2}`, stops every other consumer of the group; it is neither written nor read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from odradek.client.classic.errors import InvalidConfigException
from odradek.client.classic.java_expressions import translate_expression

STATIC: Final = "static"
WHITE_LIST: Final = "white_list"
BLACK_LIST: Final = "black_list"
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})


class Registration:
    """One consumer's subscription: the number of its streams for each topic."""

    __slots__ = ("_expression", "is_excluding_internal", "kind", "pattern", "subscription")

    def __init__(
        self, pattern: str, subscription: Mapping[str, int], *, is_excluding_internal: bool = True
    ) -> None:
        """Raises InvalidConfigException for what no consumer may register."""
        if pattern not in (STATIC, WHITE_LIST, BLACK_LIST):
            raise InvalidConfigException(
                f"a subscription's pattern is {pattern!r}; it can be static, white_list, black_list"
            )
        counts = subscription.values()
        if not all(isinstance(count, int) and not isinstance(count, bool) and count > 0 for count in counts):
            raise InvalidConfigException(
                f"a subscription has numbers of streams that are not above 0: {subscription}"
            )
        if pattern != STATIC and len(subscription) != 1:
            raise InvalidConfigException(f"a filter is one expression, not {len(subscription)}")
        self.pattern = pattern
        self.subscription = dict(subscription)
        self.is_excluding_internal = is_excluding_internal
        self.kind = (pattern, is_excluding_internal, *sorted(self.subscription.items()))
        """Equal for members that read the same topics with as many streams."""
        self._expression = None if pattern == STATIC else topic_expression(next(iter(subscription)))

    def stream_count(self, topic: str) -> int:
        """The consumer's streams that read this topic; 0 when it does not."""
        if self._expression is None:
            return self.subscription.get(topic, 0)
        if self.is_excluding_internal and topic in INTERNAL_TOPICS:
            return 0
        is_match = self._expression.fullmatch(topic) is not None
        return next(iter(self.subscription.values())) if is_match == (self.pattern == WHITE_LIST) else 0

    def pack_node(self, *, timestamp_ms: int) -> bytes:
        node = {
            "version": 1,
            "subscription": self.subscription,
            "pattern": self.pattern,
            "timestamp": str(timestamp_ms),
        }
        return json.dumps(node, separators=(",", ":"), ensure_ascii=False).encode()


def parse_registration(data: bytes, *, is_excluding_internal: bool = True) -> Registration:
    """The subscription in another consumer's id node. Raises InvalidConfigException for one that cannot be read."""
    try:
        node: Any = json.loads(data)
        subscription = dict(node["subscription"])
        pattern = str(node["pattern"])
    except (ValueError, TypeError, KeyError, RecursionError) as failure:
        raise InvalidConfigException(f"{data[:200]!r} is no registration of a consumer") from failure
    return Registration(pattern, subscription, is_excluding_internal=is_excluding_internal)


def topic_expression(given: str) -> re.Pattern[str]:
    """A filter as Kafka reads it: commas are alternatives, blanks and outer quotes go, the whole name has to match.

    It is Java's expression. Raises InvalidConfigException for one that is none.
    """
    text = re.sub(r"""^["']+|["']+$""", "", given.strip().replace(",", "|").replace(" ", ""))
    try:
        return translate_expression(text)
    except ValueError as failure:
        raise InvalidConfigException(
            f"the filter {given!r} is read as {text!r}, which is no regular expression of Java: {failure}"
        ) from failure


class TopicFilter:
    """A Whitelist or a Blacklist: which topics a consumer reads, by an expression of Java."""

    pattern: str

    def __init__(self, expression: str) -> None:
        """Raises InvalidConfigException."""
        topic_expression(expression)
        self.expression = expression


class Whitelist(TopicFilter):
    """The topics whose names match an expression; `orders,payments` means either."""

    pattern = WHITE_LIST


class Blacklist(TopicFilter):
    """The topics whose names do not match an expression."""

    pattern = BLACK_LIST
