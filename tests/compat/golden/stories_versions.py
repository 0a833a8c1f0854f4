"""Every API in every version that this broker and Kafka 4.1.1 offer, each asked once for something usual.

The other stories look closely at one version of most APIs; this one finds what is wrong with the others. What answers
of an API without a row here would not be compared, so `test_golden` requires a row for each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from odradek.broker.requests.table import HANDLERS
from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_groups import ready
from tests.compat.golden.stories_records import batch, make_topic
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

Fields = dict[str, Any]

TOPIC: Final = "swept"
GROUP: Final = "sweepers"
_NEW_PRODUCER: Final[Fields] = {"transactional_id": None, "transaction_timeout": 60_000}


_OF_KAFKA_4_1: Final = json.loads((Path(__file__).parent / "versions.json").read_text())[
    "ranges by version 4"
]


def versions(api: ApiKey) -> range:
    """The versions that both have; `stories_newer` has those since."""
    handler = HANDLERS[api]
    return range(handler.version_min, min(handler.version_max, _OF_KAFKA_4_1[str(int(api))][1]) + 1)


def newest(api: ApiKey) -> int:
    return versions(api)[-1]


def sweep(wire: Wire, api: ApiKey, fields: Callable[[int], Fields]) -> None:
    """Ask in each version for what `fields` says; fields that a version lacks are left out."""
    for version in versions(api):
        wire.ask(f"{api.name} {version}", api, version, **fields(version))


# --- topics and records -------------------------------------------------------------------------------------


def records_sweep(wire: Wire) -> None:
    topic_id = make_topic(wire, TOPIC)
    parts = {"timestamp": -2, "current_leader_epoch": -1, "partition_index": 0}
    wait_for_producer_ids(wire)

    def produced(version: int) -> Fields:
        name = {"topic_id": topic_id} if version >= 13 else {"name": TOPIC}
        data = [{"index": 0, "records": batch(f"v{version}")}]
        return {"acks": -1, "timeout": 5000, "topic_data": [{**name, "partition_data": data}]}

    def fetched(version: int) -> Fields:
        name = {"topic_id": topic_id} if version >= 13 else {"topic": TOPIC}
        asked = {
            "partition": 0,
            "fetch_offset": 3,
            "partition_max_bytes": 100_000,
            "current_leader_epoch": -1,
        }
        rest = {"max_wait": 0, "min_bytes": 1, "max_bytes": 100_000, "isolation_level": 1}
        return {**rest, "session_id": 0, "session_epoch": -1, "topics": [{**name, "partitions": [asked]}]}

    sweep(wire, ApiKey.PRODUCE, produced)
    sweep(wire, ApiKey.FETCH, fetched)
    topics = [{"name": TOPIC, "partitions": [parts]}]
    sweep(wire, ApiKey.LIST_OFFSETS, lambda _: {"replica_id": -1, "topics": topics})
    part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    epochs = [{"topic": TOPIC, "partitions": [part]}]
    sweep(wire, ApiKey.OFFSET_FOR_LEADER_EPOCH, lambda _: {"topics": epochs})
    sweep(wire, ApiKey.INIT_PRODUCER_ID, lambda _: _NEW_PRODUCER)
    producers = [{"name": TOPIC, "partition_indexes": [0]}]
    sweep(wire, ApiKey.DESCRIBE_PRODUCERS, lambda _: {"topics": producers})

    def deleted(version: int) -> Fields:
        below = {"partition_index": 0, "offset": version + 1}
        return {"topics": [{"name": TOPIC, "partitions": [below]}], "timeout": 5000}

    sweep(wire, ApiKey.DELETE_RECORDS, deleted)


def wait_for_producer_ids(wire: Wire) -> None:
    """Kafka asks its controller for a block of ids first."""
    wait_until(
        "producer ids are given",
        lambda: wire.ask_quietly(ApiKey.INIT_PRODUCER_ID, 5, **_NEW_PRODUCER).error_code,
        lambda seen: seen == 0,
    )


def admin_sweep(wire: Wire) -> None:
    make_topic(wire, TOPIC, retention_ms="5000")
    sweep(wire, ApiKey.METADATA, lambda _: {"topics": [{"name": TOPIC}]})
    sweep(wire, ApiKey.DESCRIBE_CLUSTER, lambda _: {})
    wire.ask("with fenced brokers", ApiKey.DESCRIBE_CLUSTER, 2, include_fenced_brokers=True)
    sweep(wire, ApiKey.UNREGISTER_BROKER, lambda _: {"broker_id": 99})
    sweep(wire, ApiKey.DESCRIBE_TOPIC_PARTITIONS, lambda _: {"topics": [{"name": TOPIC}]})
    sweep(wire, ApiKey.DESCRIBE_LOG_DIRS, lambda _: {"topics": [{"topic": TOPIC, "partitions": [0]}]})
    elsewhere = {"path": "/no/such", "topics": [{"name": TOPIC, "partitions": [0]}]}
    sweep(wire, ApiKey.ALTER_REPLICA_LOG_DIRS, lambda _: {"dirs": [elsewhere]})
    resource = {"resource_type": 2, "resource_name": TOPIC}
    asked = {**resource, "configuration_keys": ["retention.ms"]}
    sweep(wire, ApiKey.DESCRIBE_CONFIGS, lambda _: {"resources": [asked], "include_synonyms": True})

    def altered(version: int) -> Fields:
        configs = [{"name": "retention.ms", "value": f"{version + 7}"}]
        return {"resources": [{**resource, "configs": configs}], "validate_only": False}

    sweep(wire, ApiKey.ALTER_CONFIGS, altered)
    changed = {**resource, "configs": [{"name": "retention.ms", "config_operation": 0, "value": "9"}]}
    now: Fields = {"validate_only": False}
    sweep(wire, ApiKey.INCREMENTAL_ALTER_CONFIGS, lambda _: {"resources": [changed], **now})
    sweep(wire, ApiKey.LIST_CONFIG_RESOURCES, lambda _: {"resource_types": [16]})

    def grown(version: int) -> Fields:
        return {
            "topics": [{"name": TOPIC, "count": version + 2, "assignments": None}],
            "timeout": 10_000,
            **now,
        }

    sweep(wire, ApiKey.CREATE_PARTITIONS, grown)
    moved = [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": [1]}]}]
    sweep(wire, ApiKey.ALTER_PARTITION_REASSIGNMENTS, lambda _: {"topics": moved})
    sweep(wire, ApiKey.LIST_PARTITION_REASSIGNMENTS, lambda _: {"topics": None})
    led = [{"topic": TOPIC, "partitions": [0]}]
    sweep(wire, ApiKey.ELECT_LEADERS, lambda _: {"topic_partitions": led, "timeout": 10_000})

    def made(version: int) -> Fields:
        topic = {"name": f"made-{version}", "num_partitions": 1, "replication_factor": 1}
        return {"topics": [topic], "timeout": 10_000, **now}

    sweep(wire, ApiKey.CREATE_TOPICS, made)
    for version in versions(ApiKey.DELETE_TOPICS):
        name = f"doomed-{version}"
        make_topic(wire, name)
        named = {"topics": [{"name": name}]} if version >= 6 else {"topic_names": [name]}
        wire.ask(f"DELETE_TOPICS {version}", ApiKey.DELETE_TOPICS, version, timeout=10_000, **named)
    for version in versions(ApiKey.API_VERSIONS):
        answer = wire.ask_quietly(
            ApiKey.API_VERSIONS, version, client_software_name="golden", client_software_version="1"
        )
        wire.answers[f"API_VERSIONS {version}"] = answer.error_code.name


# --- groups -------------------------------------------------------------------------------------------------


def groups_sweep(wire: Wire) -> None:
    ready(wire, GROUP)
    make_topic(wire, TOPIC)

    def coordinator(version: int) -> Fields:
        return {"key_type": 0, **({"coordinator_keys": [GROUP]} if version >= 4 else {"key": GROUP})}

    sweep(wire, ApiKey.FIND_COORDINATOR, coordinator)
    positions_sweep(wire)
    for version in versions(ApiKey.JOIN_GROUP):
        member_of_version(wire, version)
    consumer_sweep(wire)


def positions_sweep(wire: Wire) -> None:
    def committed(version: int) -> Fields:
        part = {"partition_index": 0, "committed_metadata": "note", "committed_leader_epoch": 0}
        topics = [{"name": TOPIC, "partitions": [{**part, "committed_offset": version}]}]
        by = {"generation_id_or_member_epoch": -1, "member_id": ""}
        return {"group_id": GROUP, **by, "topics": topics}

    def fetched(version: int) -> Fields:
        group: Fields = {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
        member = {"member_id": None, "member_epoch": -1} if version >= 9 else {}
        return {"groups": [group | member]} if version >= 8 else group

    sweep(wire, ApiKey.OFFSET_COMMIT, committed)
    sweep(wire, ApiKey.OFFSET_FETCH, fetched)
    gone = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
    sweep(wire, ApiKey.OFFSET_DELETE, lambda _: {"group_id": GROUP, "topics": gone})


def member_of_version(wire: Wire, version: int) -> None:
    """A classic member's life, its every request in `version` or the newest that there is."""
    group = f"of-{version}"

    def ask(api: ApiKey, step: str = "", **fields: Any) -> Any:
        at = min(version, newest(api))
        return wire.ask(f"{group}: {api.name} {at}{step}", api, at, **fields)

    wanted: Fields = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
    }
    joined = ask(ApiKey.JOIN_GROUP, **wanted, member_id="")
    if joined.generation_id < 0:  # A member id comes first, from version 4 on.
        joined = ask(ApiKey.JOIN_GROUP, " again", **wanted, member_id=joined.member_id)
    me = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    assignments = [{"member_id": joined.member_id, "assignment": b"mine"}]
    kind = {"protocol_type": "consumer", "protocol_name": "range"}
    ask(ApiKey.SYNC_GROUP, **me, **kind, assignments=assignments)
    ask(ApiKey.HEARTBEAT, **me)
    ask(ApiKey.DESCRIBE_GROUPS, groups=[group])
    at = min(version, newest(ApiKey.LIST_GROUPS))
    listed = wire.ask_quietly(ApiKey.LIST_GROUPS, at).groups
    wire.answers[f"{group}: LIST_GROUPS {at}"] = [wire.plain(one) for one in listed if one.group_id == group]
    leaving = (
        {"members": [{"member_id": joined.member_id}]}
        if min(version, 5) >= 3
        else {"member_id": joined.member_id}
    )
    ask(ApiKey.LEAVE_GROUP, group_id=group, **leaving)
    ask(ApiKey.DELETE_GROUPS, groups_names=[group])


def consumer_sweep(wire: Wire) -> None:
    for version in versions(ApiKey.CONSUMER_GROUP_HEARTBEAT):
        group = f"consumers-{version}"
        fields: Fields = {
            "group_id": group,
            "member_id": "" if version == 0 else "made-here",
            "member_epoch": 0,
            "rebalance_timeout": 10_000,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": [],
        }
        joined = wire.ask(
            f"CONSUMER_GROUP_HEARTBEAT {version}", ApiKey.CONSUMER_GROUP_HEARTBEAT, version, **fields
        )
        wire.ask(
            f"CONSUMER_GROUP_DESCRIBE {version}",
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            min(version, newest(ApiKey.CONSUMER_GROUP_DESCRIBE)),
            group_ids=[group],
        )
        wire.ask(
            f"CONSUMER_GROUP_HEARTBEAT {version} leaving",
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            version,
            **{**fields, "member_id": joined.member_id, "member_epoch": -1},
        )


STORIES = {
    "records-in-every-version": records_sweep,
    "administration-in-every-version": admin_sweep,
    "groups-in-every-version": groups_sweep,
}
