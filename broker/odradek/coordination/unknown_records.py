"""Records of an internal topic that this broker does not read, kept so that a rewrite writes them again.

Share groups and streams groups have records in the offsets topic, and newer brokers write newer versions. A directory
may also go back to the broker that wrote it. So what cannot be decoded is held as bytes. The newest value of each key
counts, as in compaction. A tombstone, or a later record of the key that can be read, removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.coordination.topic_log import EncodedRecord


class UnknownRecords:
    """The newest unread value of each key. Bounded by the live records of the log."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[EncodedRecord]:
        """What a restart must find; records may change during the walk."""
        for key in list(self._values):
            value = self._values.get(key)
            if value is not None:
                yield key, value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Hold a record that cannot be read; None removes what the key had."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def discard(self, records: Iterable[EncodedRecord]) -> None:
        """Forget the keys of `records`, which are later in the log and can be read."""
        if self._values:
            for key, _ in records:
                self._values.pop(key, None)
