"""I4, I8 and I10 of a round's compacted topic: what keyed clients did, against each broker's log and a last reading.

What was written is known from answers and from what is left: most of the log is gone by then. So a key is not judged
whose deletion was neither answered nor aborted. What a failed reading has read twice counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from tests.chaos.anomalies import Anomaly
from tests.chaos.final_logs import FinalState
from tests.chaos.history import Event, KeyedRead, KeyedReported
from tests.histories.compaction import Kept
from tests.histories.compaction_reads import Scan, check_answers, check_scans

READER = "the last reading"
_END = 1 << 62


def check_keyed(events: Sequence[Event], final: FinalState) -> Iterator[Anomaly]:
    """Nothing where the round has no compacted topic."""
    reports = [event for event in events if isinstance(event, KeyedReported)]
    asked = {one.name: one for one in reports if one.what == "write"}
    answered = {one.name: one.offset for one in reports if one.what == "answered"}
    aborted = {one.name for one in reports if one.what == "aborted"}
    for number, found in final.keyed.items():
        if any(after <= before for (before, _), (after, _) in pairwise(found)):
            yield Anomaly(invariant="I10", name="reordered", what=f"offsets on broker {number}: {found}")
    logs: dict[str, dict[int, str]] = {f"broker {number}": dict(kept) for number, kept in final.keyed.items()}
    read = {event.offset: event.name for event in events if isinstance(event, KeyedRead)}
    if read:
        logs[READER] = read
    names = {offset: name for name, offset in answered.items() if offset >= 0}
    for log in logs.values():
        for offset, name in log.items():
            names.setdefault(offset, name)
    invented = sorted(set(names.values()) - set(asked))
    if invented:
        yield Anomaly(invariant="I10", name="invented record", what=f"no client has written {invented[:5]}")
        return

    def kept(offset: int, name: str) -> Kept:
        value = None if asked[name].is_deletion else name.encode()
        return Kept(offset, asked[name].key.encode(), value, is_visible=name not in aborted)

    written = {offset: kept(offset, name) for offset, name in sorted(names.items())}
    known = {*answered, *aborted}
    doubted = {one.key.encode() for name, one in asked.items() if one.is_deletion and name not in known}
    newest = {
        one.key: one.offset
        for one in written.values()
        if one.is_visible and names[one.offset] in answered and one.key not in doubted
    }
    scans = list(_scans(logs, newest, aborted, kept))
    for breach in (*check_answers(written, names, {}), *check_scans(written, scans, kept=())):
        yield Anomaly(invariant=breach.invariant, name=breach.name, what=breach.what)


def _scans(
    logs: Mapping[str, Mapping[int, str]],
    newest: dict[bytes, int],
    aborted: set[str],
    kept: Callable[[int, str], Kept],
) -> Iterator[Scan]:
    for where, log in logs.items():
        found = [
            kept(offset, name)
            for offset, name in sorted(log.items())
            # What was aborted may be in a log, but no reader of committed records gets it.
            if where == READER or name not in aborted
        ]
        yield Scan(where, newest, [(one.offset, one.key, one.value) for one in found], end=_END)
