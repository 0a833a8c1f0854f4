"""The share session of a member with one broker (KIP-932): fetches and acknowledgements, one request after the other.

The broker remembers the partitions of the session, and counts its requests. A request with epoch 0 begins a session,
and one with -1 ends it. A session ends with its connection too, and what was acquired in it is then given to others.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.client.client import Client
from odradek.client.errors import ClientError, error_for, raise_for
from odradek.client.share.deliveries import (
    Acknowledgement,
    PartitionDelivery,
    acknowledgement_rows,
    open_delivery,
)
from odradek.client.share.membership import to_seconds
from odradek.foundation.errors import (
    InvalidShareSessionEpoch,
    OdradekError,
    ShareSessionNotFound,
    UnknownServerError,
    UnknownTopicId,
)
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.shares import ShareAcknowledgeResponse, ShareFetchResponse

_FETCH_VERSIONS: Final = (1, 2)
_ACKNOWLEDGE_VERSIONS: Final = (1, 2)
# Renewals came with the second version.
_RENEW_VERSIONS: Final = (2, 2)
_BEGINNING: Final = 0
_ENDING: Final = -1
_EPOCH_MAX: Final = (1 << 31) - 1
# A broker that failed may have counted the request, or not.
_LOST: Final = (ClientError, InvalidShareSessionEpoch, ShareSessionNotFound, UnknownServerError)

Answers = Mapping[TopicPartition, Mapping[int, int]]
"""What is answered for each offset, by partition."""
Failures = dict[TopicPartition, OdradekError | None]
"""Why the answers for a partition were refused; None where they were taken."""


class ShareBounds(NamedTuple):
    """How much one fetch asks for. `is_strict` never gives more than `records_max`; else whole batches are given."""

    records_max: int = 500
    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 50 * 1024 * 1024
    is_strict: bool = False


class ShareFetched(NamedTuple):
    """One answer: what was acquired, until when in the loop's time it is locked, and what became of the answers."""

    deliveries: dict[TopicPartition, PartitionDelivery]
    locked_until: float
    failures: dict[TopicPartition, OdradekError]
    acknowledged: Failures


