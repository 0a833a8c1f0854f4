"""Stories of topics, partitions and configs: what an administrator may ask for and what is refused."""

from __future__ import annotations

import struct
import time
import uuid
from typing import Any

from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_records import make_topic
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

SET, DELETE, APPEND, SUBTRACT = range(4)


def versions_story(wire: Wire) -> None:
    """ApiVersions in every version, and what happens to requests that cannot be read."""
    for version in range(5):
        fields = {"client_software_name": "golden", "client_software_version": "1"} if version >= 3 else {}
        answer = wire.ask_quietly(ApiKey.API_VERSIONS, version, **fields)
        wire.answers[f"version {version}"] = answer.error_code.name
        wire.answers[f"ranges by version {version}"] = {
            str(int(one.api_key)): [one.min_version, one.max_version] for one in answer.api_keys
        }
    frame = struct.pack(">ihhih", 10 + 2, ApiKey.API_VERSIONS, 99, 7, -1) + b"\0\0"
    answer = wire.ask_bytes("version 99", frame, ApiKey.API_VERSIONS, 0)
    wire.answers["version 99"] = answer.error_code.name
    for name, software_version in (("", "1"), ("bad name!", "1"), ("good", "")):
        answer = wire.ask_quietly(
            ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version=software_version
        )
        wire.answers[f"software {name!r} {software_version!r}"] = answer.error_code.name
    unreadable = {
        "an unknown api": struct.pack(">hhih", 999, 0, 7, -1),
        "a version too high": struct.pack(">hhih", ApiKey.METADATA, 99, 7, -1) + b"\0" * 8,
        "a version too low": struct.pack(">hhih", ApiKey.FETCH, 3, 7, -1) + b"\0" * 30,
        "a body cut short": struct.pack(">hhih", ApiKey.LIST_OFFSETS, 1, 7, -1) + b"\0\0",
        "no header": b"\0",
        "nothing": b"",
    }
    for label, body in unreadable.items():
        wire.ask_bytes(label, struct.pack(">i", len(body)) + body, ApiKey.METADATA, 1, on=label)
    for label, size in (("a negative size", -1), ("a huge size", 2_000_000_000)):
        wire.ask_bytes(label, struct.pack(">i", size) + b"\0" * 20, ApiKey.METADATA, 1, on=label)


def metadata_story(wire: Wire) -> None:
    """Metadata, DescribeTopicPartitions and DescribeCluster."""
    topic_id = make_topic(wire, "described", 2)
    for version in range(13):
        create: dict[str, Any] = {"allow_auto_topic_creation": False} if version >= 4 else {}
        wire.ask(f"version {version}", ApiKey.METADATA, version, topics=[{"name": "described"}], **create)

    def metadata(
        label: str, *topics: Any, create: bool | None = False, version: int = 12, **more: Any
    ) -> None:
        allowed: dict[str, Any] = {} if create is None else {"allow_auto_topic_creation": create}
        wire.ask(label, ApiKey.METADATA, version, topics=list(topics), **allowed, **more)

    described, no_such = {"name": "described"}, {"name": "no-such"}
    metadata("unknown topic", no_such)
    metadata("bad name", {"name": "a b"})
    metadata("bad name may be created", {"name": "a b"}, create=True)
    metadata("empty name", {"name": ""}, version=9)
    metadata("no topics", create=None)
    metadata("by id", {"name": None, "topic_id": topic_id}, create=None)
    metadata("by unknown id", {"name": None, "topic_id": uuid.UUID(int=5)}, create=None)
    metadata("one of two", described, no_such)
    metadata("twice", described, described)
    metadata("with rights", described, include_topic_authorized_operations=True)
    for version in range(3):
        asked: dict[str, Any] = {"include_cluster_authorized_operations": True}
        wire.ask(f"cluster in version {version}", ApiKey.DESCRIBE_CLUSTER, version, **asked)
    wire.ask("cluster of controllers", ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=2)
    wire.ask("cluster of type 9", ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=9)

    def partitions(label: str, topics: list[str], limit: int = 2000, cursor: Any = None) -> None:
        asked: dict[str, Any] = {"response_partition_limit": limit, "cursor": cursor}
        asked["topics"] = [{"name": name} for name in topics]
        wire.ask(label, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, **asked)

    partitions("partitions", ["described"])
    partitions("partitions of unknown", ["no-such", "described"])
    partitions("partitions of bad name", ["a b"])
    partitions("one partition at a time", ["described"], 1)
    for label, number in (("a cursor", 1), ("a cursor far away", 9), ("a negative cursor", -1)):
        cursor = {"topic_name": "described", "partition_index": number}
        partitions(f"from {label}", ["described"], 2000, cursor)
    partitions("limit 0", ["described"], 0)


