"""A broker with an authorizer, and ACLs in short, for tests of rights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.authorization.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.authorization.filters import AclFilter
from odradek.protocol.api import ApiKey
from odradek.transport.connection import Connection
from tests.support.whole_broker import WholeBroker

READ, WRITE, CREATE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
ALTER, DESCRIBE, ALL = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.ALL
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION, NO_TOKEN = 29, 30, 31, 53, 65


def acl(
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str = CLUSTER_NAME,
    *,
    principal: str = "User:alice",
    permission: PermissionType = PermissionType.ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
) -> AclBinding:
    return AclBinding(
        ResourcePattern(resource_type, name, pattern_type),
        AccessControlEntry(principal, "*", operation, permission),
    )


def committed(group: str, topic: str) -> dict[str, Any]:
    """A commit of a client outside of the group, which makes the group."""
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": [partition]}],
    }


class Guarded:
    """A whole broker with an authorizer; requests are those of User:alice."""

    def __init__(self, broker: WholeBroker) -> None:
        self.broker = broker
        self.dispatcher = broker.broker.control.make_dispatcher(broker.broker.parts)
        broker.dispatcher = self.dispatcher
        self.alice = Connection(id=2, listener_name="PLAINTEXT", peer=("10.0.0.7", 5000))
        self.alice.principal = "User:alice"
        broker.connection = self.alice

    @classmethod
    async def start(cls, **entries: str) -> Guarded:
        broker = await WholeBroker.start(
            {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:root",
                **{key.replace("_", "."): text for key, text in entries.items()},
            }
        )
        for topic in ("seen", "hidden"):
            await broker.create_topic(topic)
        for key_type, key in ((0, "g"), (1, "t")):
            found = await broker.ask(ApiKey.FIND_COORDINATOR, 3, key_type=key_type, key=key)
            assert int(found.error_code) == 0
        await broker.ask(ApiKey.OFFSET_COMMIT, 8, **committed("g", "seen"))
        return cls(broker)

    async def allow(self, *acls: AclBinding) -> None:
        outcomes = await self.broker.broker.control.controller.create_acls(acls)
        assert outcomes == [None] * len(acls)

    async def take_away(self, binding: AclBinding) -> None:
        """Remove every ACL of the pattern."""
        pattern = binding.pattern
        wanted = AclFilter(type=pattern.type, name=pattern.name, pattern_type=pattern.pattern_type)
        await self.broker.broker.control.controller.delete_acls([wanted])

    async def ask(self, api: ApiKey, version: int, /, **fields: Any) -> Any:
        return await self.broker.ask(api, version, **fields)

    async def stop(self) -> None:
        await self.broker.broker.stop()


def codes(message: Any) -> list[int]:
    """Every error code of an answer, from the outside in, without the zeros."""
    found: list[int] = []
    for name in getattr(message, "__dataclass_fields__", ()):
        value = getattr(message, name)
        if name.endswith("error_code"):
            found += [int(value)] if int(value) else []
        elif isinstance(value, tuple):
            for one in value:
                found += codes(one)
    return found


# API, version, fields, the errors without rights, and rights with which there is no such error.
Row = tuple[ApiKey, int, dict[str, Any], set[int], Sequence[AclBinding]]
