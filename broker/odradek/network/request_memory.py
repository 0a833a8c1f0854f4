"""A bound on the memory of requests, over all connections of a process (queued.max.request.bytes).

A connection notes what it holds: the request that it receives, requests that wait for their turn, and those whose
answer is pending. A request under way counts as the memory that is reserved for it, which grows with what arrives.

    held < bound / 2        every connection is read
    held >= bound / 2       a connection is read while it holds less than its share of a quarter

The share is of a quarter, since the memory of a large request is doubled whenever it is full. Small requests are thus
served while others hold the memory. Of the connections that are not read, the one that waits longest is read all the
same, so that a request always can end. A request that is received for `REQUEST_SECONDS_WHILE_SHORT` ends its connection
when memory is short: peers that stall cannot keep it. The one that is read out of turn may take longer, as long as its
bytes come.

Apache Kafka reserves the whole announced size, and reads no connection once the bound is reached.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Final, Protocol

from odradek.foundation.errors import OdradekError
from odradek.foundation.limits import (
    REQUEST_BYTES_PER_CONNECTION_MIN,
    REQUEST_BYTES_PER_SECOND_WHILE_SHORT_MIN,
    REQUEST_BYTES_TOTAL_MAX,
    REQUEST_SECONDS_WHILE_SHORT,
)
from odradek.foundation.settings.broker_settings import Settings

_CHECK_SECONDS: Final = 1.0
# Waiting connections that are looked at in one turn of the loop: some 0.3 ms.
_LOOKED_AT_PER_TURN_MAX: Final = 1024


class Holder(Protocol):
    """A connection that holds memory of requests."""

    bytes_in: int

    def is_receiving(self) -> bool:
        """Whether it waits for the rest of a request, and not for answers to earlier ones."""
        ...

    def read_again(self) -> None:
        """Read on, after `note` returned False."""
        ...

    def give_up(self, failure: Exception) -> None:
        """End at once, and give up all memory."""
        ...


class _Holding:
    """What one connection holds, and since when it receives its present request."""

    __slots__ = ("bytes", "since")

    def __init__(self, bytes: int, since: float) -> None:
        self.bytes = bytes
        self.since = since


class RequestMemory:
    """One for all listeners of a process. `bytes_max` is queued.max.request.bytes; without a bound there, ours is."""

    def __init__(self, bytes_max: int, *, request_bytes_max: int) -> None:
        """`request_bytes_max` is socket.request.max.bytes: the bound that we set holds at least one such request."""
        self.bytes_max = bytes_max if bytes_max > 0 else max(REQUEST_BYTES_TOTAL_MAX, request_bytes_max)
        self.bytes_held = 0
        # By the beginning of the request that each receives: the oldest first.
        self._holdings: dict[Holder, _Holding] = {}
        self._large = 0
        # Not read for want of memory: the longest first. The first that receives is read all the same.
        self._waiting: dict[Holder, None] = {}
        self._favoured: Holder | None = None
        self._favoured_bytes_in = 0
        self._is_resuming = False
        self._timer: asyncio.TimerHandle | None = None

    def note(self, holder: Holder, bytes_held: int, *, is_next_request: bool = False) -> bool:
        """Note what `holder` holds now. Returns whether it may be read; if not, `read_again` says when.

        With `is_next_request` a request is complete, and what it receives now belongs to another one.
        """
        holding = self._holdings.get(holder)
        before = 0 if holding is None else holding.bytes
        self.bytes_held += bytes_held - before
        self._large += (bytes_held > REQUEST_BYTES_PER_CONNECTION_MIN) - (
            before > REQUEST_BYTES_PER_CONNECTION_MIN
        )
        if not bytes_held:
            self._holdings.pop(holder, None)
        elif holding is None or is_next_request:
            self._holdings.pop(holder, None)
            self._holdings[holder] = _Holding(bytes_held, asyncio.get_running_loop().time())
        else:
            holding.bytes = bytes_held
        if self._waiting and bytes_held < before:
            self._resume_soon()
        is_readable = self._may_read(bytes_held)
        if is_readable or is_next_request or (self._favoured is holder and not holder.is_receiving()):
            self._end_wait(holder)
        if is_readable:
            return True
        self._waiting[holder] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)
        if self._favoured is None and len(self._waiting) == 1 and holder.is_receiving():
            self._favour(holder)
        return self._favoured is holder

    def forget(self, holder: Holder) -> None:
        """Note that `holder` is gone."""
        self.note(holder, 0)
        self._end_wait(holder)

    def is_short(self) -> bool:
        """Whether connections are read by their shares."""
        return self.bytes_held >= self.bytes_max // 2

    def _may_read(self, bytes_held: int) -> bool:
        if not self.is_short():
            return True
        share = self.bytes_max // 4 // max(1, self._large)
        return bytes_held < max(REQUEST_BYTES_PER_CONNECTION_MIN, share)

    def _end_wait(self, holder: Holder) -> None:
        self._waiting.pop(holder, None)
        if self._favoured is holder:
            self._favoured = None
            self._resume_soon()

    def _favour(self, holder: Holder) -> None:
        self._favoured = holder
        self._favoured_bytes_in = holder.bytes_in

    # --- connections that wait --------------------------------------------------------------------------------

    def _resume_soon(self) -> None:
        if self._waiting and not self._is_resuming:
            self._is_resuming = True
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        self._is_resuming = False
        for holder in list(islice(self._waiting, _LOOKED_AT_PER_TURN_MAX)):
            holding = self._holdings.get(holder)
            if self._may_read(0 if holding is None else holding.bytes):
                self._end_wait(holder)
                holder.read_again()
        if self._favoured is None:
            favoured = next((holder for holder in self._waiting if holder.is_receiving()), None)
            if favoured is not None:
                self._favour(favoured)
                favoured.read_again()
        if not self.is_short():
            self._resume_soon()

    def _check(self) -> None:
        """End connections whose requests take too long, the oldest first, until memory is not short."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        is_moving = False
        if self._favoured is not None:
            came = self._favoured.bytes_in - self._favoured_bytes_in
            is_moving = came >= REQUEST_BYTES_PER_SECOND_WHILE_SHORT_MIN * _CHECK_SECONDS
            self._favoured_bytes_in = self._favoured.bytes_in
        for holder, holding in list(self._holdings.items()):
            if not self.is_short() or now - holding.since < REQUEST_SECONDS_WHILE_SHORT:
                break
            if holder.is_receiving() and not (is_moving and holder is self._favoured):
                held = self.bytes_held
                holder.give_up(
                    OdradekError(
                        f"a request was not complete after {now - holding.since:.0f} s, while requests take {held} of "
                        f"the {self.bytes_max} bytes that queued.max.request.bytes allows"
                    )
                )
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)
            self._resume_soon()


def request_memory(settings: Settings) -> RequestMemory:
    """The memory of the requests of one process."""
    return RequestMemory(
        settings.queued_max_request_bytes, request_bytes_max=settings.socket_request_max_bytes
    )
