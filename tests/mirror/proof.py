"""A mirror under faults, at size: `python -m tests.mirror.proof --records 1000000 --seed 1`.

Transactions, a third of them aborted, and other records are written to a source: a plain topic and a compacted one,
with all codecs. At the same time two workers mirror them. They are killed, stopped for longer than their session, and
started again. The brokers of both sides are killed and restarted, and connections to both are lost for a while.

In the end each topic must hold at the target what readers of committed records see at the source: in order, none lost,
none doubled. Of the compacted topic both sides may have removed other records: there each key must have the same last
record, and the others must rise. Prints the faults by kind, and one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from odradek import Consumer, Producer
from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import LATEST, LogAdmin
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from tests.support.broker_process import CHECKOUT, Broker
from tests.support.mirroring import entries
from tests.support.peers import QUICK
from tests.support.proxy import Proxy

WORKERS: Final = 2
PLAIN, COMPACTED, PARTITIONS, KEYS = "plain", "compacted", 4, 500
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS: Final = {**QUICK, "log.cleaner.backoff.ms": "500", "log.segment.bytes": "4000000"}
FAULTS: Final = (
    *("worker killed", "worker stopped"),
    *(
        "source killed",
        "target killed",
        "source disconnected",
        "target disconnected",
        "source's answers lost",
        "target's answers lost",
    ),
)
STALLED_SECONDS: Final = 4.0
QUIET_SECONDS_MAX: Final = 300.0


class Side:
    """A broker behind a proxy, which is the address that it advertises."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.proxy: Proxy
        self.broker: Broker

    async def start(self) -> None:
        broker = Broker(self._folder, settings=SETTINGS)
        self.proxy = Proxy(broker.port)
        await self.proxy.mend()
        broker.arguments = ["--advertise", f"127.0.0.1:{self.proxy.port}"]
        self.broker = broker
        await asyncio.to_thread(broker.start)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"

    async def close(self) -> None:
        await self.proxy.cut()
        self.broker.close()


class Seen(NamedTuple):
    """One partition as readers of committed records see it."""

    numbers: array[int]
    digest: str
    last: dict[bytes | None, bytes | None]


class Workers:
    """The processes that mirror."""

    def __init__(self, folder: Path, source: Side, target: Side) -> None:
        self._folder = folder
        self._file = folder / "mm2.properties"
        properties = {
            **entries(source.bootstrap, target.bootstrap, topics=f"{PLAIN}, {COMPACTED}"),
            "transaction.timeout.ms": "5000",
            "request.timeout.ms": "5000",
        }
        self._file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, number: int) -> None:
        with (self._folder / f"worker-{number}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.mirror.dying_mirror", str(self._file)],
                cwd=CHECKOUT,
                env={**os.environ, "PYTHONPATH": f"{CHECKOUT / 'broker'}:{CHECKOUT}"},
                stdout=log,
                stderr=log,
            )
        self.processes[number : number + 1] = [process]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


