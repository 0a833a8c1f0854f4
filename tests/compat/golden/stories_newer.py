"""Stories in versions of APIs that Apache Kafka has since 4.1: their answers are of Kafka 4.4.0."""

from __future__ import annotations

import uuid
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.compression import Compression
from tests.compat.golden.stories_acls import acl_filter, creation, settled_acls
from tests.compat.golden.stories_groups import join, ready
from tests.compat.golden.stories_records import batch, make_topic
from tests.compat.golden.stories_transactions import Producer
from tests.compat.golden.stories_versions import Fields, wait_for_producer_ids
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

TOPIC: Final = "newer"
GROUP: Final = "newcomers"
NOWHERE: Final = uuid.UUID("00000000-0000-4000-8000-000000000001")


# --- records and directories ----------------------------------------------------------------------------------------


def records_story(wire: Wire) -> None:
    """The earliest offset that is still to be copied to remote storage, where there is none (KIP-1023)."""
    topic_id = make_topic(wire, TOPIC)
    data = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": batch("a", "b")}]}]
    wire.ask_quietly(ApiKey.PRODUCE, 13, acks=-1, timeout=5000, topic_data=data)
    for label, version, timestamp in (
        ("LIST_OFFSETS 11", 11, -6),
        ("before its version", 10, -6),
        ("earliest", 11, -2),
        ("no special value", 11, -7),
    ):
        part = {"partition_index": 0, "timestamp": timestamp}
        topics = [{"name": TOPIC, "partitions": [part]}]
        wire.ask(label, ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=topics)
    wire.ask("DESCRIBE_LOG_DIRS 5", ApiKey.DESCRIBE_LOG_DIRS, 5, topics=[{"topic": TOPIC, "partitions": [0]}])
    cordon(wire, "*")
    wire.ask("cordoned", ApiKey.DESCRIBE_LOG_DIRS, 5, topics=[])
    cordon(wire, "")


def cordon(wire: Wire, value: str) -> None:
    (broker,) = wire.ask_quietly(ApiKey.DESCRIBE_CLUSTER, 1).brokers
    configs = [{"name": "cordoned.log.dirs", "config_operation": 0, "value": value}]
    resource = {"resource_type": 4, "resource_name": str(broker.broker_id), "configs": configs}
    answer = wire.ask_quietly(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code == 0, answer
    wait_until(
        "the cordon is there",
        lambda: wire.ask_quietly(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=[]).results[0].is_cordoned,
        lambda seen: seen == bool(value),
    )


# --- offsets by topic ids -------------------------------------------------------------------------------------------


def commit(wire: Wire, label: str | None, topics: list[Fields], *, version: int = 10, **more: Any) -> Any:
    """A commit of the group's administrator; without a label only its code is looked at."""
    fields = {
        "group_id": GROUP,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": topics,
        **more,
    }
    if label is None:
        answer = wire.ask_quietly(ApiKey.OFFSET_COMMIT, version, **fields)
        assert answer.topics[0].partitions[0].error_code == 0, answer
        return answer
    return wire.ask(label, ApiKey.OFFSET_COMMIT, version, **fields)


def fetch(
    wire: Wire, label: str, topics: list[Fields] | None, *, version: int = 10, group: str = GROUP
) -> Any:
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}
    return wire.ask(label, ApiKey.OFFSET_FETCH, version, groups=[asked])


def at(topic_id: Any, offset: int, *partitions: int) -> Fields:
    """The topic of a commit."""
    parts = [{"partition_index": one, "committed_offset": offset} for one in partitions or (0,)]
    return {"topic_id": topic_id, "partitions": parts}


def of(topic_id: Any, *partitions: int) -> Fields:
    """The topic of a fetch."""
    return {"topic_id": topic_id, "partition_indexes": list(partitions or (0,))}


def offsets_story(wire: Wire) -> None:
    """Commits and fetches by ids that exist, that do not, and with names between them."""
    ready(wire, GROUP)
    topic_id = make_topic(wire, TOPIC, 2)
    commit(wire, "OFFSET_COMMIT 10", [at(topic_id, 3)])
    fetch(wire, "OFFSET_FETCH 10", [of(topic_id)])
    fetch(wire, "all", None)
    fetch(wire, "by name", [{"name": TOPIC, "partition_indexes": [0]}], version=9)
    commit(wire, "partition that is not there", [at(topic_id, 4, 0, 7)])
    commit(wire, "unknown id", [at(NOWHERE, 4, 0, 1)])
    commit(wire, "no id", [at(None, 4)])
    commit(wire, "unknown and known", [at(NOWHERE, 4), at(topic_id, 5, 1)])
    fetch(wire, "fetch: unknown id", [of(NOWHERE, 0, 1)])
    fetch(wire, "fetch: no id", [of(None)])
    fetch(wire, "fetch: unknown and known", [of(NOWHERE), of(topic_id, 0, 1, 7)])
    fetch(wire, "fetch: unknown group", [of(topic_id), of(NOWHERE)], group="strangers")
    by_name = {"name": TOPIC, "partitions": [{"partition_index": 1, "committed_offset": 9}]}
    commit(wire, "commit by name", [by_name], version=9)
    fetch(wire, "fetch by id of a commit by name", [of(topic_id, 1)])
    commit(wire, "a generation", [at(topic_id, 1), at(NOWHERE, 1)], generation_id_or_member_epoch=3)
    bad_group: Fields = {"group_id": "never-joined", "generation_id_or_member_epoch": 1, "member_id": "m"}
    commit(wire, "a member of no group", [at(topic_id, 1)], **bad_group)


