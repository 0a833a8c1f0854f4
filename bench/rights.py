"""What ACLs and quotas cost a broker that has them: processor time for each gigabyte of 1 KB records in 16 KB batches.

    python -m bench rights --rounds 15
    python -m bench rights --instructions

Brokers serve the same requests in turn: one without, another without, one with 10,000 ACLs, one with a quota for each
of 100 clients, one with both. Each round gives every broker the same requests, in another order. The ratios are those
of one round, so that what else the machine does falls on both sides. Two processes of the same program differ by some
percent all their lives, as the second one without shows. So brokers are started again after a few rounds. No quota is
ever exceeded: its cost is that of counting.

With `--instructions` each broker runs under valgrind, which counts what it executes outside the kernel. That is the
same number within one percent on any machine, however busy. The kernel's part, half of a request, is not in it.
"""

from __future__ import annotations

import asyncio
import random
import socket
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers import compiled, storage
from odradek.client.admin.acls import AclAdmin
from odradek.client.admin.quotas import QuotaAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.foundation.client_entities import ClientEntity
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response, encode_request
from odradek.wire.records.builder import build_batch
from tests.support.broker_process import Broker

CLIENTS: Final = 100
PARTITIONS: Final = 10
ACLS: Final = 10_000
RECORDS_PER_BATCH: Final = 16
RECORD_BYTES: Final = 1_000
REQUESTS_PER_CLIENT: Final = 40
VERSION: Final = 9
TOPIC: Final = "orders"
# Never reached.
QUOTA: Final = {"producer_byte_rate": 1e9}
ACLS_PER_REQUEST: Final = 2_000
OFF, AGAIN, WITH_ACLS, WITH_QUOTAS, WITH_BOTH = "off", "again", "acls", "quotas", "both"
VARIANTS: Final = (OFF, AGAIN, WITH_ACLS, WITH_QUOTAS, WITH_BOTH)
ROUNDS_PER_START: Final = 3
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The first ACLs are made before there are any.
    "allow.everyone.if.no.acl.found": "true",
}


class Cost(NamedTuple):
    """Medians: of turns in seconds of the processor for a gigabyte, and of rounds beside the broker without."""

    cpu_seconds_per_gb: float
    more_percent: float
    round_percents: tuple[float, ...]


class Clients:
    """A hundred connections to one broker, each with a client id of its own, that send one batch at a time."""

    def __init__(self, port: int) -> None:
        self._sockets = []
        self._frames = []
        for number in range(CLIENTS):
            self._sockets.append(socket.create_connection(("127.0.0.1", port), 30))
            self._frames.append(_frame(f"client-{number:02d}", number % PARTITIONS))
        self._sizes = [0] * CLIENTS

    def send(self) -> None:
        """One batch of each client, acknowledged."""
        for connection, frame in zip(self._sockets, self._frames, strict=True):
            connection.sendall(frame)
        for number, connection in enumerate(self._sockets):
            size = self._sizes[number] or self._first_answer(number)
            left = size
            while left:
                part = connection.recv(left)
                assert part, "the broker closed a connection"
                left -= len(part)

    def _first_answer(self, number: int) -> int:
        """Look at the first answer of a client. Returns 0: it is read, and all later ones have its size."""
        connection = self._sockets[number]
        head = connection.recv(4, socket.MSG_WAITALL)
        body = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        answer = decode_response(ApiKey.PRODUCE, VERSION, memoryview(body))[1]
        assert int(answer.responses[0].partition_responses[0].error_code) == 0, answer
        self._sizes[number] = 4 + len(body)
        return 0

    def close(self) -> None:
        for connection in self._sockets:
            connection.close()


def _frame(client_id: str, partition: int) -> bytes:
    records = build_batch([(1_700_000_000_000, None, b"x" * RECORD_BYTES)] * RECORDS_PER_BATCH)
    fields = messages.request(
        ApiKey.PRODUCE,
        VERSION,
        transactional_id=None,
        acks=1,
        timeout=30_000,
        topic_data=[{"name": TOPIC, "partition_data": [{"index": partition, "records": bytes(records)}]}],
    )
    return encode_request(ApiKey.PRODUCE, VERSION, 1, client_id, fields)


def cost(*, rounds: int, disk: str | None) -> dict[str, Cost]:
    """By variant."""
    compiled()
    used: list[dict[str, list[float]]] = []
    while len(used) < rounds:
        used += _rounds(min(ROUNDS_PER_START, rounds - len(used)), number=len(used), disk=disk)
    return _costs(used)


