"""Moves partitions during faults: their replicas become fewer or change places, and are three again later.

The offsets topic is moved, too. Requests are made by a thread of its own, since they may have to wait for a controller.
One may fail, as long as in the end every partition has all its replicas again.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from odradek.foundation.errors import OdradekError
from odradek.wire.protocol.api import ApiKey
from tests.chaos.world import BROKERS
from tests.support.plain_client import ConnectionLostError, PlainClient
from tests.support.polling import SECONDS_MAX

ANSWER_SECONDS_MAX: Final = 5.0
_NONE: Final = 0


class Moves:
    """Moves partitions of `topics`, which are names with counts of partitions."""

    def __init__(self, bootstrap: str, *, topics: Sequence[tuple[str, int]]) -> None:
        self._addresses = bootstrap.split(",")
        self._partitions = [(topic, number) for topic, count in topics for number in range(count)]
        self._asked: queue.SimpleQueue[tuple[str, int, list[int]] | None] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="moves", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.ident is not None:
            self._is_over.set()
            self._asked.put(None)
            self._thread.join(SECONDS_MAX)

    def move(self, choice: int) -> tuple[str, Callable[[], None]]:
        """Begin to move one partition; what it is, and what moves it back."""
        chance = random.Random(choice)
        topic, number = chance.choice(self._partitions)
        wanted = chance.sample(BROKERS, chance.choice([2, 3]))
        self._asked.put((topic, number, wanted))
        back = chance.sample(BROKERS, 3)
        return (f"{topic}-{number} moves to {wanted}", lambda: self._asked.put((topic, number, back)))

    def restore(self) -> str:
        """Give every partition its three replicas, and wait for none of it; what is missing."""
        for topic, number in self._partitions:
            first = number % len(BROKERS)
            if error := self._ask(topic, number, [*BROKERS[first:], *BROKERS[:first]]):
                return error
        return ""

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            if not self._is_over.is_set():
                self._ask(*asked)

    def _ask(self, topic: str, number: int, wanted: Sequence[int]) -> str:
        """The error of the last broker that was asked; "" when one did it."""
        error = "no broker was asked"
        for address in random.sample(self._addresses, len(self._addresses)):
            try:
                error = _reassign(address, topic, number, wanted)
            except (ConnectionLostError, OSError, OdradekError) as failure:
                error = f"{topic}-{number} by the broker at {address}: {failure}"
            if not error:
                break
        return error


def _reassign(address: str, topic: str, number: int, wanted: Sequence[int]) -> str:
    host, _, port = address.rpartition(":")
    asked: dict[str, Any] = {"partition_index": number, "replicas": list(wanted)}
    with PlainClient(int(port), host=host, seconds_max=ANSWER_SECONDS_MAX) as client:
        answer = client.ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            timeout=int(ANSWER_SECONDS_MAX * 1000),
            topics=[{"name": topic, "partitions": [asked]}],
        )
    codes = [int(answer.error_code)]
    codes += [int(row.error_code) for one in answer.responses for row in one.partitions]
    failed = [code for code in codes if code != _NONE]
    return f"{topic}-{number} does not move to {list(wanted)}: errors {failed}" if failed else ""
