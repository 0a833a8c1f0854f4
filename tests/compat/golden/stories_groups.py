"""Stories of groups: coordinators, members of both protocols, offsets, and every way to be refused."""

from __future__ import annotations

import time
import uuid
from typing import Any

from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_records import make_topic
from tests.compat.golden.wire import Wire


def ready(wire: Wire, group: str) -> None:
    """Wait until the group's coordinator answers: the offsets topic is made when it is first asked for."""
    while True:
        found = wire.ask_quietly(ApiKey.FIND_COORDINATOR, 2, key=group, key_type=0)
        if found.error_code == 0:
            answer = wire.ask_quietly(
                ApiKey.OFFSET_FETCH, 7, group_id=group, topics=None, require_stable=False
            )
            if answer.error_code == 0:
                return
        time.sleep(0.05)


def coordinator_story(wire: Wire) -> None:
    """FindCoordinator in its two shapes."""
    ready(wire, "any")
    for version in range(4):
        kind: dict[str, Any] = {"key_type": 0} if version >= 1 else {}
        wire.ask(f"version {version}", ApiKey.FIND_COORDINATOR, version, key="any", **kind)
    keys = ["any", "other"]
    for version in range(4, 7):
        wire.ask(f"version {version}", ApiKey.FIND_COORDINATOR, version, key_type=0, coordinator_keys=keys)
    wire.ask("an unknown kind", ApiKey.FIND_COORDINATOR, 2, key="any", key_type=9)
    wire.ask("an unknown kind in version 4", ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["any"], key_type=9)
    wire.ask("no keys", ApiKey.FIND_COORDINATOR, 4, coordinator_keys=[], key_type=0)
    wire.ask("an empty key", ApiKey.FIND_COORDINATOR, 4, coordinator_keys=[""], key_type=0)


def join(
    wire: Wire, label: str | None, group: str, *, version: int = 9, on: str = "main", **more: Any
) -> Any:
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
        **more,
    }
    if label is None:
        return wire.ask_quietly(ApiKey.JOIN_GROUP, version, on=on, **fields)
    return wire.ask(label, ApiKey.JOIN_GROUP, version, on=on, **fields)


def sync(wire: Wire, label: str, joined: Any, group: str, **more: Any) -> Any:
    """SyncGroup of a member that is the leader, with its own assignment."""
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": joined.member_id, "assignment": b"mine"}],
        **more,
    }
    return wire.ask(label, ApiKey.SYNC_GROUP, 5, **fields)


