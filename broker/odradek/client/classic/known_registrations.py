"""The contents of the id nodes of a group, kept by consumer id for all consumers of the group in one process.

A consumer's own id node never changes, and its id is unique. So each node is read once in a process. A group of
hundreds, of which each reads all others, reads a hundredth of the nodes then. An id that a program has chosen may come
back with another subscription, so its node is read in each pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import time
import uuid
from collections.abc import AsyncIterator, Collection
from typing import Final
from weakref import WeakValueDictionary

from odradek.client.classic.registrations import Registration
from odradek.foundation.client_limits import CONSUMER_READS_TOGETHER_SECONDS_MAX
from odradek.foundation.per_loop import PerLoop

_UNIQUE: Final = re.compile(r"-\d{13}-[0-9a-f]{1,8}\Z")


def unique_name() -> str:
    """HOST-MILLISECONDS-RANDOM, as Kafka's own consumers name themselves."""
    number = uuid.uuid4().int >> 64
    return f"{socket.gethostname()}-{time.time_ns() // 1_000_000}-{f'{number:x}'[:8]}"


class KnownRegistrations:
    """The registrations of one group. Several event loops may use it at once."""

    def __init__(self) -> None:
        self._by_id: dict[str, Registration | None] = {}
        self._locks = PerLoop(asyncio.Lock)

    def missing(self, ids: Collection[str]) -> list[str]:
        """Those that have to be read."""
        return [one for one in ids if one not in self._by_id]

    def add(self, consumer_id: str, registration: Registration | None) -> None:
        """Keep what was read, unless the id may come back; None is a node that cannot be read."""
        if _UNIQUE.search(consumer_id):
            self._by_id[consumer_id] = registration

    def get(self, consumer_id: str) -> Registration | None:
        return self._by_id.get(consumer_id)

    def keep(self, ids: Collection[str]) -> None:
        """Forget the others, so that there are never more than twice as many as the group has consumers."""
        if len(self._by_id) > 2 * len(ids):
            kept = set(ids)
            for one in [*self._by_id]:
                if one not in kept:
                    self._by_id.pop(one, None)

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """One consumer of a loop reads at a time, and the next ones find what it read.

        One that ZooKeeper does not answer keeps others waiting for a moment only.
        """
        lock = self._locks.get()
        is_ours = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONSUMER_READS_TOGETHER_SECONDS_MAX):
                is_ours = await lock.acquire()
        try:
            yield
        finally:
            if is_ours:
                lock.release()


_SHARED: WeakValueDictionary[tuple[str, str, bool], KnownRegistrations] = WeakValueDictionary()


def share_registrations(connect: str, group: str, *, is_excluding_internal: bool) -> KnownRegistrations:
    """Those that all consumers of a group in this process share, as long as there is one."""
    return _SHARED.setdefault((connect, group, is_excluding_internal), KnownRegistrations())
