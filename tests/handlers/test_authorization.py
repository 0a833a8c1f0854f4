"""Each API with and without the rights that it needs, over the wire of a whole broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.authorization.acls import AclBinding
from odradek.handlers.authorization import table
from odradek.handlers.table import CONTROLLER_HANDLERS, HANDLERS
from odradek.protocol.api import ApiKey
from tests.handlers import denied_groups, denied_topics
from tests.support.guarded_broker import (
    NO_CLUSTER,
    NO_GROUP,
    NO_TOKEN,
    NO_TOPIC,
    NO_TRANSACTION,
    Guarded,
    codes,
)
from tests.support.loop import run

DENIED = [*denied_topics.ROWS, *denied_groups.ROWS]
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
}


@pytest.mark.parametrize(
    ("api", "version", "fields", "expected", "rights"),
    DENIED,
    ids=[f"{row[0].name}-{row[1]}-{number}" for number, row in enumerate(DENIED)],
)
def test_each_api_needs_its_rights(
    api: ApiKey, version: int, fields: dict[str, Any], expected: set[int], rights: Sequence[AclBinding]
) -> None:
    async def scenario() -> None:
        guarded = await Guarded.start()
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
        await guarded.stop()

    run(scenario())


def test_every_api_has_a_denied_row() -> None:
    served = set(HANDLERS) | set(CONTROLLER_HANDLERS)
    assert served <= set(table.CHECKS), "an API without a check"
    between_brokers = {ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS}
    assert {row[0] for row in DENIED} | FILTERED | between_brokers >= served
