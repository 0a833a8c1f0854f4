"""Streams groups (KIP-1071): the answers and the records are of Kafka 4.4.0, the first with versions 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_data import new_records
from tests.compat.golden.stories_groups import join, ready
from tests.compat.golden.stories_records import make_topic
from tests.compat.golden.stories_versions import Fields
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

GROUP: Final = "counts"
SOURCE: Final = "lines"
REPARTITION: Final = "counts-repartition"
CHANGELOG: Final = "counts-changelog"
_HEARTBEAT: Final = ApiKey.STREAMS_GROUP_HEARTBEAT
_AT_ONCE: Final = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "streams": _AT_ONCE,
    "streams-topics": _AT_ONCE,
    "streams-records": {**_AT_ONCE, "offsets.topic.num.partitions": "1"},
    "streams-commits": _AT_ONCE,
    # Ten times the default: a slow machine must not sit it out between two requests.
    "streams-delayed": {"group.streams.assignment.interval.ms": "10000"},
    "streams-missed": _AT_ONCE,
}
_GROUP_RECORD: Final = b"\x00\x11"
_TARGET_EPOCH_RECORD: Final = b"\x00\x14"


def topic(name: str, partitions: int = 0, **configs: str) -> Fields:
    """An internal topic in a topology."""
    return {
        "name": name,
        "partitions": partitions,
        "replication_factor": 0,
        "topic_configs": [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }


def subtopology(name: str, *sources: str, **more: Any) -> Fields:
    return {
        "subtopology_id": name,
        "source_topics": list(sources),
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
        **more,
    }


def counting(epoch: int = 0, *, partitions: int = 0) -> Fields:
    """A topology that counts words: a repartition topic between two subtopologies, and a changelog."""
    reader = subtopology("0", SOURCE, repartition_sink_topics=[REPARTITION])
    counter = subtopology(
        "1",
        repartition_source_topics=[topic(REPARTITION, partitions)],
        state_changelog_topics=[topic(CHANGELOG, cleanup_policy="compact")],
    )
    return {"epoch": epoch, "subtopologies": [reader, counter]}


def copying(*sources: str) -> Fields:
    return {"epoch": 0, "subtopologies": [subtopology("0", *(sources or (SOURCE,)))]}


def tasks(**numbers: list[int]) -> list[Fields]:
    """Tasks of subtopologies, as _0=[1, 2]."""
    return [{"subtopology_id": name.removeprefix("_"), "partitions": ids} for name, ids in numbers.items()]


class Member:
    """One member of a group, with the epoch of its last answer."""

    def __init__(self, wire: Wire, name: str, *, group: str = GROUP, process: str | None = None) -> None:
        self.wire = wire
        self.name = name
        self.group = group
        self.process = process or f"process-of-{name}"
        self.epoch = 0

    def join(self, label: str | None, topology: Fields, *, version: int = 1, **more: Any) -> Any:
        return self.beat(
            label,
            version=version,
            member_epoch=0,
            rebalance_timeout=10_000,
            topology=topology,
            process_id=self.process,
            **{"client_tags": [], **owned(), **more},
        )

    def beat(self, label: str | None, *, version: int = 1, **more: Any) -> Any:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "member_epoch": self.epoch,
            "endpoint_information_epoch": -1,
            "rebalance_timeout": -1,
            "active_tasks": None,
            "standby_tasks": None,
            "warmup_tasks": None,
            "client_tags": None,
            "task_offsets": None,
            "task_end_offsets": None,
            **more,
        }
        if label is None:
            answer = self.wire.ask_quietly(_HEARTBEAT, version, **fields)
        else:
            answer = self.wire.ask(label, _HEARTBEAT, version, **fields)
        if answer is not None and not int(answer.error_code):
            self.epoch = max(answer.member_epoch, 0)
        return answer

    def await_topics(self) -> None:
        """Heartbeats until no status is left: the internal topics are there."""
        wait_until(
            "the internal topics are there", lambda: self.beat(None).status, lambda statuses: not statuses
        )


def owned(
    active: list[Fields] | None = None,
    standby: list[Fields] | None = None,
    warmup: list[Fields] | None = None,
) -> Fields:
    return {"active_tasks": active or [], "standby_tasks": standby or [], "warmup_tasks": warmup or []}


def describe(wire: Wire, label: str, *groups: str, version: int = 1) -> None:
    """Members in the order of their processes."""
    answer = wire.ask_quietly(ApiKey.STREAMS_GROUP_DESCRIBE, version, group_ids=list(groups))
    plain = wire.plain(answer)
    for group in plain["groups"]:
        group["members"].sort(key=lambda member: member["process_id"])
    wire.answers[label] = plain


# --- heartbeats -----------------------------------------------------------------------------------------------------


def heartbeats_story(wire: Wire) -> None:
    """A member's heartbeats and their refusals, in both versions."""
    ready(wire, GROUP)
    make_topic(wire, SOURCE, 2)
    first = Member(wire, "first")
    for label, more in (
        ("empty group", {"group_id": ""}),
        ("empty member", {"member_id": ""}),
        ("epoch -3", {"member_epoch": -3, "topology": None}),
        ("without topology", {"topology": None}),
        ("without rebalance timeout", {"rebalance_timeout": -1}),
        ("with owned tasks", owned(tasks(_0=[0]))),
        ("one kind of tasks", {"standby_tasks": None}),
        ("an empty instance id", {"instance_id": ""}),
        ("an empty rack", {"rack_id": ""}),
        ("a regular expression", {"topology": {"epoch": 0, "subtopologies": [
            subtopology("0", SOURCE, source_topic_regex=["a.*"])]}}),
        ("a changelog with partitions", {"topology": {"epoch": 0, "subtopologies": [
            subtopology("0", SOURCE, state_changelog_topics=[topic("log", 2)])]}}),
        ("a name of Kafka's", {"topology": copying("__consumer_offsets")}),
        ("a bad name", {"topology": copying("not a name")}),
        ("a loop", {"topology": {"epoch": 0, "subtopologies": [subtopology(
            "0", repartition_sink_topics=["r"], repartition_source_topics=[topic("r")])]}}),
        ("never written", {"topology": {"epoch": 0, "subtopologies": [
            subtopology("0", SOURCE, repartition_source_topics=[topic("r")])]}}),
        ("leaving without instance", {"member_epoch": -2, "topology": None}),
    ):  # fmt: skip
        fields = {"rebalance_timeout": 10_000, "topology": copying(), **owned(), **more}
        first.beat(label, process_id="p", client_tags=[], **{"member_epoch": 0, **fields})
    first.beat("a stranger", member_epoch=3)
    first.beat("leaving a group that is not there", member_epoch=-1)
    first.join("STREAMS_GROUP_HEARTBEAT 1: joins", copying())
    first.beat("with a topology", topology=copying())
    first.beat("quiet")
    first.beat("STREAMS_GROUP_HEARTBEAT 0: quiet", version=0)
    first.beat("knows the endpoints", endpoint_information_epoch=0)
    first.beat("runs its tasks", **owned(tasks(_0=[0, 1])))
    first.beat("runs another's task", **owned(tasks(_0=[2])))
    first.beat("runs a task of no subtopology", **owned(tasks(_9=[0])))
    first.beat("an epoch of the future", member_epoch=first.epoch + 1)
    first.beat("an epoch of the past", member_epoch=first.epoch - 1)
    first.beat("another member", member_id="other")
    first.join("joins again", copying())
    first.join("another topology", copying(SOURCE, "more"))
    first.join("a newer topology", {**copying(), "epoch": 1})
    first.beat("asks to shut down", shutdown_application=True)
    first.beat("is told to shut down")
    describe(wire, "STREAMS_GROUP_DESCRIBE 0", GROUP, "nowhere", "", version=0)
    describe(wire, "STREAMS_GROUP_DESCRIBE 1", GROUP)
    wire.ask("DESCRIBE_GROUPS", ApiKey.DESCRIBE_GROUPS, 6, groups=[GROUP])
    wire.ask("CONSUMER_GROUP_DESCRIBE", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[GROUP])
    wire.ask("LIST_GROUPS", ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=["streams"])
    wire.ask("DELETE_GROUPS: with a member", ApiKey.DELETE_GROUPS, 3, groups_names=[GROUP])
    joined = join(wire, None, GROUP)
    wire.answers["a classic member"] = joined.error_code.name
    consumer: Fields = {
        "group_id": GROUP,
        "member_id": "consumer",
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": [SOURCE],
        "topic_partitions": [],
    }
    wire.ask("a consumer", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer)
    first.beat("leaves", member_epoch=-1)
    describe(wire, "empty", GROUP)
    wire.ask("DELETE_GROUPS", ApiKey.DELETE_GROUPS, 3, groups_names=[GROUP])
    statics: Fields = {"instance_id": "fixed"}
    first.join("a static member", copying(), **statics)
    second = Member(wire, "second", process=first.process)
    second.join("its place is taken", copying(), **statics)
    first.beat("leaves for now", member_epoch=-2, **statics)
    second.join("comes back", copying(), **statics)
    first.beat("its old id", member_epoch=1, **statics)
    second.beat("leaves for good", member_epoch=-1, **statics)


