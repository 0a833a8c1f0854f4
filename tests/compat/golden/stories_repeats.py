"""A story of requests that name a topic, a partition, a group or another element more than once, for each API."""

from __future__ import annotations

from typing import Any

from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.builder import build_batch
from tests.compat.golden.stories_groups import join, ready, sync
from tests.compat.golden.stories_quotas import settled as settled_quotas
from tests.compat.golden.stories_records import make_topic
from tests.compat.golden.stories_transactions import Producer, settled
from tests.compat.golden.wire import Wire

_BOTH = (0, 1)


def _topics(name: str, array: str, elements: list[Any]) -> list[dict[str, Any]]:
    """A topic with one partition, with the other one, and with the first again."""
    return [{name: "known", array: [elements[index]]} for index in (0, 1, 0)]


def repeated_story(wire: Wire) -> None:
    """What is answered to names that stand twice in a request, next to each other and apart."""
    for topic in ("known", "other"):
        make_topic(wire, topic, 2)
    ready(wire, "group")
    for part in (_groups, _offsets, _records, _settings, _cluster, _access, _transactions):
        part(wire)


def _commit(wire: Wire, label: str, topics: list[dict[str, Any]]) -> None:
    fields: dict[str, Any] = {"group_id": "group", "generation_id_or_member_epoch": -1, "member_id": ""}
    wire.ask(label, ApiKey.OFFSET_COMMIT, 9, **fields, topics=topics)


def _fetch_offsets(wire: Wire, label: str, groups: list[dict[str, Any]]) -> None:
    asked = [{"member_id": None, "member_epoch": -1, **group} for group in groups]
    wire.ask(label, ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=False)


