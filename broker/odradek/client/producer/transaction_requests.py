"""The requests of a transactional producer: four to the coordinator of its id, one to a group's coordinator.

Each is repeated until it is answered or `api_timeout_ms` is over, also where the answer was lost. The coordinator
recognises what it has done before. The first generation of the protocol (TV1) names partitions and groups before it
uses them. The second (TV2, KIP-890) does not, and each end gives the producer another epoch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from odradek.client.client import Client
from odradek.client.errors import RETRIABLE_OR_LATE, raise_for
from odradek.client.group_metadata import GroupMetadata
from odradek.client.partition_rows import build_commit_rows, list_answer_rows, numbers_by_topic
from odradek.client.producer.batches import NO_IDENTITY, ProducerIdAndEpoch
from odradek.client.results import CommittedOffset
from odradek.foundation.ids import NO_PRODUCER_ID, TopicPartition
from odradek.foundation.transaction_errors import InvalidProducerEpoch, OperationNotAttempted, ProducerFenced
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import code_of

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage

# By whether a producer continues from an id and epoch, which it names from 3 on (KIP-360).
INITIALIZE_VERSIONS: Final = {False: (0, 5), True: (3, 5)}
# From 4 on they are for brokers.
ADD_PARTITIONS_VERSIONS: Final = (0, 3)
ADD_OFFSETS_VERSIONS: Final = (0, 4)
# From 3 on with the member that reads. The highest of each pair that is without implicit adding (TV1), and of TV2.
COMMIT_OFFSETS_VERSIONS: Final = {False: (3, 4), True: (5, 5)}
END_VERSIONS: Final = {False: (0, 4), True: (5, 5)}

_NOT_ATTEMPTED: Final = code_of(OperationNotAttempted)

T = TypeVar("T")


class TransactionRequests:
    """The requests of one transactional id. Each raises what the coordinator answers.

    INVALID_PRODUCER_EPOCH is raised as ProducerFenced: another producer with the same id has begun (as in Java).
    """

    def __init__(self, client: Client, transactional_id: str, *, timeout_ms: int) -> None:
        self._client = client
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._about = f"transactional id {transactional_id!r}"

    async def initialize(self, identity: ProducerIdAndEpoch = NO_IDENTITY) -> ProducerIdAndEpoch:
        """A new epoch, after the end of what the id has open. `identity` is the one that continues, if one does."""
        response = await self._ask(
            ApiKey.INIT_PRODUCER_ID,
            INITIALIZE_VERSIONS[identity != NO_IDENTITY],
            identity,
            transaction_timeout=self._timeout_ms,
        )
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    async def add_partitions(
        self, identity: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> None:
        """Name partitions that the transaction is going to write to."""
        topics = numbers_by_topic(partitions, partitions="partitions")

        async def ask() -> None:
            response = await (await self._client.transaction_coordinator(self._id)).request(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                versions=ADD_PARTITIONS_VERSIONS,
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=identity.id,
                v3_and_below_producer_epoch=identity.epoch,
                v3_and_below_topics=topics,
            )
            codes = {
                TopicPartition(topic.name, row.partition_index): row.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            }
            # What was not attempted has no reason of its own: another partition has it.
            for key in sorted(codes, key=lambda key: codes[key] == _NOT_ATTEMPTED):
                self._raise_for(codes[key], f", partition {key}", topic=key.topic)

        await self._with_retries(ask)

    async def add_offsets(self, identity: ProducerIdAndEpoch, group_id: str) -> None:
        """Name a group whose offsets the transaction is going to commit."""
        about = f", group {group_id!r}"
        await self._ask(ApiKey.ADD_OFFSETS_TO_TXN, ADD_OFFSETS_VERSIONS, identity, about, group_id=group_id)

    async def commit_offsets(
        self,
        identity: ProducerIdAndEpoch,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        group: GroupMetadata,
        *,
        is_implicit: bool,
    ) -> None:
        """Hand offsets to the group's coordinator; they count from the transaction's commit on."""
        topics = build_commit_rows(
            {
                key: given if isinstance(given, CommittedOffset) else CommittedOffset(given)
                for key, given in offsets.items()
            }
        )

        async def ask() -> None:
            response = await (await self._client.coordinator(group.group_id)).request(
                ApiKey.TXN_OFFSET_COMMIT,
                versions=COMMIT_OFFSETS_VERSIONS[is_implicit],
                transactional_id=self._id,
                group_id=group.group_id,
                producer_id=identity.id,
                producer_epoch=identity.epoch,
                generation_id=group.generation,
                member_id=group.member_id,
                group_instance_id=group.instance_id,
                topics=topics,
            )
            for key, row in list_answer_rows(response.topics):
                about = f", group {group.group_id!r}"
                self._raise_for(row.error_code, about, topic=key.topic, group=group.group_id)

        await self._with_retries(ask, group_id=group.group_id)

    async def end(
        self, identity: ProducerIdAndEpoch, *, is_commit: bool, is_implicit: bool
    ) -> ProducerIdAndEpoch:
        """Commit or abort; the identity of the next transaction."""
        response = await self._ask(ApiKey.END_TXN, END_VERSIONS[is_implicit], identity, committed=is_commit)
        if getattr(response, "producer_id", NO_PRODUCER_ID) == NO_PRODUCER_ID:
            return identity
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    async def _ask(
        self,
        api: ApiKey,
        versions: tuple[int, int],
        identity: ProducerIdAndEpoch,
        about: str = "",
        **fields: Any,
    ) -> AnyMessage:
        async def ask() -> AnyMessage:
            response = await (await self._client.transaction_coordinator(self._id)).request(
                api,
                versions=versions,
                transactional_id=self._id,
                producer_id=identity.id,
                producer_epoch=identity.epoch,
                **fields,
            )
            self._raise_for(response.error_code, about, group=fields.get("group_id", ""))
            return response

        return await self._with_retries(ask)

    def _raise_for(self, code: int, about: str, *, topic: str = "", group: str = "") -> None:
        raise_for(code, about=self._about + about, topic=topic, group=group, transactional_id=self._id)

    async def _with_retries(self, ask: Callable[[], Awaitable[T]], *, group_id: str | None = None) -> T:
        try:
            return await self._client.with_retries(
                ask, group_id=group_id, transactional_id=self._id, retriable=RETRIABLE_OR_LATE
            )
        except InvalidProducerEpoch as failure:
            raise ProducerFenced(f"{failure} Another producer with the same id has begun") from failure