# --- topics ---------------------------------------------------------------------------------------------------------


def topics_story(wire: Wire) -> None:
    """What is missing, what is made, and what does not fit."""
    ready(wire, GROUP)
    first = Member(wire, "first")
    first.join("without the source", counting())
    describe(wire, "described without the source", GROUP)
    make_topic(wire, SOURCE, 2)
    wait_until("the source is seen", lambda: first.beat(None).status, lambda seen: seen[0].status_code == 3)
    first.await_topics()
    found = first.beat(None, **owned())
    wire.answers["assigned"] = wire.plain(found)["status"]
    describe(wire, "described", GROUP)
    for name in (REPARTITION, CHANGELOG):
        asked = {"resource_type": 2, "resource_name": name, "configuration_keys": ["cleanup.policy"]}
        wire.ask(f"made: {name}", ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked])
    make_topic(wire, "three", 3)
    make_topic(wire, "copied-changelog", 1)
    joined = {"source_topics": [0, 1], "source_topic_regex": [], "repartition_source_topics": []}
    for label, one in (
        ("joined unequally", subtopology("0", SOURCE, "three", copartition_groups=[joined])),
        ("another changelog", subtopology("0", SOURCE, state_changelog_topics=[topic("copied-changelog")])),
        ("several missing", subtopology("0", *"dbcae")),
        (
            "a repartition topic that is joined",
            subtopology(
                "0",
                SOURCE,
                repartition_source_topics=[topic("fixed", 5)],
                copartition_groups=[{**joined, "source_topics": [0], "repartition_source_topics": [0]}],
            ),
        ),
    ):
        topology = {"epoch": 0, "subtopologies": [one]}
        Member(wire, "first", group=label.replace(" ", "-")).join(label, topology)
    stale = Member(wire, "stale", group="stale")
    stale.join("epoch 3", {**copying(), "epoch": 3})
    Member(wire, "older", group="stale").join("epoch 2", {**copying(), "epoch": 2})


