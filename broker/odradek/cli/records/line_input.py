"""Lines from a file, a pipe or a terminal, read without blocking the event loop. A regular file is read at once; on a
pipe or a terminal the loop waits for input. No thread is used, because a thread that waits in a read would keep Ctrl-C
from ending the command.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections.abc import AsyncIterator
from typing import BinaryIO

from odradek.cli.records.record_formats import InputError
from odradek.foundation.client_limits import INPUT_LINE_BYTES_MAX

_READ_BYTES = 256 * 1024


class LineTooLong(InputError):
    """A line that is longer than the limit; it would fill the memory."""


async def read_lines(source: BinaryIO) -> AsyncIterator[list[bytes]]:
    """Lists of lines as they arrive, without their line ends. A last line without a line end counts too. Raises
    LineTooLong.
    """
    rest: list[bytes] = []
    rest_bytes = lines_seen = 0
    async for data in _read_chunks(source):
        if b"\n" in data:
            lines = b"".join((*rest, data)).split(b"\n")
            rest = [lines.pop()]
            rest_bytes = len(rest[0])
            lines_seen += len(lines)
            yield lines
        else:
            rest.append(data)
            rest_bytes += len(data)
        if rest_bytes > INPUT_LINE_BYTES_MAX:
            raise LineTooLong(
                f"line {lines_seen + 1} has more than {INPUT_LINE_BYTES_MAX} bytes; is the input text?"
            )
    if rest_bytes:
        yield [b"".join(rest)]


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
                # The loop may have seen the same bytes twice, before and while they were read. A read without input
                # would block. A non-blocking descriptor would be non-blocking for the shell as well.
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
    # Not poll, which knows no terminals on macOS.
    readable, _, _ = select.select([descriptor], [], [], 0)
    return bool(readable)
