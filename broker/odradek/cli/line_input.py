"""Lines from a file, a pipe or a terminal, without blocking the event loop for those that make it wait.

A regular file is read at once; on a pipe or a terminal the loop waits until there is something. No thread is used:
one that is stuck in a read would keep Ctrl-C from ending the command.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections.abc import AsyncIterator
from typing import BinaryIO

from odradek.foundation.errors import OdradekError

_READ_BYTES = 256 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024


class LineTooLong(OdradekError):
    """A line without an end in sight; it would fill the memory."""


async def read_lines(source: BinaryIO) -> AsyncIterator[list[bytes]]:
    """Lists of lines as they come, without their line ends; a last line without one counts too."""
    rest = b""
    async for data in _read_chunks(source):
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        if len(rest) > LINE_BYTES_MAX:
            raise LineTooLong(f"a line of more than {LINE_BYTES_MAX} bytes; is the input text?")
        if lines:
            yield lines
    if rest:
        yield [rest]


async def _read_chunks(source: BinaryIO) -> AsyncIterator[bytes]:
    try:
        descriptor = source.fileno()
    except OSError:  # in memory: a test's stdin
        yield source.read()
        return
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    is_waiting = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    if is_waiting:
        try:
            loop.add_reader(descriptor, readable.set)
        except (PermissionError, OSError):
            is_waiting = False  # /dev/null and the like are always readable and cannot be watched
    try:
        while True:
            if is_waiting:
                await readable.wait()
                readable.clear()
                # The loop may have seen the same bytes twice, before and while they were read; a read without
                # any would block, and making the descriptor non-blocking would do so for the shell as well.
                if not _has_input(descriptor):
                    continue
            else:
                await asyncio.sleep(0)
            data = os.read(descriptor, _READ_BYTES)
            if not data:
                return
            yield data
    finally:
        if is_waiting:
            loop.remove_reader(descriptor)


def _has_input(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