def create_story(wire: Wire) -> None:
    """CreateTopics with good and bad names, numbers, assignments and configs."""

    def create(label: str, *topics: dict[str, Any], version: int = 7, validate_only: bool = True) -> None:
        only: dict[str, Any] = {"validate_only": validate_only} if version >= 1 else {}
        wire.ask(label, ApiKey.CREATE_TOPICS, version, topics=list(topics), timeout=10_000, **only)

    def topic(
        name: str, partitions: int = 1, factor: int = 1, assignments: Any = (), **configs: Any
    ) -> dict[str, Any]:
        settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        return {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": factor,
            "assignments": [{"partition_index": index, "broker_ids": ids} for index, ids in assignments],
            "configs": settings,
        }

    for version in range(2, 8):
        create(f"version {version}", topic("fine"), version=version)
    names = ["", ".", "..", "a b", "a/b", "a\\b", "x" * 249, "x" * 250, "dots.and_underscores", "\u00e9"]
    names += ["__consumer_offsets", "a:b", "A-1", "tab\t"]
    for name in names:
        create(f"name {name[:20]!r} {len(name)}", topic(name))
    for count in (0, -1, -2, 1000):
        create(f"{count} partitions", topic("counted", count))
    for factor in (0, -1, -2, 2):
        create(f"{factor} replicas", topic("copied", 1, factor))
    create("assigned", topic("assigned", -1, -1, [(0, [1]), (1, [1])]))
    create("assigned and counted", topic("assigned", 2, 1, [(0, [1])]))
    create("assigned to an unknown broker", topic("assigned", -1, -1, [(0, [99])]))
    create("assigned from 1", topic("assigned", -1, -1, [(1, [1])]))
    create("assigned twice", topic("assigned", -1, -1, [(0, [1, 1])]))
    create("assigned to none", topic("assigned", -1, -1, [(0, [])]))
    create("assigned the same partition twice", topic("assigned", -1, -1, [(0, [1]), (0, [1])]))
    bad: dict[str, Any] = {
        "no_such_key": "1",
        "retention_ms": "soon",
        "retention_bytes": "-2",
        "segment_bytes": "13",
        "cleanup_policy": "shred",
        "compression_type": "brotli",
        "min_insync_replicas": "0",
        "max_message_bytes": "-1",
        "message_timestamp_type": "Now",
        "unclean_leader_election_enable": "maybe",
        "flush_messages": "0",
        "segment_ms": "0",
        "min_cleanable_dirty_ratio": "1.5",
        "index_interval_bytes": "-1",
        "file_delete_delay_ms": "-1",
        "delete_retention_ms": "-1",
        "message_timestamp_before_max_ms": "-1",
        "preallocate": "",
        "segment_index_bytes": "3",
        "segment_jitter_ms": "-1",
        "remote_storage_enable": "true",
        "local_retention_ms": "9999999999999",
        "message_format_version": "3.0",
        "compression_gzip_level": "10",
        "compression_lz4_level": "0",
        "compression_zstd_level": "99",
        "leader_replication_throttled_replicas": "bad",
        "max_compaction_lag_ms": "0",
        "min_compaction_lag_ms": "-1",
        "message_downconversion_enable": "false",
    }
    for key, value in bad.items():
        create(f"config {key}={value}", topic("configured", **{key: value}))
    good: dict[str, Any] = {
        "cleanup_policy": "compact,delete",
        "compression_type": "zstd",
        "retention_ms": "-1",
        "unclean_leader_election_enable": "TRUE",
        "min_cleanable_dirty_ratio": "0",
        "segment_bytes": "1048576",
    }
    for key, value in good.items():
        create(f"config {key}={value}", topic("configured", **{key: value}))
    create("config without value", topic("configured", retention_ms=None))
    create("empty cleanup policy", topic("configured", cleanup_policy=""))
    crossed = topic("configured", min_compaction_lag_ms="5000", max_compaction_lag_ms="100")
    create("compaction lags crossed", crossed)
    create("the same name twice", topic("twin"), topic("twin"))
    create("one bad of two", topic("good-one"), topic("bad one"))
    create("none at all")
    create("for good", topic("made", 3, retention_ms="1000"), validate_only=False)
    create("again", topic("made"), validate_only=False)
    create("again, only validated", topic("made"))
    create("a collision by dot and underscore", topic("ma.de_x"), validate_only=False)
    create("a collision by dot and underscore, second", topic("ma_de.x"), validate_only=False)
    defaults = {"name": "defaults", "num_partitions": -1, "replication_factor": -1}
    wire.ask("with the broker's defaults", ApiKey.CREATE_TOPICS, 7, topics=[defaults], timeout=10_000)