def classic_story(wire: Wire) -> None:
    """A classic member's life, and the mistakes it can make."""
    ready(wire, "classic")
    join(wire, "empty group id", "")
    join(wire, "session too short", "classic", session_timeout=1)
    join(wire, "session too long", "classic", session_timeout=9_000_000)
    join(wire, "no protocols", "classic", protocols=[])
    join(wire, "no protocol type", "classic", protocol_type="")
    join(wire, "an unknown member", "classic", member_id="who")
    join(wire, "an unknown static member with an id", "classic", member_id="who", group_instance_id="host")
    stranger: dict[str, Any] = {"group_id": "no-such", "generation_id": 1, "member_id": "who"}

    def heartbeat(label: str, **fields: Any) -> None:
        wire.ask(label, ApiKey.HEARTBEAT, 4, **fields)

    def leave(label: str, group: str, member: str, **more: Any) -> None:
        members = [{"member_id": member, **more}]
        wire.ask(label, ApiKey.LEAVE_GROUP, 5, group_id=group, members=members)

    wire.ask("sync of an unknown group", ApiKey.SYNC_GROUP, 5, **stranger)
    heartbeat("heartbeat of an unknown group", **stranger)
    heartbeat("heartbeat without group", **{**stranger, "group_id": ""})
    leave("leave of an unknown group", "no-such", "who")
    named = join(wire, "a member id is required", "classic")
    member = named.member_id
    joined = join(wire, "joined", "classic", member_id=member)
    generation = joined.generation_id
    me: dict[str, Any] = {"group_id": "classic", "generation_id": generation, "member_id": member}
    later = {**me, "generation_id": generation + 1}
    heartbeat("heartbeat before sync", **me)
    sync(wire, "sync with another protocol", joined, "classic", protocol_name="sticky")
    sync(wire, "sync with another type", joined, "classic", protocol_type="connect")
    sync(wire, "synced", joined, "classic")
    wire.ask("synced again", ApiKey.SYNC_GROUP, 5, **me, protocol_type="consumer", protocol_name="range")
    wire.ask("sync of a later generation", ApiKey.SYNC_GROUP, 5, **later)
    heartbeat("heartbeat", **me)
    heartbeat("heartbeat of a later generation", **later)
    heartbeat("heartbeat of a stranger", **{**me, "member_id": "who"})
    heartbeat("heartbeat of a static stranger", **me, group_instance_id="host")
    join(wire, "another protocol type", "classic", version=3, protocol_type="connect")
    join(wire, "no common protocol", "classic", version=3, protocols=[{"name": "sticky", "metadata": b""}])
    groups = ["classic", "no-such"]
    for version in range(7):
        wire.ask(f"described in version {version}", ApiKey.DESCRIBE_GROUPS, version, groups=groups)
    wire.ask("described with an empty name", ApiKey.DESCRIBE_GROUPS, 6, groups=[""])
    filters: dict[str, Any] = {"states_filter": ["Stable"], "types_filter": ["classic"]}
    listed = wire.ask_quietly(ApiKey.LIST_GROUPS, 5, **filters)
    wire.answers["listed"] = [
        [one.group_id, one.protocol_type, one.group_state, one.group_type]
        for one in listed.groups
        if one.group_id == "classic"
    ]
    wire.ask("listed by an unknown state", ApiKey.LIST_GROUPS, 5, states_filter=["Odd"], types_filter=[])
    wire.ask("listed by an unknown type", ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=["odd"])
    wire.ask("delete while in use", ApiKey.DELETE_GROUPS, 2, groups_names=["classic"])
    leave("leave of a stranger", "classic", "who")
    leave("leave of a static stranger", "classic", "", group_instance_id="host")
    leave("left", "classic", member)
    heartbeat("heartbeat after leaving", **me)
    wire.ask("described when empty", ApiKey.DESCRIBE_GROUPS, 5, groups=["classic"])
    wire.ask("deleted", ApiKey.DELETE_GROUPS, 2, groups_names=["classic", "no-such", ""])
    host: dict[str, Any] = {"group_instance_id": "host"}
    static = join(wire, "a static member", "static", **host)
    again = join(wire, "the static member again", "static", **host)
    old, epoch = static.member_id, static.generation_id
    heartbeat("its old id is fenced", group_id="static", generation_id=epoch, member_id=old, **host)
    join(wire, "joining by the old id is fenced", "static", member_id=old, **host)
    leave("leave by the old id is fenced", "static", old, **host)
    leave("its new id leaves", "static", again.member_id, **host)


