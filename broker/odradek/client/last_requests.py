"""The bound of what a client asks at its end: a program that ends does not wait for a broker that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from odradek.foundation.client_limits import CLIENT_LAST_REQUESTS_SECONDS_MAX
from odradek.foundation.errors import OdradekError


@asynccontextmanager
async def last_requests(on_failure: Callable[[str], None]) -> AsyncIterator[None]:
    """Let what is inside take `CLIENT_LAST_REQUESTS_SECONDS_MAX` at most. `on_failure` gets what a broker answered
    instead, or that it did not. Neither is raised: the broker does the same later, by its own timeouts.
    """
    try:
        async with asyncio.timeout(CLIENT_LAST_REQUESTS_SECONDS_MAX) as bound:
            yield
    except OdradekError as failure:
        on_failure(str(failure))
    except TimeoutError:
        if not bound.expired():
            raise
        on_failure(f"no answer within {CLIENT_LAST_REQUESTS_SECONDS_MAX:g} s")