def delete_story(wire: Wire) -> None:
    """DeleteTopics by name and by id, and CreatePartitions."""
    first = make_topic(wire, "doomed")
    second = make_topic(wire, "doomed-by-id")

    def delete(label: str, *topics: dict[str, Any], version: int = 6) -> None:
        named = {"topics": list(topics)} if version >= 6 else {"topic_names": [one["name"] for one in topics]}
        wire.ask(label, ApiKey.DELETE_TOPICS, version, timeout=10_000, **named)

    delete("by name", {"name": "doomed"})
    delete("by name again", {"name": "doomed"})
    delete("by its old id", {"name": None, "topic_id": first})
    delete("by id", {"name": None, "topic_id": second})
    delete("by name and id", {"name": "doomed", "topic_id": first})
    delete("by neither", {"name": None})
    delete("a bad name", {"name": "a b"})
    delete("an unknown one in version 1", {"name": "no-such"}, version=1)
    delete("an unknown one in version 5", {"name": "no-such"}, version=5)
    delete("twice in one request", {"name": "x"}, {"name": "x"})
    make_topic(wire, "grown", 2)

    def grow(
        label: str, count: int, name: str = "grown", assignments: Any = None, validate_only: bool = False
    ) -> None:
        assigned = None if assignments is None else [{"broker_ids": ids} for ids in assignments]
        topics = [{"name": name, "count": count, "assignments": assigned}]
        more: dict[str, Any] = {"timeout": 10_000, "validate_only": validate_only}
        wire.ask(label, ApiKey.CREATE_PARTITIONS, 3, topics=topics, **more)

    grow("to as many", 2)
    grow("to fewer", 1)
    grow("to none", 0)
    grow("to -1", -1)
    grow("of an unknown topic", 3, "no-such")
    grow("of a bad name", 3, "a b")
    grow("only validated", 5, validate_only=True)
    grow("with one assignment for two", 4, assignments=[[1]])
    grow("with an unknown broker", 3, assignments=[[9]])
    grow("with no broker", 3, assignments=[[]])
    grow("with an assignment", 3, assignments=[[1]])
    grow("to five", 5)
    grown, no_such = ({"topic": "grown", "partitions": [0, 1]}, {"topic": "no-such", "partitions": [0]})
    wire.ask("log directories", ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[grown])
    wire.ask("log directories of unknown", ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[no_such])
    wire.ask("log directories of none", ApiKey.DESCRIBE_LOG_DIRS, 3, topics=[])