def _rounds(rounds: int, *, number: int, disk: str | None) -> list[dict[str, list[float]]]:
    """Rounds with brokers that are started for them, after one that does not count."""
    with storage(disk) as folder:
        brokers = {name: Broker(folder / name, settings=settings_of(name)) for name in VARIANTS}
        clients: dict[str, Clients] = {}
        try:
            for name, broker in brokers.items():
                broker.start()
                asyncio.run(prepare(broker.bootstrap, name))
                clients[name] = Clients(broker.port)
            return [_round(brokers, clients, number + turn) for turn in range(rounds + 1)][1:]
        finally:
            for one in clients.values():
                one.close()
            for broker in brokers.values():
                broker.close()


def _round(
    brokers: Mapping[str, Broker], clients: Mapping[str, Clients], number: int
) -> dict[str, list[float]]:
    """Seconds of the processor of each turn, by variant. Turns are short, so that disturbances fall on few of them."""
    used: dict[str, list[float]] = {name: [] for name in VARIANTS}
    order = list(VARIANTS)
    rng = random.Random(number)
    for _ in range(REQUESTS_PER_CLIENT):
        rng.shuffle(order)
        for name in order:
            before = _cpu_seconds(brokers[name].pid)
            clients[name].send()
            used[name].append(_cpu_seconds(brokers[name].pid) - before)
    return used


def _costs(rounds: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Cost]:
    gigabytes = CLIENTS * RECORDS_PER_BATCH * RECORD_BYTES / 1e9
    costs = {}
    for name in VARIANTS:
        percents = tuple(
            100 * (statistics.median(one[name]) / statistics.median(one[OFF]) - 1) for one in rounds
        )
        median = statistics.median(seconds for one in rounds for seconds in one[name])
        costs[name] = Cost(median / gigabytes, statistics.median(percents), percents)
    return costs


def _cpu_seconds(pid: int) -> float:
    """Of all threads, to the nanosecond; /proc/PID/stat counts in hundredths of a second."""
    return (
        sum(int((one / "schedstat").read_text().split()[0]) for one in Path(f"/proc/{pid}/task").iterdir())
        / 1e9
    )


def settings_of(variant: str) -> Mapping[str, str]:
    return AUTHORIZER if variant in (WITH_ACLS, WITH_BOTH) else {}


async def prepare(bootstrap: str, variant: str) -> None:
    """Make the topic, and the variant's ACLs and quotas."""
    async with Client(bootstrap) as client:
        await TopicAdmin(client).create(TOPIC, partitions=PARTITIONS, replication_factor=1)
        if variant in (WITH_ACLS, WITH_BOTH):
            acls = list(_acls())
            for first in range(0, len(acls), ACLS_PER_REQUEST):
                failures = await AclAdmin(client).create(acls[first : first + ACLS_PER_REQUEST])
                assert not any(failures), failures
        if variant in (WITH_QUOTAS, WITH_BOTH):
            for number in range(CLIENTS):
                await QuotaAdmin(client).alter(ClientEntity(client_id=f"client-{number:02d}"), QUOTA)


def _acls() -> list[AclBinding]:
    """The clients' own right, and those of many others on many topics, a tenth of them by prefixes."""

    def allow(principal: str, name: str, pattern_type: PatternType, operation: AclOperation) -> AclBinding:
        return AclBinding(
            ResourcePattern(AclResourceType.TOPIC, name, pattern_type),
            AccessControlEntry(principal, "*", operation, PermissionType.ALLOW),
        )

    others = [
        allow(
            f"User:team-{number % 500}",
            f"topic-{number}" if number % 10 else f"topic-{number}-",
            PatternType.LITERAL if number % 10 else PatternType.PREFIXED,
            AclOperation.READ if number % 2 else AclOperation.WRITE,
        )
        for number in range(ACLS - 1)
    ]
    return [allow("User:ANONYMOUS", TOPIC, PatternType.LITERAL, AclOperation.WRITE), *others]


def report(costs: Mapping[str, Cost]) -> str:
    """A table."""
    lines = [f"{'broker':8} {'CPU s/GB':>9} {'more':>8}   rounds"]
    for name, one in costs.items():
        low, high = min(one.round_percents), max(one.round_percents)
        lines.append(
            f"{name:8} {one.cpu_seconds_per_gb:9.3f} {one.more_percent:+7.2f}%   {low:+.1f} to {high:+.1f} %"
        )
    return "\n".join(lines)


def compare_rights(*, rounds: int, disk: str | None) -> int:
    """Print the table. Returns 0."""
    print(report(cost(rounds=rounds, disk=disk)), end="\n\n", flush=True)
    return 0
