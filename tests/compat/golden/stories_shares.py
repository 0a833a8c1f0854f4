"""Share groups (KIP-932): the answers and the records are of Kafka 4.4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from odradek.broker.share_states.states import kafka_id
from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_data import new_records
from tests.compat.golden.stories_groups import join, ready
from tests.compat.golden.stories_records import batch, make_topic, produce
from tests.compat.golden.stories_versions import Fields
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

GROUP: Final = "workers"
TOPIC: Final = "work"
STATES: Final = "__share_group_state"
_HEARTBEAT: Final = ApiKey.SHARE_GROUP_HEARTBEAT
ONE_PARTITION: Final = {
    "group.share.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = dict.fromkeys(
    ("shares", "share-records", "share-offsets", "share-states"), ONE_PARTITION
)
_GROUP_RECORD: Final = b"\x00\x0b"
_TARGET_EPOCH_RECORD: Final = b"\x00\x0c"
_SNAPSHOT_RECORD: Final = b"\x00\x00"


class ShareMember:
    """One member of a group, with the epoch of its last answer."""

    def __init__(self, wire: Wire, name: str, *, group: str = GROUP) -> None:
        self.wire = wire
        self.name = name
        self.group = group
        self.epoch = 0
        self.assigned: list[int] = []

    def join(self, label: str | None, *topics: str, **more: Any) -> Any:
        return self.beat(label, member_epoch=0, subscribed_topic_names=list(topics or (TOPIC,)), **more)

    def beat(self, label: str | None, **more: Any) -> Any:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "member_epoch": self.epoch,
            "subscribed_topic_names": None,
            **more,
        }
        if label is None:
            answer = self.wire.ask_quietly(_HEARTBEAT, 1, **fields)
        else:
            answer = self.wire.ask(label, _HEARTBEAT, 1, **fields)
        if answer is not None and not int(answer.error_code):
            self.epoch = max(answer.member_epoch, 0)
            if answer.assignment is not None:
                self.assigned = [
                    number for one in answer.assignment.topic_partitions for number in one.partitions
                ]
        return answer

    def await_partitions(self, count: int) -> None:
        """Heartbeats until the member has so many partitions."""

        def beat() -> int:
            self.beat(None)
            return len(self.assigned)

        wait_until("the member has its partitions", beat, lambda found: found == count)


def describe(wire: Wire, label: str, *groups: str) -> None:
    """Members in the order of their subscriptions."""
    answer = wire.ask_quietly(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=list(groups))
    plain = wire.plain(answer)
    for group in plain["groups"]:
        group["members"].sort(key=lambda member: member["subscribed_topic_names"])
    wire.answers[label] = plain


# --- heartbeats -----------------------------------------------------------------------------------------------------


def heartbeats_story(wire: Wire) -> None:
    """A member's heartbeats and their refusals, and what members of other protocols are answered."""
    ready(wire, GROUP)
    make_topic(wire, TOPIC, 2)
    first = ShareMember(wire, "first")
    for label, more in (
        ("empty group", {"group_id": ""}),
        ("empty member", {"member_id": ""}),
        ("epoch -2", {"member_epoch": -2}),
        ("without topics", {"subscribed_topic_names": None}),
        ("an empty rack", {"rack_id": ""}),
    ):
        first.beat(label, **{"member_epoch": 0, "subscribed_topic_names": [TOPIC], **more})
    first.beat("a stranger", member_epoch=3)
    first.beat("leaving a group that is not there", member_epoch=-1)
    first.join("SHARE_GROUP_HEARTBEAT 1: joins")
    first.await_partitions(2)
    wire.answers["epoch once assigned"] = first.epoch
    first.beat("quiet")
    first.beat("with its topics", subscribed_topic_names=[TOPIC])
    first.beat("an epoch of the future", member_epoch=first.epoch + 1)
    first.beat("the epoch before", member_epoch=first.epoch - 1)
    first.beat("another member", member_id="other")
    first.join("joins again")
    first.beat("a topic that is not there", subscribed_topic_names=[TOPIC, "nowhere"])
    describe(wire, "SHARE_GROUP_DESCRIBE 1", GROUP, "nowhere", "")
    wire.ask("DESCRIBE_GROUPS", ApiKey.DESCRIBE_GROUPS, 6, groups=[GROUP])
    wire.ask("CONSUMER_GROUP_DESCRIBE", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[GROUP])
    wire.ask("LIST_GROUPS", ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=["share"])
    wire.ask("DELETE_GROUPS: with a member", ApiKey.DELETE_GROUPS, 3, groups_names=[GROUP])
    joined = join(wire, None, GROUP)
    wire.answers["a classic member"] = joined.error_code.name
    consumer: Fields = {
        "group_id": GROUP,
        "member_id": "consumer",
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": [TOPIC],
        "topic_partitions": [],
    }
    wire.ask("a consumer", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer)
    asked = {"group_id": GROUP, "member_id": None, "member_epoch": -1, "topics": None}
    wire.ask("fetched offsets", ApiKey.OFFSET_FETCH, 9, groups=[asked])
    parts = [{"partition_index": 0, "committed_offset": 1}]
    wire.ask(
        "committed offsets",
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": TOPIC, "partitions": parts}],
    )
    first.beat("leaves", member_epoch=-1)
    describe(wire, "empty", GROUP)
    joined = join(wire, None, GROUP)
    wire.answers["a classic member of the empty group"] = joined.error_code.name
    wire.ask("DELETE_GROUPS", ApiKey.DELETE_GROUPS, 3, groups_names=[GROUP])
    describe(wire, "deleted", GROUP)


