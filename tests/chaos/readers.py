"""A process of readers that report exactly what they are answered: `python -m tests.chaos.readers OPTIONS`, a JSON
object.

One thread for each partition. It asks a broker for metadata, then the leader for records. It names the leader epoch
that it knows, so that an answer certainly is of that epoch. Sometimes it asks a follower. It prints `ready` at once,
and when its standard input ends it reads up to the high watermark and ends, too.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import split
from odradek.wire.records.record import records
from tests.chaos.final_logs import whole_batches
from tests.chaos.history import Fetched, HistoryFile, StateSeen, name_of_value, now
from tests.support.plain_client import ConnectionLostError, PlainClient

ANSWER_SECONDS_MAX: Final = 3.0
WAIT_MS: Final = 400
FOLLOWER_SHARE: Final = 0.15
METADATA_SHARE: Final = 0.1
CATCH_UP_SECONDS_MAX: Final = 30.0


class Reader:
    """Reads one partition from its start."""

    def __init__(self, number: int, options: dict[str, Any], history: HistoryFile) -> None:
        self._partition = number
        self._topic: str = options["topic"]
        self._addresses: list[str] = options["bootstrap"].split(",")
        self._history = history
        self._chance = random.Random(f"{options['seed']}reader{number}")
        self._connections: dict[str, PlainClient] = {}
        self._brokers: dict[int, str] = {}
        self._replicas: list[int] = []
        self._leader = -1
        self._epoch = -1
        self._position = 0

    def read(self, is_over: threading.Event) -> None:
        deadline: float | None = None
        while True:
            if is_over.is_set() and deadline is None:
                deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
            try:
                is_at_end = self._read_once()
            except (ConnectionLostError, OSError):
                is_at_end = False
                self._leader = -1
                is_over.wait(0.1)
            if deadline is not None and (is_at_end or time.monotonic() > deadline):
                break
        for connection in self._connections.values():
            connection.close()

    def _read_once(self) -> bool:
        """Whether the leader has no more."""
        if self._leader < 0 or self._chance.random() < METADATA_SHARE:
            self._look_around()
        if self._leader not in self._brokers:
            time.sleep(0.1)
            return False
        followers = [
            number for number in self._replicas if number != self._leader and number in self._brokers
        ]
        if followers and self._chance.random() < FOLLOWER_SHARE:
            self._fetch(self._chance.choice(followers), is_leader=False)
            return False
        return self._fetch(self._leader, is_leader=True)

    def _ask(self, address: str, api_key: int, version: int, **fields: Any) -> Any:
        connection = self._connections.get(address)
        if connection is None:
            host, _, port = address.rpartition(":")
            connection = PlainClient(int(port), host=host, seconds_max=ANSWER_SECONDS_MAX)
            self._connections[address] = connection
        try:
            return connection.ask(api_key, version, **fields)
        except (ConnectionLostError, OSError):
            connection.close()
            del self._connections[address]
            raise

    def _look_around(self) -> None:
        address = self._chance.choice(self._addresses)
        answer = self._ask(address, ApiKey.METADATA, 9, topics=[{"name": self._topic}])
        self._brokers = {int(one.node_id): f"{one.host}:{one.port}" for one in answer.brokers}
        for topic in answer.topics:
            for part in topic.partitions:
                if part.partition_index == self._partition:
                    self._leader, self._epoch = int(part.leader_id), int(part.leader_epoch)
                    self._replicas = [int(number) for number in part.replica_nodes]
                    self._history.add(
                        StateSeen(
                            at=now(),
                            source=f"the broker at {address}",
                            topic=self._topic,
                            partition=self._partition,
                            leader=self._leader,
                            epoch=self._epoch,
                            in_sync=[int(number) for number in part.isr_nodes],
                            replicas=self._replicas,
                        )
                    )

    def _fetch(self, broker: int, *, is_leader: bool) -> bool:
        epoch = self._epoch if is_leader else -1
        begun_at = now()
        asked = {
            "partition": self._partition,
            "current_leader_epoch": epoch,
            "fetch_offset": self._position,
            "partition_max_bytes": 64_000,
        }
        answer = self._ask(
            self._brokers[broker],
            ApiKey.FETCH,
            11,
            max_wait=WAIT_MS if is_leader else 0,
            min_bytes=1,
            max_bytes=64_000,
            session_epoch=-1,
            topics=[{"topic": self._topic, "partitions": [asked]}],
            rack_id="",
        )
        part = answer.responses[0].partitions[0]
        if part.error_code != 0:
            if is_leader:
                self._leader = -1
                time.sleep(0.05)
            return False
        found = []
        for batch in split(memoryview(whole_batches(part.records or b""))):
            batch.verify()
            found += [
                (record.offset, name_of_value(record.value or b""))
                for record in records(batch)
                if record.offset >= self._position
            ]
        self._history.add(
            Fetched(
                at=now(),
                begun_at=begun_at,
                reader=f"reader-{self._partition}",
                broker=broker,
                is_leader=is_leader,
                topic=self._topic,
                partition=self._partition,
                epoch=epoch,
                fetch_offset=self._position,
                high_watermark=part.high_watermark,
                last_stable_offset=part.last_stable_offset,
                records=found,
            )
        )
        if found:
            self._position = found[-1][0] + 1
        return is_leader and self._position >= part.high_watermark


def main(options: dict[str, Any]) -> None:
    history = HistoryFile(Path(options["history"]))
    is_over = threading.Event()
    failures: list[BaseException] = []

    def run(reader: Reader) -> None:
        try:
            reader.read(is_over)
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [
        threading.Thread(target=run, args=(Reader(number, options, history),), daemon=True)
        for number in range(options["partitions"])
    ]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    is_over.set()
    for thread in threads:
        thread.join()
    history.close()
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