# --- records --------------------------------------------------------------------------------------------------------


def records_story(wire: Wire) -> None:
    """The bytes of the records of a group: one member, two, a move, and none."""
    make_topic(wire, SOURCE, 2)
    ready(wire, GROUP)
    seen = 0

    def note(label: str) -> None:
        nonlocal seen
        found = new_records(wire, seen)
        seen += len(found)
        wire.answers[label] = [[key.hex(), _without_chance(key, value)] for key, value in found]

    note("before")
    first = Member(wire, "first")
    endpoint = {"host": "localhost", "port": 65_000}
    first.join(
        None, counting(), rack_id="r", user_endpoint=endpoint, client_tags=[{"key": "k", "value": "v"}]
    )
    note("joined")
    first.await_topics()
    note("with topics")
    second = Member(wire, "second")
    second.join(None, counting())
    note("a second member")
    first.beat(None)
    note("to give up")
    held = owned(tasks(_0=[0], _1=[0]))
    first.beat(None, **held)
    note("given up")
    second.beat(None)
    note("taken over")
    second.beat(None, member_epoch=-1)
    note("the second has left")
    first.beat(None, member_epoch=-1)
    note("all have left")
    wire.ask("deleted", ApiKey.DELETE_GROUPS, 3, groups_names=[GROUP])
    note("deleted: records")


def _without_chance(key: bytes, value: bytes | None) -> str | None:
    """The hash of topics is Kafka's own business, and a time is a time."""
    if value is None:
        return None
    text = value.hex()
    if key[:2] == _GROUP_RECORD:
        return f"{text[:12]}<hash>{text[28:]}"
    if key[:2] == _TARGET_EPOCH_RECORD and len(value) > 14:
        return f"{text[:-16]}<time>"
    return text


# --- offsets --------------------------------------------------------------------------------------------------------