def _offsets(wire: Wire) -> None:
    at = [{"partition_index": index, "committed_offset": 5 + index} for index in _BOTH]
    _commit(wire, "commit: a topic twice", _topics("name", "partitions", at))
    later = {"partition_index": 0, "committed_offset": 9}
    _commit(wire, "commit: a partition twice", [{"name": "known", "partitions": [at[0], later]}])
    _commit(wire, "commit: an unknown topic twice", [{"name": "no-such", "partitions": [at[0]]}] * 2)
    wanted = _topics("name", "partition_indexes", list(_BOTH))
    _fetch_offsets(wire, "offsets: a topic twice", [{"group_id": "group", "topics": wanted}])
    _fetch_offsets(
        wire,
        "offsets: a partition twice",
        [{"group_id": "group", "topics": [{"name": "known", "partition_indexes": [0, 0]}]}],
    )
    _fetch_offsets(
        wire,
        "offsets: a group twice",
        [
            {"group_id": "group", "topics": wanted[:1]},
            {"group_id": "nobody", "topics": None},
            {"group_id": "group", "topics": wanted[1:2]},
        ],
    )
    wire.ask("offsets: a topic twice, version 7", ApiKey.OFFSET_FETCH, 7, group_id="group", topics=wanted)

    def delete(label: str, topics: list[tuple[str, list[int]]]) -> None:
        asked = [
            {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
            for name, indexes in topics
        ]
        wire.ask(f"delete offsets: {label}", ApiKey.OFFSET_DELETE, 0, group_id="group", topics=asked)

    delete("an unknown topic twice", [("no-such", [0]), ("no-such", [0])])
    delete("an unknown topic in two pieces", [("no-such", [0]), ("known", [0]), ("no-such", [1])])
    delete("a partition twice", [("known", [0, 0])])
    delete("an unknown partition twice", [("known", [7, 7])])
    delete("a known and an unknown partition", [("known", [0, 7, 1])])
    delete("a topic twice", [("known", [0]), ("known", [0])])
    delete("a topic three times", [("known", [0]), ("known", [0]), ("known", [0])])
    delete("a topic in two pieces", [("known", [0]), ("known", [1])])
    delete("two topics in turns", [("known", [0]), ("other", [0]), ("known", [1]), ("other", [1])])
    delete("a topic twice, with an unknown one", [("known", [0]), ("no-such", [0]), ("known", [0])])
    delete("a topic twice, with an unknown partition", [("known", [0]), ("known", [7])])
    delete("a topic twice, an unknown partition first", [("known", [7]), ("known", [0]), ("known", [1])])


def _groups(wire: Wire) -> None:
    # A protocol that a join names twice is left out: Kafka never answers it.
    named = join(wire, None, "joined", version=3)
    sync(wire, "synced", named, "joined")
    assignments = [{"member_id": named.member_id, "assignment": text} for text in (b"first", b"second")]
    again = join(wire, None, "joined", version=3, member_id=named.member_id)
    sync(wire, "an assignment twice", again, "joined", assignments=assignments)
    keys = ["group", "group", "other", "group"]
    wire.ask("coordinators", ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=keys)
    wire.ask("described groups", ApiKey.DESCRIBE_GROUPS, 5, groups=["no-such", "no-such"])
    wire.ask("described groups apart", ApiKey.DESCRIBE_GROUPS, 5, groups=["no-such", "joined", "no-such"])
    wire.ask("described consumer groups", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["no-such"] * 2)
    states = ["Stable", "Stable", "Empty", "No", "No"]
    wire.ask(
        "listed transactions", ApiKey.LIST_TRANSACTIONS, 1, state_filters=states, producer_id_filters=[1, 1]
    )
    members = [{"member_id": "nobody"}, {"member_id": named.member_id}, {"member_id": "nobody"}]
    wire.ask("left", ApiKey.LEAVE_GROUP, 5, group_id="joined", members=[*members, members[1]])
    names = ["no-such", "joined", "no-such", "joined"]
    wire.ask("deleted groups", ApiKey.DELETE_GROUPS, 2, groups_names=names)


def _records(wire: Wire) -> None:
    at = [{"partition_index": index, "timestamp": -1} for index in _BOTH]
    asked: dict[str, Any] = {"replica_id": -1, "isolation_level": 0}
    wire.ask("list offsets", ApiKey.LIST_OFFSETS, 9, **asked, topics=_topics("name", "partitions", at))
    epochs = [{"partition": index, "current_leader_epoch": -1, "leader_epoch": 0} for index in _BOTH]
    wire.ask(
        "epochs",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        replica_id=-1,
        topics=_topics("topic", "partitions", epochs),
    )
    to = [{"partition_index": index, "offset": 0} for index in _BOTH]
    wire.ask(
        "delete records", ApiKey.DELETE_RECORDS, 2, timeout=9000, topics=_topics("name", "partitions", to)
    )
    wire.ask(
        "producers",
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        topics=_topics("name", "partition_indexes", list(_BOTH)),
    )
    parts = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in _BOTH]
    wire.ask(
        "fetch",
        ApiKey.FETCH,
        12,
        max_wait=0,
        min_bytes=0,
        max_bytes=1000,
        topics=_topics("topic", "partitions", parts),
    )
    batch = bytes(build_batch([(1_700_000_000_000, b"k", b"v")]))
    written = [{"index": index, "records": batch} for index in _BOTH]
    wire.ask(
        "produce",
        ApiKey.PRODUCE,
        9,
        acks=1,
        timeout=9000,
        topic_data=_topics("name", "partition_data", written)[:2],
    )


def _settings(wire: Wire) -> None:
    def resources(key: str, *lists: list[Any]) -> list[dict[str, Any]]:
        return [{"resource_type": 2, "resource_name": "known", key: list(one)} for one in lists]

    keys = ["retention.ms"], ["segment.ms", "segment.ms"], ["retention.ms"]
    described = wire.ask_quietly(
        ApiKey.DESCRIBE_CONFIGS, 4, resources=resources("configuration_keys", *map(list, keys))
    )
    wire.answers["described settings"] = [
        (one.resource_name, one.error_code.name, [config.name for config in one.configs])
        for one in described.results
    ]
    # AlterConfigs that names a resource twice is left out: Kafka never answers it.
    sets = [{"name": "retention.ms", "config_operation": 0, "value": text} for text in ("5000", "6000")]
    wire.ask(
        "settings twice",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        validate_only=False,
        resources=resources("configs", [sets[0]], [sets[1]]),
    )
    ops = [{"key": "producer_byte_rate", "value": float(number), "remove": False} for number in (1000, 2000)]
    user = [{"entity_type": "user", "entity_name": "u"}]
    entries = [{"entity": user, "ops": [one]} for one in ops]
    wire.ask("quotas twice", ApiKey.ALTER_CLIENT_QUOTAS, 1, validate_only=False, entries=entries)
    wire.answers["quotas that were set"] = settled_quotas(wire, 1)


