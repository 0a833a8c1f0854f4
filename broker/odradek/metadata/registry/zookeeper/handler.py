"""The bridge between kazoo's thread and the event loop.

kazoo talks to ZooKeeper in one thread, and passes answers, watch events and changes of state to two more threads. Here
only the first runs. Its messages go to the event loop, in the order in which ZooKeeper sent them. So a watch event
arrives before an answer that shows the change.

A handler serves one session. After `end` it makes no connection. kazoo would otherwise start a new session after the
old one has expired, which the store would not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

# What kazoo gives: it has no types.
Kazoo = Any

logger = logging.getLogger(__name__)


class _LoopQueue:
    """A stand-in for the queue of kazoo's completion thread."""

    def __init__(self, deliver: Callable[[Callable[[], object]], None]) -> None:
        self.put = deliver


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's interface to threads, sockets and callbacks, for one session. `connect_seconds_max` limits one attempt on
    one server. `last_failure` is the reason of the last failed attempt. `distrusted_count` counts those with a server's
    certificate as the reason.
    """

    running = True

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        tls: ssl.SSLContext | None,
        connect_seconds_max: float,
        on_pause: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._tls = tls
        self._connect_seconds_max = connect_seconds_max
        # Called on the loop after each round of failed attempts.
        self._on_pause = on_pause
        self._is_over = threading.Event()
        self._socket: socket.socket | None = None
        self.last_failure: Exception | None = None
        self.distrusted_count = 0
        super().__init__()
        self.completion_queue = _LoopQueue(self.deliver)

    # --- from kazoo's thread to the loop --------------------------------------------------------------------------

    def deliver(self, work: Callable[[], object]) -> None:
        """Make the event loop call `work`, from any thread."""
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            # The receiver is gone.
            logger.debug("the event loop is closed; %r from ZooKeeper is dropped", work)

    def dispatch_callback(self, callback: Kazoo) -> None:
        """kazoo's: call a watch."""
        self.deliver(lambda: callback.func(*callback.args))

    # --- kazoo's thread -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Nothing to start: kazoo's worker threads are not needed."""

    def stop(self) -> None:
        """Nothing to stop."""

    def spawn(self, func: Callable[..., object], *args: object, **kwargs: object) -> threading.Thread:
        def work() -> None:
            # kazoo's way to end a thread that waits to connect again.
            with contextlib.suppress(InterruptedError):
                func(*args, **kwargs)

        thread = threading.Thread(target=work, name="zookeeper", daemon=True)
        thread.start()
        return thread

    def sleep_func(self, seconds: float) -> None:
        """kazoo's pause between rounds of attempts. It ends at once with the session."""
        self.deliver(self._on_pause)
        self._is_over.wait(seconds)

    def select(
        self, read: list[Kazoo], write: list[Kazoo], _: list[Kazoo], timeout: float | None = None
    ) -> tuple[list[Kazoo], list[Kazoo], list[Kazoo]]:
        """As select.select, for any number of descriptors.

        What TLS has decrypted already is readable although the kernel has nothing: kazoo's own way would wait for it.
        """
        decrypted = [each for each in read if isinstance(each, ssl.SSLSocket) and each.pending()]
        if decrypted:
            return decrypted, [], []
        poller = select.poll()
        for each in read:
            poller.register(each, select.POLLIN)
        for each in write:
            poller.register(each, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poller.poll(None if timeout is None else timeout * 1000)}
        return (
            [each for each in read if each.fileno() in ready],
            [each for each in write if each.fileno() in ready],
            [],
        )

    def create_connection(self, address: tuple[str, int], hostname: str, **_: object) -> socket.socket:
        """A connection to one server. Raises OSError. kazoo's own arguments for TLS are not used."""
        try:
            if self._is_over.is_set():
                raise ConnectionAbortedError("the session is over")
            connection = socket.create_connection(address, timeout=self._connect_seconds_max)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._encrypt(connection, hostname)
        except OSError as error:
            self.last_failure = error
            self.distrusted_count += isinstance(error, ssl.SSLCertVerificationError)
            raise
        self._socket = connection
        if self._is_over.is_set():
            self.end()
        return connection

    def _encrypt(self, connection: socket.socket, hostname: str) -> socket.socket:
        assert self._tls is not None
        try:
            return self._tls.wrap_socket(connection, server_hostname=hostname)
        except OSError:
            connection.close()
            raise

    def end(self) -> None:
        """Make no more connections, and close the present one; from any thread."""
        self._is_over.set()
        if self._socket is not None:
            # Closed by kazoo, in its thread.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
