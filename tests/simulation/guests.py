"""Users of a simulated cluster with an authorizer: a guest whose rights and quotas come and go, and a stranger.

Both log in at a listener of their own. All other clients, and the processes, are super users. What has to hold:

I14  A stranger is denied everything, at any moment of any fault. A right that is taken away holds after a second, also
     for a connection that used it before. One that is given works.
I15  A client that waits because of a quota continues within seconds of the quota's end.

Left out: rights while the registry is away. A broker without its controller decides by what it saw last, as in Kafka.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from odradek.broker.requests.table import FORWARDED
from odradek.client.admin.acls import AclAdmin
from odradek.client.admin.quotas import QuotaAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.errors import OdradekError, TopicAlreadyExists
from odradek.network.outbound import OutboundConnection
from odradek.network.secured import ConnectionSecurity, SecureNetwork
from odradek.security.authentication.credentials import Credentials
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclBinding,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.security.authorization.acls import AclOperation as Operation
from odradek.security.authorization.filters import AclFilter
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from tests.broker.requests import denied_groups, denied_topics
from tests.simulation.cluster import BROKERS
from tests.simulation.tasks import end_all, raise_failure_of
from tests.simulation.workload import Workload
from tests.support.rights import Row, codes
from tests.support.whole_broker import batch

GUARDED_TOPIC: Final = "g"
GUEST, STRANGER = "guest", "stranger"
PORT: Final = 9094
PASSWORD: Final = "simulated"
SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
BROKER_SETTINGS: Final = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,GUESTS:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.guests.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{GUEST}="{PASSWORD}" user_{STRANGER}="{PASSWORD}";'
    ),
}
DENIALS: Final = frozenset((29, 30, 31, 53))
# What a forwarded request may be answered with instead, while controllers come and go.
NO_CONTROLLER: Final = frozenset((7, 41))
TOPIC_DENIED: Final = 29
RIGHT_HOLDS_SECONDS: Final = 1.0
QUOTA_ENDS_SECONDS: Final = 5.0
WORKS_AGAIN_SECONDS: Final = 30.0
# A broker passes requests on for 30 s.
LATE_SECONDS: Final = 35.0
# Longer than any of the waits that are looked at.
REQUEST_TIMEOUT_MS: Final = 10_000
QUOTA: Final = {"producer_byte_rate": 100.0}
VALUE_BYTES: Final = 20_000


def _produce(topic: str, *values: bytes) -> dict[str, Any]:
    partition = {"index": 0, "records": batch(values)}
    return {
        "transactional_id": None,
        "acks": 1,
        "timeout": 5_000,
        "topic_data": [{"name": topic, "partition_data": [partition]}],
    }


_FETCHED: Final = {
    "partition": 0,
    "current_leader_epoch": -1,
    "fetch_offset": 0,
    "log_start_offset": -1,
    "partition_max_bytes": 1000,
}
ROWS: Final[list[Row]] = [
    (ApiKey.PRODUCE, 9, _produce(GUARDED_TOPIC, b"v"), {TOPIC_DENIED}, ()),
    (
        ApiKey.FETCH,
        11,
        {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1000,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": GUARDED_TOPIC, "partitions": [_FETCHED]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        },
        {TOPIC_DENIED},
        (),
    ),
    *(row for row in (*denied_topics.ROWS, *denied_groups.ROWS) if row[3]),
]


class Guests:
    """The guest, the stranger, and the administrator of their rights. An `Actor`; made before the brokers are."""

    def __init__(self, workload: Workload, rng: random.Random) -> None:
        self._workload = workload
        self._cluster = workload.cluster
        self._history = workload.history
        self._rng = rng
        self._cluster.entries |= SETTINGS
        self._cluster.broker_entries |= BROKER_SETTINGS
        self._cluster.more_listeners = {"GUESTS": PORT}
        self._connections: dict[tuple[str, int], OutboundConnection] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_settled = False
        self._failed_at = float("-inf")
        self.denied = 0
        """Requests of the stranger that were denied."""

    def start(self) -> None:
        self._client = self._workload.client("warden", random.Random(self._rng.getrandbits(64)))
        self._acls, self._quotas = AclAdmin(self._client), QuotaAdmin(self._client)
        self._tasks = [
            asyncio.create_task(live(random.Random(self._rng.getrandbits(64))))
            for live in (self._change, self._write_now_and_then, self._trespass)
        ]

    def raise_failure(self) -> None:
        raise_failure_of(self._tasks)

    def is_settled(self) -> bool:
        return self._is_settled

    async def stop(self) -> None:
        await self._end_tasks()
        for connection in self._connections.values():
            await connection.close()
        await self._client.close()

    async def _end_tasks(self) -> None:
        await end_all(self._tasks)
        self._tasks = []

    # --- while everything fails ----------------------------------------------------------------------------------

    async def _change(self, rng: random.Random) -> None:
        """Give and take what the guest has."""
        deeds = (self._make_topic, self._give, self._take, self._limit, self._free)
        while True:
            try:
                await rng.choice(deeds)()
            except OdradekError as failure:
                self._note(failure)
            await asyncio.sleep(self._cluster.pause_seconds(rng.uniform(0.1, 1.5)))

    async def _write_now_and_then(self, rng: random.Random) -> None:
        while True:
            code = await self._written(rng.choice(BROKERS), b"." * rng.choice((10, 2_000)))
            self._history.add(GUEST, f"writes: {code}")
            await asyncio.sleep(self._cluster.pause_seconds(rng.uniform(0.1, 1.0)))

    async def _trespass(self, rng: random.Random) -> None:
        """Ask for anything, of any broker: each answer is a denial, or says that nothing can be answered now."""
        while True:
            api, version, fields, expected, _ = rng.choice(ROWS)
            answer = await self._asked(STRANGER, rng.choice(BROKERS), api, version, fields)
            found = set() if answer is None else set(codes(answer))
            if answer is not None:
                is_denied = found == expected
                self.denied += is_denied
                self._history.add(STRANGER, f"asks {api.name} {version}: {sorted(found)}")
                self._history.require(
                    is_denied or (api in FORWARDED and bool(found) and found <= NO_CONTROLLER),
                    "I14",
                    f"a stranger's {api.name} {version} is answered with the errors {sorted(found)}",
                )
            await asyncio.sleep(self._cluster.pause_seconds(rng.uniform(0.05, 0.5)))

    # --- rights and quotas ---------------------------------------------------------------------------------------

    async def _give(self) -> None:
        entry = AccessControlEntry(f"User:{GUEST}", "*", Operation.WRITE, PermissionType.ALLOW)
        for failure in await self._acls.create([AclBinding(_pattern(), entry)]):
            if failure is not None:
                raise failure
        self._history.add("warden", "lets the guest write")

    async def _take(self) -> None:
        wanted = AclFilter(type=AclResourceType.TOPIC, name=GUARDED_TOPIC, pattern_type=PatternType.LITERAL)
        for removed in await self._acls.delete([wanted]):
            if isinstance(removed, OdradekError):
                raise removed
        self._history.add("warden", "takes the guest's right away")

    async def _limit(self) -> None:
        await self._quotas.alter(ClientEntity(user=GUEST), QUOTA)
        self._history.add("warden", "gives the guest a quota")

    async def _free(self) -> None:
        await self._quotas.alter(ClientEntity(user=GUEST), dict.fromkeys(QUOTA))
        self._history.add("warden", "takes the guest's quota away")

    # --- when nothing fails any more -----------------------------------------------------------------------------

    async def settle(self) -> None:
        await self._end_tasks()
        await self._until_done(self._make_topic)
        await self._until_done(self._free)
        await self._until_done(self._give)
        await self._writes_again()
        await self._none_is_late()
        await self._until_done(self._take)
        await asyncio.sleep(RIGHT_HOLDS_SECONDS)
        code = await self._write_to_leader(b"taken")
        self._history.require(code == TOPIC_DENIED, "I14", f"a right that is gone holds: {code}")
        await self._until_done(self._give)
        await asyncio.sleep(RIGHT_HOLDS_SECONDS)
        code = await self._write_to_leader(b"given")
        self._history.require(code == 0, "I14", f"a right that was given does not hold: {code}")
        await self._until_done(self._limit)
        await asyncio.sleep(RIGHT_HOLDS_SECONDS)
        # The one that exceeds the quota is served; the next one waits.
        await self._write_to_leader(b"." * VALUE_BYTES)
        waiting = asyncio.create_task(self._write_to_leader(b"after"))
        await asyncio.sleep(RIGHT_HOLDS_SECONDS)
        self._history.require(not waiting.done(), "I15", "a client above its quota does not wait")
        await self._until_done(self._free)
        await asyncio.wait([waiting], timeout=QUOTA_ENDS_SECONDS)
        # A request that times out is no answer.
        is_over = waiting.done() and waiting.result() == 0
        waiting.cancel()
        self._history.require(
            is_over, "I15", f"a client waits {QUOTA_ENDS_SECONDS:g} s after its quota's end"
        )
        self._is_settled = True

    def _note(self, failure: OdradekError) -> None:
        self._history.add("warden", f"failed: {failure}")
        self._failed_at = asyncio.get_running_loop().time()

    async def _none_is_late(self) -> None:
        """A request without an answer may still be carried out, and give what the next one takes."""
        while (rest := self._failed_at + LATE_SECONDS - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(rest)

    async def check(self) -> None:
        """Everything was checked as it happened."""

    async def _until_done(self, deed: Callable[[], Awaitable[None]]) -> None:
        deadline = asyncio.get_running_loop().time() + WORKS_AGAIN_SECONDS
        while True:
            try:
                await deed()
                return
            except OdradekError as failure:
                self._note(failure)
                late = asyncio.get_running_loop().time() > deadline
                self._history.require(not late, "I12", f"{deed.__name__} does not work: {failure}")
                await asyncio.sleep(0.5)

    async def _make_topic(self) -> None:
        try:
            await TopicAdmin(self._client).create(
                GUARDED_TOPIC, partitions=1, replication_factor=len(BROKERS)
            )
        except TopicAlreadyExists:
            return

    async def _writes_again(self) -> None:
        """The right is given again before each try: a removal without an answer may be carried out after the first."""
        deadline = asyncio.get_running_loop().time() + WORKS_AGAIN_SECONDS
        while (code := await self._write_to_leader(b"again")) != 0:
            late = asyncio.get_running_loop().time() > deadline
            self._history.require(not late, "I14", f"the guest has a right and cannot write: {code}")
            await asyncio.sleep(0.5)
            await self._until_done(self._give)

    async def _write_to_leader(self, value: bytes) -> int | None:
        """The error of a write through the same connection as before; None without an answer."""
        for broker in self._cluster.brokers.values():
            topic = broker.images.current.topics.get(GUARDED_TOPIC)
            if topic is not None and topic.partitions[0].leader in self._cluster.brokers:
                return await self._written(topic.partitions[0].leader, value)
        return None

    # --- asking --------------------------------------------------------------------------------------------------

    async def _written(self, broker_id: int, value: bytes) -> int | None:
        answer = await self._asked(GUEST, broker_id, ApiKey.PRODUCE, 9, _produce(GUARDED_TOPIC, value))
        return None if answer is None else int(answer.responses[0].partition_responses[0].error_code)

    async def _asked(
        self, user: str, broker_id: int, api: ApiKey, version: int, fields: dict[str, Any]
    ) -> Any:
        """The answer to a user; None when there is none."""
        try:
            connection = await self._connection(user, broker_id)
            message = messages.request(api, version, **fields)
            return await connection.send(api, version, message, timeout_ms=REQUEST_TIMEOUT_MS)
        except (OSError, OdradekError):
            return None

    async def _connection(self, user: str, broker_id: int) -> OutboundConnection:
        key = user, broker_id
        found = self._connections.get(key)
        if found is None or found.is_lost:
            credentials = Credentials("PLAIN", user, PASSWORD)
            network = SecureNetwork(
                self._cluster.client_network(user), ConnectionSecurity(None, credentials), client_id=user
            )
            found = self._connections[key] = await OutboundConnection.connect(
                network, host=f"broker-{broker_id}.test", port=PORT, client_id=user, timeout_ms=5_000
            )
        return found


def _pattern() -> ResourcePattern:
    return ResourcePattern(AclResourceType.TOPIC, GUARDED_TOPIC, PatternType.LITERAL)