class ClientShareSession:
    """One request at a time: the caller waits for an answer before it sends the next one."""

    def __init__(
        self, client: Client, broker_id: int, *, group_id: str, member_id: str, bounds: ShareBounds, lane: str
    ) -> None:
        self._client = client
        self._broker_id = broker_id
        self._group_id = group_id
        self._member_id = member_id
        self._bounds = bounds
        self._lane = lane
        self._epoch = _BEGINNING
        self._is_interrupted = False
        """A request was cancelled: the session may be open, and its count is not known."""
        self._known: dict[TopicPartition, uuid.UUID] = {}
        """The partitions that the broker remembers, and the ids of their topics."""
        self._lock = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether the broker knows the session, as far as this member knows."""
        return self._epoch != _BEGINNING

    async def fetch(
        self, wanted: Collection[TopicPartition], answers: Answers, *, wait_ms_max: int
    ) -> ShareFetched:
        """Fetch from these partitions, and answer for what was delivered before. Raises what refused the whole."""
        async with self._lock:
            if not self.is_open and answers:
                raise self._explain_lost_session()
            ids = self._find_ids([*answers, *wanted])
            added = {key for key in wanted if self._known.get(key) != ids[key.topic]}
            gone = {
                key: topic_id
                for key, topic_id in self._known.items()
                if key not in wanted or topic_id != ids[key.topic]
            }
            asked_at = asyncio.get_running_loop().time()
            answer: ShareFetchResponse = await self._ask(
                ApiKey.SHARE_FETCH,
                _FETCH_VERSIONS,
                timeout_ms=wait_ms_max + self._client.request_timeout_ms,
                max_wait=wait_ms_max,
                min_bytes=self._bounds.bytes_min,
                max_bytes=self._bounds.bytes_max,
                max_records=self._bounds.records_max,
                batch_size=self._bounds.records_max,
                share_acquire_mode=int(self._bounds.is_strict),
                is_renew_ack=False,
                topics=_topic_rows(ids, added, answers),
                forgotten_topics_data=_forgotten_rows(gone),
            )
            self._known = {key: ids[key.topic] for key in wanted}
        names = {topic_id: name for name, topic_id in ids.items()}
        found = ShareFetched({}, asked_at + to_seconds(answer.acquisition_lock_timeout), {}, {})
        for topic in answer.responses:
            name = names.get(topic.topic_id or uuid.UUID(int=0), "")
            for row in topic.partitions:
                key = TopicPartition(name, row.partition_index)
                about = f"partition {key}"
                if (failure := error_for(row.error_code, row.error_message, about=about)) is not None:
                    found.failures[key] = failure
                if row.acquired_records:
                    found.deliveries[key] = open_delivery(
                        key, memoryview(row.records or b""), row.acquired_records
                    )
                if key in answers:
                    found.acknowledged[key] = error_for(
                        row.acknowledge_error_code, row.acknowledge_error_message, about=about
                    )
        for key in answers:
            # A broker may leave out a partition of which there is nothing to say.
            found.acknowledged.setdefault(key, None)
        return found

    async def acknowledge(self, answers: Answers) -> Failures:
        """Answer for what was delivered. Raises what refused the whole."""
        async with self._lock:
            if not self.is_open:
                raise self._explain_lost_session()
            return await self._acknowledge(answers)

    async def end(self, answers: Answers) -> Failures:
        """Answer, and end the session: what is acquired and not answered is given to others at once."""
        async with self._lock:
            if not (self.is_open or self._is_interrupted):
                return {}
            self._epoch = _ENDING
            return await self._acknowledge(answers)

    async def _acknowledge(self, answers: Answers) -> Failures:
        ids = self._find_ids(answers)
        is_renewal = any(Acknowledgement.RENEW in kinds.values() for kinds in answers.values())
        answer: ShareAcknowledgeResponse = await self._ask(
            ApiKey.SHARE_ACKNOWLEDGE,
            _RENEW_VERSIONS if is_renewal else _ACKNOWLEDGE_VERSIONS,
            is_renew_ack=is_renewal,
            topics=_topic_rows(ids, (), answers),
        )
        names = {topic_id: name for name, topic_id in ids.items()}
        found: Failures = dict.fromkeys(answers)
        for topic in answer.responses:
            for row in topic.partitions:
                key = TopicPartition(names.get(topic.topic_id or uuid.UUID(int=0), ""), row.partition_index)
                found[key] = error_for(row.error_code, row.error_message, about=f"partition {key}")
        return found

    async def _ask(self, api: ApiKey, versions: tuple[int, int], **fields: Any) -> Any:
        try:
            connection = await self._client.broker(self._broker_id, lane=self._lane)
            answer = await connection.request(
                api,
                versions=versions,
                group_id=self._group_id,
                member_id=self._member_id,
                share_session_epoch=self._epoch,
                **fields,
            )
            about = f"the share session of group {self._group_id!r} with broker {self._broker_id}"
            raise_for(int(answer.error_code), answer.error_message, about=about, group=self._group_id)
        except asyncio.CancelledError:
            self._forget()
            self._is_interrupted = True
            raise
        except _LOST:
            # The session has gone with its connection, or its count is another one.
            self._forget()
            raise
        if self._epoch == _ENDING:
            self._forget()
        else:
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
        return answer

    def _forget(self) -> None:
        self._epoch = _BEGINNING
        self._is_interrupted = False
        self._known.clear()

    def _explain_lost_session(self) -> ShareSessionNotFound:
        return ShareSessionNotFound(
            f"the share session with broker {self._broker_id} has ended; its records are delivered again"
        )

    def _find_ids(self, keys: Collection[TopicPartition]) -> dict[str, uuid.UUID]:
        """The ids of the topics. Raises UnknownTopicId for one that is gone."""
        topics = self._client.cluster.topics
        found: dict[str, uuid.UUID] = {}
        for key in keys:
            topic_id = topics[key.topic].id if key.topic in topics else self._known.get(key)
            if topic_id is None:
                self._client.invalidate()
                raise UnknownTopicId(f"the topic {key.topic!r} is not known any more")
            found[key.topic] = topic_id
        return found


def _topic_rows(
    ids: Mapping[str, uuid.UUID], added: Collection[TopicPartition], answers: Answers
) -> list[dict[str, object]]:
    rows: dict[str, list[dict[str, object]]] = {}
    for key in sorted({*added, *answers}):
        batches = list(acknowledgement_rows(answers.get(key, {})))
        rows.setdefault(key.topic, []).append(
            {"partition_index": key.partition, "acknowledgement_batches": batches}
        )
    return [{"topic_id": ids[name], "partitions": partitions} for name, partitions in rows.items()]


def _forgotten_rows(gone: Mapping[TopicPartition, uuid.UUID]) -> list[dict[str, object]]:
    rows: dict[uuid.UUID, list[int]] = {}
    for key, topic_id in sorted(gone.items()):
        rows.setdefault(topic_id, []).append(key.partition)
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in rows.items()]
