"""What members of share groups acquire and acknowledge (KIP-932): the answers are of Kafka 4.4.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from odradek.broker.share_states.states import kafka_id
from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_groups import ready
from tests.compat.golden.stories_records import batch, make_topic, produce
from tests.compat.golden.stories_shares import GROUP, ONE_PARTITION, TOPIC, ShareMember, alter, offsets
from tests.compat.golden.stories_versions import Fields
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {"share-fetches": ONE_PARTITION}
_STRICT: Final = 1
# (first offset, last offset, types)
Said = tuple[int, int, list[int]]


class Session:
    """A member's share session, which counts its requests."""

    def __init__(self, wire: Wire, topic_id: UUID, member: int = 1) -> None:
        self.wire = wire
        self.topic_id = topic_id
        self.member_id = kafka_id(UUID(int=member))
        self.epoch = 0

    def fetch(self, label: str | None, *said: Said, version: int = 2, **more: Any) -> Any:
        """Of partition 0; the first request of the session names it."""
        topics = self._partition(*said) if said or self.epoch == 0 else []
        fields: Fields = {
            "max_wait": 200,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 100,
            "batch_size": 100,
            "topics": topics,
            "forgotten_topics_data": [],
        }
        if version >= 2:
            fields |= {"share_acquire_mode": 0, "is_renew_ack": False}
        return self._ask(label, ApiKey.SHARE_FETCH, version, {**fields, **more})

    def acknowledge(self, label: str | None, *said: Said, version: int = 2, **more: Any) -> Any:
        fields: Fields = {"topics": self._partition(*said)}
        if version >= 2:
            fields |= {"is_renew_ack": False}
        return self._ask(label, ApiKey.SHARE_ACKNOWLEDGE, version, {**fields, **more})

    def await_records(self, label: str, **more: Any) -> None:
        """Fetches until there are records; their answer is noted. Those before it are none of Kafka's promises."""

        def fetch() -> Any:
            return self.fetch(None, **more)

        answer = wait_until("there are records", fetch, lambda found: bool(acquired(found)))
        self.wire.answers[label] = self.wire.plain(answer)

    def _ask(self, label: str | None, api: ApiKey, version: int, fields: Fields) -> Any:
        asked = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            **fields,
        }
        if label is None:
            answer = self.wire.ask_quietly(api, version, **asked)
        else:
            answer = self.wire.ask(label, api, version, **asked)
        if answer is not None and not int(answer.error_code):
            self.epoch = max(asked["share_session_epoch"], -1) + 1
        return answer

    def _partition(self, *said: Said, index: int = 0) -> list[Fields]:
        batches = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": types}
            for first, last, types in said
        ]
        part = {"partition_index": index, "acknowledgement_batches": batches}
        return [{"topic_id": self.topic_id, "partitions": [part]}]


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for part in topic.partitions
        for one in part.acquired_records
    ]


def fetches_story(wire: Wire) -> None:
    """Records are acquired, acknowledged in each way, and delivered again."""
    ready(wire, GROUP)
    topic_id = make_topic(wire, TOPIC, 1)
    member = ShareMember(wire, kafka_id(UUID(int=1)))
    member.join(None)
    member.await_partitions(1)
    # The group begins at the end. Only a group without members is altered.
    member.beat(None, member_epoch=-1)
    alter(wire, "begins at 0", (TOPIC, 0, 0))
    member.join(None)
    member.await_partitions(1)
    produce(wire, "produced", TOPIC, batch(*"abcdefghij"))
    _refusals(wire, topic_id)
    session = Session(wire, topic_id)
    session.await_records("SHARE_FETCH 1: the first records", version=1)
    session.fetch("nothing more", version=1)
    session.acknowledge(
        "SHARE_ACKNOWLEDGE 1", (0, 3, [ACCEPT]), (4, 7, [ACCEPT, RELEASE, RELEASE, REJECT]), version=1
    )
    session.acknowledge("acknowledged before", (2, 3, [ACCEPT]))
    session.acknowledge("released before", (5, 5, [ACCEPT]))
    session.acknowledge("never acquired", (20, 21, [ACCEPT]))
    session.acknowledge("a type that is not there", (8, 8, [9]))
    session.acknowledge("renewed without being said so", (8, 8, [RENEW]))
    session.acknowledge("SHARE_ACKNOWLEDGE 2: renewed", (8, 8, [RENEW]), is_renew_ack=True)
    session.fetch("SHARE_FETCH 2: delivered again", (8, 9, [ACCEPT]))
    session.acknowledge("a gap that is none", (5, 6, [GAP, ACCEPT]))
    offsets(wire, "all is done")
    produce(wire, "produced more", TOPIC, batch(*"klmno"))
    session.await_records("a strict limit", share_acquire_mode=_STRICT, max_records=2)
    session.await_records("a limit of records", max_records=2)
    other = Session(wire, topic_id, member=2)
    other.acknowledge("a session that was not begun", (10, 10, [ACCEPT]), share_session_epoch=1)
    session.acknowledge("the last request", share_session_epoch=-1)
    other.await_records("what another member released")
    other.fetch("the last fetch", (10, 14, [ACCEPT]), share_session_epoch=-1)
    session.fetch("after the last request", share_session_epoch=1)


def _refusals(wire: Wire, topic_id: UUID) -> None:
    """Of sessions that do not begin."""
    session = Session(wire, topic_id, member=3)
    session.fetch("fetched: no group", group_id="")
    session.fetch(
        "fetched: a first epoch that acknowledges",
        (0, 0, [ACCEPT]),
        share_session_epoch=0,
    )
    session.fetch("fetched: an epoch of no session", share_session_epoch=5)
    session.fetch("fetched: the last epoch of no session", share_session_epoch=-1)
    session.acknowledge("acknowledged: no group", (0, 0, [ACCEPT]), group_id="", share_session_epoch=1)
    session.acknowledge("acknowledged: a first epoch", (0, 0, [ACCEPT]), share_session_epoch=0)
    session.acknowledge("acknowledged: an epoch of no session", (0, 0, [ACCEPT]), share_session_epoch=5)


STORIES = {"share-fetches": fetches_story}