class Proof:
    """One run."""

    def __init__(self, folder: Path, *, records: int, seed: int) -> None:
        self._folder = folder
        self._records = records
        self._random = random.Random(seed)
        self.source, self.target = Side(folder / "source"), Side(folder / "target")
        self.faults: Counter[str] = Counter()
        self.aborted = 0
        self._is_written = False

    async def run(self) -> dict[str, object]:
        """Write, disturb, compare. Raises AssertionError for a difference."""
        began = time.perf_counter()
        await self.source.start()
        await self.target.start()
        workers = Workers(self._folder, self.source, self.target)
        try:
            async with Client(self.source.bootstrap, request_timeout_ms=10_000) as source:
                await self._create(source)
                for number in range(WORKERS):
                    workers.start(number)
                disturbing = asyncio.create_task(self._disturb(workers))
                await self._write(source)
                self._is_written = True
                await disturbing
                async with Client(self.target.bootstrap, request_timeout_ms=10_000) as target:
                    shown = await self._compared(source, target)
        finally:
            workers.close()
            await self.source.close()
            await self.target.close()
        return {
            "records_written": self._records,
            "records_compared": shown,
            "transactions_aborted": self.aborted,
            "faults": dict(sorted(self.faults.items())),
            "seconds": round(time.perf_counter() - began, 1),
        }

    async def _create(self, client: Client) -> None:
        topics = Admin(client).topics
        await topics.create(PLAIN, partitions=PARTITIONS)
        configs = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "segment.bytes": "1048576",
        }
        await topics.create(COMPACTED, partitions=PARTITIONS, configs=configs)

    async def _write(self, client: Client) -> None:
        """Transactions and other records in turn. A transaction that meets a fault may be aborted or not."""
        written = 0
        while written < self._records:
            count = min(self._random.randrange(200, 4_000), self._records - written)
            is_transactional, aborts = self._random.random() < 0.7, self._random.random() < 0.33
            producer = Producer(
                client,
                compression=self._random.choice(CODECS),
                transactional_id="proof" if is_transactional else None,
                transaction_timeout_ms=5_000,
                delivery_timeout_ms=60_000,
            )
            try:
                await producer.start()
                if is_transactional:
                    await producer.begin_transaction()
                for number in range(written, written + count):
                    await producer.send(
                        COMPACTED if number % 5 == 0 else PLAIN,
                        b"value %d" % number,
                        key=b"k%d" % (number % KEYS),
                        partition=number % KEYS % PARTITIONS,
                        headers=(("n", b"%d" % number),),
                    )
                await producer.flush()
                if is_transactional:
                    self.aborted += aborts
                    await (producer.abort_transaction() if aborts else producer.commit_transaction())
            except OdradekError as failure:
                self.faults[f"writer: {type(failure).__name__}"] += 1
            finally:
                await producer.close()
            written += count

    async def _disturb(self, workers: Workers) -> None:
        """Faults, one after the other, until all is written; and then each worker once more."""
        while not self._is_written:
            await asyncio.sleep(self._random.uniform(0.3, 2.0))
            fault = self._random.choice(FAULTS)
            self.faults[fault] += 1
            await self._fault(fault, workers)
        for number, process in enumerate(workers.processes):
            if process.poll() is not None:
                workers.start(number)

    async def _fault(self, fault: str, workers: Workers) -> None:
        whom, _, what = fault.partition(" ")
        if whom == "worker":
            number = self._random.randrange(WORKERS)
            process = workers.processes[number]
            if what == "stopped":
                process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(STALLED_SECONDS)
                process.send_signal(signal.SIGCONT)
                return
            process.kill()
            process.wait()
            workers.start(number)
            return
        side = self.source if whom.startswith("source") else self.target
        if what == "killed":
            await asyncio.to_thread(side.broker.restart, crash=True)
            return
        if what == "answers lost":
            side.proxy.lose_answers()
            await asyncio.sleep(self._random.uniform(0.1, 1.0))
        await side.proxy.cut()
        await asyncio.sleep(self._random.uniform(0.1, 1.0))
        await side.proxy.mend()

    # --- the comparison -------------------------------------------------------------------------------------------

    async def _compared(self, source: Client, target: Client) -> int:
        deadline = time.perf_counter() + QUIET_SECONDS_MAX
        wanted = await seen(source, PLAIN)
        while True:
            found = await seen(target, f"a.{PLAIN}")
            if {key: one.digest for key, one in found.items()} == {
                key: one.digest for key, one in wanted.items()
            }:
                break
            for key, one in found.items():
                assert one.numbers == wanted[key].numbers[: len(one.numbers)], self._difference(
                    key, wanted[key], one
                )
            assert time.perf_counter() < deadline, {key: len(one.numbers) for key, one in found.items()}
            await asyncio.sleep(1.0)
        compacted = await self._compacted(source, target, deadline)
        return sum(len(one.numbers) for one in wanted.values()) + compacted

    async def _compacted(self, source: Client, target: Client, deadline: float) -> int:
        while True:
            wanted, found = await seen(source, COMPACTED), await seen(target, f"a.{COMPACTED}")
            for key, one in found.items():
                numbers = list(one.numbers)
                assert numbers == sorted(set(numbers)), f"{COMPACTED}-{key}: doubled or out of order"
            if {key: one.last for key, one in found.items()} == {
                key: one.last for key, one in wanted.items()
            }:
                return sum(len(one.numbers) for one in found.values())
            assert time.perf_counter() < deadline, "the compacted topic differs"
            await asyncio.sleep(1.0)

    def _difference(self, key: int, wanted: Seen, found: Seen) -> str:
        for place, (one, other) in enumerate(zip(wanted.numbers, found.numbers, strict=False)):
            if one != other:
                return f"{PLAIN}-{key}: record {place} is number {other}, and {one} at the source"
        return f"{PLAIN}-{key}: {len(wanted.numbers)} records became {len(found.numbers)}"


async def seen(client: Client, topic: str) -> dict[int, Seen]:
    """The partitions of a topic that are not empty."""
    numbers: dict[int, array[int]] = {}
    digests: dict[int, hashlib._Hash] = {}
    last: dict[int, dict[bytes | None, bytes | None]] = {}
    known = (await client.refresh([topic])).topic(topic)
    keys = [TopicPartition(topic, one.partition) for one in known.partitions]
    ends = await LogAdmin(client).offsets_at(keys, LATEST, read_committed=True)
    consumer = Consumer(client, topic, auto_offset_reset="earliest", is_read_committed=True)
    async with consumer:
        while any(consumer.positions.get(key, 0) < end for key, end in ends.items()):
            for record in await consumer.poll(records_max=20_000, timeout_ms=500):
                partition = record.partition
                digest = digests.setdefault(partition, hashlib.sha256())
                digest.update(repr((record.timestamp_ms, record.key, record.value, record.headers)).encode())
                numbers.setdefault(partition, array("q")).append(int(record.headers[0][1] or b"-1"))
                last.setdefault(partition, {})[record.key] = record.value
    return {key: Seen(found, digests[key].hexdigest(), last[key]) for key, found in numbers.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirror-proof-") as folder:
        try:
            found = asyncio.run(Proof(Path(folder), records=given.records, seed=given.seed).run())
        except AssertionError:
            kept = Path(tempfile.mkdtemp(prefix="mirror-proof-failed-"))
            for log in Path(folder).rglob("*.log"):
                (kept / f"{log.parent.name}-{log.name}").write_bytes(log.read_bytes()[-1_000_000:])
            print(f"seed {given.seed} failed; the ends of the logs are in {kept}", file=sys.stderr)
            raise
    print(json.dumps({"seed": given.seed, **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
