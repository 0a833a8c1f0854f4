"""A partition that sends nothing though its end is known ends a read, also after it has sent some."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from odradek.foundation.ids import TopicPartition
from odradek_pipeline.audit.collecting import blocks
from odradek_pipeline.dead_letters import reading
from odradek_pipeline.errors import AnswerTimeoutError

KEY = TopicPartition("t", 0)


class SilentConsumer:
    """Sends two blocks of five offsets, then nothing."""

    def __init__(self, client: object, *, is_read_committed: bool = False) -> None:
        self.assignment: list[TopicPartition] = []
        self._offset = 0

    async def __aenter__(self) -> SilentConsumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to close."""

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.assignment = list(offsets)

    def position(self, key: TopicPartition) -> int:
        return self._offset

    async def poll_blocks(self, *, timeout_ms: int) -> list[Any]:
        if self._offset == 10:
            return []
        self._offset += 5
        return [SimpleNamespace(end_offset=self._offset)]

    async def poll(self, *, timeout_ms: int) -> list[Any]:
        return []


def test_an_audit_reads_to_the_end_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "PartitionConsumer", SilentConsumer)
    ends: list[int] = []

    def read_to(end: int) -> None:
        client: Any = None
        asyncio.run(
            blocks.read_blocks(client, {KEY: 0}, {KEY: end}, lambda block: ends.append(block.end_offset))
        )

    read_to(10)
    assert ends == [5, 10]
    with pytest.raises(AnswerTimeoutError, match="t-0 sent nothing for 60 s"):
        read_to(11)


def test_a_scan_of_dead_letters_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PartitionConsumer", SilentConsumer)

    async def scan() -> None:
        client: Any = None
        async for _ in reading.scan_letters(client, reading.LetterLog({KEY: 0}, {KEY: 1}, {KEY: 0})):
            raise AssertionError("there is no letter")

    with pytest.raises(AnswerTimeoutError, match="t-0 sent nothing for 60 s"):
        asyncio.run(scan())
