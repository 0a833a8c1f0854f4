"""The meters of one kind of quota: one for each user or client that shares a quota, found by principal and client id.

Clients choose their ids, so there is a bound on meters and on remembered clients. The meter used longest ago is
forgotten first, and with it what its client has used. A change of quotas keeps the meters: their limits change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from odradek.broker.quotas.precedence import QuotaTable, Share
from odradek.foundation.limits import QUOTA_METERS_MAX


class Usage(Protocol):
    """The measure of a meter: `SampledRate` or `TokenBucket`."""

    def excess_ms(self, limit: float, now_ms: int) -> int: ...


U = TypeVar("U", bound=Usage)


class Meter(Generic[U]):
    """The use of one share of a quota, and the time that its clients were asked to wait."""

    __slots__ = ("_all", "is_in_force", "limit", "share", "throttled_ms", "usage")

    def __init__(self, share: Share, limit: float, usage: U, all_meters: Meters[U]) -> None:
        self._all = all_meters
        self.share = share
        self.limit = limit
        self.usage = usage
        self.throttled_ms = 0
        self.is_in_force = True
        """Whether the quota still exists."""

    def excess_ms(self, now_ms: int) -> int:
        """The time by which the clients of this share are too early; 0 below the limit."""
        return self.usage.excess_ms(self.limit, now_ms)

    def note(self, throttle_ms: int) -> None:
        """Count a client that was asked to wait."""
        self.throttled_ms += throttle_ms
        self._all.throttled += 1
        self._all.throttled_ms += throttle_ms


class Meters(Generic[U]):
    """The meters of one kind of quota."""

    def __init__(
        self,
        new_usage: Callable[[], U],
        *,
        forget: Callable[[U], None] | None = None,
        meters_max: int = QUOTA_METERS_MAX,
    ) -> None:
        """`forget` is called for each meter once its clients must be found again."""
        self._new_usage = new_usage
        self._forget = forget
        self._meters_max = meters_max
        self._table = QuotaTable({})
        self._by_share: dict[Share, Meter[U]] = {}
        self.by_client: dict[tuple[str, str], Meter[U] | None] = {}
        """The meters that `find` remembers."""
        self.generation = 0
        """Another number once a meter that somebody else remembers may be another, or have another limit."""
        self.throttled = 0
        """Requests whose clients were asked to wait, also those of meters that are forgotten."""
        self.throttled_ms = 0
        self.is_on = False
        """Whether any quota of this kind exists."""

    def change(self, table: QuotaTable) -> None:
        """Apply other quotas from now on."""
        if table == self._table:
            return
        self._table = table
        self._forget_clients()
        self.is_on = bool(table)
        for meter in self.meters:
            found = table.find(*meter.share)
            if found is None or found[0] != meter.share:
                meter.is_in_force = False
                del self._by_share[meter.share]
            else:
                meter.limit = found[1]

    def find(self, principal: str, client_id: str) -> Meter[U] | None:
        """The meter of a client, None without a quota. `principal` is as `User:alice`."""
        client = principal, client_id
        try:
            return self.by_client[client]
        except KeyError:
            return self._look_up(client)

    def _look_up(self, client: tuple[str, str]) -> Meter[U] | None:
        if len(self.by_client) >= self._meters_max:
            self._forget_clients()
        found = self._table.find(client[0].partition(":")[2], client[1])
        if found is None:
            self.by_client[client] = None
            return None
        share, limit = found
        # Last in the order of use.
        meter = self._by_share.pop(share, None) or Meter(share, limit, self._new_usage(), self)
        meter.limit = limit
        if len(self._by_share) >= self._meters_max:
            # Clients of a forgotten meter would continue with it.
            self._forget_clients()
            del self._by_share[next(iter(self._by_share))]
        self._by_share[share] = meter
        self.by_client[client] = meter
        return meter

    def _forget_clients(self) -> None:
        self.by_client.clear()
        self.generation += 1
        if self._forget is not None:
            for meter in self._by_share.values():
                self._forget(meter.usage)

    @property
    def meters(self) -> list[Meter[U]]:
        return list(self._by_share.values())
