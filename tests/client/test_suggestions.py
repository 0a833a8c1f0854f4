"""Names that are near, in errors about several that are missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from odradek.client.client import Client
from odradek.client.suggestions import with_suggestions
from odradek.foundation.errors import InvalidTopic, UnknownTopicOrPartition


async def test_many_missing_names_ask_for_all_names_once() -> None:
    asked: list[Any] = []

    async def refresh(names: Any) -> Any:
        asked.append(names)
        return SimpleNamespace(topics={"orders": SimpleNamespace(name="orders", error_code=0)})

    missing = [UnknownTopicOrPartition("?", missing_name=name) for name in ("order", "zzzz")]
    other = InvalidTopic("bad")
    found = await with_suggestions(cast(Client, SimpleNamespace(refresh=refresh)), [*missing, other])
    assert [str(one) for one in found] == [
        "there is no topic 'order'; did you mean 'orders'?",
        "there is no topic 'zzzz'; `odradek topics list` lists all topics",
        "bad",
    ]
    assert asked == [None]
