"""The brokers that follow this controller: each asks for what came after what it has, and waits when that is nothing.

A waiting request costs a future and a timer, and is answered by the next change or when its time is up. What a broker
asks for says what it has applied, which is remembered: whoever must know that a change has arrived everywhere asks
`applied`.

What it leaves out: sockets, and who is a member (`leadership`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from odradek.cluster.change_log import ChangeLog
from odradek.foundation.limits import FOLLOW_WAIT_MS_MAX
from odradek.protocol.cluster_changes import FollowRequest, pack_response

_NOTHING_APPLIED: Final = -1


class Followers:
    """Answers followers out of one term's change log. `end` when the term is over."""

    def __init__(self, change_log: ChangeLog) -> None:
        self._change_log = change_log
        self._applied: dict[int, int] = {}
        self._waiting: dict[asyncio.Future[bytes], FollowRequest] = {}
        self._progress = asyncio.Event()
        self._unsubscribe = change_log.subscribe(self._changed)

    def answer(self, request: FollowRequest) -> bytes | asyncio.Future[bytes]:
        """The answer's frame, at once or as soon as there is something to tell."""
        log = self._change_log
        if request.controller_epoch == log.controller_epoch:
            self._applied[request.broker_id] = request.number
            self._progress.set()
        if request.controller_epoch != log.controller_epoch or request.number != log.next_number:
            return self._told(request)
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[bytes] = loop.create_future()
        self._waiting[waiting] = request
        wait_ms = min(max(request.wait_ms_max, 0), FOLLOW_WAIT_MS_MAX)
        timer = loop.call_later(wait_ms / 1000, self._tell, waiting)

        def ended(_: asyncio.Future[bytes]) -> None:
            timer.cancel()
            self._waiting.pop(waiting, None)

        waiting.add_done_callback(ended)
        return waiting

    def applied(self, broker_id: int) -> int:
        """Below this number the broker has applied all changes of this term; -1 when it has never asked in it."""
        return self._applied.get(broker_id, _NOTHING_APPLIED)

    def known(self) -> frozenset[int]:
        """Who has asked in this term and was not forgotten."""
        return frozenset(self._applied)

    def have_applied(self, number: int, broker_ids: Collection[int]) -> bool:
        """Whether all of these brokers have applied everything below `number`."""
        return all(self.applied(broker_id) >= number for broker_id in broker_ids)

    async def wait_until_applied(
        self, number: int, broker_ids: Callable[[], Collection[int]], *, wait_ms_max: int
    ) -> bool:
        """Wait until all of these brokers have applied everything below `number`; False when time ran out first.

        `broker_ids` is asked again each time: one that died is waited for no more.
        """
        try:
            async with asyncio.timeout(wait_ms_max / 1000):
                while not self.have_applied(number, broker_ids()):
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return self.have_applied(number, broker_ids())
        return True

    def forget(self, broker_id: int) -> None:
        """The broker left the cluster."""
        self._applied.pop(broker_id, None)

    def end(self) -> None:
        """Answer all who wait: they look for the next controller."""
        self._unsubscribe()
        self._changed()

    def _changed(self) -> None:
        self._progress.set()
        for waiting in tuple(self._waiting):
            self._tell(waiting)

    def _tell(self, waiting: asyncio.Future[bytes]) -> None:
        request = self._waiting.pop(waiting, None)
        if request is not None and not waiting.done():
            waiting.set_result(self._told(request))

    def _told(self, request: FollowRequest) -> bytes:
        told = self._change_log.since(request.controller_epoch, request.number)
        return pack_response(
            correlation_id=request.correlation_id,
            controller_epoch=told.controller_epoch,
            next_number=told.next_number,
            is_snapshot=told.is_snapshot,
            is_complete=told.is_complete,
            nodes=told.changes,
        )
