"""Records that clients send and must get back as they were: every legal shape of key, value and header."""

from __future__ import annotations

from dataclasses import dataclass

BASE_TIME_MS = 1_700_000_000_000
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Sample:
    """One record; None is null, which is another thing than empty bytes."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = BASE_TIME_MS


SAMPLES = (
    Sample(b"key", b"value"),
    Sample(None, b"no key", timestamp_ms=BASE_TIME_MS + 1),
    Sample(b"tombstone", None, timestamp_ms=BASE_TIME_MS + 2),
    Sample(b"", b"", timestamp_ms=BASE_TIME_MS + 3),
    Sample(None, None, headers=(("only", b"a header"),), timestamp_ms=BASE_TIME_MS + 4),
    Sample(
        b"h", b"headers", headers=(("a", b"1"), ("a", b"2"), ("empty", b""), ("\u017elu\u0165", b"\x00\xff"))
    ),
    Sample(b"b", bytes(range(256)), headers=(("null", None),), timestamp_ms=BASE_TIME_MS + 1000),
    Sample(b"large", b"0123456789abcdef" * 6400, timestamp_ms=BASE_TIME_MS + 86_400_000),
    Sample("\u010daj".encode(), "\u4e16\u754c".encode(), timestamp_ms=BASE_TIME_MS - 1),
)


def numbered(count: int, *, start: int = 0) -> list[bytes]:
    """Values that contain their number, so that a lost or repeated one can be named."""
    return [b"value-%07d" % number for number in range(start, start + count)]
