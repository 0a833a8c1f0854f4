"""The active controller over the network: `metadata.controller.api.ControllerApi` for a broker of a cluster.

A client's request is sent as the client's whole frame, and its answer has the client's correlation id. The answer waits
until this broker has applied what the controller wrote for it, so that a client that reads here finds its own change.
The broker's own requests use the same path, or Kafka's requests between brokers and controllers.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from odradek.broker.process.controller_channel import ControllerChannel
from odradek.broker.process.metadata_subscription import MetadataSubscription
from odradek.broker.replication.in_sync_proposals import Proposal
from odradek.broker.requests.config_resources import ConfigResourceType
from odradek.foundation.errors import (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    LeaderNotAvailable,
    NotController,
    RequestError,
    StaleBrokerEpoch,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from odradek.foundation.limits import CONTROLLER_WAIT_MS_MAX
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller import topic_plans
from odradek.metadata.controller.internal_topics import internal_topic
from odradek.metadata.controller.requests import AlterConfigOp, NewTopic, Outcome, Resource
from odradek.metadata.image.image import ImageHolder, PartitionImage, ResourceKind, TopicImage
from odradek.metadata.image.topic_names import is_internal_topic
from odradek.network.outbound import OutboundConnection
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.controller_requests import (
    ForwardResponse,
    LeaveRequest,
    LeaveResponse,
    pack_forward,
    pack_leave,
    parse_forwarded,
    parse_left,
)
from odradek.wire.protocol.errors import error_code, error_of

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage
    from odradek.wire.protocol.responses.cluster import PartitionData

logger = logging.getLogger(__name__)

# For creating a topic for a Metadata request, or allocating a block of producer ids: clients retry these themselves.
_OWN_WAIT_MS_MAX: Final = 10_000
_LEAVE_WAIT_MS_MAX: Final = 10_000
# The pause between two attempts of a broker while the controller has not read its registration.
_STALE_PAUSE_SECONDS: Final = 0.05
_NOT_CONTROLLER: Final = error_code(NotController())
_STALE_BROKER_EPOCH: Final = error_code(StaleBrokerEpoch())
_CREATE_TOPICS_VERSION: Final = 7
_ALTER_PARTITION_VERSION: Final = 3
# A number of brokers above any replication factor: a cluster that is still growing must not cap it.
_MACHINES_ENOUGH: Final = 1 << 15
_RESOURCE_TYPES: Final = {
    ResourceKind.TOPIC: ConfigResourceType.TOPIC,
    ResourceKind.BROKER: ConfigResourceType.BROKER,
    ResourceKind.GROUP: ConfigResourceType.GROUP,
    ResourceKind.CLIENT_METRICS: ConfigResourceType.CLIENT_METRICS,
}


class RemoteController:
    """Two channels: `forwards` for requests that may take long, `own` for the broker's urgent ones."""

    def __init__(
        self,
        *,
        forwards: ControllerChannel,
        own: ControllerChannel,
        subscription: MetadataSubscription,
        images: ImageHolder,
        broker_id: int,
        broker_epoch: Callable[[], int],
        current_settings: Callable[[], Settings],
        rng: random.Random,
    ) -> None:
        self._forwards = forwards
        self._own = own
        self._subscription = subscription
        self._images = images
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._current_settings = current_settings
        self._rng = rng
        self._client_id = f"broker-{broker_id}"
        self.forwarded = 0

    # --- clients' requests ---------------------------------------------------------------------------------------

    async def forward(
        self,
        frame: bytes | memoryview,
        *,
        client_host: str,
        principal: str = "",
        wait_ms_max: int = CONTROLLER_WAIT_MS_MAX,
    ) -> bytes:
        """The controller's answer to a client's request; `frame` is without its size, the answer with it.

        Without a `principal` it is this broker's own request, and needs this broker's rights.
        Raises NotController when no controller took it within `wait_ms_max`.
        """
        self.forwarded += 1
        response = await self._forward_frame(
            self._forwards, frame, client_host=client_host, principal=principal, wait_ms_max=wait_ms_max
        )
        applied = await self._subscription.wait_until_applied(
            response.controller_epoch, response.next_number, wait_ms_max=wait_ms_max
        )
        if not applied:
            logger.warning(
                "broker %d answers a request before it has applied the controller's changes for it",
                self._broker_id,
            )
        return response.frame

    async def _forward_frame(
        self,
        channel: ControllerChannel,
        frame: bytes | memoryview,
        *,
        client_host: str,
        principal: str = "",
        wait_ms_max: int,
    ) -> ForwardResponse:
        async def exchange(connection: OutboundConnection) -> ForwardResponse:
            answer = await connection.send_frame(
                lambda correlation_id: pack_forward(
                    frame,
                    correlation_id=correlation_id,
                    client_id=self._client_id,
                    client_host=client_host,
                    principal=principal,
                ),
                timeout_ms=wait_ms_max,
            )
            return parse_forwarded(answer)

        return await channel.ask(
            exchange, is_refused=lambda answer: answer.error_code != 0, wait_ms_max=wait_ms_max
        )

    async def _ask_as_client(
        self, api: ApiKey, version: int, /, *, wait_ms_max: int, **fields: object
    ) -> AnyMessage:
        """A request of this broker's own, forwarded as a client's. Raises NotController."""
        request = messages.request(api, version, **fields)
        frame = codec.encode_request(api, version, 0, self._client_id, request)
        answer = await self.forward(memoryview(frame)[4:], client_host="", wait_ms_max=wait_ms_max)
        _, message = codec.decode_response(api, version, memoryview(answer)[4:])
        return message

    # --- topics --------------------------------------------------------------------------------------------------

    async def ensure_topic(self, name: str) -> TopicImage:
        """The topic, created if missing. Raises CoordinatorNotAvailable: only coordinators call this."""
        (outcome,) = await self.ensure_topics([name])
        if isinstance(outcome, RequestError):
            raise CoordinatorNotAvailable(f"The topic {name} cannot be created yet: {outcome}") from outcome
        return outcome

    async def ensure_topics(self, names: Sequence[str]) -> list[TopicImage | RequestError]:
        """The topics; missing ones are created with the broker's defaults. One outcome for each name, in order."""
        failures: dict[str, RequestError] = {}
        wanted: list[dict[str, object]] = []
        for name in dict.fromkeys(names):
            if name not in self._images.current.topics:
                try:
                    wanted.append(self._default_topic(name))
                except RequestError as error:
                    failures[name] = error
        if wanted:
            failures |= await self._create(wanted)
        topics = self._images.current.topics
        return [topics.get(name) or failures.get(name) or topic_plans.unknown_topic(name) for name in names]

    async def create_internal_topics(self, topics: Sequence[NewTopic]) -> list[Outcome]:
        """See `ControllerApi`. Raises nothing: a controller that is away is an outcome."""
        failures = await self._create([_topic_fields(topic) for topic in topics])
        return [failures.get(topic.name) for topic in topics]

    async def _create(self, wanted: Sequence[Mapping[str, Any]]) -> dict[str, RequestError]:
        """The errors of those that could not be created."""
        try:
            answer = await self._ask_as_client(
                ApiKey.CREATE_TOPICS,
                _CREATE_TOPICS_VERSION,
                wait_ms_max=_OWN_WAIT_MS_MAX,
                topics=wanted,
                timeout=_OWN_WAIT_MS_MAX,
                validate_only=False,
            )
        except NotController as nobody:
            # A client that only sent a Metadata request retries after this.
            return {topic["name"]: LeaderNotAvailable(str(nobody)) for topic in wanted}
        failures: dict[str, RequestError] = {}
        for topic in answer.topics:
            error = error_of(int(topic.error_code), topic.error_message)
            if isinstance(error, TopicAlreadyExists):
                # Another request created it, and this broker receives the change.
                error = LeaderNotAvailable(str(error))
            if error is not None:
                failures[topic.name] = error
        return failures

    def _default_topic(self, name: str) -> dict[str, object]:
        settings = self._current_settings()
        if is_internal_topic(name):
            new = internal_topic(name, settings=settings, machine_count=_MACHINES_ENOUGH)
        else:
            new = NewTopic(name, settings.num_partitions, settings.default_replication_factor)
        return _topic_fields(new)

    # --- its state -----------------------------------------------------------------------------------------------

    async def catch_up(self, wait_ms_max: int) -> bool:
        """Wait until this broker has applied all present decisions of the active controller.

        False after `wait_ms_max`.
        """
        versions = codec.encode_request(
            ApiKey.API_VERSIONS, 0, 0, self._client_id, messages.request(ApiKey.API_VERSIONS, 0)
        )
        try:
            response = await self._forward_frame(
                self._own, memoryview(versions)[4:], client_host="", wait_ms_max=wait_ms_max
            )
        except NotController:
            return False
        return await self._subscription.wait_until_applied(
            response.controller_epoch, response.next_number, wait_ms_max=wait_ms_max
        )

    # --- settings ------------------------------------------------------------------------------------------------

    async def incremental_alter_configs(
        self, requests: Sequence[tuple[Resource, Sequence[AlterConfigOp]]], *, validate_only: bool = False
    ) -> list[Outcome]:
        """Change single settings of resources; one outcome each, None for success. Raises NotController."""
        answer = await self._ask_as_client(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            wait_ms_max=CONTROLLER_WAIT_MS_MAX,
            resources=[
                {
                    "resource_type": int(_RESOURCE_TYPES[resource.kind]),
                    "resource_name": resource.name,
                    "configs": [
                        {"name": one.key, "config_operation": int(one.operation), "value": one.value}
                        for one in changes
                    ],
                }
                for resource, changes in requests
            ],
            validate_only=validate_only,
        )
        return [error_of(int(one.error_code), one.error_message) for one in answer.responses]

    # --- brokers' own requests -----------------------------------------------------------------------------------

    async def ask(
        self, api: ApiKey, version: int, message: object, *, wait_ms_max: int = _OWN_WAIT_MS_MAX
    ) -> AnyMessage:
        """One of Kafka's requests between brokers and controllers, as AlterPartition; the answer, a kio message.

        Raises NotController when no controller took it within `wait_ms_max`.
        """

        async def exchange(connection: OutboundConnection) -> AnyMessage:
            return await connection.send(api, version, message, timeout_ms=wait_ms_max)

        return await self._own.ask(
            exchange,
            is_refused=lambda answer: int(answer.error_code) == _NOT_CONTROLLER,
            wait_ms_max=wait_ms_max,
        )

    async def alter_partition(self, proposals: Sequence[Proposal]) -> list[PartitionImage | RequestError]:
        """Propose in-sync sets as the leader: each partition's new state or an error, in the order of `proposals`.

        Raises NotController, StaleBrokerEpoch and other RequestErrors when none of them was taken.
        """
        broker_epoch = self._broker_epoch()
        request = messages.request(
            ApiKey.ALTER_PARTITION,
            _ALTER_PARTITION_VERSION,
            broker_id=self._broker_id,
            broker_epoch=broker_epoch,
            topics=_by_topic(proposals),
        )
        answer = await self.ask(ApiKey.ALTER_PARTITION, _ALTER_PARTITION_VERSION, request)
        error = error_of(int(answer.error_code), None)
        if error is not None:
            raise error
        if self._broker_epoch() != broker_epoch:
            # Fenced during the request: the answer is about a leadership that has ended.
            raise StaleBrokerEpoch(
                f"broker {self._broker_id} lost its registration {broker_epoch} during the request."
            )
        rows = {
            (topic.topic_id, row.partition_index): row for topic in answer.topics for row in topic.partitions
        }
        return [
            self._state(proposal, rows.get((proposal.topic_id, proposal.topic_partition.partition)))
            for proposal in proposals
        ]

    def _state(self, proposal: Proposal, row: PartitionData | None) -> PartitionImage | RequestError:
        where = proposal.topic_partition
        if row is None:
            return NotController(f"The controller did not answer for {where}; ask again.")
        error = error_of(int(row.error_code), None)
        if error is not None:
            return error
        topic = self._images.current.topics_by_id.get(proposal.topic_id)
        if topic is None:
            return UnknownTopicOrPartition(f"{where} was deleted.")
        return topic.partitions[where.partition]._replace(
            leader=row.leader_id,
            leader_epoch=row.leader_epoch,
            isr=tuple(row.isr),
            partition_epoch=row.partition_epoch,
        )

    async def allocate_producer_ids(self, *, above: int = -1) -> tuple[int, int]:
        """A block of producer ids that were never allocated before: the first, and how many.

        Raises CoordinatorLoadInProgress, which makes clients retry, when the controller allocates none in time.
        """
        try:
            async with asyncio.timeout(_OWN_WAIT_MS_MAX / 1000):
                while True:
                    first, count = await self._allocate()
                    if first > above:
                        return first, count
        except (TimeoutError, NotController) as error:
            raise CoordinatorLoadInProgress(
                f"The controller gives no producer ids at the moment ({error}); try again."
            ) from error

    async def _allocate(self) -> tuple[int, int]:
        while True:
            request = messages.request(
                ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker_id=self._broker_id, broker_epoch=self._broker_epoch()
            )
            answer = await self.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, request)
            code = int(answer.error_code)
            if code == 0:
                return int(answer.producer_id_start), int(answer.producer_id_len)
            if code != _STALE_BROKER_EPOCH:
                raise error_of(code, None) or BrokerNotAvailable("the controller gave no producer ids")
            await asyncio.sleep(_STALE_PAUSE_SECONDS)

    async def leave(self) -> int:
        """Ask the controller to move this broker's leaderships. Returns how many stay, since no other broker can lead.

        Raises NotController, StaleBrokerEpoch.
        """

        async def exchange(connection: OutboundConnection) -> LeaveResponse:
            answer = await connection.send_frame(
                lambda correlation_id: pack_leave(
                    LeaveRequest(correlation_id, self._client_id, self._broker_id, self._broker_epoch())
                ),
                timeout_ms=_LEAVE_WAIT_MS_MAX,
            )
            return parse_left(answer)

        response = await self._own.ask(
            exchange,
            is_refused=lambda answer: answer.error_code == _NOT_CONTROLLER,
            wait_ms_max=_LEAVE_WAIT_MS_MAX,
        )
        error = error_of(response.error_code, None)
        if error is not None:
            raise error
        return response.left


def _topic_fields(new: NewTopic) -> dict[str, object]:
    """A topic in CreateTopics."""
    return {
        "name": new.name,
        "num_partitions": new.partition_count,
        "replication_factor": new.replication_factor,
        "assignments": [],
        "configs": [{"name": key, "value": text} for key, text in new.config.items()],
    }


def _by_topic(proposals: Sequence[Proposal]) -> list[dict[str, object]]:
    topics: dict[UUID, list[dict[str, object]]] = {}
    for proposal in proposals:
        topics.setdefault(proposal.topic_id, []).append(
            {
                "partition_index": proposal.topic_partition.partition,
                "leader_epoch": proposal.leader_epoch,
                "partition_epoch": proposal.partition_epoch,
                "new_isr_with_epochs": [
                    {"broker_id": broker_id, "broker_epoch": epoch}
                    for broker_id, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
                ],
            }
        )
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]
