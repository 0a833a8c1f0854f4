"""`with odradek.testing.broker() as broker:`, and `async with` the same: a broker that ends with the block."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping
from types import TracebackType

from odradek.testing.process import START_SECONDS_MAX, TestBroker
from odradek.testing.security import PLAINTEXT


class BrokerContext:
    """Starts the broker when the block begins and ends it with the block; created by `broker`. `async with` waits for
    the process in a thread, so the event loop continues at the same time.
    """

    def __init__(self, broker: TestBroker, *, temporary: str | None) -> None:
        self._broker = broker
        self._temporary = temporary

    def __enter__(self) -> TestBroker:
        try:
            return self._broker.__enter__()
        except BaseException:
            self._remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._broker.close()
        finally:
            self._remove()

    async def __aenter__(self) -> TestBroker:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, failure, trace)

    def _remove(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def broker(
    folder: str | os.PathLike[str] | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    port: int = 0,
    log_level: str = "info",
    start_seconds_max: float = START_SECONDS_MAX,
    security_protocol: str = PLAINTEXT,
    users: Mapping[str, str] | None = None,
) -> BrokerContext:
    """A TestBroker for `with` or `async with`. Without `folder` its data is in a temporary one.

    Raises ValueError for an unknown setting and for users that do not fit the protocol; entering raises
    BrokerFailedToStartError.
    """
    made = tempfile.mkdtemp(prefix="odradek-") if folder is None else None
    try:
        running = TestBroker(
            folder if folder is not None else str(made),
            settings=settings,
            port=port,
            log_level=log_level,
            start_seconds_max=start_seconds_max,
            security_protocol=security_protocol,
            users=users,
        )
    except BaseException:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        raise
    return BrokerContext(running, temporary=made)
