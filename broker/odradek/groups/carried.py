"""Records of the offsets topic that this broker does not read, kept so that a rewrite writes them again.

Share groups and streams groups have records there, newer brokers write newer versions, and a directory may go
back to the broker that wrote them. So whatever cannot be decoded is held as bytes, the newest value by key as
compaction would, and is dropped by its tombstone or by a later record of the same key that can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.groups.schema import Encoded


class CarriedRecords:
    """The newest unread value of each key. Bounded by what the log holds alive."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Encoded]:
        """What a restart must find; may be walked while records come and go."""
        for key in list(self._values):
            value = self._values.get(key)
            if value is not None:
                yield key, value

    def take(self, key: bytes, value: bytes | None) -> None:
        """A record that cannot be read; None removes what stood under its key."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def superseded(self, records: Iterable[Encoded]) -> None:
        """These are in the log, and later: what stood under their keys counts no more."""
        if self._values:
            for key, _ in records:
                self._values.pop(key, None)
