"""FindCoordinator: which broker coordinates a group (or a transaction, or a share group).

Since version 4 one request has many keys. The first request for a group or a transactional id creates the internal
topic that holds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import CoordinatorParts
from odradek.foundation.errors import CoordinatorNotAvailable, InvalidRequest, OdradekError
from odradek.metadata.image.topic_names import SHARE_GROUP_STATE, TRANSACTION_STATE
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC, partition_of
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import FindCoordinatorRequest

if TYPE_CHECKING:
    from odradek.broker.groups.coordinator import GroupCoordinator
    from odradek.broker.share_states.coordinator import ShareCoordinator
    from odradek.broker.transactions.coordinator import TransactionCoordinator

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
NOBODY: Final = {"node_id": -1, "host": "", "port": -1}
_TOPICS: Final = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTION_STATE, SHARE: SHARE_GROUP_STATE}
# The group may have colons too.
_SHARE_KEY: Final = re.compile(r".+:[A-Za-z0-9_-]{22}:\d{1,10}", re.DOTALL)


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
    if key_type == SHARE and not _SHARE_KEY.fullmatch(key):
        raise InvalidRequest(f"the key {key!r} is not group:topic id:partition")
    images = context.broker.images
    name = _TOPICS[key_type]
    if name not in images.current.topics:
        await _coordinator_of_type(context, key_type).ensure_topic()
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


def _coordinator_of_type(
    context: RequestContext[CoordinatorParts], key_type: int
) -> GroupCoordinator | TransactionCoordinator | ShareCoordinator:
    broker = context.broker
    if key_type == GROUP:
        return broker.groups
    return broker.transactions if key_type == TRANSACTION else broker.shares
