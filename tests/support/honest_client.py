"""A client that produces records all the while, and notes how long it waits for each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tests.support.plain_client import PlainClient

TOPIC = "honest"


class HonestClient:
    """A context: it produces a record each few milliseconds, on one connection."""

    def __init__(self, connect: Callable[[], PlainClient], *, pause_seconds: float = 0.005) -> None:
        self._connect = connect
        self._pause_seconds = pause_seconds
        self._is_over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="honest", daemon=True)
        self.acknowledged: list[bytes] = []
        self.waits_seconds: list[float] = []

    def __enter__(self) -> HonestClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def failure(self) -> Exception | None:
        """What ended it; None while it is served."""
        return self._failure

    def _run(self) -> None:
        try:
            with self._connect() as client:
                while not self._is_over.is_set():
                    value = b"%d" % len(self.acknowledged)
                    began = time.perf_counter()
                    error, _ = client.produce(TOPIC, [value])
                    self.waits_seconds.append(time.perf_counter() - began)
                    assert error == 0, error
                    self.acknowledged.append(value)
                    self._is_over.wait(self._pause_seconds)
        except Exception as failure:
            self._failure = failure
