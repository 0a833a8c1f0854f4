"""Users of SCRAM, set, described and deleted by Kafka's requests."""

from __future__ import annotations

from typing import Any

from odradek.foundation.client_entities import ClientEntity
from odradek.wire.protocol.api import ApiKey
from tests.support.whole_broker import WholeBroker

SALT = b"a salt of some bytes"


def code(answer: Any) -> int:
    return int(answer.error_code)


async def test_scram_users_are_set_described_and_deleted() -> None:
    alter, describe = ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

    def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
        return {
            "name": name, "mechanism": mechanism, "iterations": iterations, "salt": SALT, "salted_password": b"s",
        }  # fmt: skip

    broker = await WholeBroker.start()

    async def change(upsertions: list[Any], deletions: list[Any]) -> dict[str, int]:
        answer = await broker.ask(alter, 0, upsertions=upsertions, deletions=deletions)
        return {str(one.user): code(one) for one in answer.results}

    async def users(*names: str) -> dict[str, Any]:
        answer = await broker.ask(describe, 0, users=[{"name": name} for name in names] or None)
        return {
            str(one.user): code(one) or [(int(i.mechanism), int(i.iterations)) for i in one.credential_infos]
            for one in answer.results
        }

    wrong = [upsertion(""), upsertion("few", iterations=4095), upsertion("many", iterations=16385)]
    made = await change([upsertion("bob"), upsertion("eve", 2), upsertion("x", 3), *wrong], [])
    assert made == {"bob": 0, "eve": 0, "x": 33, "": 93, "few": 93, "many": 93}
    assert await users() == {"bob": [(1, 4096)], "eve": [(2, 4096)]}
    assert await users("bob", "nobody") == {"bob": [(1, 4096)], "nobody": 91}
    assert await users("bob", "bob") == {"bob": 92}
    twice = await change([upsertion("bob", 2)], [{"name": "bob", "mechanism": 1}])
    assert twice == {"bob": 92}
    gone = await change([], [{"name": "bob", "mechanism": 2}, {"name": "eve", "mechanism": 2}])
    assert gone == {"bob": 91, "eve": 0}
    assert await users() == {"bob": [(1, 4096)]}
    again = await broker.restart()
    assert again.broker.images.current.client_configs[ClientEntity(user="bob")].keys() == {"SCRAM-SHA-256"}
