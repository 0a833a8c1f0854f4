"""Prints on stderr why records wait, long before they expire."""

from __future__ import annotations

from odradek.cli.shared.output import print_error
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition

# An election or a restart of a broker mostly ends within a second.
_SILENT_SECONDS = 1.0


class RetryNotices:
    """A producer's `on_retry`: one line for each kind of error that lasts."""

    def __init__(self, *, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._said: set[type[OdradekError]] = set()

    def __call__(self, topic_partition: TopicPartition, waited_seconds: float, failure: OdradekError) -> None:
        silent_seconds = min(_SILENT_SECONDS, self._timeout_seconds / 4)
        if waited_seconds < silent_seconds or type(failure) in self._said:
            return
        self._said.add(type(failure))
        print_error(
            f"records for {topic_partition} wait, since the broker refuses them: {failure}; "
            f"they are given up after {self._timeout_seconds:g} s (--timeout)"
        )
