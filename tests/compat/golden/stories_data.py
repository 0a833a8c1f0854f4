"""Stories of what is in a log: newest times in batches that are partly deleted, records of groups, markers, more."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.record import records as records_of
from tests.compat.golden.stories_groups import join, ready, sync
from tests.compat.golden.stories_records import batch, make_topic, produce
from tests.compat.golden.stories_transactions import Producer
from tests.compat.golden.wire import Wire

_START_MS: Final = 1_700_000_000_000
_NEWEST, _EARLIEST, _LATEST = -3, -2, -1
_OFFSETS: Final = "__consumer_offsets"
_APPLIED_SECONDS_MAX: Final = 20.0
_DAY_MS: Final = 86_400_000
_ID: Final = re.compile(rb"(?:golden|one)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

SETTINGS: Final[dict[str, Mapping[str, str]]] = {
    "group-records": {"offsets.topic.num.partitions": "1"},
    "plugin-settings": {"some.plugin.setting": "of a plugin"},
}


def listed(wire: Wire, label: str, topic: str, timestamp: int, **more: Any) -> None:
    """One ListOffsets; its time as a number."""
    parts = [{"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}]
    answer = wire.ask_quietly(
        ApiKey.LIST_OFFSETS, 10, replica_id=-1, topics=[{"name": topic, "partitions": parts}], **more
    )
    (part,) = answer.topics[0].partitions
    found = part.timestamp
    wire.answers[label] = {
        "error": part.error_code.name,
        "offset": part.offset,
        "epoch": part.leader_epoch,
        "timestamp": found if isinstance(found, int) or found is None else round(found.timestamp() * 1000),
    }


def delete_below(wire: Wire, topic: str, offset: int) -> None:
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    wire.ask(f"{topic}: delete below {offset}", ApiKey.DELETE_RECORDS, 2, timeout=5000, topics=asked)


def with_times(*times: int, **more: Any) -> bytes:
    """A batch of records with these times."""
    return bytes(build_batch([(_START_MS + one, None, b"%d" % one) for one in times], **more))


def cut_times_story(wire: Wire) -> None:
    """Look-ups by time where DeleteRecords ends inside the batch that has the time."""
    logs = {
        # The newest record is the first, the middle one, and the last of its batch; older batches follow or do not.
        "first-newest": [with_times(50, 10, 20), with_times(30)],
        "middle-newest": [with_times(10, 50, 20)],
        "last-newest": [with_times(10, 20, 50), with_times(30, 40)],
        "same-twice": [with_times(50, 50, 10)],
        "two-batches": [with_times(50, 10), with_times(50, 20)],
        "older-before": [with_times(40), with_times(50, 10, 20), with_times(30)],
    }
    for topic, batches in logs.items():
        make_topic(wire, topic)
        for number, one in enumerate(batches):
            produce(wire, f"{topic}: fill {number}", topic, one)
        end_offset = sum(BatchView(memoryview(one)).record_count for one in batches)
        for start in range(end_offset + 1):
            if start:
                delete_below(wire, topic, start)
            listed(wire, f"{topic} from {start}: newest", topic, _NEWEST)
            listed(wire, f"{topic} from {start}: newest committed", topic, _NEWEST, isolation_level=1)
            listed(wire, f"{topic} from {start}: earliest", topic, _EARLIEST)
            for timestamp in (0, 15, 35, 50, 51):
                listed(wire, f"{topic} from {start}: time {timestamp}", topic, _START_MS + timestamp)
            parts = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
            asked: dict[str, Any] = {"replica_id": -1, "topics": [{"topic": topic, "partitions": parts}]}
            label = f"{topic} from {start}: end of epoch 0"
            wire.ask(label, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, **asked)
    make_topic(wire, "empty")
    for timestamp in (_NEWEST, _EARLIEST, _LATEST, -4, 0):
        listed(wire, f"empty: time {timestamp}", "empty", timestamp)


# --- what is in __consumer_offsets -----------------------------------------------------------------------------------


def stored_records(wire: Wire, topic: str = _OFFSETS) -> Iterator[tuple[bytes, bytes | None]]:
    """The records of the only partition of an internal topic."""
    offset = 0
    bounds: dict[str, Any] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
    while True:
        part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset}
        topics = [{"topic": topic, "partitions": [{**part, "partition_max_bytes": 1 << 20}]}]
        asked = {**bounds, "session_id": 0, "session_epoch": -1, "topics": topics}
        answer = wire.ask_quietly(ApiKey.FETCH, 12, **asked)
        data = bytes(answer.responses[0].partitions[0].records or b"")
        if not data:
            return
        position = 0
        while position < len(data):
            view = BatchView(memoryview(data), position)
            for record in records_of(view):
                if not view.header.is_control:
                    yield bytes(record.key or b""), None if record.value is None else bytes(record.value)
            position += view.size_bytes
            offset = view.last_offset + 1


def new_records(wire: Wire, seen: int, topic: str = _OFFSETS) -> list[tuple[bytes, bytes | None]]:
    """The records after the first `seen`: as many as come until none has come for some time."""
    before = -1
    found: list[tuple[bytes, bytes | None]] = []
    while before != len(found):
        before = len(found)
        time.sleep(0.3)
        found = list(stored_records(wire, topic))[seen:]
    return found


def _plain(value: bytes | None, topic_id: Any) -> str | None:
    """As hexadecimal digits, without ids and times."""
    if value is None:
        return None
    value = _ID.sub(b"<id>", value).replace(topic_id.bytes, b"<topic>")
    now_ms = int(time.time() * 1000)
    position = 0
    while position <= len(value) - 8:
        if abs(int.from_bytes(value[position : position + 8], "big", signed=True) - now_ms) < _DAY_MS:
            value = value[:position] + b"<time>" + value[position + 8 :]
        position += 1
    return value.hex()


def group_records_story(wire: Wire) -> None:
    """The bytes of the records of groups: committed, joined, left, deleted."""
    topic_id = make_topic(wire, "read", 2)
    ready(wire, "any")
    seen = 0

    def note(label: str) -> None:
        """The records since the last call."""
        nonlocal seen
        found = new_records(wire, seen)
        seen += len(found)
        wire.answers[label] = [[_plain(key, topic_id), _plain(value, topic_id)] for key, value in found]

    def commit(group: str, version: int, *partitions: int, **more: Any) -> None:
        parts = [
            {"partition_index": one, "committed_offset": one, "committed_metadata": f"at {one}"}
            for one in partitions
        ]
        topics, label = [{"name": "read", "partitions": parts}], f"{group}: committed in version {version}"
        wire.ask(label, ApiKey.OFFSET_COMMIT, version, group_id=group, topics=topics, **more)

    def delete(group: str) -> None:
        answer = wire.ask_quietly(ApiKey.DELETE_GROUPS, 2, groups_names=[group])
        wire.answers[f"{group}: deleted"] = int(answer.results[0].error_code)

    note("nothing")
    commit("commits-only", 9, 0, 1)
    note("a group that commits only")
    wire.ask("commits-only: described", ApiKey.DESCRIBE_GROUPS, 5, groups=["commits-only"])
    delete("commits-only")
    note("it is deleted")
    commit("by-version", 2, 0, retention_time=5000)
    commit("by-version", 8, 0)
    note("other versions of commits")
    gone = [{"name": "read", "partitions": [{"partition_index": 0}]}]
    wire.ask("offsets: deleted", ApiKey.OFFSET_DELETE, 0, group_id="by-version", topics=gone)
    note("its offset is deleted")
    delete("by-version")
    note("the group without offsets is deleted")
    named = join(wire, "joins: a member id is required", "joins")
    note("a member asks for its id")
    joined = join(wire, "joins: joined", "joins", member_id=named.member_id)
    note("it joins")
    sync(wire, "joins: synced", joined, "joins")
    note("it syncs")
    commit("joins", 9, 0, member_id=named.member_id, generation_id_or_member_epoch=joined.generation_id)
    note("it commits")
    again = join(wire, "joins: joined again", "joins", member_id=named.member_id)
    note("it joins again")
    sync(wire, "joins: synced again", again, "joins")
    note("it syncs again")
    wire.ask("joins: left", ApiKey.LEAVE_GROUP, 5, group_id="joins", members=[{"member_id": named.member_id}])
    note("it leaves")
    delete("joins")
    note("what it left is deleted")
    joined = join(wire, "old: joined", "old", version=2)
    note("a member of an old version joins")
    wire.ask("old: left", ApiKey.LEAVE_GROUP, 1, group_id="old", member_id=joined.member_id)
    note("it leaves before it syncs")
    delete("old")
    note("that group is deleted")
    join(wire, "refused: no protocols", "refused", version=2, protocols=[])
    note("a group whose first member is refused")
    static = join(wire, "static: joined", "static", group_instance_id="one")
    note("a static member joins")
    sync(wire, "static: synced", static, "static", group_instance_id="one")
    note("a static member syncs")
    join(wire, "static: replaced", "static", group_instance_id="one")
    note("a static member is replaced")


# --- small things ----------------------------------------------------------------------------------------------------


def marker(wire: Wire, label: str, topic: str, *, epoch: int, coordinator_epoch: int) -> None:
    """WriteTxnMarkers as a coordinator sends it, and where the log then ends."""
    one = {
        "producer_id": 7,
        "producer_epoch": epoch,
        "transaction_result": True,
        "coordinator_epoch": coordinator_epoch,
        "topics": [{"name": topic, "partition_indexes": [0]}],
    }
    wire.ask(label, ApiKey.WRITE_TXN_MARKERS, 1, markers=[one])
    listed(wire, f"{label}: end", topic, _LATEST)


def newest_of_open_transactions(wire: Wire) -> None:
    """The newest time is of a record that is not committed yet."""
    make_topic(wire, "open")
    produce(wire, "open: fill", "open", with_times(10))
    producer = Producer(wire, "writes")
    producer.add("open", open=[0])
    records = with_times(
        50, producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=0, is_transactional=True
    )
    produce(wire, "open: written", "open", records, transactional_id="writes")
    listed(wire, "open: newest", "open", _NEWEST)
    listed(wire, "open: newest committed", "open", _NEWEST, isolation_level=1)
    listed(wire, "open: time 20 committed", "open", _START_MS + 20, isolation_level=1)


def empty_transactions_story(wire: Wire) -> None:
    """Markers of transactions that have no data where they are written."""
    make_topic(wire, "marked")
    marker(wire, "the first", "marked", epoch=0, coordinator_epoch=0)
    marker(wire, "the second in its epoch", "marked", epoch=0, coordinator_epoch=0)
    marker(wire, "by a later coordinator", "marked", epoch=0, coordinator_epoch=1)
    marker(wire, "in a later epoch", "marked", epoch=1, coordinator_epoch=1)


def epoch_minus_one_story(wire: Wire) -> None:
    """Batches of a producer without an epoch."""
    make_topic(wire, "epochless")

    def send(label: str, sequence: int, *, epoch: int = -1, producer: int = 4000) -> None:
        records = batch(label, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        produce(wire, label, "epochless", records)

    send("from 0", 0)
    send("the same again", 0)
    send("the next", 1)
    send("a gap", 5)
    send("an epoch at last", 0, epoch=0)
    send("and none again", 2)
    send("another from 3", 3, producer=4001)
    send("without a sequence", -1, producer=4002)
    send("no producer but an epoch", 0, epoch=3, producer=-1)
    send("no producer but a sequence", 4, producer=-1)
    send("the end", -1, producer=-1)


def described(wire: Wire, name: str, *keys: str, kind: int = 4) -> dict[str, Any]:
    asked = [{"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}]
    answer = wire.ask_quietly(
        ApiKey.DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=True, include_documentation=False
    )
    (result,) = answer.results
    return {
        "error": int(result.error_code),
        "configs": {
            one.name: {
                "value": one.value,
                "read_only": one.read_only,
                "source": one.config_source,
                "sensitive": one.is_sensitive,
                "type": one.config_type,
                "synonyms": [[same.name, same.value, same.source] for same in one.synonyms],
            }
            for one in result.configs
        },
    }


def plugin_settings_story(wire: Wire) -> None:
    """Settings of a broker that it does not know: those of a plugin."""
    throttles = [f"{side}.replication.throttled.rate" for side in ("leader", "follower")]
    broker = "1"
    wire.answers["of the file"] = described(wire, broker, "some.plugin.setting")
    wire.answers["not there"] = described(wire, broker, "no.such.setting")
    wire.answers["throttles"] = described(
        wire, broker, *throttles, "replica.alter.log.dirs.io.max.bytes.per.second"
    )

    def alter(label: str, name: str, key: str, value: str | None, *, operation: int = 0) -> bool:
        """Whether the change is accepted."""
        change = {"name": key, "config_operation": operation, "value": value}
        resources = [{"resource_type": 4, "resource_name": name, "configs": [change]}]
        answer = wire.ask(
            label, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False
        )
        return not answer.responses[0].error_code

    def when_applied(
        label: str, name: str, *keys: str, is_accepted: bool = True, is_there: bool = True
    ) -> None:
        # What is refused is never applied.
        end = time.monotonic() + (_APPLIED_SECONDS_MAX if is_accepted else 0)
        while True:
            found = described(wire, name, *keys)
            if all((found["configs"].get(key, {}).get("source") in (2, 3)) == is_there for key in keys):
                break
            if time.monotonic() > end:
                break
            time.sleep(0.05)
        wire.answers[label] = found

    is_accepted = alter("unknown for one broker", broker, "unknown.setting", "1")
    when_applied("unknown for one broker: described", broker, "unknown.setting", is_accepted=is_accepted)
    is_accepted = alter("unknown for all", "", "unknown.for.all", "2")
    when_applied("unknown for all: described", "", "unknown.for.all", is_accepted=is_accepted)
    when_applied("unknown for all: at the broker", broker, "unknown.for.all", is_accepted=is_accepted)
    alter("an empty value", broker, "unknown.empty", "")
    alter("appended", broker, "unknown.setting", "x", operation=2)
    alter("removed", broker, "unknown.setting", None, operation=1)
    when_applied("removed: described", broker, "unknown.setting", is_there=False)
    is_accepted = alter("the file's", broker, "some.plugin.setting", "changed")
    when_applied("the file's: described", broker, "some.plugin.setting", is_accepted=is_accepted)
    for side, key in zip(("leader", "follower"), throttles, strict=True):
        alter(f"{side}'s rate", broker, key, "1000")
        when_applied(f"{side}'s rate: described", broker, key)


STORIES = {
    "cut-times": cut_times_story,
    "newest-of-open-transactions": newest_of_open_transactions,
    "group-records": group_records_story,
    "empty-transactions": empty_transactions_story,
    "epoch-minus-one": epoch_minus_one_story,
    "plugin-settings": plugin_settings_story,
}