def recreated_story(wire: Wire) -> None:
    """A topic that is made again under its name has none of the offsets of the one before."""
    ready(wire, GROUP)
    first = make_topic(wire, TOPIC, 2)
    commit(wire, None, [at(first, 3)])
    by_name = {"name": TOPIC, "partitions": [{"partition_index": 1, "committed_offset": 9}]}
    commit(wire, None, [by_name], version=9)
    wire.ask_quietly(ApiKey.DELETE_TOPICS, 6, topics=[{"name": TOPIC}], timeout=10_000)
    fetch_until_gone(wire)
    fetch(wire, "the old id", [of(first, 0, 1)])
    commit(wire, "commit to the old id", [at(first, 8)])
    second = make_topic(wire, TOPIC, 2)
    fetch(wire, "the new id", [of(second, 0, 1)])
    fetch(wire, "the old id again", [of(first, 0, 1)])
    commit(wire, "commit to the old id again", [at(first, 8)])
    fetch(wire, "the name", [{"name": TOPIC, "partition_indexes": [0, 1]}], version=9)
    commit(wire, "commit to the new id", [at(second, 1)])
    fetch(wire, "all", None)


def fetch_until_gone(wire: Wire) -> None:
    """Offsets are deleted a moment after their topic."""
    asked = {"group_id": GROUP, "member_id": None, "member_epoch": -1, "topics": None}
    wait_until(
        "the offsets are gone",
        lambda: wire.ask_quietly(ApiKey.OFFSET_FETCH, 9, groups=[asked]).groups[0].topics,
        lambda topics: not topics,
    )


# --- offsets in transactions ----------------------------------------------------------------------------------------


def transactions_story(wire: Wire) -> None:
    """TxnOffsetCommit by ids (KIP-1319)."""
    ready(wire, GROUP)
    topic_id = make_topic(wire, TOPIC, 2)
    producer = Producer(wire, "by-ids")

    def commit_in_transaction(label: str, topics: list[Fields], *, version: int = 6, **more: Any) -> None:
        fields = {
            "transactional_id": producer.name,
            "group_id": GROUP,
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "topics": topics,
            **more,
        }
        wire.ask(label, ApiKey.TXN_OFFSET_COMMIT, version, **fields)

    commit_in_transaction("unknown id", [at(NOWHERE, 4)])
    commit_in_transaction("no id", [at(None, 4)])
    commit_in_transaction("TXN_OFFSET_COMMIT 6", [at(topic_id, 4), at(NOWHERE, 4, 0, 1)])
    commit_in_transaction("partition that is not there", [at(topic_id, 5, 0, 7)])
    commit_in_transaction("a generation of no group", [at(topic_id, 4)], generation_id=3, member_id="m")
    commit_in_transaction("in version 5", [in_name(4)], version=5, generation_id=3, member_id="m")
    wire.ask_quietly(
        ApiKey.END_TXN,
        5,
        transactional_id=producer.name,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    asked = {"group_id": GROUP, "member_id": None, "member_epoch": -1, "topics": [of(topic_id)]}
    wait_until(
        "the transaction is over",
        lambda: wire.ask_quietly(ApiKey.OFFSET_FETCH, 10, groups=[asked]).groups[0].topics[0].partitions[0],
        lambda part: part.committed_offset >= 0,
    )
    fetch(wire, "committed", [of(topic_id, 0, 1)])
    member_story(wire, topic_id)


def in_name(offset: int) -> Fields:
    return {"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": offset}]}


def member_story(wire: Wire, topic_id: Any) -> None:
    """A commit of a member whose epoch is not its group's, in versions 5 and 6."""
    group = "members"
    ready(wire, group)
    producer = Producer(wire, "of-members")
    fields: Fields = {
        "group_id": group,
        "member_id": "made-here",
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": [TOPIC],
        "topic_partitions": [],
    }
    joined = wire.ask_quietly(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields)
    member = joined.member_id or fields["member_id"]
    for label, epoch, who in (
        ("stale", joined.member_epoch - 1, member),
        ("in the future", joined.member_epoch + 1, member),
        ("a stranger", joined.member_epoch, "stranger"),
    ):
        for version in (5, 6):
            topics = [in_name(4)] if version < 6 else [at(topic_id, 4)]
            wire.ask(
                f"{label}: version {version}",
                ApiKey.TXN_OFFSET_COMMIT,
                version,
                transactional_id=producer.name,
                group_id=group,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                generation_id=epoch,
                member_id=who,
                topics=topics,
            )


# --- groups ---------------------------------------------------------------------------------------------------------


