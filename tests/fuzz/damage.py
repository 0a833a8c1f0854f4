"""Bytes made wrong: what a stranger, a broken client or a bad network would send in place of good ones."""

from __future__ import annotations

import random
import struct

from odradek.wire.records.batch import update_crc
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression

START_MS = 1_700_000_000_000
# Of a batch's header: attributes, last offset delta, both times, producer id, epoch, sequence, count.
_HEADER_PLACES = ((21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4))
_CRC_END = 21


def changed(chance: random.Random, data: bytes) -> bytes:
    """`data` with one to four of its parts changed, moved, repeated or truncated."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        if not out:
            return chance.randbytes(8)
        at = chance.randrange(len(out))
        kind = chance.randrange(7)
        if kind == 0:
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            out[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del out[at : at + chance.choice((1, 2, 4, 50))]
        elif kind == 3:
            out[at:at] = chance.randbytes(chance.choice((1, 2, 4, 50)))
        elif kind == 4:
            number = edge(chance, chance.choice((2, 4, 8)))
            out[at : at + len(number)] = number
        elif kind == 5:
            where = chance.randrange(len(out) + 1)
            out[where:where] = out[at : at + chance.randrange(1, 40)]
        else:
            del out[at:]
    return bytes(out)


def edge(chance: random.Random, size: int) -> bytes:
    """A number of `size` bytes at the edge of its type, or near zero."""
    most = (1 << 8 * size - 1) - 1
    number = chance.choice((0, 1, -1, -2, most, -most - 1, most // 2, 1 << 8 * size - 9))
    return number.to_bytes(size, "big", signed=True)


def records(chance: random.Random, producer: tuple[int, int]) -> bytes:
    """What a Produce request carries: whole batches, batches with one false part, legacy messages, noise.

    `producer` is an id and epoch that the broker may know.
    """
    kind = chance.random()
    if kind < 0.05:
        return chance.randbytes(chance.randrange(200))
    if kind < 0.1:
        return _legacy(chance)
    made = b"".join(_batch(chance, producer) for _ in range(chance.choice((1, 1, 1, 2))))
    return made if kind < 0.8 else changed(chance, made)


def _batch(chance: random.Random, producer: tuple[int, int]) -> bytes:
    content = [
        (
            START_MS + chance.choice((0, 1, -5, 10_000_000, 1 << 41)),
            chance.choice((None, b"", b"key", chance.randbytes(20))),
            chance.choice((None, b"", b"value" * chance.randrange(40))),
            chance.choice(((), ((chance.choice(("", "h")), chance.choice((None, b"", b"x"))),))),
        )
        for _ in range(chance.choice((0, 1, 1, 3, 30)))
    ]
    identity: dict[str, int] = {}
    if chance.random() < 0.4:
        identity = {
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "base_sequence": chance.choice((0, 0, 1, 2, 30, 2**31 - 1, -1)),
        }
    batch = build_batch(
        content,
        compression=chance.choice(list(Compression)),
        is_transactional=chance.random() < 0.05,
        is_control=chance.random() < 0.03,
        **identity,
    )
    if chance.random() < 0.3:
        _falsify(chance, batch)
    return bytes(batch)


def _falsify(chance: random.Random, batch: bytearray) -> None:
    """Change the header or the records of a batch and make its CRC right again, so that it is looked into."""
    if chance.random() < 0.5:
        at, size = chance.choice(_HEADER_PLACES)
        batch[at : at + size] = edge(chance, size)
    else:
        for _ in range(chance.choice((1, 3))):
            at = chance.randrange(_CRC_END, len(batch))
            batch[at] = chance.randrange(256)
    update_crc(batch)


def _legacy(chance: random.Random) -> bytes:
    """A message of magic 0 or 1, its CRC wrong more often than not."""
    magic = chance.randrange(2)
    body = struct.pack(">bb", magic, chance.randrange(5)) + (struct.pack(">q", START_MS) if magic else b"")
    body += struct.pack(">i3si3s", 3, b"key", 3, b"old")
    return struct.pack(">qiI", 0, len(body) + 4, chance.getrandbits(32)) + body