# --- offsets --------------------------------------------------------------------------------------------------------


def offsets(wire: Wire, label: str, topics: Any = None, *, group: str = GROUP, version: int = 1) -> None:
    """Topics in the order of their names: Kafka has them in that of their ids."""
    asked = [{"group_id": group, "topics": topics}]
    answer = wire.ask_quietly(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, groups=asked)
    plain = wire.plain(answer)
    for one in plain["groups"]:
        one["topics"].sort(key=lambda topic: topic["topic_name"])
    wire.answers[label] = plain


def alter(wire: Wire, label: str, *starts: tuple[str, int, int], group: str = GROUP) -> None:
    topics: dict[str, list[Fields]] = {}
    for name, number, offset in starts:
        topics.setdefault(name, []).append({"partition_index": number, "start_offset": offset})
    rows = [{"topic_name": name, "partitions": parts} for name, parts in topics.items()]
    wire.ask(label, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id=group, topics=rows)


def forget(wire: Wire, label: str, *names: str, group: str = GROUP) -> None:
    rows = [{"topic_name": name} for name in names]
    wire.ask(label, ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, group_id=group, topics=rows)


def offsets_story(wire: Wire) -> None:
    """Where groups stand: described, altered, deleted, with members and without."""
    ready(wire, GROUP)
    make_topic(wire, TOPIC, 2)
    make_topic(wire, "other", 1)
    produce(wire, "produced", TOPIC, batch("a", "b", "c"))
    offsets(wire, "no group", group="nowhere")
    offsets(wire, "an empty name", group="")
    alter(wire, "alter: no group", (TOPIC, 0, 1), group="nowhere")
    forget(wire, "delete: no group", TOPIC, group="nowhere")
    first = ShareMember(wire, "first")
    first.join(None)
    first.await_partitions(2)
    for version in (0, 1):
        offsets(wire, f"DESCRIBE_SHARE_GROUP_OFFSETS {version}", version=version)
    alter(wire, "alter: with a member", (TOPIC, 0, 1))
    forget(wire, "delete: with a member", TOPIC)
    first.beat(None, member_epoch=-1)
    alter(wire, "ALTER_SHARE_GROUP_OFFSETS 0", (TOPIC, 0, 1), ("nowhere", 0, 1), (TOPIC, 9, 1))
    alter(wire, "alter: a topic that it does not read", ("other", 0, 0))
    named = [{"topic_name": TOPIC, "partitions": [0, 1]}, {"topic_name": "nowhere", "partitions": [0]}]
    offsets(wire, "altered, by name", named)
    offsets(wire, "altered, all")
    forget(wire, "DELETE_SHARE_GROUP_OFFSETS 0", TOPIC, "nowhere")
    forget(wire, "delete: again", TOPIC)
    offsets(wire, "deleted")


# --- records --------------------------------------------------------------------------------------------------------


def records_story(wire: Wire) -> None:
    """The bytes of the records of groups and of states."""
    topic_id = make_topic(wire, TOPIC, 1)
    ready(wire, GROUP)
    seen = 0

    def note(label: str) -> None:
        nonlocal seen
        found = new_records(wire, seen)
        seen += len(found)
        wire.answers[label] = [
            [_without_id(key, topic_id), _without_chance(key, value, topic_id)] for key, value in found
        ]

    note("before")
    first = ShareMember(wire, "first")
    first.join(None, rack_id="r")
    first.await_partitions(1)
    note("joined and assigned")
    second = ShareMember(wire, "second")
    second.join(None)
    note("a second member")
    second.beat(None, member_epoch=-1)
    note("the second has left")
    first.beat(None)
    first.beat(None, member_epoch=-1)
    note("all have left")
    alter(wire, "altered", (TOPIC, 0, 0))
    note("altered: records")
    forget(wire, "forgotten", TOPIC)
    note("forgotten: records")
    wire.ask("deleted", ApiKey.DELETE_GROUPS, 3, groups_names=[GROUP])
    note("deleted: records")
    found = new_records(wire, 0, STATES)
    rows = [(_without_id(key, topic_id), _without_chance(key, value, topic_id)) for key, value in found]
    wire.answers["states"] = [list(row) for row in sorted(rows, key=lambda row: row[0] or "")]


