"""FindCoordinator: which broker coordinates a group (or a transaction, or a share group).

Since version 4 one request has many keys. The first request for a group or a transactional id creates the internal
topic that holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import CoordinatorParts
from odradek.foundation.errors import CoordinatorNotAvailable, InvalidRequest, OdradekError
from odradek.metadata.image.topic_names import TRANSACTION_STATE
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC, partition_of
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import FindCoordinatorRequest

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
NOBODY: Final = {"node_id": -1, "host": "", "port": -1}


async def handle(request: FindCoordinatorRequest, context: RequestContext[CoordinatorParts]) -> Message:
    version = context.header.api_version
    key_type = request.key_type
    keys = request.coordinator_keys if version >= 4 else (request.key,)
    found = [await _find(context, key_type, key) for key in keys]
    if version >= 4:
        coordinators = [{"key": key, **answer} for key, answer in zip(keys, found, strict=True)]
        return context.response(coordinators=coordinators)
    return context.response(**found[0])


async def _find(context: RequestContext[CoordinatorParts], key_type: int, key: str) -> Mapping[str, object]:
    try:
        node_id, host, port = await _coordinator(context, key_type, key)
    except OdradekError as error:
        return {**NOBODY, **error_fields(error)}
    # Kafka leaves the message empty, not null, where there is no error.
    return {"node_id": node_id, "host": host, "port": port, "error_code": 0, "error_message": ""}


async def _coordinator(
    context: RequestContext[CoordinatorParts], key_type: int, key: str
) -> tuple[int, str, int]:
    if key_type == SHARE and context.header.api_version < 6:
        raise InvalidRequest("coordinators of share groups are asked for with FindCoordinator 6 or newer")
    if key_type not in (GROUP, TRANSACTION, SHARE):
        raise InvalidRequest(
            f"a coordinator of type {key_type}; known are 0 (group), 1 (transaction), 2 (share)"
        )
    if key_type == SHARE:
        raise CoordinatorNotAvailable("this broker has no share groups; use a consumer group")
    images = context.broker.images
    name = TRANSACTION_STATE if key_type == TRANSACTION else OFFSETS_TOPIC
    if name not in images.current.topics:
        is_transaction = key_type == TRANSACTION
        await (context.broker.transactions if is_transaction else context.broker.groups).ensure_topic()
    image = images.current
    topic = image.topics.get(name)
    if topic is None:
        raise CoordinatorNotAvailable(f"the topic {name} is being created; try again")
    leader = topic.partitions[partition_of(key, len(topic.partitions))].leader
    broker = image.brokers.get(leader)
    endpoint = broker.endpoints.get(context.listener_name) if broker is not None else None
    if endpoint is None:
        raise CoordinatorNotAvailable(f"the coordinator of {key!r} is not reachable at the moment; try again")
    return leader, endpoint[0], endpoint[1]