def _cluster(wire: Wire) -> None:
    both = list(_BOTH)
    wire.ask(
        "elections",
        ApiKey.ELECT_LEADERS,
        2,
        timeout=9000,
        election_type=0,
        topic_partitions=_topics("topic", "partitions", both),
    )
    wire.ask(
        "elections of unknown",
        ApiKey.ELECT_LEADERS,
        2,
        timeout=9000,
        election_type=0,
        topic_partitions=[
            {"topic": "no-such", "partitions": [0, 0]},
            {"topic": "no-such", "partitions": [0]},
        ],
    )
    moves = [{"partition_index": index, "replicas": [1]} for index in _BOTH]
    wire.ask(
        "moves",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        timeout=9000,
        topics=_topics("name", "partitions", moves),
    )
    wire.ask(
        "listed moves",
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        timeout=9000,
        topics=_topics("name", "partition_indexes", both),
    )
    names = [{"name": "known"}, {"name": "no-such"}, {"name": "known"}, {"name": "no-such"}]
    described = [{**one, "topic_id": None} for one in names]
    answer = wire.ask_quietly(ApiKey.METADATA, 12, topics=described, allow_auto_topic_creation=False)
    wire.answers["metadata"] = sorted((one.name, one.error_code.name) for one in answer.topics)
    answer = wire.ask_quietly(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=names, response_partition_limit=2000, cursor=None
    )
    wire.answers["topic partitions"] = [(one.name, one.error_code.name) for one in answer.topics]
    answer = wire.ask_quietly(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=_topics("topic", "partitions", both))
    wire.answers["log directories"] = [
        (topic.name, sorted(part.partition_index for part in topic.partitions))
        for result in answer.results
        for topic in result.topics
    ]
    grown = [{"name": "known", "count": count, "assignments": None} for count in (3, 4)]
    wire.ask("more partitions", ApiKey.CREATE_PARTITIONS, 3, timeout=9000, validate_only=False, topics=grown)


def _access(wire: Wire) -> None:
    users = [{"name": "u"}, {"name": "v"}, {"name": "u"}]
    wire.ask("described users", ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users)
    deletions = [{"name": "u", "mechanism": 1}] * 2
    wire.ask("altered users", ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=deletions, upsertions=[])


def _transactions(wire: Wire) -> None:
    transactions = ["no-such", "no-such"]
    wire.ask("transactions", ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=transactions)
    begun = Producer(wire, "t")
    of = {
        "v3_and_below_transactional_id": "t",
        "v3_and_below_producer_id": begun.id,
        "v3_and_below_producer_epoch": begun.epoch,
    }
    for label, topics in (
        ("added partitions", _topics("name", "partitions", list(_BOTH))),
        ("an added partition twice", [{"name": "known", "partitions": [0, 0]}]),
        ("an unknown added topic twice", [{"name": "no-such", "partitions": [0]}] * 2),
    ):
        settled(wire, label, ApiKey.ADD_PARTITIONS_TO_TXN, 3, **of, v3_and_below_topics=topics)
    owner: dict[str, Any] = {"transactional_id": "t", "group_id": "group"}
    producer = {"producer_id": begun.id, "producer_epoch": begun.epoch}
    settled(wire, "added offsets", ApiKey.ADD_OFFSETS_TO_TXN, 3, **owner, **producer)
    at = [{"partition_index": index, "committed_offset": 3} for index in _BOTH]
    wire.ask(
        "transactional offsets",
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        **owner,
        **producer,
        generation_id=-1,
        member_id="",
        topics=_topics("name", "partitions", at),
    )


STORIES = {"repeated": repeated_story}
