"""Stories of a client with a running broker: `@with_client`, and `@in_both_generations` for transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from odradek.client.client import Client
from tests.support.polling import SECONDS_MAX
from tests.support.stories import Story, told_by

T = TypeVar("T")


class OldClient(Client):
    """Sees no features, as a client of the first generation (TV1)."""

    def finalized_level(self, feature: str) -> int:
        return 0


def run(bootstrap: str, work: Callable[[Client], Awaitable[T]], *, kind: type[Client] = Client) -> T:
    """Do `work` with a client and close it."""

    async def main() -> T:
        async with asyncio.timeout(SECONDS_MAX), kind(bootstrap) as client:
            return await work(client)

    return asyncio.run(main())


with_client = told_by(run, asks=("bootstrap",))


def in_both_generations(story: Story) -> Any:
    """With a client of each generation of transactions."""

    def run_kind(kind: type[Client], bootstrap: str, work: Callable[[Client], Awaitable[None]]) -> None:
        run(bootstrap, work, kind=kind)

    kinds = pytest.mark.parametrize("kind", [OldClient, Client], ids=["TV1", "TV2"])
    return kinds(told_by(run_kind, asks=("kind", "bootstrap"))(story))
