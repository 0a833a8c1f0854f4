"""A small history that is clean, of which the checker's tests make others by planting one anomaly each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.chaos.checker import check
from tests.chaos.final_logs import FinalPartition, FinalState, StoredLog, StoredRecord
from tests.chaos.history import (
    REGISTRY,
    Acknowledged,
    EpochEndAnswered,
    Event,
    FaultReported,
    Fetched,
    GroupReported,
    Probed,
    ProcessEnded,
    ProducerBegan,
    Refused,
    Sent,
    StateSeen,
    TopicAsked,
)
from tests.support.group_commits import LoggedCommits

TOPIC = "t"
KEY = (TOPIC, 0)
# Offsets of the clean log: an idempotent producer's 0 to 5, and 6 to 7 of one with acks=1. The leader changed at 3.
NAMES = ["p.0", "p.1", "p.2", "p.3", "p.4", "p.5", "one.0", "one.1"]
EPOCHS = [0, 0, 0, 1, 1, 1, 1, 1]
GROUP = "g"


@dataclass
class Story:
    """A history and what is left in the end; plants change both."""

    events: list[Event]
    final: FinalState

    def find(self) -> list[tuple[str, str]]:
        return [(one.invariant, one.name) for one in check(self.events, self.final, topic=TOPIC)]

    @property
    def partition(self) -> FinalPartition:
        return self.final.partitions[KEY]

    def set_partition(self, **changed: Any) -> None:
        self.final = replace(self.final, partitions={KEY: replace(self.partition, **changed)})

    def set_records(self, records: list[StoredRecord], *brokers: int) -> None:
        logs = {**self.partition.logs, **{broker: StoredLog(0, records) for broker in brokers or (1, 2, 3)}}
        self.set_partition(logs=logs)

    def records(self) -> list[StoredRecord]:
        return list(self.partition.logs[2].records)

    def change(self, event: Event, **changed: Any) -> None:
        self.events[self.events.index(event)] = replace(event, **changed)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def without(self, names: set[str]) -> None:
        """Take records out of all logs, and move up what comes after them."""
        kept = [one for one in self.records() if one.name not in names]
        self.set_records([replace(one, offset=offset) for offset, one in enumerate(kept)])
        self.set_partition(high_watermark=len(kept))


def identity_of(name: str) -> tuple[int, int]:
    """Of the idempotent producer, and of the other, which has none."""
    return (7, 0) if name.startswith("p.") else (-1, -1)


def reported(at: float, member: int, what: str, *details: Any) -> GroupReported:
    return GroupReported(
        at=at, group=GROUP, member=member, protocol="classic", what=what, details=list(details)
    )


def fetched(at: float, offset: int, count: int, **more: Any) -> Fetched:
    values: dict[str, Any] = {
        "at": at,
        "begun_at": at - 0.1,
        "reader": "r",
        "broker": 2,
        "is_leader": True,
        "topic": TOPIC,
        "partition": 0,
        "epoch": 1,
        "fetch_offset": offset,
        "high_watermark": 8,
        "last_stable_offset": 8,
        "records": [(one, NAMES[one]) for one in range(offset, offset + count)],
        **more,
    }
    return Fetched(**values)


def state(
    at: float, leader: int, epoch: int, in_sync: tuple[int, ...], *, source: str = REGISTRY
) -> StateSeen:
    return StateSeen(
        at=at,
        source=source,
        topic=TOPIC,
        partition=0,
        leader=leader,
        epoch=epoch,
        in_sync=in_sync,
        replicas=(1, 2, 3),
    )


def epoch_end(*, epoch: int, end_offset: int, leader_epoch: int) -> EpochEndAnswered:
    return EpochEndAnswered(
        at=14.0,
        process=f"broker-{leader_epoch + 1}",
        topic=TOPIC,
        partition=0,
        epoch=epoch,
        end_offset=end_offset,
        leader_epoch=leader_epoch,
    )


def clean() -> Story:
    """Broker 1 leads, is killed, 2 leads on; two members of a group take all, the second from where the first ended."""
    events: list[Event] = []
    for producer, acks in (("p", -1), ("one", 1)):
        events.append(
            ProducerBegan(at=0.0, producer=producer, acks=acks, is_idempotent=acks == -1, is_ordered=True)
        )
    for offset, name in enumerate(NAMES):
        producer, _, number = name.partition(".")
        where: dict[str, Any] = {"producer": producer, "number": int(number), "topic": TOPIC, "partition": 0}
        events.append(Sent(at=1.0 + offset, **where))
        # What was written by a try whose answer was lost is acknowledged without an offset.
        events.append(Acknowledged(at=1.5 + offset, offset=-1 if name == "p.3" else offset, **where))
    events += [
        Sent(at=12.0, producer="p", number=6, topic=TOPIC, partition=0),
        Refused(at=13.0, producer="p", number=6, topic=TOPIC, partition=0, error="timed out"),
    ]
    events += [
        state(0.1, 1, 0, (1, 2, 3)),
        state(4.0, 2, 1, (2, 3)),
        state(4.1, 2, 1, (2, 3), source="broker 3"),
        state(9.0, 2, 1, (1, 2, 3)),
    ]
    events += [
        fetched(3.0, 0, 2, broker=1, epoch=0, high_watermark=3, last_stable_offset=3),
        # A new leader may begin from an older high watermark, and followers know it late.
        fetched(4.5, 2, 0, high_watermark=2, last_stable_offset=2),
        fetched(4.8, 2, 0, broker=3, is_leader=False, epoch=-1, high_watermark=1, last_stable_offset=1),
        fetched(9.5, 2, 6),
        fetched(9.8, 8, 0),
    ]
    events += [
        reported(2.0, 1, "started"),
        reported(2.1, 1, "assigned", 0),
        reported(2.2, 1, "got", [0, 0, 2]),
        reported(2.3, 1, "commits", "1.1", [0, 3]),
        reported(2.4, 1, "committed", "1.1"),
        reported(5.0, 1, "got", [0, 3, 4]),
        reported(5.1, 1, "commits", "1.2", [0, 5]),
        reported(5.5, 1, "commit failed", "1.2", "no answer"),
        reported(6.0, 1, "revoked", 0),
        reported(6.1, 1, "ended"),
        reported(6.2, 1, "gone"),
        reported(6.5, 2, "assigned", 0),
        reported(7.0, 2, "got", [0, 3, 7]),
        reported(7.1, 2, "commits", "2.1", [0, 8]),
        reported(7.2, 2, "committed", "2.1"),
    ]
    events += [
        TopicAsked(at=2.0, begun_at=1.0, topic="made", is_deletion=False, outcome="done"),
        TopicAsked(at=2.0, begun_at=1.0, topic="gone", is_deletion=False, outcome="done"),
        TopicAsked(at=3.0, begun_at=2.5, topic="gone", is_deletion=True, outcome="done"),
        TopicAsked(at=3.0, begun_at=2.5, topic="perhaps", is_deletion=False, outcome="unknown"),
        FaultReported(at=3.5, number=1, what="kill -9 of broker-1", has_ended=False),
        FaultReported(at=8.5, number=1, what="kill -9 of broker-1", has_ended=True),
        ProcessEnded(at=4.0, process="broker-3", exit_code=1, said="no room", excuse="its disk is full"),
        Probed(at=14.0, begun_at=13.5, what="a topic is made", error=""),
        # The first leader was asked before it had written all of its epoch.
        epoch_end(epoch=0, end_offset=2, leader_epoch=0),
        epoch_end(epoch=0, end_offset=3, leader_epoch=1),
    ]
    stored = [
        StoredRecord(offset, EPOCHS[offset], name, identity=identity_of(name))
        for offset, name in enumerate(NAMES)
    ]
    final = FinalState(
        partitions={
            KEY: FinalPartition(
                leader=2,
                epoch=1,
                in_sync=(1, 2, 3),
                replicas=(1, 2, 3),
                high_watermark=8,
                logs={broker: StoredLog(0, stored) for broker in (1, 2, 3)},
            )
        },
        topics=frozenset({TOPIC, "made"}),
        commits={GROUP: {KEY: LoggedCommits([("1.1", 3), ("2.1", 8)])}},
    )
    return Story(events, final)
