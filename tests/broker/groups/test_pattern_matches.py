"""Matches of a pattern belong to the topics they were asked for, also when two threads ask at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.broker.groups.consumer.patterns import TopicPatterns

OLD: Mapping[str, object] = {"a1": 1}
NEW: Mapping[str, object] = {"a1": 1, "a2": 2}


class ReadMeanwhile(dict[str, object]):
    """Topics of which the loop gets newer ones while the thread reads these."""

    def __init__(self, patterns: TopicPatterns) -> None:
        super().__init__(OLD)
        self._patterns = patterns

    def __iter__(self) -> Iterator[str]:
        assert self._patterns.matches("b.*", NEW) == ()
        return super().__iter__()


def test_matches_in_older_topics_are_not_those_in_newer_ones() -> None:
    patterns = TopicPatterns()
    assert patterns.matches("a.*", ReadMeanwhile(patterns)) == ("a1",)
    assert patterns.matches("a.*", NEW) == ("a1", "a2")
