"""From file slices to the socket: read and written, or sent by the kernel.

Measured on loopback, `pread` and `write` move more than `os.sendfile`; across a network card the reverse is
usual. So either can be chosen. Both send a large slice in parts as the socket takes them, and neither ever
waits for a device on the event loop: a part that is not in the page cache is read on a thread.

With sendfile the transport must have nothing unsent, or bytes would overtake each other: its high-water
mark is zero then, so it says when it is empty. A full socket is waited for by handing the transport a small
part to send.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

from odradek.foundation.limits import SENDFILE_BYTES_MIN, SLICE_PART_BYTES

LOADING: Final = -1

_IN_MEMORY: Final = (bytes, bytearray, memoryview)


class _Rest:
    """What is still to be sent of a large slice, or a part of it that a thread reads."""

    __slots__ = ("file", "position", "size", "whole")

    def __init__(self, whole: Any, position: int, size: int) -> None:
        self.whole = whole  # keeps the file open
        self.file = whole.file
        self.position = position
        self.size = size

    def fileno(self) -> int:
        descriptor: int = self.whole.fileno()
        return descriptor

    def read(self) -> bytes:
        data: bytes = self.file.pread(self.position, self.size)
        if len(data) != self.size:
            raise _short(data, self)
        return data

    def read_cached(self) -> bytes | None:
        data: bytes | None = self.file.pread_cached(self.position, self.size)
        return data


def _short(data: bytes, slice: Any) -> OSError:
    return OSError(f"{len(data)} of {slice.size} bytes are left at position {slice.position} of a log file")


class PartSource:
    """Sends the parts of one connection's answers."""

    __slots__ = ("_executor", "_sendfile", "_socket_descriptor", "_transport")

    def __init__(self, *, executor: Executor | None, sendfile: bool) -> None:
        self._executor = executor
        self._sendfile = sendfile
        self._socket_descriptor = -1
        self._transport: Any = None

    def prepare(self, transport: Any, *, unsent_max: int) -> None:
        """Bind to a connection that was just made."""
        self._transport = transport
        if self._sendfile:
            opened = transport.get_extra_info("socket")
            self._socket_descriptor = -1 if opened is None else opened.fileno()
        if self._socket_descriptor >= 0:
            transport.set_write_buffer_limits(high=0)
        else:
            transport.set_write_buffer_limits(high=unsent_max, low=unsent_max // 4)

    def send_next(self, out: deque[Any], loaded: Callable[[BaseException | None], None]) -> int:
        """Send from the head of `out` what goes in one write, and take from `out` what was sent.

        Gives the number of bytes, or LOADING when they must first come from the device: then `loaded` is
        called later, with None when the head of `out` has been replaced by its bytes. Raises OSError.
        """
        run: list[Any] = []
        run_bytes = 0
        while out and run_bytes < SLICE_PART_BYTES:
            head = out[0]
            if isinstance(head, _IN_MEMORY):
                run.append(out.popleft())
                run_bytes += len(head)
                continue
            size = head.size
            if size >= SENDFILE_BYTES_MIN and self._socket_descriptor >= 0 and head.fileno() >= 0:
                if run:
                    break
                sent = self._send_by_kernel(out, head)
                if sent:
                    return sent
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

    def _first_part(self, out: deque[Any], head: Any) -> _Rest:
        """Split the large slice at the head of `out` in two, and give the first."""
        part = _Rest(getattr(head, "whole", head), head.position, SLICE_PART_BYTES)
        self._shorten(out, head, SLICE_PART_BYTES)
        out.appendleft(part)
        return part

    def _shorten(self, out: deque[Any], head: Any, sent: int) -> None:
        """Take the first `sent` bytes off the slice at the head of `out`."""
        if sent == head.size:
            out.popleft()
        elif isinstance(head, _Rest):
            head.position += sent
            head.size -= sent
        else:
            out[0] = _Rest(head, head.position + sent, head.size - sent)

    def _send_by_kernel(self, out: deque[Any], head: Any) -> int:
        """Bytes sent by sendfile: 0 when the transport's own must go first, the socket is full, or the file
        is cold.
        """
        if self._transport.get_write_buffer_size() or self._transport.is_closing():
            return 0
        size = min(head.size, SLICE_PART_BYTES)
        is_cached = (
            head.file.pread_cached(head.position, 1) is not None
            and head.file.pread_cached(head.position + size - 1, 1) is not None
        )
        if not is_cached:
            return 0
        try:
            sent = os.sendfile(self._socket_descriptor, head.fileno(), head.position, size)
        except BlockingIOError:
            # Give the transport a little to send, so that it says when the socket takes more.
            size = min(head.size, SENDFILE_BYTES_MIN)
            data = head.file.pread(head.position, size)
            self._transport.write(data)
            sent = len(data)
        if sent == 0:
            raise OSError(f"no bytes are left at position {head.position} of a log file")
        self._shorten(out, head, sent)
        return sent

    def _load(self, out: deque[Any], part: Any, loaded: Callable[[BaseException | None], None]) -> None:
        reading = asyncio.get_running_loop().run_in_executor(self._executor, part.read)

        def done(future: asyncio.Future[bytes]) -> None:
            if future.cancelled():
                loaded(OSError("reading a log file was given up"))
                return
            failure = future.exception()
            if failure is None and out and out[0] is part:
                out[0] = future.result()
            loaded(failure)

        reading.add_done_callback(done)