def _wait_for_the_default(wire: Wire, key: str) -> None:
    """Until the broker's default for `key` shows: Kafka's brokers follow their controller a moment later."""
    resource = {"resource_type": 2, "resource_name": "settings", "configuration_keys": ["retention.ms"]}
    while True:
        asked = wire.ask_quietly(ApiKey.DESCRIBE_CONFIGS, 4, include_synonyms=True, resources=[resource])
        if any(synonym.name == key for synonym in asked.results[0].configs[0].synonyms):
            return
        time.sleep(0.05)


def configs_story(wire: Wire) -> None:
    """DescribeConfigs with every default of a topic, and the two ways of altering."""
    make_topic(wire, "settings", retention_ms="5000")

    def describe(
        label: str, kind: int, name: str, keys: Any = None, version: int = 4, synonyms: bool = True
    ) -> Any:
        resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]
        asked: dict[str, Any] = {"include_synonyms": synonyms, "resources": resources}
        answer = wire.ask_quietly(ApiKey.DESCRIBE_CONFIGS, version, **asked)
        (result,) = answer.results
        wire.answers[label] = [result.error_code.name, int(result.resource_type), result.resource_name]
        wire.answers[f"{label}: configs"] = {
            one.name: [
                one.value,
                getattr(one, "config_source", None),
                one.read_only,
                one.is_sensitive,
                getattr(one, "config_type", None),
                [[synonym.name, synonym.value, synonym.source] for synonym in one.synonyms],
            ]
            for one in sorted(result.configs, key=lambda one: one.name)
        }
        return result

    for version in range(1, 5):
        describe(f"all of a topic in version {version}", 2, "settings", version=version)
    describe("without synonyms", 2, "settings", synonyms=False)
    describe("two keys", 2, "settings", ["retention.ms", "segment.bytes"])
    describe("an unknown key", 2, "settings", ["no.such.key"])
    describe("no keys", 2, "settings", [])
    describe("an unknown topic", 2, "no-such")
    describe("a bad topic name", 2, "a b")
    describe("another broker", 4, "77")
    describe("a broker that is no number", 4, "zero")
    describe("the cluster-wide broker defaults", 4, "")
    describe("an unknown kind", 99, "x")
    describe("an unknown group", 32, "no-such-group")

    def incremental(
        label: str,
        *configs: tuple[str, int, str | None],
        name: str = "settings",
        kind: int = 2,
        validate_only: bool = False,
    ) -> None:
        entries = [{"name": key, "config_operation": how, "value": value} for key, how, value in configs]
        resources = [{"resource_type": kind, "resource_name": name, "configs": entries}]
        only: dict[str, Any] = {"validate_only": validate_only}
        wire.ask(label, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, **only)

    own = "consumer.session.timeout.ms"
    incremental("set for a group", (own, SET, "46000"), name="own", kind=32)
    describe("a group with a setting of its own", 32, "own", [own, "consumer.heartbeat.interval.ms"])
    for label, store in (("for one listener", "listener.name.plaintext."), ("for all listeners", "")):
        change = f"{store}ssl.keystore.location", SET, "/no/such/store"
        incremental(f"a store {label} of all brokers", change, name="", kind=4)
    incremental("a store for all listeners", change, name="1", kind=4)
    incremental("set", ("segment.bytes", SET, "2000000"))
    incremental("set badly", ("segment.bytes", SET, "-5"))
    incremental("set an unknown key", ("no.such", SET, "1"))
    incremental("delete an unknown key", ("no.such", DELETE, None))
    incremental("delete", ("segment.bytes", DELETE, None))
    incremental("append", ("cleanup.policy", APPEND, "compact"))
    incremental("append again", ("cleanup.policy", APPEND, "compact"))
    incremental("subtract", ("cleanup.policy", SUBTRACT, "delete"))
    incremental("append to what is no list", ("retention.ms", APPEND, "1"))
    incremental("set to null", ("retention.ms", SET, None))
    incremental("operation 9", ("retention.ms", 9, "1"))
    incremental("the same key twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    incremental("set for an unknown topic", ("retention.ms", SET, "1"), name="no-such")
    incremental("only validated", ("retention.ms", SET, "1"), validate_only=True)
    incremental("nothing")
    incremental("set for another broker", ("log.retention.ms", SET, "1"), kind=4, name="77")
    incremental("set for a broker that is no number", ("log.retention.ms", SET, "1"), kind=4, name="zero")
    incremental("a read-only broker key", ("log.dirs", SET, "/x"), kind=4, name="")
    incremental("a bad broker value", ("log.retention.ms", SET, "x"), kind=4, name="")
    incremental("a broker default", ("log.retention.ms", SET, "777777"), kind=4, name="")
    _wait_for_the_default(wire, "log.retention.ms")
    describe("a topic under the broker default", 2, "settings", ["retention.ms", "segment.ms"])
    incremental("topic key away", ("retention.ms", DELETE, None))
    describe("a topic that follows the broker default", 2, "settings", ["retention.ms"])
    incremental("the broker default away", ("log.retention.ms", DELETE, None), kind=4, name="")
    incremental("set for an unknown kind", ("a", SET, "1"), kind=99, name="x")

    def alter(
        label: str, *configs: tuple[str, str | None], name: str = "settings", validate_only: bool = False
    ) -> None:
        entries = [{"name": key, "value": value} for key, value in configs]
        resources = [{"resource_type": 2, "resource_name": name, "configs": entries}]
        wire.ask(label, ApiKey.ALTER_CONFIGS, 2, validate_only=validate_only, resources=resources)

    alter("all replaced", ("max.message.bytes", "3000"))
    describe("a topic after all was replaced", 2, "settings", ["max.message.bytes", "cleanup.policy"])
    alter("all replaced badly", ("max.message.bytes", "x"))
    alter("null value", ("max.message.bytes", None))
    alter("unknown key", ("no.such", "x"))
    alter("unknown topic", ("retention.ms", "1"), name="no-such")
    alter("all away")
    wire.ask("config resources of clients", ApiKey.LIST_CONFIG_RESOURCES, 0)
    wire.ask("config resources of topics", ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[2])
    wire.ask("config resources of kind 99", ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[99])


def client_metrics_story(wire: Wire) -> None:
    """Subscriptions for metrics of clients (KIP-714) are settings of a kind of resource, without a reporter too."""

    def alter(
        label: str, *changes: tuple[str, int, str | None], name: str = "sub", only: bool = False
    ) -> None:
        configs = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
        resources = [{"resource_type": 16, "resource_name": name, "configs": configs}]
        wire.ask(label, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=only)

    def described(name: str = "sub", keys: Any = None) -> dict[str, list[Any]]:
        resource = {"resource_type": 16, "resource_name": name, "configuration_keys": keys}
        asked = wire.ask_quietly(ApiKey.DESCRIBE_CONFIGS, 4, include_synonyms=True, resources=[resource])
        (result,) = asked.results
        return {
            one.name: [
                one.value,
                one.config_source,
                one.read_only,
                one.is_sensitive,
                one.config_type,
                [[synonym.name, synonym.value, synonym.source] for synonym in one.synonyms],
            ]
            for one in sorted(result.configs, key=lambda one: one.name)
        }

    def describe_once(label: str, key: str, value: str | None) -> None:
        """Kafka's brokers follow their controller a moment later."""
        wire.answers[label] = wait_until(label, described, lambda found: found[key][0] == value)

    wire.answers["before"] = described()
    alter("metrics and interval", ("metrics", SET, "org.apache.kafka."), ("interval.ms", SET, "1000"))
    describe_once("with metrics and interval", "interval.ms", "1000")
    wire.answers["two keys"] = described(keys=["match", "metrics"])
    alter("append metrics", ("metrics", APPEND, "a,b"))
    alter("subtract metrics", ("metrics", SUBTRACT, "a"))
    alter("append to the interval", ("interval.ms", APPEND, "1"))
    alter("match", ("match", SET, "client_id=a.*,client_source_port=1[0-9]+"))
    describe_once("with a match", "match", "client_id=a.*,client_source_port=1[0-9]+")
    for text in ("", "99", "100", "3600000", "3600001", "bbb", " 200 ", "9999999999"):
        alter(f"interval {text!r}", ("interval.ms", SET, text), only=True)
    for text in (
        "",
        "a",
        "a=b",
        "client_id",
        "client_id=",
        "client_id=a=b",
        " client_id = a ",
        "client_id=[",
        "client_id=(?=a)b",
    ):
        alter(f"match {text!r}", ("match", SET, text), only=True)
    alter("metrics of nothing", ("metrics", SET, ""), only=True)
    alter("all metrics", ("metrics", SET, "*"), only=True)
    alter("an unknown key", ("no.such", SET, "1"))
    alter("no name", ("interval.ms", SET, "1000"), name="")
    alter("nothing", name="other")
    alter("a null", ("interval.ms", SET, None))
    alter("another", ("interval.ms", SET, "2000"), name="a b/%")
    describe_once("as before", "interval.ms", "1000")
    for version in (0, 1):
        listed = wire.ask_quietly(ApiKey.LIST_CONFIG_RESOURCES, version).config_resources
        wire.answers[f"listed in version {version}"] = sorted(
            [getattr(one, "resource_type", 16), one.resource_name] for one in listed
        )
    configs = [{"name": "interval.ms", "value": "3000"}]
    resources = [{"resource_type": 16, "resource_name": "sub", "configs": configs}]
    wire.ask("replaced", ApiKey.ALTER_CONFIGS, 2, resources=resources, validate_only=False)
    describe_once("after it was replaced", "interval.ms", "3000")
    alter("the interval away", ("interval.ms", DELETE, None))
    describe_once("after all is away", "interval.ms", "300000")
    wire.ask("one is left", ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[16])


def directories_story(wire: Wire) -> None:
    """AlterReplicaLogDirs on a broker with one log directory (KIP-113)."""
    made = [{"name": "moved", "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}]
    wire.ask("create", ApiKey.CREATE_TOPICS, 5, topics=made, timeout=10_000, validate_only=False)
    described = wire.ask_quietly(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[])
    path = described.results[0].log_dir

    def move(label: str, *wanted: tuple[str, str, list[int]], version: int = 2) -> None:
        dirs = [
            {"path": where, "topics": [{"name": topic, "partitions": partitions}]}
            for where, topic, partitions in wanted
        ]
        wire.ask(label, ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)

    move("to where they are", (path, "moved", [0, 1]))
    move("to where they are, in version 1", (path, "moved", [0, 1]), version=1)
    move("to an unknown directory", ("/no/such", "moved", [0]))
    move("to a relative path", ("no/such", "moved", [0]))
    move("to no path", ("", "moved", [0]))
    move("an unknown topic", (path, "no-such", [0]))
    move("an unknown topic to an unknown directory", ("/no/such", "no-such", [0]))
    move("an unknown partition", (path, "moved", [1, 2]))
    move("a partition below 0", (path, "moved", [-1]))
    move("a bad name", (path, "a b", [0]))
    move("the same one twice", (path, "moved", [0, 0]))
    move("one to two directories", ("/no/such", "moved", [0]), (path, "moved", [0]))
    move("one to two directories, the known one first", (path, "moved", [0]), ("/no/such", "moved", [0]))
    wire.ask("no directory", ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=[])
    wire.ask("no topic", ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=[{"path": path, "topics": []}])
    wire.ask("afterwards", ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[{"topic": "moved", "partitions": [0, 1]}])


STORIES = {
    "directories": directories_story,
    "client-metrics": client_metrics_story,
    "versions": versions_story,
    "metadata": metadata_story,
    "create": create_story,
    "delete": delete_story,
    "configs": configs_story,
}