def committed_story(wire: Wire) -> None:
    """OffsetCommit, OffsetFetch and OffsetDelete."""
    ready(wire, "commits")
    topic_id = make_topic(wire, "positions", 2)

    def commit(
        label: str,
        group: str = "commits",
        *,
        version: int = 9,
        topic: Any = "positions",
        partition: int = 0,
        offset: int = 5,
        metadata: str | None = "note",
        generation: int = -1,
        member: str = "",
        epoch: int = -1,
    ) -> None:
        part = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_metadata": metadata,
            "committed_leader_epoch": epoch,
        }
        name = {"topic_id": topic} if version >= 10 else {"name": topic}
        by: dict[str, Any] = {"generation_id_or_member_epoch": generation, "member_id": member}
        topics = [{**name, "partitions": [part]}]
        wire.ask(label, ApiKey.OFFSET_COMMIT, version, group_id=group, **by, topics=topics)

    for version in range(2, 10):
        commit(f"version {version}", version=version, offset=version)
    commit("version 10", version=10, topic=topic_id, offset=10)
    commit("an unknown id", version=10, topic=uuid.UUID(int=3))
    commit("an unknown topic", topic="no-such")
    commit("an unknown partition", partition=9)
    commit("negative offset", offset=-7)
    commit("metadata of 4096", metadata="x" * 4096)
    commit("metadata of 4097", metadata="x" * 4097)
    commit("null metadata", partition=1, metadata=None, epoch=0)
    commit("empty group", "")
    commit("a generation in an empty group", generation=3, member="who")
    commit("a member in an unknown group", "unknown", generation=0, member="who")
    commit("a new group by a simple commit", "simple")

    def fetched(
        label: str,
        version: int,
        *,
        group: str = "commits",
        topics: Any = None,
        stable: bool = False,
        member: str | None = None,
        epoch: int = -1,
    ) -> None:
        if version >= 8:
            asked = {"group_id": group, "topics": topics}
            if version >= 9:
                asked |= {"member_id": member, "member_epoch": epoch}
            wire.ask(label, ApiKey.OFFSET_FETCH, version, groups=[asked], require_stable=stable)
        else:
            more: dict[str, Any] = {"require_stable": stable} if version >= 7 else {}
            wire.ask(label, ApiKey.OFFSET_FETCH, version, group_id=group, topics=topics, **more)

    both = [{"name": "positions", "partition_indexes": [0, 1, 5]}]
    for version in range(1, 10):
        fetched(f"fetched in version {version}", version, topics=both)
    for version in range(2, 10):
        fetched(f"all in version {version}", version)
    fetched("fetched by id", 10, topics=[{"topic_id": topic_id, "partition_indexes": [0, 1]}])
    fetched("fetched by an unknown id", 10, topics=[{"topic_id": uuid.UUID(int=3), "partition_indexes": [0]}])
    fetched("stable", 9, topics=both, stable=True)
    fetched("of an unknown group", 9, group="no-such", topics=both)
    fetched("all of an unknown group", 9, group="no-such")
    fetched("of an unknown topic", 9, topics=[{"name": "no-such", "partition_indexes": [0]}])
    fetched("of an empty group", 9, group="", topics=both)
    fetched("as a stranger", 9, topics=both, member="who", epoch=3)
    groups = [{"group_id": group, "topics": both} for group in ("commits", "no-such", "simple")]
    wire.ask("of three groups", ApiKey.OFFSET_FETCH, 8, groups=groups, require_stable=False)

    def forget(label: str, group: str, topic: str, partition: int = 0) -> None:
        topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
        wire.ask(label, ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)

    forget("forget one", "commits", "positions")
    forget("forget it again", "commits", "positions")
    forget("forget of an unknown topic", "commits", "no-such")
    forget("forget of an unknown partition", "commits", "positions", 9)
    forget("forget of an unknown group", "no-such", "positions")
    fetched("what is left", 9)


