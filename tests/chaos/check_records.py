"""I1 to I4 of acknowledgements, against the final logs; and that no log holds what no producer sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.anomalies import Anomaly
from tests.chaos.final_logs import FinalPartition, FinalState, StoredLog, StoredRecord, TopicPartitionKey
from tests.chaos.history import (
    Acknowledged,
    Event,
    Fetched,
    ProducerBegan,
    Refused,
    Sent,
    StateSeen,
    record_name,
)


@dataclass(slots=True)
class _ProducerHistory:
    """What the history has of producers."""

    producers: dict[str, ProducerBegan] = field(default_factory=dict)
    sent: dict[str, Sent] = field(default_factory=dict)
    acknowledged: dict[str, Acknowledged] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    have_given_up: set[str] = field(default_factory=set)
    epochs: dict[TopicPartitionKey, set[int]] = field(default_factory=dict)

    def note(self, event: Event) -> None:
        if isinstance(event, ProducerBegan):
            self.producers[event.producer] = event
        elif isinstance(event, Sent):
            self.sent[record_name(event.producer, event.number)] = event
        elif isinstance(event, Acknowledged):
            self.acknowledged[record_name(event.producer, event.number)] = event
        elif isinstance(event, Refused):
            self.refused.add(record_name(event.producer, event.number))
            self.have_given_up.add(event.producer)
        elif isinstance(event, StateSeen | Fetched) and event.epoch >= 0:
            self.epochs.setdefault((event.topic, event.partition), set()).add(event.epoch)


def check_records(events: Sequence[Event], final: FinalState) -> Iterator[Anomaly]:
    history = _ProducerHistory()
    for event in events:
        history.note(event)
    for key, partition in final.compared.items():
        yield from _check_equal(key, partition)
    for key, partition in final.partitions.items():
        yield from _check_equal(key, partition)
        leader = partition.logs.get(partition.leader)
        if leader is not None:
            yield from _check_log(history, key, leader)
        for broker in partition.in_sync:
            if broker in partition.logs:
                yield from _check_acknowledged(history, key, broker, partition.logs[broker])


def _anomaly(invariant: str, name: str, what: str, key: TopicPartitionKey, at: float | None) -> Anomaly:
    topic, partition = key
    return Anomaly(invariant=invariant, name=name, what=what, at=at, topic=topic, partition=partition)


def _check_equal(key: TopicPartitionKey, partition: FinalPartition) -> Iterator[Anomaly]:
    """I2: below the high watermark each replica in sync has the same records."""
    leader = partition.logs.get(partition.leader)
    if leader is None:
        return
    expected = {one.offset: one for one in leader.records if one.offset < partition.high_watermark}
    for broker in partition.in_sync:
        log = partition.logs.get(broker)
        if log is None or broker == partition.leader:
            continue
        for one in log.records:
            other = expected.get(one.offset)
            if other is not None and other != one:
                what = f"{key[0]}-{key[1]} at {one.offset}: broker {broker} has {one}, the leader {other}"
                yield _anomaly("I2", "offset with two values", what, key, None)
                break


def _check_log(history: _ProducerHistory, key: TopicPartitionKey, log: StoredLog) -> Iterator[Anomaly]:
    """Phantoms, I3 and I4 of one log."""
    seen: dict[str, StoredRecord] = {}
    newest: dict[str, tuple[int, int]] = {}
    for one in log.records:
        if one.is_control:
            continue
        sent = history.sent.get(one.name)
        if sent is None or (sent.topic, sent.partition) != key:
            yield _anomaly(
                "-", "phantom record", f"{one.name!r} at {key}:{one.offset} was never sent there", key, None
            )
            continue
        producer = history.producers[sent.producer]
        if one.name in seen:
            if producer.is_idempotent and not _is_another_try(history, sent.producer, seen[one.name], one):
                what = f"{one.name} of an idempotent producer is at {key}:{seen[one.name].offset} and {one.offset}"
                yield _anomaly("I4", "duplicate record", what, key, sent.at)
            continue
        seen[one.name] = one
        if not producer.is_ordered or one.name in history.refused:
            continue
        number, offset = newest.get(sent.producer, (-1, -1))
        if sent.number < number:
            what = f"{one.name} at {key}:{one.offset} is after {sent.producer}.{number} at {offset}"
            yield _anomaly("I3", "reordered records", what, key, sent.at)
        else:
            newest[sent.producer] = (sent.number, one.offset)


def _is_another_try(
    history: _ProducerHistory, producer: str, first: StoredRecord, second: StoredRecord
) -> bool:
    """Whether the producer itself broke the chain. One that gives a record up takes another epoch, and sends all
    unanswered records under it again (librdkafka does, and Java's). No broker can know the two for one. (Where a broker
    forgot its state the first batch under way is out of order: librdkafka then ends, and that is reported.)
    """
    renews = producer in history.have_given_up or history.producers[producer].renews_itself
    return renews and first.identity != second.identity


def _check_acknowledged(
    history: _ProducerHistory, key: TopicPartitionKey, broker: int, log: StoredLog
) -> Iterator[Anomaly]:
    """I1 on one replica: each acknowledged record is at its acknowledged offset."""
    offsets: dict[str, list[int]] = {}
    for one in log.records:
        offsets.setdefault(one.name, []).append(one.offset)
    for name, acknowledged in history.acknowledged.items():
        if (acknowledged.topic, acknowledged.partition) != key or 0 <= acknowledged.offset < log.start:
            continue
        acks = history.producers[acknowledged.producer].acks
        # With acks=1 a record may go with its leader; without a change of leaders it may not.
        if acks != -1 and (
            acks == 0 or len(history.epochs.get(key, set()) | {one.epoch for one in log.records}) > 1
        ):
            continue
        where = f"{key[0]}-{key[1]}:{acknowledged.offset}"
        there = offsets.get(name, [])
        if not there:
            what = f"{name} was acknowledged at {where} (acks={acks}) and is not on broker {broker}"
            yield _anomaly("I1", "lost acknowledged record", what, key, acknowledged.at)
        elif acknowledged.offset >= 0 and acknowledged.offset not in there:
            what = f"{name} was acknowledged at {where} and is at {there} on broker {broker}"
            yield _anomaly("I1", "acknowledged record at another offset", what, key, acknowledged.at)