def _without_id(data: bytes, topic_id: UUID) -> str:
    return data.replace(topic_id.bytes, b"<topic>").hex()


def _without_chance(key: bytes, value: bytes | None, topic_id: UUID) -> str | None:
    """The hash of topics is Kafka's own business, and a time is a time."""
    if value is None:
        return None
    if key[:2] == _GROUP_RECORD:
        return f"{value.hex()[:12]}<hash>{value.hex()[28:]}"
    if key[:2] == _TARGET_EPOCH_RECORD and len(value) > 14:
        return f"{value.hex()[:-16]}<time>"
    if key[:2] == _SNAPSHOT_RECORD and len(key) > 20:
        # Version, three epochs and the start offset come before two times.
        return f"{value[:22].hex()}<times>{value[38:].hex()}"
    return _without_id(value, topic_id)


# --- states ---------------------------------------------------------------------------------------------------------


def states_story(wire: Wire) -> None:
    """What brokers ask the share coordinator."""
    ready(wire, GROUP)
    topic_id = make_topic(wire, TOPIC, 2)
    key = f"{GROUP}:{kafka_id(topic_id)}:0"
    wait_until(
        "the coordinator is there",
        lambda: wire.ask_quietly(ApiKey.FIND_COORDINATOR, 6, key_type=2, coordinator_keys=[key]),
        lambda answer: not int(answer.coordinators[0].error_code),
    )

    def ask(
        label: str, api: ApiKey, version: int, *, of: Any = topic_id, partition: int = 0, **fields: Any
    ) -> None:
        topics = [{"topic_id": of, "partitions": [{"partition": partition, **fields}]}]
        wire.ask(label, api, version, group_id=GROUP, topics=topics)

    def initialize(label: str, **fields: Any) -> None:
        ask(label, ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, **{"state_epoch": 1, "start_offset": -1, **fields})

    def read(label: str, leader_epoch: int = 0, **fields: Any) -> None:
        ask(label, ApiKey.READ_SHARE_GROUP_STATE, 0, leader_epoch=leader_epoch, **fields)

    def summary(label: str, version: int = 1, **fields: Any) -> None:
        ask(label, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, version, **{"leader_epoch": 0, **fields})

    def write(label: str, *batches: tuple[int, int, int, int], version: int = 1, **fields: Any) -> None:
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        given: Fields = {
            "state_epoch": 1,
            "leader_epoch": 0,
            "start_offset": -1,
            "delivery_complete_count": -1,
        }
        rows = [dict(zip(names, batch, strict=True)) for batch in batches]
        ask(label, ApiKey.WRITE_SHARE_GROUP_STATE, version, state_batches=rows, **{**given, **fields})

    unknown = UUID(int=5)
    read("read: not there")
    write("write: not there", (0, 1, 2, 1))
    summary("summary: not there")
    initialize("initialize: an unknown topic", of=unknown)
    initialize("initialize: an unknown partition", partition=9)
    initialize("initialize: a negative epoch", state_epoch=-1)
    initialize("INITIALIZE_SHARE_GROUP_STATE 0")
    read("READ_SHARE_GROUP_STATE 0")
    summary("READ_SHARE_GROUP_STATE_SUMMARY 0", version=0)
    write("WRITE_SHARE_GROUP_STATE 0", (0, 9, 2, 1), (10, 10, 0, 1), version=0, start_offset=0)
    write("WRITE_SHARE_GROUP_STATE 1", (10, 10, 4, 2), start_offset=5, delivery_complete_count=6)
    read("what was written")
    summary("READ_SHARE_GROUP_STATE_SUMMARY 1")
    write("write: overlapping", (7, 12, 0, 1), (11, 11, 2, 2))
    read("what overlaps")
    read("a newer leader", 4)
    write("write: a former leader", (13, 13, 2, 1), leader_epoch=3)
    read("read: a former leader", 3)
    read("read: any leader", -1)
    initialize("initialize: again", state_epoch=3, start_offset=20)
    read("begun again", 4)
    write("write: a former state", (20, 20, 2, 1), leader_epoch=4)
    initialize("initialize: a former state", state_epoch=2)
    write("write: an unknown topic", (0, 1, 2, 1), of=unknown)
    read("read: an unknown topic", of=unknown)
    summary("summary: an unknown topic", of=unknown)
    ask("DELETE_SHARE_GROUP_STATE 0", ApiKey.DELETE_SHARE_GROUP_STATE, 0)
    ask("delete: again", ApiKey.DELETE_SHARE_GROUP_STATE, 0)
    ask("delete: an unknown topic", ApiKey.DELETE_SHARE_GROUP_STATE, 0, of=unknown)
    read("read: deleted", 4)


STORIES = {
    "shares": heartbeats_story,
    "share-offsets": offsets_story,
    "share-records": records_story,
    "share-states": states_story,
}