def consumer_story(wire: Wire) -> None:
    """KIP-848: a member's heartbeats and their refusals."""
    ready(wire, "modern")
    make_topic(wire, "watched", 2)

    def beat(label: str | None, **more: Any) -> Any:
        fields: dict[str, Any] = {
            "group_id": "modern",
            "member_id": "first",
            "member_epoch": 0,
            "rebalance_timeout": 10_000,
            "subscribed_topic_names": ["watched"],
            "topic_partitions": [],
            **more,
        }
        if label is None:
            return wire.ask_quietly(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields)
        return wire.ask(label, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields)

    beat("empty group", group_id="")
    beat("empty member", member_id="")
    beat("epoch -3", member_epoch=-3)
    beat("joining without topics", subscribed_topic_names=None)
    beat("joining without rebalance timeout", rebalance_timeout=-1)
    beat("joining without owned partitions", topic_partitions=None)
    owned = [{"topic_id": uuid.UUID(int=4), "partitions": [0]}]
    beat("joining with owned partitions", topic_partitions=owned)
    beat("an unknown assignor", server_assignor="odd")
    beat("an empty instance id", instance_id="")
    beat("an empty rack", rack_id="")
    beat("a bad regular expression", subscribed_topic_regex="[")
    beat("an unknown member beats", member_id="who", member_epoch=4)
    beat("an unknown group beats", group_id="no-such", member_epoch=4)
    beat("leaving an unknown group", group_id="no-such", member_epoch=-1)
    beat("joined")
    quiet: dict[str, Any] = {
        "subscribed_topic_names": None,
        "topic_partitions": None,
        "rebalance_timeout": -1,
    }
    epoch = 0
    for _ in range(100):
        answer = beat(None, member_epoch=epoch) if epoch == 0 else beat(None, member_epoch=epoch, **quiet)
        epoch = answer.member_epoch
        if (
            answer.assignment is not None
            and sum(len(one.partitions) for one in answer.assignment.topic_partitions) == 2
        ):
            break
        time.sleep(0.05)
    beat("nothing new", member_epoch=epoch, **quiet)
    beat("an epoch too high", member_epoch=epoch + 5, **quiet)
    beat("an old epoch", member_epoch=max(epoch - 1, 1) if epoch > 1 else 77, **quiet)
    me: dict[str, Any] = {"group_id": "modern", "generation_id": epoch, "member_id": "first"}
    wire.ask("a classic heartbeat in it", ApiKey.HEARTBEAT, 4, **me)
    odd: dict[str, Any] = {"protocol_type": "connect", "protocols": [{"name": "odd", "metadata": b""}]}
    join(wire, "a classic member of no known protocol", "modern", version=3, **odd)
    described = wire.ask_quietly(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["modern", "no-such", ""])
    wire.answers["described"] = [
        [
            group.error_code.name,
            group.group_state,
            group.assignor_name,
            [
                [
                    member.subscribed_topic_names,
                    sum(len(t.partitions) for t in member.assignment.topic_partitions),
                    member.member_type,
                ]
                for member in group.members
            ],
        ]
        for group in sorted(described.groups, key=lambda group: group.group_id)
    ]
    wire.ask("described as classic", ApiKey.DESCRIBE_GROUPS, 6, groups=["modern"])
    whole: dict[str, Any] = {"committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": -1}
    part = [{"name": "watched", "partitions": [{"partition_index": 0, **whole}]}]
    members = (("right epoch", "first", epoch), ("old epoch", "first", epoch + 3), ("stranger", "who", epoch))
    for label, member, at in (*members, ("no member", "", -1)):
        by: dict[str, Any] = {"group_id": "modern", "generation_id_or_member_epoch": at, "member_id": member}
        wire.ask(f"commit by {label}", ApiKey.OFFSET_COMMIT, 9, **by, topics=part)
    asked = [{"name": "watched", "partition_indexes": [0]}]
    for label, member, at in members:
        groups = [{"group_id": "modern", "member_id": member, "member_epoch": at, "topics": asked}]
        wire.ask(f"fetch by {label}", ApiKey.OFFSET_FETCH, 9, require_stable=False, groups=groups)
    gone = [{"name": "watched", "partitions": [{"partition_index": 0}]}]
    wire.ask("forget while subscribed", ApiKey.OFFSET_DELETE, 0, group_id="modern", topics=gone)
    wire.ask("delete while in use", ApiKey.DELETE_GROUPS, 2, groups_names=["modern"])
    beat("left", member_epoch=-1, **quiet)
    beat("beats after leaving", member_epoch=epoch, **quiet)
    beat("a static member joins", member_id="s1", instance_id="host")
    beat("a static member steps away", member_id="s1", instance_id="host", member_epoch=-2, **quiet)
    beat("another takes its place", member_id="s2", instance_id="host")
    beat("a third is refused", member_id="s3", instance_id="host")
    wire.ask("deleted at last", ApiKey.DELETE_GROUPS, 2, groups_names=["modern"])


STORIES = {
    "coordinator": coordinator_story,
    "classic": classic_story,
    "committed": committed_story,
    "consumer": consumer_story,
}
