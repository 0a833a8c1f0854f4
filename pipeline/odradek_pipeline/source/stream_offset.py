"""A position of a stream in all its partitions, as the JSON that Spark keeps in the checkpoint.

Spark compares offsets as text. So keys have a fixed order, and the same position is the same text. Topics have their
ids: an offset means nothing in another topic of the same name.

Spark asks for the initial offset again when batch 0 is replayed, and `latest` is another one by then. So the end of
the first batch has the `starts` from which it was planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.foundation.ids import TopicPartition

_VERSION = 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset of each partition, and the id of each topic. `starts` is set in the end of the first batch."""

    ids: Mapping[str, str]
    offsets: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int] | None = None
    is_initial: bool = False

    def as_json(self) -> dict[str, Any]:
        """The text that Spark gets."""
        topics = {
            name: {"id": self.ids[name], "partitions": numbers}
            for name, numbers in _by_name(self.offsets).items()
        }
        found: dict[str, Any] = {"version": _VERSION, "topics": topics}
        if self.is_initial:
            found["initial"] = True
        if self.starts is not None:
            found["starts"] = _by_name(self.starts)
        return found

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> StreamOffset:
        """The inverse of `as_json`. Raises ValueError for what another source or another version wrote."""
        if given.get("version") != _VERSION or not isinstance(given.get("topics"), dict):
            raise ValueError(
                f"the checkpoint has an offset that this version of the source did not write: {given}"
            )
        topics = given["topics"]
        return cls(
            ids={name: str(topic["id"]) for name, topic in topics.items()},
            offsets=_by_key({name: topic["partitions"] for name, topic in topics.items()}),
            starts=_by_key(given["starts"]) if "starts" in given else None,
            is_initial=bool(given.get("initial")),
        )


def _by_name(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for key in sorted(offsets):
        found.setdefault(key.topic, {})[str(key.partition)] = offsets[key]
    return found


def _by_key(given: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(name, int(number)): offset
        for name, numbers in given.items()
        for number, offset in numbers.items()
    }
