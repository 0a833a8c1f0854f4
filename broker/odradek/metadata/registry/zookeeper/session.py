"""One session with ZooKeeper: kazoo's client of that session, used from the event loop.

A request is a future; one callback reports the session's state. Requests are passed to kazoo only while the session is
connected. kazoo would keep others in a queue without a bound and send them after a reconnection, long after their
callers got an error. A request can still be passed between the end of the connection and its report. So
StoreConnectionLost also means "may still be done", before any request after the reconnection.

What it leaves out: ZooKeeper's read-only mode, and the timeout that the server agreed to (kazoo does not report it).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionLoss, KazooException, SessionClosedRequireSaslError
from kazoo.protocol.states import KazooState, KeeperState

from odradek.foundation.registry_errors import StoreAccessDenied, StoreConnectionLost, StoreSessionExpired
from odradek.metadata.registry.store import SessionState
from odradek.metadata.registry.zookeeper.address import Ensemble
from odradek.metadata.registry.zookeeper.failures import store_error
from odradek.metadata.registry.zookeeper.handler import Kazoo, LoopHandler
from odradek.metadata.registry.zookeeper.security import ZooKeeperCredentials

logger = logging.getLogger(__name__)

# kazoo writes a line for each attempt to connect. The store reports what users need; the last failure is kept.
_kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)

# How long a clean end may take before the connection is closed. The server then ends the session by its timeout.
_CLOSE_SECONDS_MAX: Final = 2.0
# A start without an answer is logged long before it fails.
_SILENCE_LOGGED_SECONDS: Final = 2.0
# Pauses between rounds of attempts, and the part of a session's timeout that a round may take. A restarted server
# counts the session's timeout from its start: a client that reconnects later has lost the session.
_RECONNECT_SECONDS: Final = 0.05
_RECONNECT_SECONDS_MAX: Final = 1.0
_ROUNDS_PER_TIMEOUT: Final = 4
_ROUND_SECONDS_MIN: Final = 1.0


def _round_seconds(timeout_seconds: float) -> float:
    """The longest time of an attempt on each of the servers: an unreachable server answers none."""
    return min(timeout_seconds, max(_ROUND_SECONDS_MIN, timeout_seconds / _ROUNDS_PER_TIMEOUT))


class ZooKeeperSession:
    """One session. `open` it once; when it has expired or was closed, create another.

    `on_change` receives CONNECTED, SUSPENDED and EXPIRED, not CLOSED.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        *,
        timeout_seconds: float,
        login: ZooKeeperCredentials,
        tls: ssl.SSLContext | None,
        on_change: Callable[[SessionState], None],
    ) -> None:
        self._ensemble = ensemble
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._handler = LoopHandler(
            self._loop,
            tls=tls,
            connect_seconds_max=_round_seconds(timeout_seconds) / len(ensemble.servers),
            on_pause=self._round_failed,
        )
        # Also for requests that are built before they are sent. The store handles the chroot, which it has to create.
        self.client = KazooClient(
            hosts=ensemble.hosts,
            timeout=timeout_seconds,
            handler=self._handler,
            logger=_kazoo_logger,
            auth_data=list(login.auth_data),
            # kazoo adds to it.
            sasl_options=None if login.sasl is None else dict(login.sasl),
            connection_retry={
                "max_tries": -1,
                "delay": _RECONNECT_SECONDS,
                "max_delay": _RECONNECT_SECONDS_MAX,
                "sleep_func": self._handler.sleep_func,
            },
            command_retry={"max_tries": 0, "sleep_func": self._handler.sleep_func},
        )
        _name_refusals(self.client)
        self._waiting: set[asyncio.Future[Kazoo]] = set()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._was_refused = False
        self.state = SessionState.SUSPENDED
        self.id = 0

    async def open(self, *, seconds_max: float, deadline: float) -> None:
        """Connect for the first time. `deadline` is the loop's time at which `seconds_max` are over.

        Raises StoreConnectionLost when no server answers in time, StoreSessionExpired when the session ends at once,
        StoreAccessDenied when the credentials are refused. The session is closed then.
        """
        self.client.add_listener(self._kazoo_changed)
        self.client.start_async()
        silence = self._loop.call_later(_SILENCE_LOGGED_SECONDS, self._log_silence, seconds_max)
        try:
            async with asyncio.timeout_at(deadline):
                await self._opened
        except TimeoutError:
            reason = self._handler.last_failure
            await self.close()
            raise StoreConnectionLost(
                f"no ZooKeeper of {self._ensemble} answered within {seconds_max:g} s"
                f"{'' if reason is None else f' ({reason})'}; is it running, and is zookeeper.connect right?"
            ) from reason
        except BaseException:
            await self.close()
            raise
        finally:
            silence.cancel()

    def _log_silence(self, seconds_max: float) -> None:
        reason = self._handler.last_failure
        logger.info(
            "no ZooKeeper of %s answers yet%s; it is asked for up to %g s",
            self._ensemble,
            "" if reason is None else f" ({reason})",
            seconds_max,
        )

    def _round_failed(self) -> None:
        """Handle a failed round of attempts. After two rounds with untrusted certificates no third follows."""
        reason = self._handler.last_failure
        if self._handler.distrusted_count >= 2 * len(self._ensemble.servers) and not self._opened.done():
            self._opened.set_exception(
                StoreConnectionLost(
                    f"the certificate of ZooKeeper at {self._ensemble} is not trusted ({reason}); "
                    "check zookeeper.ssl.truststore.location, and that the certificate names the server"
                )
            )

    def ask(self, path: str, method: str, *arguments: object, **keywords: object) -> asyncio.Future[Kazoo]:
        """Call kazoo's `method` (its name ends in _async) for `path`; the future of its answer.

        Requests are done in their order. The future fails with an error of `metadata.registry.store`.
        """
        return self.send(path, lambda: getattr(self.client, method)(*arguments, **keywords))

    def send(self, path: str, start: Callable[[], Kazoo]) -> asyncio.Future[Kazoo]:
        """As `ask`, for anything that gives a kazoo result."""
        future: asyncio.Future[Kazoo] = self._loop.create_future()
        if self.state is not SessionState.CONNECTED:
            future.set_exception(self._unreachable_error())
            return future
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        start().rawlink(partial(self._settle, future, path))
        return future

    def _settle(self, future: asyncio.Future[Kazoo], path: str, result: Kazoo) -> None:
        """Handle kazoo's answer, on the loop."""
        if isinstance(result.exception, ConnectionLoss):
            # kazoo reports it only after it has failed the requests under way, whose callers must see the new state.
            self._change_state(KazooState.SUSPENDED, "", None)
        if future.done():
            return
        if result.successful():
            future.set_result(result.value)
        else:
            future.set_exception(store_error(result.exception, path))

    def _unreachable_error(self) -> Exception:
        if self._was_refused:
            return self._refusal()
        if self.state is SessionState.SUSPENDED:
            return StoreConnectionLost("ZooKeeper does not answer at the moment; no request was sent")
        return StoreSessionExpired("the session with ZooKeeper is over; open a new one")

    # --- its state -----------------------------------------------------------------------------------------------

    def _kazoo_changed(self, state: str) -> None:
        """In kazoo's thread."""
        if state == KazooState.LOST:
            self._handler.end()
        client_id = self.client.client_id
        work = partial(
            self._change_state, state, self.client.client_state, client_id[0] if client_id else None
        )
        self._handler.deliver(work)

    def _change_state(self, state: str, detail: str, session_id: int | None) -> None:
        if self.state in (SessionState.EXPIRED, SessionState.CLOSED):
            return
        before = self.state
        if state == KazooState.CONNECTED:
            self.id = session_id or self.id
            self.state = SessionState.CONNECTED
            if not self._opened.done():
                self._opened.set_result(None)
        elif state == KazooState.SUSPENDED:
            self.state = SessionState.SUSPENDED
        else:
            self._was_refused = detail == KeeperState.AUTH_FAILED
            self.state = SessionState.EXPIRED
            if not self._opened.done():
                self._opened.set_exception(self._end_before_opening())
        if self.state is not before:
            self._fail_waiting()
            self._on_change(self.state)

    def _end_before_opening(self) -> Exception:
        if self._was_refused:
            return self._refusal()
        return StoreSessionExpired(f"ZooKeeper at {self._ensemble} ended the session before it began")

    def _refusal(self) -> StoreAccessDenied:
        return StoreAccessDenied(
            f"ZooKeeper at {self._ensemble} refuses the credentials; check zookeeper.digest.*"
        )

    def _fail_waiting(self) -> None:
        """kazoo fails the requests that it has sent; these entered its queue after that."""
        if self.state is not SessionState.CONNECTED:
            for future in list(self._waiting):
                if not future.done():
                    future.set_exception(
                        StoreConnectionLost(
                            "the connection to ZooKeeper ended: the request may have been done"
                        )
                        if self.state is SessionState.SUSPENDED
                        else self._unreachable_error()
                    )

    async def close(self) -> None:
        """End the session, so that its ephemerals are deleted at once if ZooKeeper answers. Takes a few seconds at
        most.
        """
        was_connected = self.state is SessionState.CONNECTED
        self.state = SessionState.CLOSED
        self._fail_waiting()
        if not self._opened.done():
            self._opened.cancel()
        if not was_connected:
            self._handler.end()
        ended = self._loop.create_future()
        threading.Thread(
            target=self._stop_kazoo, args=(ended,), name="zookeeper-farewell", daemon=True
        ).start()
        _, late = await asyncio.wait([ended], timeout=_CLOSE_SECONDS_MAX)
        if late:
            self._handler.end()
            await asyncio.wait([ended], timeout=_CLOSE_SECONDS_MAX)

    def _stop_kazoo(self, ended: asyncio.Future[None]) -> None:
        """In a separate thread, since kazoo waits for its own one."""
        try:
            self.client.stop()
            self.client.close()
        except (KazooException, OSError) as error:
            logger.warning("the session with ZooKeeper could not be ended cleanly: %s", error)
        finally:
            self._handler.deliver(partial(_finish, ended))


def _name_refusals(client: Kazoo) -> None:
    """kazoo knows no state for a server that wants another login: its thread would end with a trace."""
    connection = client._connection
    connect = connection._connect

    def connect_or_be_refused(*arguments: object) -> Kazoo:
        try:
            return connect(*arguments)
        except SessionClosedRequireSaslError as refusal:
            raise AuthFailedError("ZooKeeper wants another login") from refusal

    connection._connect = connect_or_be_refused


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
