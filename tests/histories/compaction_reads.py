"""What readers of a compacted log get, against all that was ever written to it (I1, I4, I8, I10), as pure checks.

A reader that begins at the start of the log and reads to its end must end with the last value of every key. It need
not see older ones, and a deleted key may be absent.

- lost write: a record whose write was answered is not in the log, or is elsewhere;
- duplicate: a record is there twice;
- aborted read (G1a): a reader of committed records got one of an aborted transaction;
- inconsistent offset: a reader got what was not written there;
- non-monotonic poll, skipping poll: it went back, or missed a record that is there in the end;
- lost value: it ends with an older value of a key than one that was answered before it began, or with none;
- deleted key is back: it ends with a value of a key that was deleted before it began.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tests.histories.compaction import Kept
from tests.histories.transactions import Breach


@dataclass(slots=True)
class Scan:
    """One reading from the start of the log on, of committed records. `end` is the position it reached.

    `answered` are the newest offsets by key whose writes were answered before it began. It `is_steady` when it took
    less than delete.retention.ms and had one leader. Only then it sees each deletion that it has to see.
    """

    name: str
    answered: dict[bytes, int]
    found: list[tuple[int, bytes, bytes | None]] = field(default_factory=list)
    """Offset, key and value."""
    end: int = 0
    is_steady: bool = True


def check_answers(
    written: Mapping[int, Kept], names: Mapping[int, str], answered: Mapping[str, int], *, start: int = 0
) -> Iterator[Breach]:
    """Each answered write is where the answer said, -1 for anywhere; no record is there twice. `names` are by offset.

    What retention may have deleted, below `start`, is not looked for.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for offset in written:
        places[names[offset]].append(offset)
    for name, offsets in places.items():
        if len(offsets) > 1:
            yield Breach("I4", "duplicate", f"{name} is at {offsets}")
    for name, offset in answered.items():
        if 0 <= offset < start or (offset < 0 < start):
            continue
        if offset not in places[name] and (offset >= 0 or not places[name]):
            yield Breach("I1", "lost write", f"{name} was answered at {offset}, and is at {places[name]}")


def check_scans(
    written: Mapping[int, Kept], scans: Iterable[Scan], *, kept: Iterable[int], start: int = 0
) -> Iterator[Breach]:
    """`kept` are the offsets of visible records that are left in the end, `start` the log's."""
    by_key: dict[bytes, list[Kept]] = defaultdict(list)
    for offset in sorted(written):
        if written[offset].is_visible:
            by_key[written[offset].key].append(written[offset])
    left = sorted(offset for offset in kept if offset >= start)
    for scan in scans:
        yield from _check_found(scan, written, start)
        got = {offset for offset, _, _ in scan.found}
        skipped = [offset for offset in left if offset < scan.end and offset not in got]
        if skipped:
            yield Breach("I10", "skipping poll", f"{scan.name} read up to {scan.end} without {skipped[:5]}")
        ended = {key: (offset, value) for offset, key, value in scan.found}
        for key, answered in scan.answered.items():
            if answered >= start:
                yield from _check_key(scan, key, answered, ended.get(key), by_key[key])


def _check_found(scan: Scan, written: Mapping[int, Kept], start: int) -> Iterator[Breach]:
    for (before, _, _), (offset, _, _) in pairwise(scan.found):
        if offset <= before:
            yield Breach("I10", "non-monotonic poll", f"{scan.name} got {offset} behind {before}")
    for offset, key, value in scan.found:
        there = written.get(offset)
        what = f"{scan.name} got {value!r} of {key!r} at {offset}"
        if there is None and offset < start:
            continue  # retention has deleted it
        if there is None or (there.key, there.value) != (key, value):
            yield Breach("I10", "inconsistent offset", f"{what}, where {there} was written")
        elif not there.is_visible and offset >= start:
            yield Breach("I8", "aborted read", f"{what}, of a transaction that was aborted")


def _check_key(
    scan: Scan, key: bytes, answered: int, ended: tuple[int, bytes | None] | None, written: list[Kept]
) -> Iterator[Breach]:
    offset, value = ended or (-1, None)
    newer = [one for one in written if one.offset >= answered]
    if offset >= answered or any(one.offset >= scan.end for one in newer):
        return
    deletions = [one.offset for one in newer if one.value is None]
    what = f"{scan.name} read up to {scan.end} and ends with {value!r} of {key!r} at {offset}"
    if not deletions:
        yield Breach("I10", "lost value", f"{what}; offset {answered} was answered before it began")
    elif value is not None and scan.is_steady:
        yield Breach("I10", "deleted key is back", f"{what}; it was deleted at {deletions}")
