"""Stories of transactions at the leaders of partitions and groups: writes, markers, offsets, what readers see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_groups import ready
from tests.compat.golden.stories_records import batch, fetch, make_topic
from tests.compat.golden.stories_transactions import Producer, settled
from tests.compat.golden.wire import Wire

TOPIC: Final = "led"


def write(wire: Wire, label: str, producer: Producer, sequence: int, *, version: int, **changes: Any) -> Any:
    """Produce one record of the producer's transaction."""
    header = {"producer_id": producer.id, "producer_epoch": producer.epoch, "base_sequence": sequence}
    name = changes.pop("transactional_id", producer.name)
    records = batch("a", is_transactional=True, **{**header, **changes})
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}
    return wire.ask(
        label, ApiKey.PRODUCE, version, transactional_id=name, acks=-1, timeout=5000, topic_data=[data]
    )


def add(wire: Wire, label: str, producer: Producer) -> None:
    """AddPartitionsToTxn as clients of the first generation send it."""
    settled(
        wire,
        label,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id=producer.name,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[{"name": TOPIC, "partitions": [0]}],
    )


def commit(wire: Wire, label: str, producer: Producer, *, version: int, **changes: Any) -> Any:
    fields = {
        "transactional_id": producer.name,
        "group_id": "in-transactions",
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "topics": [
            {
                "name": name,
                "partitions": [{"partition_index": 0, "committed_offset": 7, "committed_metadata": "m"}],
            }
            for name in (TOPIC, "no-such-topic")
        ],
    }
    return settled(wire, label, ApiKey.TXN_OFFSET_COMMIT, version, **{**fields, **changes})


def read(wire: Wire, label: str) -> None:
    """What a consumer gets with either isolation level."""
    for isolation in (0, 1):
        fetch(wire, f"{label}: isolation {isolation}", TOPIC, 0, isolation=isolation)
        topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        asked: dict[str, Any] = {"replica_id": -1, "isolation_level": isolation, "topics": topics}
        wire.ask(f"{label}: the latest of {isolation}", ApiKey.LIST_OFFSETS, 5, **asked)


def stable(wire: Wire, label: str) -> None:
    for require_stable in (False, True):
        wire.ask(
            f"{label}: stable {require_stable}",
            ApiKey.OFFSET_FETCH,
            7,
            group_id="in-transactions",
            topics=[{"name": TOPIC, "partition_indexes": [0]}],
            require_stable=require_stable,
        )


def leaders_sweep(wire: Wire) -> None:
    make_topic(wire, TOPIC)
    ready(wire, "in-transactions")
    producer = Producer(wire, "sweeper")
    for version in range(6):
        commit(wire, f"TXN_OFFSET_COMMIT {version}", producer, version=version)
        commit(wire, f"a zombie: TXN_OFFSET_COMMIT {version}", producer, version=version, producer_epoch=9)
    marker = {
        "producer_id": producer.id,
        "producer_epoch": 5,
        "transaction_result": True,
        "coordinator_epoch": 3,
        "topics": [
            {"name": TOPIC, "partition_indexes": [0, 4]},
            {"name": "no-such-topic", "partition_indexes": [0]},
        ],
    }
    wire.ask("WRITE_TXN_MARKERS 1", ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker])


def writes_story(wire: Wire) -> None:
    """Produce of both generations, and what readers see of it."""
    make_topic(wire, TOPIC)
    one = Producer(wire, "writer")
    for version in (8, 10, 11):
        write(wire, f"not added, version {version}", one, 0, version=version)
    write(wire, "no id", one, 0, version=11, transactional_id=None)
    write(wire, "another id", one, 0, version=11, transactional_id="other")
    write(wire, "another producer", one, 0, version=11, producer_id=one.id + 4000)
    write(wire, "a later epoch", one, 0, version=11, producer_epoch=one.epoch + 1)
    add(wire, "adds", one)
    write(wire, "the first", one, 0, version=11)
    write(wire, "the first again", one, 0, version=11)
    write(wire, "a gap", one, 7, version=11)
    write(wire, "the second", one, 1, version=11)
    read(wire, "open")
    one.end("abort", 4, commit=False)
    one.described("aborted")
    read(wire, "aborted")
    write(wire, "after the abort", one, 2, version=11)
    two = Producer(wire, "second writer")
    write(wire, "adds by writing, out of order", two, 3, version=12)
    write(wire, "adds by writing", two, 0, version=12)
    write(wire, "goes on", two, 1, version=12)
    read(wire, "open again")
    two.end("commit", 5, commit=True)
    two.described("committed")
    read(wire, "committed")
    write(wire, "an older epoch", two, 2, version=12, producer_epoch=two.epoch - 1)
    write(wire, "the next transaction", two, 0, version=12)
    two.end("second commit", 5, commit=True)
    two.described("second committed")
    asked = [{"name": TOPIC, "partition_indexes": [0, 3]}]
    wire.ask("producers", ApiKey.DESCRIBE_PRODUCERS, 0, topics=asked)


def offsets_story(wire: Wire) -> None:
    """Offsets of transactions in a group, and readers that want stable ones."""
    make_topic(wire, TOPIC)
    ready(wire, "in-transactions")
    one = Producer(wire, "committer")
    commit(wire, "adds by committing", one, version=5)
    stable(wire, "pending")
    commit(wire, "an unknown member", one, version=5, member_id="m", generation_id=1)
    commit(wire, "a generation", one, version=5, generation_id=4)
    commit(wire, "an instance", one, version=5, group_instance_id="i")
    one.end("commit", 5, commit=True)
    one.described("committed")
    stable(wire, "committed")
    commit(wire, "the next", one, version=5)
    one.end("abort", 5, commit=False)
    one.described("aborted")
    stable(wire, "aborted")
    commit(wire, "no group", one, version=5, group_id="")


STORIES: Final[dict[str, Callable[[Wire], None]]] = {
    "transactional-writes": writes_story,
    "transactional-offsets": offsets_story,
}
VERSIONS: Final[dict[str, Callable[[Wire], None]]] = {"leaders-in-every-version": leaders_sweep}
