"""Sends slices of files to the socket: by read and write, or by sendfile.

The kernel sends large slices from the page cache where the connection has a plain socket and the file a descriptor.
That takes two thirds of the processor time of reading and writing. Small slices are read and written.

Both ways send a large slice in parts, as the socket takes them. Neither waits for a device on the event loop: a part
outside the page cache is read on a thread. A probe of one byte in `_PROBE_BYTES` finds what is cached, because the
kernel loads and drops more than a page at a time.

A TLS transport has a socket too, but sendfile would send plain text through it. So TLS connections never use sendfile.

With sendfile the transport's buffer must be empty, or bytes would overtake each other. Its high-water mark is zero
then, so it reports when it is empty. When the socket is full, the transport gets a few bytes to write: it then reports
when the socket has room.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, cast

from odradek.foundation.limits import SENDFILE_BYTES_MAX, SENDFILE_BYTES_MIN, SLICE_PART_BYTES
from odradek.wire.protocol.frames import Part, Slice

# Other systems' sendfile differs in what it does when the socket is full. There, slices are read and written.
KERNEL_SENDS: Final = sys.platform == "linux" and hasattr(os, "sendfile")

LOADING: Final = -1

_IN_MEMORY: Final = (bytes, bytearray, memoryview)

# The distance between probes of the page cache: the kernel's usual read-ahead.
_PROBE_BYTES: Final = 128 * 1024

# Bytes that the transport gets to write when the socket is full: few, because they are copied.
_HANDED_OVER_BYTES: Final = 1024


class RemainingSlice:
    """The unsent rest of a large slice, or a part of it that a thread reads."""

    __slots__ = ("_cached_until", "file", "position", "size", "whole")

    def __init__(self, whole: Slice, position: int, size: int) -> None:
        assert whole.file is not None, "an empty slice has no parts"
        self.whole = whole  # keeps the file open
        self.file = whole.file
        self.position = position
        self.size = size
        self._cached_until = -1

    def shorten(self, sent: int) -> None:
        """Take the first `sent` bytes off."""
        self.position += sent
        self.size -= sent

    def count_cached(self, size_max: int) -> int:
        """The number of next bytes, at most `size_max`, that the page cache seems to hold."""
        position = self.position
        end = position + min(self.size, size_max)
        is_cached = self.file.pread_cached
        until = self._cached_until
        if until < position:
            if is_cached(position, 1) is None:
                return 0
            until = position
        while until < end:
            further = min(until + _PROBE_BYTES, position + self.size)
            if is_cached(further - 1, 1) is None:
                break
            until = further
        self._cached_until = until
        return min(until, end) - position

    def fileno(self) -> int:
        return self.whole.fileno()

    def read(self) -> bytes:
        data = self.file.pread(self.position, self.size)
        if len(data) != self.size:
            raise _short(data, self)
        return data

    def read_cached(self) -> bytes | None:
        return self.file.pread_cached(self.position, self.size)


# What a slice on its way out may be, and what the queue of a connection holds.
_Sendable = Slice | RemainingSlice
Unsent = Part | RemainingSlice


def _short(data: bytes, slice: _Sendable) -> OSError:
    return OSError(f"{len(data)} of {slice.size} bytes are left at position {slice.position} of a log file")


def _plain_socket_descriptor(transport: asyncio.Transport) -> int:
    """The descriptor of a socket that the kernel may write to: -1 without one, and below TLS."""
    if (
        transport.get_extra_info("sslcontext") is not None
        or transport.get_extra_info("ssl_object") is not None
    ):
        return -1
    opened = transport.get_extra_info("socket")
    return -1 if opened is None else int(opened.fileno())


class PartSource:
    """Sends the parts of one connection's answers."""

    __slots__ = ("_executor", "_sendfile", "_socket_descriptor", "_transport")

    def __init__(self, *, executor: Executor | None, sendfile: bool) -> None:
        self._executor = executor
        self._sendfile = sendfile and KERNEL_SENDS
        self._socket_descriptor = -1
        self._transport: asyncio.Transport

    def prepare(self, transport: asyncio.Transport, *, unsent_max: int) -> None:
        """Bind to a connection that was just made."""
        self._transport = transport
        self._socket_descriptor = _plain_socket_descriptor(transport) if self._sendfile else -1
        if self._socket_descriptor >= 0:
            transport.set_write_buffer_limits(high=0)
        else:
            transport.set_write_buffer_limits(high=unsent_max, low=unsent_max // 4)

    def send_next(self, out: deque[Unsent], loaded: Callable[[BaseException | None], None]) -> int:
        """Send as much from the head of `out` as one write takes, and remove it from `out`.

        Returns the number of bytes, or LOADING when a thread must read them first. `loaded` is then called later: with
        None once the head of `out` is replaced by its bytes, else with the error. Raises OSError.
        """
        run: list[bytes | bytearray | memoryview] = []
        run_bytes = 0
        while out and run_bytes < SLICE_PART_BYTES:
            head = out[0]
            if isinstance(head, _IN_MEMORY):
                out.popleft()
                run.append(head)
                run_bytes += len(head)
                continue
            size = head.size
            if size >= SENDFILE_BYTES_MIN and self._socket_descriptor >= 0 and head.fileno() >= 0:
                if run:
                    break
                sent = self._send_by_kernel(out, head)
                if sent:
                    return sent
                head = cast(_Sendable, out[0])
            if size > SLICE_PART_BYTES:
                head = self._first_part(out, head)
            data = head.read_cached()
            if data is None:
                if run:
                    break
                self._load(out, head, loaded)
                return LOADING
            if len(data) != head.size:
                raise _short(data, head)
            out.popleft()
            run.append(data)
            run_bytes += len(data)
        if len(run) == 1:
            self._transport.write(run[0])
        elif run:
            self._transport.writelines(run)
        return run_bytes

    def _first_part(self, out: deque[Unsent], head: _Sendable) -> RemainingSlice:
        """Split the large slice at the head of `out` in two, and return the first part."""
        remaining = self._remaining(out, head)
        part = RemainingSlice(remaining.whole, remaining.position, SLICE_PART_BYTES)
        remaining.shorten(SLICE_PART_BYTES)
        out.appendleft(part)
        return part

    def _remaining(self, out: deque[Unsent], head: _Sendable) -> RemainingSlice:
        """The slice at the head of `out`, as one that can be split."""
        if isinstance(head, RemainingSlice):
            return head
        remaining = RemainingSlice(head, head.position, head.size)
        out[0] = remaining
        return remaining

    def _send_by_kernel(self, out: deque[Unsent], head: _Sendable) -> int:
        """Bytes sent by sendfile: 0 while the transport has unsent bytes, or the file is not cached."""
        if self._transport.get_write_buffer_size() or self._transport.is_closing():
            return 0
        remaining = self._remaining(out, head)
        size = remaining.count_cached(SENDFILE_BYTES_MAX)
        if not size:
            return 0
        try:
            sent = os.sendfile(self._socket_descriptor, remaining.fileno(), remaining.position, size)
        except BlockingIOError:
            sent = 0
        else:
            if sent == 0:
                raise OSError(f"no bytes are left at position {remaining.position} of a log file")
            remaining.shorten(sent)
        if sent < size:
            # The socket is full. The transport gets a few bytes to write, so it reports when there is room.
            data = remaining.file.pread(remaining.position, min(remaining.size, _HANDED_OVER_BYTES))
            self._transport.write(data)
            remaining.shorten(len(data))
            sent += len(data)
        if not remaining.size:
            out.popleft()
        return sent

    def _load(
        self, out: deque[Unsent], part: _Sendable, loaded: Callable[[BaseException | None], None]
    ) -> None:
        reading = asyncio.get_running_loop().run_in_executor(self._executor, part.read)

        def take_part(future: asyncio.Future[bytes]) -> None:
            if future.cancelled():
                loaded(OSError("reading a log file was cancelled"))
                return
            failure = future.exception()
            if failure is None and out and out[0] is part:
                out[0] = future.result()
            loaded(failure)

        reading.add_done_callback(take_part)
