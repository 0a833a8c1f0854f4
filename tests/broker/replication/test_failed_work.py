"""Work that fails in a thread leaves the event loop nothing to free: 256 MB of it took a turn of 50 ms."""

from __future__ import annotations

import threading

import pytest

from odradek.broker.replication.blocking import BlockingWork
from odradek.foundation.errors import InvalidRecord
from tests.support.stories import in_real_time


class Held:
    """Notes the thread in which it is freed."""

    def __init__(self, freed_in: list[str]) -> None:
        self._freed_in = freed_in

    def __del__(self) -> None:
        self._freed_in.append(threading.current_thread().name)


@in_real_time
async def test_what_failed_work_held_is_freed_in_its_thread() -> None:
    freed_in: list[str] = []

    def read() -> None:
        held = Held(freed_in)
        raise ValueError(id(held))

    def work() -> None:
        held = Held(freed_in)
        try:
            read()
        except ValueError as error:
            raise InvalidRecord(f"it cannot be read: {id(held)}") from error

    threads = BlockingWork(threads_max=1, name="test")
    try:
        with pytest.raises(InvalidRecord, match="cannot be read"):
            await threads.submit(work)
        assert [name.startswith("odradek-test") for name in freed_in] == [True, True]
    finally:
        threads.close()
