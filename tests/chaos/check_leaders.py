"""I6 and I7: one leader for each epoch, epochs that only grow and end where brokers answer, true in-sync sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from tests.chaos.anomalies import Anomaly
from tests.chaos.final_logs import FinalState
from tests.chaos.history import REGISTRY, EpochEndAnswered, Event, Fetched, StateSeen

# How far a log's time of day may be from the clock of the history, and the line from its event.
_LOG_CLOCK_SECONDS: Final = 0.1


def check_leaders(events: Sequence[Event], final: FinalState) -> Iterator[Anomaly]:
    leaders: dict[tuple[str, int, int], tuple[int, str]] = {}
    epochs: dict[tuple[str, int], int] = {}
    for event in sorted(
        (event for event in events if isinstance(event, StateSeen | Fetched)), key=lambda event: event.at
    ):
        leader, source = _claim(event)
        if leader >= 0 and event.epoch >= 0:
            key = (event.topic, event.partition, event.epoch)
            known, whose = leaders.setdefault(key, (leader, source))
            if known != leader:
                what = f"epoch {event.epoch}: {known} leads by {whose}, {leader} by {source}"
                yield _anomaly("I6", "two leaders in one epoch", what, event)
        if isinstance(event, StateSeen):
            yield from _check_state(event)
            if event.source == REGISTRY:
                before = epochs.get((event.topic, event.partition), -1)
                if event.epoch < before:
                    yield _anomaly("I6", "leader epoch went back", f"from {before} to {event.epoch}", event)
                epochs[event.topic, event.partition] = event.epoch
    yield from _check_ends(events, final)
    yield from _check_final(final)


def _check_ends(events: Sequence[Event], final: FinalState) -> Iterator[Anomaly]:
    """An epoch has at least what was committed of it when its successor began. What was not may be in the log in the
    end, or not, whatever a leader said that wrote nothing itself. A later leader may commit it: one that was replaced
    does not know, and answers for its own epoch. So only what was known committed in its epoch, or before, counts.
    """
    committed: dict[tuple[str, int], dict[int, int]] = {}
    for event in sorted(
        (event for event in events if isinstance(event, EpochEndAnswered | Fetched)), key=_moment
    ):
        key = event.topic, event.partition
        known = committed.setdefault(key, {})
        if isinstance(event, Fetched):
            if event.epoch >= 0:
                known[event.epoch] = max(known.get(event.epoch, 0), event.high_watermark)
            continue
        partition = final.partitions.get(key)
        log = None if partition is None else partition.logs.get(partition.leader)
        if log is None or event.epoch >= event.leader_epoch:
            continue
        later = (record.offset for record in log.records if record.epoch > event.epoch)
        certain = max((end for epoch, end in known.items() if epoch <= event.leader_epoch), default=0)
        end = min(next(later, log.end), certain)
        if event.end_offset < end:
            yield Anomaly(
                invariant="I6",
                name="epoch ends too early",
                what=f"{event.topic}-{event.partition}: {event.process} in epoch {event.leader_epoch} answered that "
                f"epoch {event.epoch} ended at {event.end_offset}; it was committed up to {end}",
                at=event.at,
                topic=event.topic,
                partition=event.partition,
            )


def _moment(event: EpochEndAnswered | Fetched) -> float:
    """What was answered, at the latest; what was asked, by the clock of a log, with a little patience."""
    return event.at if isinstance(event, Fetched) else event.at - _LOG_CLOCK_SECONDS


def _claim(event: StateSeen | Fetched) -> tuple[int, str]:
    if isinstance(event, StateSeen):
        return event.leader, f"the word of {event.source}"
    return (event.broker if event.is_leader else -1), f"an answer to {event.reader}"


def _anomaly(invariant: str, name: str, what: str, event: StateSeen | Fetched) -> Anomaly:
    return Anomaly(
        invariant=invariant,
        name=name,
        what=f"{event.topic}-{event.partition}: {what}",
        at=event.at,
        topic=event.topic,
        partition=event.partition,
    )


def _check_state(event: StateSeen) -> Iterator[Anomaly]:
    if not set(event.in_sync) <= set(event.replicas):
        what = f"{event.source} has in sync {list(event.in_sync)} of replicas {list(event.replicas)}"
        yield _anomaly("I7", "in-sync broker is no replica", what, event)
    if event.source == REGISTRY and event.leader >= 0 and event.leader not in event.in_sync:
        what = f"{event.leader} leads, in sync are {list(event.in_sync)}"
        yield _anomaly("I7", "leader is not in sync", what, event)


def _check_final(final: FinalState) -> Iterator[Anomaly]:
    for (topic, number), partition in final.partitions.items():
        for broker in partition.in_sync:
            log = partition.logs.get(broker)
            end = -1 if log is None else log.end
            if end < partition.high_watermark:
                yield Anomaly(
                    invariant="I7",
                    name="in-sync replica is behind the high watermark",
                    what=f"{topic}-{number}: broker {broker} ends at {end}, "
                    f"the high watermark is {partition.high_watermark}",
                    topic=topic,
                    partition=number,
                )
        for broker, log in partition.logs.items():
            for before, after in pairwise(log.records):
                if after.epoch < before.epoch or after.epoch > partition.epoch:
                    yield Anomaly(
                        invariant="I6",
                        name="leader epoch went back",
                        what=f"{topic}-{number} on broker {broker}: {after} follows {before}; "
                        f"the newest epoch is {partition.epoch}",
                        topic=topic,
                        partition=number,
                    )
                    break
