"""Reads the registry during a round, and records changes of its partitions' states in the history."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Final

from kazoo.exceptions import KazooException

from odradek.metadata.image import nodes, paths
from tests.chaos.history import REGISTRY, HistoryFile, StateSeen, now
from tests.chaos.world import ChaosCluster
from tests.support.polling import SECONDS_MAX

LOOK_SECONDS: Final = 0.25
# A busy machine is not what a round looks for: a registry that is well answers within this time.
_READ_SECONDS_MAX: Final = 10


class Observer:
    """A thread of its own: the registry may be away for seconds."""

    def __init__(self, world: ChaosCluster, history: HistoryFile, *, topic: str, partitions: int) -> None:
        self._client = world.registry()
        self._history = history
        self._topic = topic
        self._partitions = partitions
        self._seen: dict[int, bytes] = {}
        self.states: dict[int, dict[str, Any]] = {}
        self.replicas: dict[int, list[int]] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join(SECONDS_MAX)

    def _run(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            with contextlib.suppress(KazooException, self._client.handler.timeout_exception):
                self.look()

    def look(self) -> None:
        """Once, now. Raises KazooException, and a timeout of kazoo's own."""
        path = f"{paths.TOPICS}/{self._topic}"
        replicas = self._read_replicas(path)
        asked = [
            self._client.get_async(f"{path}/partitions/{partition}/state")
            for partition in range(self._partitions)
        ]
        states = [answer.get(timeout=_READ_SECONDS_MAX)[0] for answer in asked]
        # The states were read in between: they are of one of the two, where a partition moves.
        self.replicas = self._read_replicas(path)
        for partition, data in enumerate(states):
            if data == self._seen.get(partition):
                continue
            self._seen[partition] = data
            state = self.states[partition] = nodes.read_json(path, data)
            self._history.add(
                StateSeen(
                    at=now(),
                    source=REGISTRY,
                    topic=self._topic,
                    partition=partition,
                    leader=int(state["leader"]),
                    epoch=int(state["leader_epoch"]),
                    in_sync=[int(number) for number in state["isr"]],
                    replicas=sorted({*replicas[partition], *self.replicas[partition]}),
                )
            )

    def _read_replicas(self, path: str) -> dict[int, list[int]]:
        data, _ = self._client.get_async(path).get(timeout=_READ_SECONDS_MAX)
        return {
            int(number): list(brokers)
            for number, brokers in nodes.read_json(path, data)["partitions"].items()
        }
