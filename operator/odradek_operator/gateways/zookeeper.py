"""ZooKeeper's four-letter words: one question for each connection, and an answer as text.

They need no session. zoo.cfg names those that are answered (4lw.commands.whitelist).
"""

from __future__ import annotations

import asyncio
from typing import Final

ANSWER_SECONDS_MAX: Final = 5.0
# `srvr` takes some 300 bytes, `mntr` some thousands.
ANSWER_BYTES_MAX: Final = 256 * 1024


async def ask(host: str, port: int, word: str) -> str | None:
    """Return a server's answer to a four-letter word; None of one that does not answer within 5 s."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await _asked(host, port, word)
    except (OSError, TimeoutError):
        return None


async def _asked(host: str, port: int, word: str) -> str:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(word.encode())
        await writer.drain()
        answer = b""
        while len(answer) < ANSWER_BYTES_MAX and (more := await reader.read(ANSWER_BYTES_MAX - len(answer))):
            answer += more
        return answer.decode(errors="replace")
    finally:
        writer.close()
