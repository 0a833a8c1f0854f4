"""The offsets at which `consume` starts when it reads alone, and its errors for an offset that does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.client.admin.logs import EARLIEST, LogAdmin
from odradek.foundation.errors import OffsetOutOfRange
from odradek.foundation.ids import TopicPartition

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Start:
    """The start that the options ask for: the first record kept, a time in ms, or an offset. A negative offset counts
    from the end. Without an option the start is the end.
    """

    is_from_beginning: bool = False
    time_ms: int | None = None
    offset: int | None = None


async def starting_offsets(
    logs: LogAdmin, start: Start, ends: Offsets, *, may_wait: bool
) -> tuple[Offsets, list[str]]:
    """The offset to start at in each partition, never beyond its end, and notices for the user. Raises OffsetOutOfRange
    for an offset that a partition no longer has. It does the same for one beyond all ends, unless the command may wait
    for it.
    """
    if start.is_from_beginning:
        return await logs.offsets_at(ends, EARLIEST), []
    if start.time_ms is not None:
        found = await logs.offsets_at(ends, start.time_ms)
        return {key: ends[key] if offset < 0 else offset for key, offset in found.items()}, []
    if start.offset is None:
        return ends, []
    firsts = await logs.offsets_at(ends, EARLIEST)
    if start.offset < 0:
        return {key: max(firsts[key], end + start.offset) for key, end in ends.items()}, []
    notes = _check_range(start.offset, firsts, ends, may_wait=may_wait)
    return {key: min(start.offset, end) for key, end in ends.items()}, notes


def _check_range(
    offset: int, firsts: Mapping[TopicPartition, int], ends: Offsets, *, may_wait: bool
) -> list[str]:
    ranges = {key: _range(key, firsts[key], end) for key, end in ends.items()}
    before = [ranges[key] for key, first in firsts.items() if offset < first]
    if before:
        raise OffsetOutOfRange(
            f"offset {offset} no longer exists: {'; '.join(before)}. "
            "Start with --from-beginning, or at an offset that exists"
        )
    beyond = [key for key, end in ends.items() if offset > end]
    if may_wait:
        return [f"{ranges[key]}: waiting for offset {offset}" for key in beyond]
    if beyond and len(beyond) == len(ends):
        raise OffsetOutOfRange(
            f"offset {offset} is beyond the end: {'; '.join(ranges.values())}. "
            f"Start before the end, with --offset -10 for the last ten, or add --follow to wait for {offset}"
        )
    return [f"{ranges[key]}: nothing to read from offset {offset} on" for key in beyond]


def _range(key: TopicPartition, first: int, end: int) -> str:
    if first == end:
        return f"partition {key} is empty and its next offset is {end}"
    return f"partition {key} has offsets {first} to {end - 1}"
