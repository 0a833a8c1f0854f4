"""Dead-letter topics of share groups (KIP-1191): what is written there, and what is not, is of Kafka 4.4.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from odradek.broker.share_states.states import kafka_id
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.record import Record, records
from tests.compat.golden.stories_groups import ready
from tests.compat.golden.stories_records import make_topic, now_ms, produce
from tests.compat.golden.stories_share_fetches import ACCEPT, REJECT, RELEASE, Session, acquired
from tests.compat.golden.stories_shares import GROUP, ONE_PARTITION, TOPIC, ShareMember, alter
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "share-dead-letters": {
        **ONE_PARTITION,
        "errors.deadletterqueue.auto.create.topics.enable": "true",
        "group.share.delivery.count.limit": "2",
    }
}
_NAME: Final = "errors.deadletterqueue.topic.name"
_COPY: Final = "errors.deadletterqueue.copy.record.enable"
_ALLOWS: Final = "errors.deadletterqueue.group.enable"
_TOPIC_KIND, _BROKER_KIND, _GROUP_KIND = 2, 4, 32


def set_config(wire: Wire, label: str, kind: int, name: str, **texts: str) -> None:
    changes = [
        {"name": key.replace("_", "."), "config_operation": 0, "value": text} for key, text in texts.items()
    ]
    resources = [{"resource_type": kind, "resource_name": name, "configs": changes}]
    wire.ask(label, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False)


def describe_configs(wire: Wire, label: str, kind: int, name: str, *keys: str) -> None:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}
    answer = wire.ask_quietly(ApiKey.DESCRIBE_CONFIGS, 4, include_synonyms=True, resources=[resource])
    (result,) = answer.results
    wire.answers[label] = {
        one.name: [one.value, bool(one.read_only), int(one.config_source), int(one.config_type)]
        for one in result.configs
    }


def letters(wire: Wire, topic: str) -> Iterator[Record]:
    """The records of partition 0; none of a topic that is not there."""
    offset = 0
    bounds: dict[str, Any] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
    while True:
        part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset}
        topics = [{"topic": topic, "partitions": [{**part, "partition_max_bytes": 1 << 20}]}]
        asked = {**bounds, "session_id": 0, "session_epoch": -1, "topics": topics}
        answer = wire.ask_quietly(ApiKey.FETCH, 12, **asked)
        data = memoryview(bytes(answer.responses[0].partitions[0].records or b""))
        if not data:
            return
        position = 0
        while position < len(data):
            view = BatchView(data, position)
            yield from records(view)
            position += view.size_bytes
            offset = view.last_offset + 1


def await_letters(wire: Wire, label: str, topic: str, count: int) -> None:
    """The dead letters, once there are so many, in the order of their origins."""
    found = wait_until(
        "there are dead letters", lambda: list(letters(wire, topic)), lambda there: len(there) >= count
    )
    rows = [
        [
            None if one.key is None else one.key.decode(),
            None if one.value is None else one.value.decode(),
            *((name, None if value is None else value.decode()) for name, value in one.headers),
        ]
        for one in found
    ]
    wire.answers[label] = sorted(rows, key=lambda row: int(row[4][1]))


def await_archived(wire: Wire, label: str) -> None:
    """No delivery is incomplete: the states of the group say so."""
    asked = [{"group_id": GROUP, "topics": None}]

    def lag() -> int:
        answer = wire.ask_quietly(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=asked)
        return int(answer.groups[0].topics[0].partitions[0].lag)

    wire.answers[label] = wait_until("all is archived", lag, lambda found: not found, seconds_max=60)


def deliver(session: Session, *said: Any) -> None:
    """Acquire what is there, and say what becomes of it."""
    got = wait_until("there are records", lambda: acquired(session.fetch(None)), lambda found: bool(found))
    assert got
    session.acknowledge(None, *said)


def keyed(*names: str) -> bytes:
    rows = [(now_ms(), name.encode(), name.upper().encode(), (("own", b"1"),)) for name in names]
    return bytes(build_batch(rows))


def dead_letters_story(wire: Wire) -> None:
    """Records are rejected and delivered too often, in groups with dead-letter topics of each kind."""
    ready(wire, GROUP)
    topic_id = make_topic(wire, TOPIC, 1)
    describe_configs(wire, "group's defaults", _GROUP_KIND, GROUP, _NAME, _COPY)
    set_config(wire, "a topic of the cluster", _GROUP_KIND, GROUP, errors_deadletterqueue_topic_name="__x")
    set_config(wire, "a topic", _GROUP_KIND, GROUP, errors_deadletterqueue_topic_name="dlq.work")
    describe_configs(wire, "group's own", _GROUP_KIND, GROUP, _NAME, _COPY)
    describe_configs(
        wire,
        "broker's",
        _BROKER_KIND,
        "1",
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.topic.name.prefix",
    )
    member = ShareMember(wire, kafka_id(UUID(int=1)))
    member.join(None)
    member.await_partitions(1)
    member.beat(None, member_epoch=-1)
    alter(wire, "begins at 0", (TOPIC, 0, 0))
    member.join(None)
    member.await_partitions(1)
    session = Session(wire, topic_id)
    produce(wire, "produced", TOPIC, keyed("a", "b", "c", "d"))
    deliver(session, (0, 3, [REJECT, RELEASE, ACCEPT, REJECT]))
    deliver(session, (1, 1, [RELEASE]))
    await_letters(wire, "headers alone", "dlq.work", 3)
    await_archived(wire, "archived")
    describe_configs(wire, "made topic", _TOPIC_KIND, "dlq.work", _ALLOWS, "message.timestamp.type")
    _other_topics(wire, session)


def _other_topics(wire: Wire, session: Session) -> None:
    set_config(wire, "with copies", _GROUP_KIND, GROUP, errors_deadletterqueue_copy_record_enable="true")
    produce(wire, "produced with copies", TOPIC, keyed("e", "f"))
    deliver(session, (4, 5, [REJECT]))
    await_letters(wire, "copies", "dlq.work", 5)
    await_archived(wire, "archived with copies")
    make_topic(wire, "dlq.plain", 1)
    set_config(wire, "one that takes none", _GROUP_KIND, GROUP, errors_deadletterqueue_topic_name="dlq.plain")
    produce(wire, "produced for it", TOPIC, keyed("g"))
    deliver(session, (6, 6, [REJECT]))
    await_archived(wire, "archived without")
    await_letters(wire, "of one that takes none", "dlq.plain", 0)
    set_config(wire, "it takes them", _TOPIC_KIND, "dlq.plain", errors_deadletterqueue_group_enable="true")
    produce(wire, "produced for it again", TOPIC, keyed("h"))
    deliver(session, (7, 7, [REJECT]))
    await_letters(wire, "of one that takes them now", "dlq.plain", 1)
    set_config(wire, "against the prefix", _GROUP_KIND, GROUP, errors_deadletterqueue_topic_name="other")
    produce(wire, "produced against it", TOPIC, keyed("i"))
    deliver(session, (8, 8, [REJECT]))
    await_archived(wire, "archived against it")
    answer = wire.ask_quietly(ApiKey.METADATA, 9, topics=[{"name": "other"}], allow_auto_topic_creation=False)
    wire.answers["not made"] = answer.topics[0].error_code.name


STORIES = {"share-dead-letters": dead_letters_story}
