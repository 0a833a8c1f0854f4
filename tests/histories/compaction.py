"""What has to hold of a compacted log (I10), as pure checks: all that was ever in it against what is left.

- changed record: what is kept at an offset is not what was written there, in key, value, time or headers;
- reordered: offsets that do not rise;
- lost value: the last value of a key is gone;
- lost tombstone: a deleted key's tombstone went, and an older value of the key is still there;
- cleaned too far: a record at or above the bound that a cleaner may not pass is gone;
- not compacted: below the bound a key has more than one record;
- replicas differ: two replicas show another value for a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.histories.transactions import Breach


class Kept(NamedTuple):
    """A record of a log. A value of None is a tombstone. `is_visible` is False in an aborted transaction."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    is_visible: bool = True


def check_compacted(
    written: Sequence[Kept],
    replicas: Mapping[int, Sequence[Kept]],
    *,
    clean_from: int,
    compacted_below: int | None = None,
) -> Iterator[Breach]:
    """Compare each replica with all that was `written`.

    `clean_from` is the first offset that no cleaner may touch. Where two rounds have passed in quiet, `compacted_below`
    is how far a key has one record at most.
    """
    by_offset = {record.offset: record for record in written}
    newest = {record.key: record for record in written if record.is_visible}
    shown: dict[int, dict[bytes, bytes | None]] = {}
    for replica, kept in replicas.items():
        where = f"on broker {replica}"
        yield from _check_records(where, kept, by_offset)
        yield from _check_newest(where, kept, newest)
        gone = sorted(
            {record.offset for record in written if record.offset >= clean_from}
            - {record.offset for record in kept}
        )
        if gone:
            what = f"{where} offsets {gone[:5]} are gone, and none from {clean_from} on may be"
            yield Breach("I10", "cleaned too far", what)
        if compacted_below is not None:
            yield from _check_once(where, kept, compacted_below)
        shown[replica] = _last_values(kept)
    yield from _check_alike(shown)


def _check_records(where: str, kept: Sequence[Kept], by_offset: Mapping[int, Kept]) -> Iterator[Breach]:
    for before, after in pairwise(kept):
        if after.offset <= before.offset:
            yield Breach("I10", "reordered", f"{where} offset {after.offset} follows {before.offset}")
    for record in kept:
        if by_offset.get(record.offset) != record:
            what = f"{where} there is {record} at {record.offset}; written was {by_offset.get(record.offset)}"
            yield Breach("I10", "changed record", what)


def _check_newest(where: str, kept: Sequence[Kept], newest: Mapping[bytes, Kept]) -> Iterator[Breach]:
    offsets = {record.offset for record in kept}
    visible = _last_values(kept)
    for key, last in newest.items():
        if last.offset in offsets:
            continue
        if last.value is not None:
            yield Breach(
                "I10", "lost value", f"{where} {key!r} has lost {last.value!r} of offset {last.offset}"
            )
        elif visible.get(key) is not None:
            what = f"{where} {key!r} was deleted at {last.offset}, and is {visible[key]!r}"
            yield Breach("I10", "lost tombstone", what)


def _check_once(where: str, kept: Sequence[Kept], below: int) -> Iterator[Breach]:
    seen: dict[bytes, int] = {}
    for record in kept:
        if record.offset < below and record.key in seen:
            what = f"{where} {record.key!r} is at {seen[record.key]} and at {record.offset}, below {below}"
            yield Breach("I10", "not compacted", what)
        seen[record.key] = record.offset


def _last_values(kept: Sequence[Kept]) -> dict[bytes, bytes | None]:
    return {record.key: record.value for record in kept if record.is_visible}


def _check_alike(shown: Mapping[int, Mapping[bytes, bytes | None]]) -> Iterator[Breach]:
    for (one, of_one), (other, of_other) in pairwise(sorted(shown.items())):
        for key in sorted({*of_one, *of_other}):
            if of_one.get(key) != of_other.get(key):
                what = f"{key!r} is {of_one.get(key)!r} on broker {one}, and {of_other.get(key)!r} on {other}"
                yield Breach("I10", "replicas differ", what)