def groups_story(wire: Wire) -> None:
    """What DeleteGroups says of each group."""
    ready(wire, GROUP)
    joined = join(wire, None, "full")
    if joined.generation_id < 0:
        joined = join(wire, None, "full", member_id=joined.member_id)
    topic_id = make_topic(wire, TOPIC)
    commit(wire, None, [at(topic_id, 1)])
    wire.ask("DELETE_GROUPS 3", ApiKey.DELETE_GROUPS, 3, groups_names=[GROUP, "full", "nowhere", ""])


# --- versions -------------------------------------------------------------------------------------------------------


def versions_story(wire: Wire) -> None:
    """ApiVersions with the cluster and the node that the client means to reach (KIP-1242)."""
    described = wire.ask_quietly(ApiKey.DESCRIBE_CLUSTER, 1)
    cluster, node = described.cluster_id, described.brokers[0].broker_id
    wait_for_producer_ids(wire)
    for label, fields in (
        ("API_VERSIONS 5", {}),
        ("both right", {"cluster_id": cluster, "node_id": node}),
        ("another cluster", {"cluster_id": "another", "node_id": node}),
        ("another node", {"cluster_id": cluster, "node_id": node + 1}),
        ("both others", {"cluster_id": "another", "node_id": node + 1}),
        ("only a cluster", {"cluster_id": "another"}),
        ("only the right cluster", {"cluster_id": cluster}),
        ("only a node", {"node_id": node + 1}),
        ("a negative node", {"cluster_id": cluster, "node_id": -2}),
        ("an empty cluster", {"cluster_id": "", "node_id": node}),
    ):
        client = {"client_software_name": "golden", "client_software_version": "1"}
        on = label  # a refusal may end a connection
        answer = wire.ask_quietly(ApiKey.API_VERSIONS, 5, on=on, **client, **fields)
        wire.answers[label] = {
            "error_code": answer.error_code.name,
            "has_versions": bool(answer.api_keys),
            "has_features": bool(answer.finalized_features),
        }
        wire.note_whether_closed(f"{label}: afterwards", on=on)


# --- ACLs -----------------------------------------------------------------------------------------------------------


def ranges_story(wire: Wire) -> None:
    """Hosts of ACLs that are ranges of addresses (KIP-1276), and what they allow."""
    hosts = ("127.0.7.1/24", "127.0.8.0/31", "::1/128", "127.0.0.0/33", "127.0.0/8", "nowhere/8", "/")
    for host in hosts:
        one = creation(principal="User:ANONYMOUS", resource_name=TOPIC, host=host)
        wire.ask(f"create: {host}", ApiKey.CREATE_ACLS, 3, creations=[one])
    denial = creation(
        principal="User:ANONYMOUS", resource_name=TOPIC, host="127.0.7.128/25", permission_type=2
    )
    wire.ask_quietly(ApiKey.CREATE_ACLS, 3, creations=[denial])
    wire.answers["described"] = settled_acls(wire, 4)
    asked = [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    for address in ("127.0.7.1", "127.0.7.9", "127.0.7.127", "127.0.7.128", "127.0.8.1", "127.0.8.2"):
        wire.ask(f"from {address}", ApiKey.LIST_OFFSETS, 11, on=address, replica_id=-1, topics=asked)
    wire.ask("filter", ApiKey.DESCRIBE_ACLS, 3, **acl_filter(host_filter="127.0.7.1"))
    wire.ask("filter for a range", ApiKey.DESCRIBE_ACLS, 3, **acl_filter(host_filter="127.0.8.0/31"))


SETTINGS = {
    "newer-ranges": {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
}


def sizes_story(wire: Wire) -> None:
    """max.decompressed.message.bytes: the largest record of a compressed batch."""
    topic_id = make_topic(wire, TOPIC, max_decompressed_message_bytes="1000")
    wait_for_producer_ids(wire)
    # A record has 7 bytes beside a value of these sizes, without its length.
    for label, values, codec in (
        ("small", (9,), Compression.GZIP),
        ("as large as may be", (993,), Compression.GZIP),
        ("too large", (994,), Compression.GZIP),
        ("too large: zstd", (5000,), Compression.ZSTD),
        ("one of three", (9, 5000, 9), Compression.LZ4),
        ("not compressed", (5000,), Compression.NONE),
    ):
        records = batch(*("x" * size for size in values), compression=codec)
        data = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": records}]}]
        wire.ask(label, ApiKey.PRODUCE, 13, acks=-1, timeout=5000, topic_data=data)
    for value in ("0", "1", "2147483639", "2147483640"):
        configs = [{"name": "max.decompressed.message.bytes", "config_operation": 0, "value": value}]
        resource = {"resource_type": 2, "resource_name": TOPIC, "configs": configs}
        wire.ask(
            f"set to {value}",
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[resource],
            validate_only=True,
        )


STORIES = {
    "newer-sizes": sizes_story,
    "newer-ranges": ranges_story,
    "newer-records": records_story,
    "newer-offsets": offsets_story,
    "newer-recreated": recreated_story,
    "newer-transactions": transactions_story,
    "newer-groups": groups_story,
    "newer-versions": versions_story,
}
