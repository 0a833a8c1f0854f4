"""Where a reset moves a group's committed offsets: the rules of `odradek groups reset-offsets` and of the console.

An offset that a partition does not hold becomes the nearest that it holds, as in Kafka's own tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.foundation.ids import TopicPartition

# The destinations without and with a number.
PLAIN_KINDS: Final = ("earliest", "latest", "current")
NUMBER_KINDS: Final = ("offset", "time", "shift")


class Reset(NamedTuple):
    """A destination: a `kind` and its number (offset, milliseconds since 1970, or records to shift by)."""

    kind: str
    value: int = 0


async def find_reset_offsets(
    logs: LogAdmin, keys: Sequence[TopicPartition], committed: Mapping[TopicPartition, int], reset: Reset
) -> dict[TopicPartition, int]:
    """The new offset of each partition. One without a committed offset counts as being at its end."""
    first = await logs.offsets_at(keys, EARLIEST)
    end = await logs.offsets_at(keys, LATEST)
    at_time: dict[TopicPartition, int] = {}
    if reset.kind == "time":
        found = await logs.offsets_at(keys, reset.value)
        at_time = {key: end[key] if offset < 0 else offset for key, offset in found.items()}
    targets: dict[TopicPartition, int] = {}
    for key in keys:
        current = committed.get(key, end[key])
        wanted = {
            "earliest": first[key],
            "latest": end[key],
            "current": current,
            "offset": reset.value,
            "time": at_time.get(key, 0),
            "shift": current + reset.value,
        }[reset.kind]
        targets[key] = min(max(wanted, first[key]), end[key])
    return targets
