"""Which of the broker's files one request enters, on a warm single node in this process.

The node has a real socket and a real disk. While a request is answered, a profile function notes the file of each
function that is called. Idle tasks of the broker may run at the same time, so a request is made several times. Only the
files that all of its runs enter count.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import odradek
from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.local_control import LocalControl
from odradek.foundation.settings.broker_settings import Settings
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from tests.support.memory_registry import MemoryStore
from tests.support.whole_broker import batch

TOPIC: Final = "t"
_ROOT: Final = str(Path(odradek.__file__).parent) + "/"
_RUNS: Final = 5
_PROTOCOL: Final = [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}]


class TracedNode:
    """A single node and one client's connection to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sequence = 0

    async def produce(self, *, is_idempotent: bool = False) -> list[str]:
        """The files that a Produce of version 9 enters: one batch for one partition, acks=1."""

        def fields() -> dict[str, Any]:
            producer = {}
            if is_idempotent:
                producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": self._sequence}
                self._sequence += 1
            records = batch([b"value"], **producer)
            data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}]
            return {"acks": 1, "timeout": 1000, "topic_data": data}

        return await self._entered(ApiKey.PRODUCE, 9, fields, _produced)

    async def fetch(self) -> list[str]:
        """The files that a Fetch of version 11 enters: one partition that has records, no session."""
        asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        fields = {"max_bytes": 1 << 24, "min_bytes": 1, "max_wait": 0, "session_epoch": -1}
        topics = [{"topic": TOPIC, "partitions": [asked]}]
        return await self._entered(ApiKey.FETCH, 11, lambda: {**fields, "topics": topics}, _fetched)

    async def join_group(self) -> tuple[list[str], list[str]]:
        """The files that a JoinGroup and the SyncGroup after it enter, both of version 5, by a group's first member.

        The answer to the second one waits for the group's record to be in the log.
        """
        await self.request(ApiKey.FIND_COORDINATOR, 0, {"key": "group"})
        joins, syncs = zip(*[await self._join(f"group {number}") for number in range(_RUNS)], strict=True)
        return _common(joins), _common(syncs)

    async def _join(self, group_id: str) -> tuple[set[str], set[str]]:
        fields: dict[str, Any] = {"group_id": group_id, "group_instance_id": "one"}
        timeouts = {"session_timeout": 10_000, "rebalance_timeout": 10_000}
        asked = {**fields, **timeouts, "protocol_type": "consumer", "protocols": _PROTOCOL}
        answer, joined = await self.request(ApiKey.JOIN_GROUP, 5, asked)
        assert (answer.error_code, answer.generation_id) == (0, 1), answer
        fields.update(member_id=answer.member_id, generation_id=1)
        assigned = [{"member_id": answer.member_id, "assignment": b"\0\0"}]
        answer, synced = await self.request(ApiKey.SYNC_GROUP, 3, {**fields, "assignments": assigned})
        assert answer.error_code == 0, answer
        return joined, synced

    async def _entered(
        self,
        api: ApiKey,
        version: int,
        fields: Callable[[], dict[str, Any]],
        is_good: Callable[[Any], bool],
    ) -> list[str]:
        runs = []
        for _ in range(_RUNS):
            answer, entered = await self.request(api, version, fields())
            assert is_good(answer), answer
            runs.append(entered)
        return _common(runs)

    async def request(self, api: ApiKey, version: int, fields: dict[str, Any]) -> tuple[Any, set[str]]:
        """The decoded answer, and the files that the request entered."""
        sent = codec.encode_request(api, version, 7, "client", messages.request(api, version, **fields))
        entered: set[str] = set()

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(_ROOT):
                entered.add(frame.f_code.co_filename.removeprefix(_ROOT))

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            self._writer.write(sent)
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            answer = await self._reader.readexactly(size)
        finally:
            sys.setprofile(before)
        return codec.decode_response(api, version, memoryview(answer))[1], entered


def _produced(answer: Any) -> bool:
    return bool(answer.responses[0].partition_responses[0].error_code == 0)


def _fetched(answer: Any) -> bool:
    return bool(answer.responses[0].partitions[0].records)


def _common(runs: Iterable[set[str]]) -> list[str]:
    """What all runs entered, the first one left out: it loads what is loaded once."""
    return sorted(set.intersection(*list(runs)[1:]))


@asynccontextmanager
async def traced_node(directory: Path) -> AsyncIterator[TracedNode]:
    """A single node whose logs are in `directory`, with one topic."""
    entries = {
        "log.dirs": str(directory),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    broker = BrokerProcess(Settings(entries), control=LocalControl(store=MemoryStore()))
    await broker.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.endpoints[0].port)
        node = TracedNode(reader, writer)
        topic = {
            "name": TOPIC,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        await node.request(ApiKey.CREATE_TOPICS, 2, {"topics": [topic], "timeout": 1000})
        yield node
        writer.close()
        await writer.wait_closed()
    finally:
        await broker.stop()