def commits_story(wire: Wire) -> None:
    """Commits and fetches with epochs of members."""
    make_topic(wire, SOURCE, 2)
    ready(wire, GROUP)
    first, second = Member(wire, "first"), Member(wire, "second")
    first.join(None, copying())
    commit(wire, "the epoch now", first, 0)
    second.join(None, copying())
    first.beat(None, **owned(tasks(_0=[0, 1])))
    first.beat(None, **owned(tasks(_0=[0])))
    second.beat(None)
    mine, others = (0, 1) if _active(wire, first) == (0,) else (1, 0)
    commit(wire, "its own with an old epoch", first, mine, epoch=first.epoch - 1)
    commit(wire, "another's with an old epoch", first, others, epoch=first.epoch - 1)
    commit(wire, "another's with the epoch", first, others)
    commit(wire, "older than its task", second, others, epoch=1)
    commit(wire, "an epoch of the future", first, mine, epoch=first.epoch + 1)
    commit(wire, "a stranger", Member(wire, "stranger"), mine, epoch=1)
    commit(wire, "version 8", first, mine, version=8)
    administrator = Member(wire, "")
    commit(wire, "an administrator", administrator, mine, epoch=-1)
    fetch(wire, "OFFSET_FETCH", first)
    fetch(wire, "an old epoch", first, epoch=first.epoch - 1)
    fetch(wire, "fetch: a stranger", Member(wire, "stranger"), epoch=1)
    deleted = [{"name": SOURCE, "partitions": [{"partition_index": mine}]}]
    wire.ask("OFFSET_DELETE: in use", ApiKey.OFFSET_DELETE, 0, group_id=GROUP, topics=deleted)
    for member in (first, second):
        member.beat(None, member_epoch=-1)
    commit(wire, "an administrator of an empty group", administrator, mine, epoch=-1)
    wire.ask("OFFSET_DELETE", ApiKey.OFFSET_DELETE, 0, group_id=GROUP, topics=deleted)


def _active(wire: Wire, member: Member) -> tuple[int, ...]:
    group = wire.ask_quietly(ApiKey.STREAMS_GROUP_DESCRIBE, 1, group_ids=[GROUP]).groups[0]
    (found,) = [one for one in group.members if one.member_id == member.name]
    return tuple(number for row in found.assignment.active_tasks for number in row.partitions)


def commit(
    wire: Wire, label: str, member: Member, partition: int, *, epoch: int | None = None, version: int = 9
) -> None:
    parts = [{"partition_index": partition, "committed_offset": 1}]
    answer = wire.ask_quietly(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=GROUP,
        generation_id_or_member_epoch=member.epoch if epoch is None else epoch,
        member_id=member.name,
        topics=[{"name": SOURCE, "partitions": parts}],
    )
    wire.answers[label] = answer.topics[0].partitions[0].error_code.name


def fetch(wire: Wire, label: str, member: Member, *, epoch: int | None = None) -> None:
    asked = {
        "group_id": GROUP,
        "member_id": member.name,
        "member_epoch": member.epoch if epoch is None else epoch,
        "topics": None,
    }
    answer = wire.ask_quietly(ApiKey.OFFSET_FETCH, 9, groups=[asked])
    wire.answers[label] = answer.groups[0].error_code.name


# --- delays ---------------------------------------------------------------------------------------------------------


def delayed_story(wire: Wire) -> None:
    """The first assignment waits for more members, and the next for some time."""
    make_topic(wire, SOURCE, 2)
    ready(wire, GROUP)
    first, second = Member(wire, "first"), Member(wire, "second")
    first.join("joins", copying())
    second.join("joins while it waits", copying())
    first.beat("waits")
    describe(wire, "waiting", GROUP)
    wait_until(
        "the delay is over",
        lambda: [first.beat(None, **owned()).status, second.beat(None, **owned()).status],
        lambda said: not any(said),
    )
    third = Member(wire, "third")
    third.join("joins at once after an assignment", copying())


def missed_story(wire: Wire) -> None:
    """A member does not receive an answer, and says so by its tasks."""
    make_topic(wire, SOURCE, 2)
    ready(wire, GROUP)
    first, second = Member(wire, "first"), Member(wire, "second")
    first.join("has both", copying())
    second.join("waits for one", copying())
    first.beat("is to give one up", **owned(tasks(_0=[0, 1])))
    before = second.epoch
    first.beat("has given it up", **owned(tasks(_0=[0])))
    second.beat("gets it", **owned())
    second.beat("has missed it", **owned())
    second.epoch = before
    second.beat("has missed it and the epoch", **owned())
    second.beat("runs it", **owned(tasks(_0=[1])))


STORIES = {
    "streams": heartbeats_story,
    "streams-topics": topics_story,
    "streams-records": records_story,
    "streams-commits": commits_story,
    "streams-delayed": delayed_story,
    "streams-missed": missed_story,
}
