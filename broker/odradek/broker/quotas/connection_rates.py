"""The rates at which connections may arrive: of the broker, of each listener, and of each address (KIP-612).

    max.connection.creation.rate                     all listeners together; that of brokers is exempt
    listener.name.NAME.max.connection.creation.rate  one listener
    connection_creation_rate                         one address, a quota of the registry

Above a rate of the broker or of the listener a connection waits to be accepted, and all behind it too. One above its
address's rate is refused: it is held, and then closed. It counts for no rate, so a client that keeps trying is let in
again. All times are one window at most. Apache Kafka 4.1: `kafka.network.ConnectionQuotas`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.quotas.precedence import QuotaTable
from odradek.broker.quotas.throttle_times import SampledRate
from odradek.foundation.limits import QUOTA_METERS_MAX
from odradek.foundation.named_tuple import NamedTuple

UNLIMITED: Final = 2_147_483_647


class Arrival(NamedTuple):
    """The fate of a new connection that is too early."""

    wait_ms: int
    """The time that it waits before it is served, or held before it is closed."""
    is_refused: bool


class Pace:
    """One rate, what was used of it, and what it held up."""

    __slots__ = ("held", "held_ms", "limit", "usage")

    def __init__(self, limit: float, usage: SampledRate) -> None:
        self.limit = limit
        self.usage = usage
        self.held = 0
        """Connections that were held up."""
        self.held_ms = 0

    def excess_ms(self, now_ms: int, window_ms: int) -> int:
        """Count a connection. Returns how long it is too early, one window at most."""
        self.usage.record(1, now_ms)
        if not self.limit:
            return window_ms
        return min(window_ms, self.usage.excess_ms(self.limit, now_ms))

    def take_back(self, now_ms: int) -> None:
        """Count a connection less: it is not served."""
        self.usage.record(-1, now_ms)

    def note(self, wait_ms: int) -> None:
        """Count a connection that is held up."""
        self.held += 1
        self.held_ms += wait_ms


class ConnectionRates:
    """The rates of one broker. `exempt_listener` does not count for the broker's: brokers use it among themselves."""

    def __init__(self, *, windows: int, window_seconds: int, exempt_listener: str = "") -> None:
        self._windows = windows
        self._window_ms = window_seconds * 1000
        self._exempt_listener = exempt_listener
        self._broker = self._new_pace(UNLIMITED)
        self.listeners: dict[str, Pace] = {}
        """By listener: its own rate, and what its connections waited for any rate but their address's."""
        self._addresses = QuotaTable({})
        self.by_address: dict[str, Pace] = {}
        """Those with a rate, in the order of their last connection; bounded, as addresses are many."""
        self.refused = 0
        """Connections refused because of their address, also of those that are forgotten."""
        self.refused_ms = 0

    def _new_pace(self, limit: float) -> Pace:
        return Pace(limit, SampledRate(windows=self._windows, window_ms=self._window_ms))

    def change_listeners(self, *, broker: float, listeners: Mapping[str, float]) -> None:
        """Apply these rates from now on; `listeners` names all listeners."""
        self._broker.limit = broker
        for name, limit in listeners.items():
            pace = self.listeners.setdefault(name, self._new_pace(limit))
            pace.limit = limit

    def change_addresses(self, table: QuotaTable) -> None:
        """Apply these rates of addresses from now on."""
        self._addresses = table
        for ip, pace in list(self.by_address.items()):
            limit = table.of_address(ip)
            if limit is None:
                del self.by_address[ip]
            else:
                pace.limit = limit

    @property
    def is_on(self) -> bool:
        """Whether anything is bounded."""
        return (
            bool(self._addresses)
            or self._broker.limit < UNLIMITED
            or any(pace.limit < UNLIMITED for pace in self.listeners.values())
        )

    def arrive(self, listener: str, ip: str, now_ms: int) -> Arrival | None:
        """Count a connection from `ip` to `listener`. None: it may be served at once."""
        pace = self._of_address(ip)
        if pace is not None:
            wait_ms = pace.excess_ms(now_ms, self._window_ms)
            if wait_ms:
                pace.take_back(now_ms)
                pace.note(wait_ms)
                self.refused += 1
                self.refused_ms += wait_ms
                return Arrival(wait_ms, is_refused=True)
        of_listener = self.listeners[listener]
        wait_ms = of_listener.excess_ms(now_ms, self._window_ms)
        if listener != self._exempt_listener:
            wait_ms = max(wait_ms, self._broker.excess_ms(now_ms, self._window_ms))
        if not wait_ms:
            return None
        of_listener.note(wait_ms)
        return Arrival(wait_ms, is_refused=False)

    def _of_address(self, ip: str) -> Pace | None:
        limit = self._addresses.of_address(ip)
        if limit is None:
            return None
        # Last in the order of use.
        pace = self.by_address.pop(ip, None)
        if pace is None:
            if len(self.by_address) >= QUOTA_METERS_MAX:
                del self.by_address[next(iter(self.by_address))]
            pace = self._new_pace(limit)
        self.by_address[ip] = pace
        return pace
