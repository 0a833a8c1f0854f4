"""The brokers that follow this controller: each requests the changes after its own, and waits when there are none.

A waiting request costs a future and a timer. The next change answers it, or the end of its wait. A request says what
the broker has applied, which is kept: `applied` reports whether a change has arrived everywhere.

What it leaves out: sockets, and which brokers are members (`leadership`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from odradek.foundation.limits import FOLLOW_WAIT_MS_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.change_log import ChangeLog
from odradek.wire.protocol.cluster_changes import (
    FollowRequest,
    FollowResponse,
    FollowResponseNode,
    pack_response,
)

_NOTHING_APPLIED: Final = -1
_NO_EPOCH: Final = -1


class Polls(NamedTuple):
    """What the requests of a broker in this term say of it."""

    number: int = 0
    broker_epoch: int = _NO_EPOCH
    """Its epoch in the last one."""
    wait_ms: int = 0
    """How long the last one may wait for a change."""


_NO_POLLS: Final = Polls()


class MetadataSubscribers:
    """Answers subscribers out of one term's change log. `end` when the term is over."""

    def __init__(self, change_log: ChangeLog) -> None:
        self._change_log = change_log
        self._applied: dict[int, int] = {}
        self._polls: dict[int, Polls] = {}
        self._waiting: dict[asyncio.Future[bytes], FollowRequest] = {}
        self._progress = asyncio.Event()
        self._unsubscribe = change_log.subscribe(self._report_change)

    def answer(self, request: FollowRequest) -> bytes | asyncio.Future[bytes]:
        """The answer's frame, at once or as soon as there is a change."""
        log = self._change_log
        before = self.find_polls(request.broker_id)
        wait_ms = min(max(request.wait_ms_max, 0), FOLLOW_WAIT_MS_MAX)
        self._polls[request.broker_id] = Polls(before.number + 1, request.broker_epoch, wait_ms)
        if request.controller_epoch == log.controller_epoch:
            self._applied[request.broker_id] = request.number
            self._progress.set()
        if request.controller_epoch != log.controller_epoch or request.number != log.next_number:
            return self._response(request)
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[bytes] = loop.create_future()
        self._waiting[waiting] = request
        timer = loop.call_later(wait_ms / 1000, self._answer_waiting, waiting)

        def forget_waiting(_: asyncio.Future[bytes]) -> None:
            timer.cancel()
            self._waiting.pop(waiting, None)

        waiting.add_done_callback(forget_waiting)
        return waiting

    def get_applied(self, broker_id: int) -> int:
        """Below this number the broker has applied all changes of this term; -1 when it has never asked in it."""
        return self._applied.get(broker_id, _NOTHING_APPLIED)

    def list_waiting(self) -> frozenset[int]:
        """The brokers that wait for a change."""
        return frozenset(request.broker_id for request in self._waiting.values())

    def find_polls(self, broker_id: int) -> Polls:
        """The broker's requests in this term; of one that has not asked, none."""
        return self._polls.get(broker_id, _NO_POLLS)

    def list_known(self) -> frozenset[int]:
        """The brokers that have asked in this term and were not forgotten."""
        return frozenset(self._applied)

    def have_applied(self, number: int, broker_ids: Collection[int]) -> bool:
        """Whether all of these brokers have applied everything below `number`."""
        return all(self.get_applied(broker_id) >= number for broker_id in broker_ids)

    async def wait_until_applied(
        self, number: int, broker_ids: Callable[[], Collection[int]], *, wait_ms_max: int
    ) -> bool:
        """Wait until all of these brokers have applied everything below `number`; False when time ran out first.

        `broker_ids` is asked again each time: a broker that died is not waited for.
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
        self._polls.pop(broker_id, None)

    def end(self) -> None:
        """Answer all waiting requests: the brokers look for the next controller."""
        self._unsubscribe()
        self._report_change()

    def _report_change(self) -> None:
        self._progress.set()
        for waiting in tuple(self._waiting):
            self._answer_waiting(waiting)

    def _answer_waiting(self, waiting: asyncio.Future[bytes]) -> None:
        request = self._waiting.pop(waiting, None)
        if request is not None and not waiting.done():
            waiting.set_result(self._response(request))

    def _response(self, request: FollowRequest) -> bytes:
        batch = self._change_log.since(request.controller_epoch, request.number)
        return pack_response(
            FollowResponse(
                correlation_id=request.correlation_id,
                controller_epoch=batch.controller_epoch,
                next_number=batch.next_number,
                is_snapshot=batch.is_snapshot,
                is_complete=batch.is_complete,
                nodes=tuple(FollowResponseNode(*change) for change in batch.changes),
            )
        )
