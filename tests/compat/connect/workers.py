"""Workers of Kafka Connect 4.1.1 as processes, distributed, with exactly-once support for sources.

A `Workers` is a group of them on one cluster: what their REST interface answers, and how to start, stop and kill one.
Their three topics are Connect's own to make: compacted, with three replicas.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.broker_process import free_port
from tests.support.java import connect_classpath
from tests.support.java_program import JavaProgram

PATIENCE_SECONDS = 180.0
_REPLICAS = "3"
_SETTINGS = {
    "group.id": "connect",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": _REPLICAS,
    "offset.storage.replication.factor": _REPLICAS,
    "status.storage.replication.factor": _REPLICAS,
    "offset.storage.partitions": "3",
    "status.storage.partitions": "1",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "plugin.discovery": "service_load",
    # A worker that was killed is missed after this time, and its work is given to others at once.
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    # The topic of configurations has no leader for some seconds where a broker was killed; a task would fail for good.
    "worker.sync.timeout.ms": "30000",
    "offset.flush.interval.ms": "1000",
    "consumer.session.timeout.ms": "6000",
}


class Worker(JavaProgram):
    """One worker, whose REST interface has a port of its own."""

    def __init__(self, folder: Path, name: str, bootstrap: str) -> None:
        self.port = free_port()
        self._file = folder / f"{name}.properties"
        self._bootstrap = bootstrap
        super().__init__(
            folder / f"{name}.output",
            "org.apache.kafka.connect.cli.ConnectDistributed",
            [str(self._file)],
            classpath=connect_classpath(),
            heap="384m",
            keeps_classes=True,
        )

    @property
    def name(self) -> str:
        """As Connect names a worker."""
        return f"127.0.0.1:{self.port}"

    def configure(self, support: str) -> None:
        """Write its settings; `support` is `exactly.once.source.support`, which its next start uses."""
        settings = _SETTINGS | {
            "bootstrap.servers": self._bootstrap,
            "listeners": f"http://{self.name}",
            "exactly.once.source.support": support,
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def ask(self, path: str, *, method: str = "GET", body: Any = None) -> Any:
        """Call the REST interface. Raises OSError when it does not answer, or answers with an error."""
        request = urllib.request.Request(
            f"http://{self.name}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            said = response.read()
        return json.loads(said) if said else None


class Workers:
    """Workers of one group, in the order of their start."""

    def __init__(self, folder: Path, bootstrap: str, *, count: int) -> None:
        self.all = [Worker(folder, f"worker-{number}", bootstrap) for number in range(1, count + 1)]

    def start(self, worker: Worker, support: str) -> None:
        """Start it, and wait until it serves as a member of the group."""
        worker.configure(support)
        worker.start()
        self.await_answer(f"{worker.name} serves", lambda: worker.ask("/connectors") is not None, of=worker)

    def configure(self, connector: str, settings: dict[str, str]) -> None:
        """Make or change a connector, and wait until it and its task run."""

        def put() -> bool:
            # While the group rebalances, a worker answers 409 and asks to be tried again.
            self.any_running.ask(f"/connectors/{connector}/config", method="PUT", body=settings)
            return True

        self.await_answer(f"{connector} is taken", put)
        self.await_running(connector)

    @property
    def any_running(self) -> Worker:
        return next(worker for worker in self.all if worker.is_running)

    def await_running(self, connector: str) -> None:
        def is_running() -> bool:
            status = self.any_running.ask(f"/connectors/{connector}/status")
            states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
            assert "FAILED" not in states, status
            owners = {task["worker_id"] for task in status["tasks"]}
            alive = {worker.name for worker in self.all if worker.is_running}
            return len(states) > 1 and set(states) == {"RUNNING"} and owners <= alive

        self.await_answer(f"{connector} runs", is_running)

    def owner(self, connector: str) -> Worker:
        """The worker of the connector's only task."""
        (task,) = self.any_running.ask(f"/connectors/{connector}/status")["tasks"]
        return next(worker for worker in self.all if worker.name == task["worker_id"])

    def await_answer(self, what: str, is_so: Callable[[], bool], *, of: Worker | None = None) -> None:
        """Until it is so; a worker that does not answer yet is asked again."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if is_so():
                    return
                last = "no"
            except urllib.error.HTTPError as error:
                last = f"{error.code} {error.read()[:500]!r}"
            except OSError as error:
                last = repr(error)
            worker = of or self.any_running
            assert worker.is_running, f"{worker.name} ended:\n{worker.said()[-4000:]}"
            assert time.monotonic() < deadline, f"not so: {what}; {last}\n{worker.said()[-4000:]}"
            time.sleep(0.1)

    def close(self) -> None:
        for worker in self.all:
            worker.close()
