"""From lines of input to records, many at a time, by the options of `odradek produce` that define a line. A line that
is not a record does not discard those before it: `parse` returns them together with the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from odradek.cli.records.record_formats import Headers, InputError, NewRecord, parse_json_record, unescape
from odradek.cli.shared.options import parse_assignments


class RecordGroup(NamedTuple):
    """Records that share the fields which are not sequences here. `numbers` are the numbers of their lines, from 1 on.
    `keys` has one for each value; without it all have `key`. `timestamps_ms` has one for each value; None is the time
    of sending.
    """

    values: Sequence[bytes | None]
    numbers: Sequence[int]
    keys: Sequence[bytes | None] | None = None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamps_ms: Sequence[int | None] | None = None

    def part(self, start: int, end: int) -> RecordGroup:
        return self._replace(
            values=self.values[start:end],
            numbers=self.numbers[start:end],
            keys=None if self.keys is None else self.keys[start:end],
            timestamps_ms=None if self.timestamps_ms is None else self.timestamps_ms[start:end],
        )


@dataclass(slots=True)
class Parsed:
    """The records of some lines, and the error if they end before the lines do."""

    groups: list[RecordGroup] = field(default_factory=list)
    failure: InputError | None = None


class LineFormat:
    """The format of a line. `skip_lines` is the number of lines before the first that is parsed."""

    def __init__(
        self,
        *,
        is_json: bool = False,
        key: str | None = None,
        separator: str | None = None,
        headers: tuple[str, ...] = (),
        partition: int | None = None,
        null_value: str | None = None,
        is_skipping_empty: bool = False,
        is_crlf: bool = False,
        skip_lines: int = 0,
    ) -> None:
        self._is_json = is_json
        self._key = None if key is None else key.encode()
        self._separator = unescape(separator).encode() if separator else None
        self._partition = partition
        self._null_value = None if null_value is None else null_value.encode()
        self._is_skipping_empty = is_skipping_empty or is_json
        self._is_crlf = is_crlf
        self.lines_seen = skip_lines
        for header in headers:
            parse_assignments((header,), option="--header")
        pairs = (header.partition("=") for header in headers)
        self._headers = tuple((name, value.encode()) for name, _, value in pairs)

    def parse(self, lines: Sequence[bytes]) -> Parsed:
        """The records of these lines, which follow those parsed before. They end before the first line that is not a
        record.
        """
        numbers: Sequence[int] = range(self.lines_seen + 1, self.lines_seen + 1 + len(lines))
        self.lines_seen += len(lines)
        # JSON allows white space around an object, so a CR there is not part of the record.
        if self._is_crlf:
            lines = [line.removesuffix(b"\r") for line in lines]
        if self._is_json:
            return self._parse_json(lines, numbers)
        if self._is_skipping_empty and b"" in lines:
            kept = [(line, number) for line, number in zip(lines, numbers, strict=True) if line]
            lines, numbers = [line for line, _ in kept], [number for _, number in kept]
        if self._separator is not None:
            return self._parse_keys(lines, numbers, self._separator)
        group = RecordGroup(
            self._with_nulls(lines), numbers, key=self._key, headers=self._headers, partition=self._partition
        )
        return Parsed([group])

    def _with_nulls(self, values: Sequence[bytes]) -> Sequence[bytes | None]:
        if self._null_value is None or self._null_value not in values:
            return values
        return [None if value == self._null_value else value for value in values]

    def _parse_keys(self, lines: Sequence[bytes], numbers: Sequence[int], separator: bytes) -> Parsed:
        keys: list[bytes] = []
        values: list[bytes] = []
        failure: InputError | None = None
        for line, number in zip(lines, numbers, strict=True):
            key, found, value = line.partition(separator)
            if not found:
                failure = InputError(f"line {number} has no {separator.decode()!r} between key and value")
                break
            keys.append(key)
            values.append(value)
        group = RecordGroup(
            self._with_nulls(values),
            numbers[: len(values)],
            keys=keys,
            headers=self._headers,
            partition=self._partition,
        )
        return Parsed([group], failure)

    def _parse_json(self, lines: Sequence[bytes], numbers: Sequence[int]) -> Parsed:
        records: list[tuple[NewRecord, int]] = []
        parsed = Parsed()
        for line, number in zip(lines, numbers, strict=True):
            if not line.strip():
                continue
            try:
                records.append((parse_json_record(line, number=number), number))
            except InputError as failure:
                parsed.failure = failure
                break
        for (headers, partition), run in groupby(records, key=lambda one: one[0][2:4]):
            together = list(run)
            keys = [self._key if record.key is None else record.key for record, _ in together]
            times = [record.timestamp_ms for record, _ in together]
            parsed.groups.append(
                RecordGroup(
                    [record.value for record, _ in together],
                    [number for _, number in together],
                    keys=None if keys.count(None) == len(keys) else keys,
                    headers=headers + self._headers,
                    partition=self._partition if partition is None else partition,
                    timestamps_ms=None if times.count(None) == len(times) else times,
                )
            )
        return parsed
