"""A whole broker without a process: simulated disk, registry in memory, network in memory, virtual time.

Requests go through their bytes and the dispatcher, as from a connection; use it under `tests.support.loop.run`.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterable
from typing import Any

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.local_control import LocalControl
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller.requests import NewTopic
from odradek.network.connection import Connection
from odradek.security.authorization.acls import AclBinding
from odradek.security.authorization.filters import AclFilter
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.builder import build_batch
from tests.support.disk import SimulatedDisk
from tests.support.field_names import check_field_names
from tests.support.loop import LoopClock, stop_at_end
from tests.support.memory_registry import MemoryRegistry, MemoryStore
from tests.support.network import MemoryNetwork
from tests.support.rights import committed

START_MS = 1_700_000_000_000


class WholeBroker:
    """Make it with `await WholeBroker.start(...)`, or `start_guarded`. It stops when the story has passed."""

    def __init__(
        self,
        broker: BrokerProcess[LocalControl],
        disk: SimulatedDisk,
        registry: MemoryRegistry,
        network: MemoryNetwork,
    ) -> None:
        self.broker = broker
        self.network = network
        self.disk = disk
        self.registry = registry
        self._generation = disk.generation
        self.dispatcher = broker.control.make_dispatcher(broker.parts)
        self.client_id = "test"
        self.connection = Connection(id=1, listener_name="PLAINTEXT", peer=("client.test", 5000))

    @classmethod
    async def start(
        cls,
        entries: dict[str, str] | None = None,
        *,
        disk: SimulatedDisk | None = None,
        registry: MemoryRegistry | None = None,
        clock: LoopClock | None = None,
        seed: int = 1,
    ) -> WholeBroker:
        disk = disk or SimulatedDisk()
        registry = registry or MemoryRegistry()
        settings = Settings(
            {"log.dirs": "/logs", "listeners": "PLAINTEXT://broker.test:9092", **(entries or {})}
        )
        network = MemoryNetwork(random.Random(seed))
        broker = BrokerProcess(
            settings,
            clock=clock or LoopClock(),
            network=network.at("broker.test"),
            disk=disk,
            control=LocalControl(store=MemoryStore(registry)),
            rng=random.Random(seed),
        )
        await broker.start()
        whole = cls(broker, disk, registry, network)
        stop_at_end(whole.stop)
        return whole

    @classmethod
    async def start_guarded(cls, **entries: str) -> WholeBroker:
        """One with an authorizer, asked by User:alice without rights.

        It has the topics seen and hidden, the group g with an offset of seen, and the transactional id t.
        """
        authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        named = {key.replace("_", "."): text for key, text in entries.items()}
        broker = await cls.start({"authorizer.class.name": authorizer, "super.users": "User:root", **named})
        broker.connection.principal = "User:root"
        for topic in ("seen", "hidden"):
            await broker.create_topic(topic)
        for key_type, key in ((0, "g"), (1, "t")):
            found = await broker.ask(ApiKey.FIND_COORDINATOR, 3, key_type=key_type, key=key)
            assert int(found.error_code) == 0
        await broker.ask(ApiKey.OFFSET_COMMIT, 8, **committed("g", "seen"))
        broker.connection = Connection(id=2, listener_name="PLAINTEXT", peer=("10.0.0.7", 5000))
        broker.connection.principal = "User:alice"
        return broker

    async def stop(self) -> None:
        """Stop, unless it has stopped or died with its disk."""
        if self.broker.is_serving and self._generation == self.disk.generation:
            await self.broker.stop()

    async def restart(self) -> WholeBroker:
        """Stop cleanly, and start again on the same disk and registry."""
        await self.stop()
        return await WholeBroker.start(disk=self.disk, registry=self.registry)

    async def create_topic(self, name: str, *, partitions: int = 1, **config: str) -> None:
        """Make a topic; underscores in the names of settings stand for dots."""
        texts = {key.replace("_", "."): text for key, text in config.items()}
        topic = NewTopic(name=name, partition_count=partitions, config=texts)
        (outcome,) = await self.broker.control.controller.create_topics([topic])
        assert not isinstance(outcome, Exception), outcome

    async def allow(self, *acls: AclBinding) -> None:
        assert await self.broker.control.controller.create_acls(acls) == [None] * len(acls)

    async def take_away(self, binding: AclBinding) -> None:
        """Remove every ACL of the pattern."""
        pattern = binding.pattern
        wanted = AclFilter(type=pattern.type, name=pattern.name, pattern_type=pattern.pattern_type)
        await self.broker.control.controller.delete_acls([wanted])

    def send(self, api: ApiKey, version: int, /, connection: Connection | None = None, **fields: Any) -> Any:
        """What the dispatcher returns for the request: bytes, parts, a future, a coroutine or None."""
        check_field_names()
        sent = codec.encode_request(api, version, 7, self.client_id, messages.request(api, version, **fields))
        return self.dispatcher(connection or self.connection, memoryview(bytearray(sent))[4:])

    async def ask(self, api: ApiKey, version: int, /, **fields: Any) -> Any:
        """The decoded answer."""
        answer = self.send(api, version, **fields)
        if inspect.isawaitable(answer):
            answer = await answer
        return decoded(api, version, answer)

    async def produce(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = 1, version: int = 9, **fields: Any
    ) -> Any:
        """Produce one batch; the partition's answer."""
        answer = await self.ask(
            ApiKey.PRODUCE,
            version,
            acks=acks,
            timeout=1000,
            topic_data=[
                {"name": topic, "partition_data": [{"index": partition, "records": batch(values, **fields)}]}
            ],
        )
        return answer.responses[0].partition_responses[0]

    def fetch_fields(
        self, *asked: tuple[str, int, int], min_bytes: int = 1, max_wait_ms: int = 0, **fields: Any
    ) -> dict[str, Any]:
        """The fields of a fetch of (topic, partition, offset) by name, below version 13."""
        topics: dict[str, list[dict[str, Any]]] = {}
        for topic, partition, offset in asked:
            topics.setdefault(topic, []).append(
                {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            )
        return {
            "max_wait": max_wait_ms,
            "min_bytes": min_bytes,
            "max_bytes": 1 << 24,
            "topics": [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()],
            **fields,
        }


def batch(values: Iterable[bytes], *, timestamp_ms: int = START_MS, **fields: Any) -> bytes:
    """One batch of these values, all of one time."""
    return bytes(build_batch([(timestamp_ms, None, value) for value in values], **fields))


def decoded(api: ApiKey, version: int, answer: Any) -> Any:
    """The message in what a dispatcher gave."""
    if isinstance(answer, list):
        answer = b"".join(part if isinstance(part, bytes | bytearray) else part.read() for part in answer)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4, "the frame's size is wrong"
    correlation_id, message = codec.decode_response(api, version, memoryview(bytes(answer))[4:])
    assert correlation_id == 7
    return message
