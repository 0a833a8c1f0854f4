"""Each API with and without the rights that it needs, over the wire of a whole broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.broker.requests.rights import table
from odradek.broker.requests.table import CONTROLLER_HANDLERS, HANDLERS
from odradek.security.authorization.acls import AclBinding, PermissionType
from odradek.wire.protocol.api import ApiKey
from tests.broker.requests import denied_groups, denied_shares, denied_topics
from tests.support.rights import (
    DELETE,
    DESCRIBE,
    NO_CLUSTER,
    NO_GROUP,
    NO_TOKEN,
    NO_TOPIC,
    NO_TRANSACTION,
    TOPIC,
    acl,
    codes,
)
from tests.support.whole_broker import WholeBroker

DENIED = [*denied_topics.ROWS, *denied_groups.ROWS, *denied_shares.ROWS]
UNKNOWN_TOPIC = 3
ALL_DENIALS = {NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION, NO_TOKEN}
# What has no error of a right: the answer leaves out what is hidden.
FILTERED = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    # The handlers compare the client with the token's owner and renewers.
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("api", "version", "fields", "expected", "rights"),
    DENIED,
    ids=[f"{row[0].name}-{row[1]}-{number}" for number, row in enumerate(DENIED)],
)
async def test_each_api_needs_its_rights(
    api: ApiKey, version: int, fields: dict[str, Any], expected: set[int], rights: Sequence[AclBinding]
) -> None:
    guarded = await WholeBroker.start_guarded()
    answer = await guarded.ask(api, version, **fields)
    assert set(codes(answer)) == expected
    for number in range(len(rights)):
        # Every right is needed: without the last one there is an error of some right.
        await guarded.allow(*rights[: number + 1])
        answer = await guarded.ask(api, version, **fields)
        denied = ALL_DENIALS & set(codes(answer))
        assert bool(denied) == (number + 1 < len(rights)), answer
    for one in rights:
        await guarded.take_away(one)
    assert set(codes(await guarded.ask(api, version, **fields))) == expected


def test_every_api_has_a_denied_row() -> None:
    served = set(HANDLERS) | set(CONTROLLER_HANDLERS)
    assert served <= set(table.CHECKS), "an API without a check"
    between_brokers = {ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS}
    assert {row[0] for row in DENIED} | FILTERED | between_brokers >= served


async def test_who_may_describe_learns_that_a_topic_to_delete_is_missing() -> None:
    guarded = await WholeBroker.start_guarded()
    names = ("seen", "missing", "missing-too", "hidden")

    async def delete(version: int) -> dict[str | None, int]:
        fields: dict[str, Any] = {"timeout": 1000}
        if version < 6:
            fields["topic_names"] = list(names)
        else:
            fields["topics"] = [{"name": name, "topic_id": None} for name in names]
        answer = await guarded.ask(ApiKey.DELETE_TOPICS, version, **fields)
        return {one.name: int(one.error_code) for one in answer.responses}

    assert await delete(6) == dict.fromkeys(names, NO_TOPIC)
    await guarded.allow(
        acl(DESCRIBE, TOPIC, "seen"),
        acl(DESCRIBE, TOPIC, "missing"),
        acl(DELETE, TOPIC, "missing-too"),
        acl(DELETE, TOPIC, "hidden"),
        acl(DESCRIBE, TOPIC, "hidden", permission=PermissionType.DENY),
    )
    for version in (5, 6):
        assert await delete(version) == {
            "seen": NO_TOPIC,
            "missing": UNKNOWN_TOPIC,
            "missing-too": UNKNOWN_TOPIC,
            "hidden": NO_TOPIC,
        }
    # By id, as in Kafka, Delete is enough.
    hidden_id = guarded.broker.parts.shared.images.current.topics["hidden"].id
    answer = await guarded.ask(
        ApiKey.DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": hidden_id}], timeout=1000
    )
    assert codes(answer) == []
