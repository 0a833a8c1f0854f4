"""I5, I8, and I2 as readers saw it: high watermarks, what was served, and whether it is still there in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.anomalies import Anomaly
from tests.chaos.final_logs import FinalState, TopicPartitionKey
from tests.chaos.history import Event, Fetched, Transaction, record_name


def check_readers(events: Sequence[Event], final: FinalState) -> Iterator[Anomaly]:
    fetches = sorted((event for event in events if isinstance(event, Fetched)), key=lambda event: event.at)
    marks = _Marks("I5", "high watermark went back", "high watermark")
    stable = _Marks("I8", "last stable offset went back", "last stable offset")
    for fetched in fetches:
        yield from _check_answer(fetched)
        if fetched.is_leader and fetched.epoch >= 0:
            yield from marks.note(fetched, fetched.high_watermark)
            yield from stable.note(fetched, fetched.last_stable_offset)
    yield from _check_values(fetches, final)
    yield from _check_transactions(events, fetches, final)


def _anomaly(invariant: str, name: str, what: str, fetched: Fetched) -> Anomaly:
    return Anomaly(
        invariant=invariant,
        name=name,
        what=f"{fetched.topic}-{fetched.partition}, {fetched.reader} from broker {fetched.broker}: {what}",
        at=fetched.at,
        topic=fetched.topic,
        partition=fetched.partition,
    )


def _check_answer(fetched: Fetched) -> Iterator[Anomaly]:
    """One answer by itself: nothing above the high watermark, nothing left out, nothing from before."""
    if fetched.last_stable_offset > fetched.high_watermark:
        what = f"last stable offset {fetched.last_stable_offset}, high watermark {fetched.high_watermark}"
        yield _anomaly("I8", "last stable offset above the high watermark", what, fetched)
    expected = fetched.fetch_offset
    for offset, name in fetched.records:
        if offset >= fetched.high_watermark:
            what = f"{name} at {offset} with high watermark {fetched.high_watermark}"
            yield _anomaly("I5", "served above the high watermark", what, fetched)
            return
        if offset != expected and not fetched.is_committed_only:
            kind = "reader skipped offsets" if offset > expected else "reader went back"
            yield _anomaly("I2", kind, f"{name} at {offset} where {expected} was due", fetched)
            return
        expected = offset + 1


@dataclass(slots=True)
class _Marks:
    """The newest mark of each partition and epoch, among answers that were complete before another was asked for."""

    invariant: str
    name: str
    what: str
    newest: dict[tuple[str, int, int], list[tuple[float, int]]] = field(default_factory=dict)

    def note(self, fetched: Fetched, mark: int) -> Iterator[Anomaly]:
        known = self.newest.setdefault((fetched.topic, fetched.partition, fetched.epoch), [])
        # (time, highest mark until then), both growing: the last one from before the question is what binds.
        before = max((high for at, high in known[-50:] if at < fetched.begun_at), default=0)
        if mark < before:
            what = f"{self.what} {mark} in epoch {fetched.epoch}, which was {before} before"
            yield _anomaly(self.invariant, self.name, what, fetched)
        if not known or mark > known[-1][1]:
            known.append((fetched.at, mark))


def _check_values(fetches: Sequence[Fetched], final: FinalState) -> Iterator[Anomaly]:
    """I2: what was read once is what the final log has."""
    logs = {
        key: {one.offset: one.name for one in partition.logs[partition.leader].records}
        for key, partition in final.partitions.items()
        if partition.leader in partition.logs
    }
    starts = {
        key: partition.logs[partition.leader].start
        for key, partition in final.partitions.items()
        if partition.leader in partition.logs
    }
    reported: set[tuple[TopicPartitionKey, int]] = set()
    for fetched in fetches:
        key = (fetched.topic, fetched.partition)
        if key not in logs:
            continue
        for offset, name in fetched.records:
            there = logs[key].get(offset)
            if there == name or offset < starts[key] or (key, offset) in reported:
                continue
            reported.add((key, offset))
            if there is None:
                what = f"{name} was read at {offset}, which the final log does not have"
                yield _anomaly("I1", "record that was read is lost", what, fetched)
            else:
                what = f"{name} was read at {offset}, where the final log has {there}"
                yield _anomaly("I2", "offset with two values", what, fetched)


def _check_transactions(
    events: Sequence[Event], fetches: Sequence[Fetched], final: FinalState
) -> Iterator[Anomaly]:
    """I8: readers of committed records see nothing of aborted transactions; a committed one is whole in the log."""
    transactions = [event for event in events if isinstance(event, Transaction)]
    aborted = {
        record_name(event.producer, number)
        for event in transactions
        if event.outcome == "aborted"
        for number in event.numbers
    }
    for fetched in fetches:
        if fetched.is_committed_only:
            for offset, name in fetched.records:
                if name in aborted:
                    yield _anomaly("I8", "aborted record read", f"{name} at {offset}", fetched)
    stored = {
        one.name
        for partition in final.partitions.values()
        if partition.leader in partition.logs
        for one in partition.logs[partition.leader].records
    }
    for event in transactions:
        names = [record_name(event.producer, number) for number in event.numbers]
        if event.outcome == "committed" and (missing := [name for name in names if name not in stored]):
            yield Anomaly(
                invariant="I8",
                name="torn transaction",
                what=f"{event.producer} committed {names}; the logs lack {missing}",
                at=event.at,
            )
