"""Stories of partitions that cannot move and of elections that are not needed, on one broker."""

from __future__ import annotations

from typing import Any

from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_records import make_topic
from tests.compat.golden.wire import Wire

PREFERRED, UNCLEAN = 0, 1


def reassignment_story(wire: Wire) -> None:
    """AlterPartitionReassignments and ListPartitionReassignments."""
    make_topic(wire, "moved", 2)

    def alter(label: str, *rows: tuple[str, int, list[int] | None], version: int = 1, **more: Any) -> None:
        topics: dict[str, list[dict[str, Any]]] = {}
        for topic, number, replicas in rows:
            topics.setdefault(topic, []).append({"partition_index": number, "replicas": replicas})
        asked = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        wire.ask(label, ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, topics=asked, timeout=10_000, **more)

    alter("to where it is", ("moved", 0, [1]))
    alter("in version 0", ("moved", 0, [1]), version=0)
    alter("unknown topic", ("no-such", 0, [1]))
    alter("unknown partition", ("moved", 7, [1]))
    alter("negative partition", ("moved", -1, [1]))
    alter("nothing to cancel", ("moved", 0, None))
    alter("cancel of an unknown topic", ("no-such", 0, None))
    alter("no replicas", ("moved", 0, []))
    alter("a replica twice", ("moved", 0, [1, 1]))
    alter("an unknown broker", ("moved", 0, [9]))
    alter("an unknown broker besides", ("moved", 0, [1, 9]))
    alter("a negative broker", ("moved", 0, [-1]))
    alter("a negative broker besides", ("moved", 0, [1, -1]))
    alter("another factor, not allowed", ("moved", 0, [1, 9]), allow_replication_factor_change=False)
    alter("the same factor", ("moved", 0, [1]), allow_replication_factor_change=False)
    alter("one good, one bad", ("moved", 0, [1]), ("moved", 1, [9]), ("no-such", 0, [1]))
    alter("a partition twice", ("moved", 0, [1]), ("moved", 0, [9]))
    alter("nothing")

    def listed(label: str, topics: Any) -> None:
        wire.ask(label, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=topics, timeout=10_000)

    listed("all", None)
    listed("none", [])
    listed("of one topic", [{"name": "moved", "partition_indexes": [0, 1]}])
    listed("of an unknown topic", [{"name": "no-such", "partition_indexes": [0]}])
    listed("of an unknown partition", [{"name": "moved", "partition_indexes": [7]}])


def elections_story(wire: Wire) -> None:
    """ElectLeaders where every partition has its leader."""
    make_topic(wire, "led", 2)

    def elect(label: str, election_type: int, topics: Any) -> None:
        wire.ask(
            label,
            ApiKey.ELECT_LEADERS,
            2,
            election_type=election_type,
            topic_partitions=topics,
            timeout=10_000,
        )

    known = [{"topic": "led", "partitions": [0, 1]}]
    for name, kind in (("preferred", PREFERRED), ("unclean", UNCLEAN)):
        elect(f"{name} of a topic", kind, known)
        elect(f"{name} of all", kind, None)
        elect(f"{name} of none", kind, [])
        elect(f"{name} of an unknown topic", kind, [{"topic": "no-such", "partitions": [0]}])
        elect(f"{name} of an unknown partition", kind, [{"topic": "led", "partitions": [0, 7]}])
    elect("of an unknown type", 9, known)


STORIES = {"reassignment": reassignment_story, "elections": elections_story}
